"""T5 and Flan-T5 (Raffel et al. 2019, arXiv:1910.10683; Chung et al. 2022, arXiv:2210.11416)."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
# isort: off
if TYPE_CHECKING:
    from flambeau.text.models.t5.builders import (
        flan_t5_base as flan_t5_base,
        flan_t5_large as flan_t5_large,
        flan_t5_xl as flan_t5_xl,
        flan_t5_xxl as flan_t5_xxl,
        t5_11b as t5_11b,
        t5_3b as t5_3b,
        t5_base as t5_base,
        t5_large as t5_large,
        t5_small as t5_small,
    )
    from flambeau.text.models.t5.bundler import (
        FLAN_T5_BASE as FLAN_T5_BASE,
        FLAN_T5_BASE_ENCODER as FLAN_T5_BASE_ENCODER,
        FLAN_T5_BASE_GENERATION as FLAN_T5_BASE_GENERATION,
        FLAN_T5_LARGE as FLAN_T5_LARGE,
        FLAN_T5_LARGE_ENCODER as FLAN_T5_LARGE_ENCODER,
        FLAN_T5_LARGE_GENERATION as FLAN_T5_LARGE_GENERATION,
        FLAN_T5_XL as FLAN_T5_XL,
        FLAN_T5_XL_ENCODER as FLAN_T5_XL_ENCODER,
        FLAN_T5_XL_GENERATION as FLAN_T5_XL_GENERATION,
        FLAN_T5_XXL as FLAN_T5_XXL,
        FLAN_T5_XXL_ENCODER as FLAN_T5_XXL_ENCODER,
        FLAN_T5_XXL_GENERATION as FLAN_T5_XXL_GENERATION,
        GenerationUtilsForT5 as GenerationUtilsForT5,
        T5Bundle as T5Bundle,
        T5_11B as T5_11B,
        T5_11B_ENCODER as T5_11B_ENCODER,
        T5_11B_GENERATION as T5_11B_GENERATION,
        T5_3B as T5_3B,
        T5_3B_ENCODER as T5_3B_ENCODER,
        T5_3B_GENERATION as T5_3B_GENERATION,
        T5_BASE as T5_BASE,
        T5_BASE_ENCODER as T5_BASE_ENCODER,
        T5_BASE_GENERATION as T5_BASE_GENERATION,
        T5_LARGE as T5_LARGE,
        T5_LARGE_ENCODER as T5_LARGE_ENCODER,
        T5_LARGE_GENERATION as T5_LARGE_GENERATION,
        T5_SMALL as T5_SMALL,
        T5_SMALL_ENCODER as T5_SMALL_ENCODER,
        T5_SMALL_GENERATION as T5_SMALL_GENERATION,
    )
    from flambeau.text.models.t5.model import (
        PAST_KEY_VALUES_TYPE as PAST_KEY_VALUES_TYPE,
        SEQ_2_SEQ_OUTPUTS_TYPE as SEQ_2_SEQ_OUTPUTS_TYPE,
        T5Conf as T5Conf,
        T5Decoder as T5Decoder,
        T5Encoder as T5Encoder,
        T5Model as T5Model,
    )
    from flambeau.text.models.t5.modules import (
        T5Layer as T5Layer,
        T5LayerNorm as T5LayerNorm,
        T5MultiheadAttention as T5MultiheadAttention,
    )
    from flambeau.text.models.t5.t5_transform import T5Transform as T5Transform
# isort: on

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
