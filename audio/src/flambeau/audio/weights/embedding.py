"""Weights of embeddings of sounds."""

from __future__ import annotations

from flambeau.audio.weights._records import published
from flambeau.core.weights import WeightsEnum, lazy

__all__ = ["VGGish_Weights"]


class VGGish_Weights(WeightsEnum):
    """Weights of VGGish."""

    VGGISH = published(
        "vggish.pt",
        lazy("flambeau.audio.prototype.pipelines.vggish:VGGishInputProcessor"),
        sample_rate=16000,
        docs="Trained on a preliminary version of YouTube-8M; gives embeddings of 0.96 s of sound.",
        recipe="https://github.com/tensorflow/models/tree/master/research/audioset/vggish",
        license="Apache-2.0",
        num_params=72_141_184,
    )
    DEFAULT = VGGISH
