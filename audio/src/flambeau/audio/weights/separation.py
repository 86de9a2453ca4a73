"""Weights of source separation. Members carry upstream's names of the bundles they make up."""

from __future__ import annotations

from flambeau.audio.weights._records import RECIPES, published
from flambeau.core.weights import WeightsEnum, lazy

__all__ = ["ConvTasNet_Base_Weights", "HDemucs_High_Weights"]

_SOURCES = ("drums", "bass", "other", "vocals")
_MUSIC = lazy("flambeau.audio.transforms._presets:Music", sample_rate=44100, channels=2)


class ConvTasNet_Base_Weights(WeightsEnum):
    """Weights of `models.conv_tasnet_base`."""

    CONVTASNET_BASE_LIBRI2MIX = published(
        "conv_tasnet_base_libri2mix.pt",
        lazy("flambeau.audio.transforms._presets:Music", sample_rate=8000, channels=1),
        sample_rate=8000,
        docs="Trained on the clean mixtures of two speakers of Libri2Mix at 8 kHz.",
        recipe=RECIPES + "source_separation",
        num_params=4_984_881,
        num_sources=2,
    )
    DEFAULT = CONVTASNET_BASE_LIBRI2MIX


class HDemucs_High_Weights(WeightsEnum):
    """Weights of `models.hdemucs_high`."""

    HDEMUCS_HIGH_MUSDB = published(
        "hdemucs_high_musdbhq_only.pt",
        _MUSIC,
        sample_rate=44100,
        docs="Trained on the training set of MUSDB-HQ alone.",
        recipe="https://github.com/facebookresearch/demucs",
        num_params=83_639_368,
        license="MIT",
        sources=_SOURCES,
    )
    HDEMUCS_HIGH_MUSDB_PLUS = published(
        "hdemucs_high_trained.pt",
        _MUSIC,
        sample_rate=44100,
        docs="Trained on MUSDB-HQ, its test set included, and 150 more songs.",
        recipe="https://github.com/facebookresearch/demucs",
        num_params=83_639_368,
        license="MIT",
        sources=_SOURCES,
    )
    DEFAULT = HDEMUCS_HIGH_MUSDB_PLUS
