"""Facts about pretrained weights, without torch: what there is, where, under which licence."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

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
