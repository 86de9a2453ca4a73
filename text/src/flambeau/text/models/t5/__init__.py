"""T5 and Flan-T5 (Raffel et al. 2019, arXiv:1910.10683; Chung et al. 2022, arXiv:2210.11416)."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "builders": (
            "flan_t5_base",
            "flan_t5_large",
            "flan_t5_xl",
            "flan_t5_xxl",
            "t5_3b",
            "t5_11b",
            "t5_base",
            "t5_large",
            "t5_small",
        ),
        "bundler": (
            "FLAN_T5_BASE",
            "FLAN_T5_BASE_ENCODER",
            "FLAN_T5_BASE_GENERATION",
            "FLAN_T5_LARGE",
            "FLAN_T5_LARGE_ENCODER",
            "FLAN_T5_LARGE_GENERATION",
            "FLAN_T5_XL",
            "FLAN_T5_XL_ENCODER",
            "FLAN_T5_XL_GENERATION",
            "FLAN_T5_XXL",
            "FLAN_T5_XXL_ENCODER",
            "FLAN_T5_XXL_GENERATION",
            "GenerationUtilsForT5",
            "T5Bundle",
            "T5_11B",
            "T5_11B_ENCODER",
            "T5_11B_GENERATION",
            "T5_3B",
            "T5_3B_ENCODER",
            "T5_3B_GENERATION",
            "T5_BASE",
            "T5_BASE_ENCODER",
            "T5_BASE_GENERATION",
            "T5_LARGE",
            "T5_LARGE_ENCODER",
            "T5_LARGE_GENERATION",
            "T5_SMALL",
            "T5_SMALL_ENCODER",
            "T5_SMALL_GENERATION",
        ),
        "model": ("PAST_KEY_VALUES_TYPE", "SEQ_2_SEQ_OUTPUTS_TYPE", "T5Conf", "T5Decoder", "T5Encoder", "T5Model"),
        "modules": ("T5Layer", "T5LayerNorm", "T5MultiheadAttention"),
        "t5_transform": ("T5Transform",),
    },
)
