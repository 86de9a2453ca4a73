"""Models of recommendation; `get_model("dlrm")` builds one by name."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_api": ("get_model", "get_model_builder", "list_models", "register_model"),
        "builders": (
            "bert4rec_movielens",
            "deepfm_criteo",
            "dlrm_criteo",
            "dlrm_dcn_criteo",
            "dlrm_projection_criteo",
            "dlrm_transformer_criteo",
            "two_tower_movielens",
        ),
        "interaction_features": ("InteractionFeatures", "Interactions"),
        "interaction_ranker": ("InteractionRanker", "Interaction_Ranker_Weights", "interaction_ranker"),
    },
    submodules=("bert4rec", "deepfm", "dlrm", "experimental", "two_tower"),
)
