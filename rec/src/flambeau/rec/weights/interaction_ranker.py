"""Weights of the ranker of items; they are part of the package and need no network."""

from __future__ import annotations

from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["Interaction_Ranker_Weights"]


class Interaction_Ranker_Weights(WeightsEnum):
    """Weights of `models.interaction_ranker`."""

    GENERATED_V1 = Weights(
        url="package:flambeau.rec/weights/files/interaction_ranker-generated_v1-c59b9699.safetensors",
        transforms=lazy("flambeau.rec.models.interaction_features:InteractionFeatures"),
        meta={
            "num_params": 20_385,
            "recipe": "rec/recipes/interaction_ranker.py",
            "license": "BSD-3-Clause",
            "dataset": "60 generated collections of interactions, of latent tastes and of sessions; none of people's",
            "_metrics": {
                "16 unseen collections of tastes, 116,645 pairs": {"AUC": 0.752, "NE": 0.844, "calibration": 0.990},
                "8 unseen collections of sessions, 45,775 pairs": {"AUC": 0.655, "NE": 0.939, "calibration": 1.033},
                "tastes, by popularity alone": {"AUC": 0.625},
                "tastes, by the similarity of items alone": {"AUC": 0.738},
                "sessions, by popularity alone": {"AUC": 0.607},
                "sessions, by the similarity of items alone": {"AUC": 0.591},
            },
            "_file_size": 0.079,
            "_docs": (
                "Trained on generated interactions, structured as latent tastes and sessions are; of people's "
                "it has seen none, so that what it does with them is to be measured first. Its features are counts and "
                "similarities within the collection that it is given: no id is learned. A score is the probability of "
                "being among a user's next interactions rather than one of four times as many items drawn at random."
            ),
        },
        sha256="c59b96998271130731589175051ccb88b19a1f9b0d3e16341f269ec5c1405667",
        size=83_044,
    )
    DEFAULT = GENERATED_V1
