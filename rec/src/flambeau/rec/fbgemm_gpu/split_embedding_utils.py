"""Tables as rows of smaller elements, under the name of older programs."""

from __future__ import annotations

from flambeau.rec.fbgemm_gpu.split_embedding_configs import pad4, pad16
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import round_up
from flambeau.rec.fbgemm_gpu.tbe.utils.quantize import dequantize_embs, fake_quantize_embs, quantize_embs

__all__ = ["dequantize_embs", "fake_quantize_embs", "pad4", "pad16", "quantize_embs", "round_up"]
