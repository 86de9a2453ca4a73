"""Facts about pretrained weights, without torch: what there is, where, under which licence."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
# isort: off
if TYPE_CHECKING:
    from flambeau.text.weights.bert import (
        Bert_Base_Cased_Weights as Bert_Base_Cased_Weights,
        Bert_Base_Uncased_Weights as Bert_Base_Uncased_Weights,
        Bert_Large_Cased_Weights as Bert_Large_Cased_Weights,
        Bert_Large_Uncased_Weights as Bert_Large_Uncased_Weights,
        MiniLM_L12_Weights as MiniLM_L12_Weights,
        MiniLM_L6_Weights as MiniLM_L6_Weights,
    )
    from flambeau.text.weights.roberta import (
        Roberta_Base_Weights as Roberta_Base_Weights,
        Roberta_Distilled_Weights as Roberta_Distilled_Weights,
        Roberta_Large_Weights as Roberta_Large_Weights,
        XLMR_Base_Weights as XLMR_Base_Weights,
        XLMR_Large_Weights as XLMR_Large_Weights,
    )
    from flambeau.text.weights.t5 import (
        Flan_T5_Base_Weights as Flan_T5_Base_Weights,
        Flan_T5_Large_Weights as Flan_T5_Large_Weights,
        Flan_T5_XL_Weights as Flan_T5_XL_Weights,
        Flan_T5_XXL_Weights as Flan_T5_XXL_Weights,
        T5_11B_Weights as T5_11B_Weights,
        T5_3B_Weights as T5_3B_Weights,
        T5_Base_Weights as T5_Base_Weights,
        T5_Large_Weights as T5_Large_Weights,
        T5_Small_Weights as T5_Small_Weights,
    )
# isort: on

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "bert": (
            "Bert_Base_Cased_Weights",
            "Bert_Base_Uncased_Weights",
            "Bert_Large_Cased_Weights",
            "Bert_Large_Uncased_Weights",
            "MiniLM_L6_Weights",
            "MiniLM_L12_Weights",
        ),
        "roberta": (
            "Roberta_Base_Weights",
            "Roberta_Distilled_Weights",
            "Roberta_Large_Weights",
            "XLMR_Base_Weights",
            "XLMR_Large_Weights",
        ),
        "t5": (
            "Flan_T5_Base_Weights",
            "Flan_T5_Large_Weights",
            "Flan_T5_XL_Weights",
            "Flan_T5_XXL_Weights",
            "T5_3B_Weights",
            "T5_11B_Weights",
            "T5_Base_Weights",
            "T5_Large_Weights",
            "T5_Small_Weights",
        ),
    },
    submodules=("files",),
)
