"""Bundles of text to speech: Tacotron 2 with WaveRNN or Griffin-Lim, from characters or phonemes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flambeau.audio.pipelines._files import checkpoint
from flambeau.audio.pipelines.tts_interface import Tacotron2TTSBundle, TextProcessor, Vocoder
from flambeau.audio.weights._records import MODELS
from flambeau.audio.weights.synthesis import Tacotron2_Weights, WaveRNN_Weights

if TYPE_CHECKING:
    from flambeau.audio.models import Tacotron2

__all__ = [
    "TACOTRON2_GRIFFINLIM_CHAR_LJSPEECH",
    "TACOTRON2_GRIFFINLIM_PHONE_LJSPEECH",
    "TACOTRON2_WAVERNN_CHAR_LJSPEECH",
    "TACOTRON2_WAVERNN_PHONE_LJSPEECH",
    "Tacotron2TTSBundle",
]


@dataclass
class _TTSBundle(Tacotron2TTSBundle):
    """A bundle by its files: phonemes where the symbols are, WaveRNN where there is a file of it."""

    _tacotron2_path: str
    _tacotron2_params: dict[str, Any]
    _phones: bool
    _wavernn_path: str | None = None

    def get_text_processor(self, *, dl_kwargs: dict[str, Any] | None = None) -> TextProcessor:
        """See `Tacotron2TTSBundle`. Phonemes come from the CMU pronouncing dictionary, and from rules."""
        from flambeau.audio.pipelines.tts_text import EnglishCharProcessor, EnglishPhoneProcessor

        return EnglishPhoneProcessor() if self._phones else EnglishCharProcessor()

    def get_tacotron2(self, *, dl_kwargs: dict[str, Any] | None = None) -> Tacotron2:
        """See `Tacotron2TTSBundle`."""
        from flambeau.audio.models import Tacotron2
        from flambeau.core.weights import build_with_weights

        path, options = checkpoint(self._tacotron2_path, dl_kwargs)
        return build_with_weights(Tacotron2, path, **options, **self._tacotron2_params).eval()

    def get_vocoder(self, *, dl_kwargs: dict[str, Any] | None = None) -> Vocoder:
        """See `Tacotron2TTSBundle`."""
        from flambeau.audio.pipelines.tts_vocoders import GriffinLimVocoder, WaveRNNVocoder

        if self._wavernn_path is None:
            return GriffinLimVocoder()
        from flambeau.audio.models.wavernn import wavernn
        from flambeau.core.weights import build_with_weights

        path, options = checkpoint(self._wavernn_path, dl_kwargs)
        return WaveRNNVocoder(build_with_weights(wavernn, path, **options).eval())


def _bundle(member: Tacotron2_Weights) -> _TTSBundle:
    phones, wavernn = "PHONE" in member.name, "WAVERNN" in member.name
    vocoder = WaveRNN_Weights.WAVERNN_LJSPEECH.url.removeprefix(MODELS) if wavernn else None
    parameters = {"n_symbol": len(member.meta["symbols"])}
    return _TTSBundle(member.url.removeprefix(MODELS), parameters, phones, vocoder)


TACOTRON2_GRIFFINLIM_CHAR_LJSPEECH = _bundle(Tacotron2_Weights.TACOTRON2_GRIFFINLIM_CHAR_LJSPEECH)
TACOTRON2_GRIFFINLIM_PHONE_LJSPEECH = _bundle(Tacotron2_Weights.TACOTRON2_GRIFFINLIM_PHONE_LJSPEECH)
TACOTRON2_WAVERNN_CHAR_LJSPEECH = _bundle(Tacotron2_Weights.TACOTRON2_WAVERNN_CHAR_LJSPEECH)
TACOTRON2_WAVERNN_PHONE_LJSPEECH = _bundle(Tacotron2_Weights.TACOTRON2_WAVERNN_PHONE_LJSPEECH)
