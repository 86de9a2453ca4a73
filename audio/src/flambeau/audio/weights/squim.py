"""Weights of speech quality estimation. Members carry upstream's names of the bundles they make up."""

from __future__ import annotations

from flambeau.audio.weights._records import published
from flambeau.core.weights import WeightsEnum, lazy

__all__ = ["Squim_Objective_Weights", "Squim_Subjective_Weights"]

_SPEECH = lazy("flambeau.audio.transforms._presets:Speech", sample_rate=16000, normalize=False)
_PAPER = "https://arxiv.org/abs/2304.01448"


class Squim_Objective_Weights(WeightsEnum):
    """Weights of `models.squim_objective_base`."""

    SQUIM_OBJECTIVE = published(
        "squim_objective_dns2020.pth",
        _SPEECH,
        sample_rate=16000,
        docs="Trained on the data of the Deep Noise Suppression Challenge 2020.",
        recipe=_PAPER,
        license="CC-BY-4.0",
        num_params=7_387_658,
    )
    DEFAULT = SQUIM_OBJECTIVE


class Squim_Subjective_Weights(WeightsEnum):
    """Weights of `models.squim_subjective_base`."""

    SQUIM_SUBJECTIVE = published(
        "squim_subjective_bvcc_daps.pth",
        _SPEECH,
        sample_rate=16000,
        docs="Trained on the opinion scores of BVCC, with clean references of DAPS.",
        recipe=_PAPER,
        license="CC-BY-NC-4.0",
        num_params=94_395_942,
    )
    DEFAULT = SQUIM_SUBJECTIVE
