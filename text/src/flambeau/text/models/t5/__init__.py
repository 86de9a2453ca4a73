"""T5 and Flan-T5 (Raffel et al. 2019, arXiv:1910.10683; Chung et al. 2022, arXiv:2210.11416)."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "model": ("PAST_KEY_VALUES_TYPE", "SEQ_2_SEQ_OUTPUTS_TYPE", "T5Conf", "T5Decoder", "T5Encoder", "T5Model"),
        "modules": ("T5Layer", "T5LayerNorm", "T5MultiheadAttention"),
    },
)
