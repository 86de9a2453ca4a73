"""Collections of embedding tables whose rows are quantized, for inference."""
