"""FBGEMM's Python names over our operators: `fbgemm_gpu.X` is `flambeau.rec.fbgemm_gpu.X`."""
