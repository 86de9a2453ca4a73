"""Weights of speech synthesis. Members carry upstream's names of the bundles they make up."""

from __future__ import annotations

from flambeau.audio.weights._records import RECIPES, published
from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["CHARACTERS", "PHONEMES", "HiFiGAN_V3_Weights", "Tacotron2_Weights", "WaveRNN_Weights"]

_PUNCTUATION = tuple("_-!'(),.:;? ")
CHARACTERS = (*_PUNCTUATION, *"abcdefghijklmnopqrstuvwxyz")

_VOWELS = ["AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"]
_CONSONANTS = [*"BDFGKLMNPRSTVWYZ", "CH", "DH", "HH", "JH", "NG", "SH", "TH", "ZH"]
# ARPAbet in alphabetical order, each vowel without and with its three degrees of stress.
PHONEMES = (
    *_PUNCTUATION,
    *sorted([*_CONSONANTS, *(vowel + stress for vowel in _VOWELS for stress in ("", "0", "1", "2"))]),
)


def _speaker(file: str, phones: bool, vocoder: str) -> Weights:
    kind = "phonemes" if phones else "characters"
    processor = "EnglishPhoneProcessor" if phones else "EnglishCharProcessor"
    return published(
        file,
        lazy(f"flambeau.audio.pipelines.tts_text:{processor}"),
        sample_rate=22050,
        docs=f"Trained for 1,500 epochs on LJSpeech to speak {kind}; its spectrograms suit {vocoder}.",
        recipe=RECIPES + "pipeline_tacotron2",
        symbols=PHONEMES if phones else CHARACTERS,
    )


class Tacotron2_Weights(WeightsEnum):
    """Weights of `models.tacotron2`."""

    TACOTRON2_GRIFFINLIM_CHAR_LJSPEECH = _speaker(
        "tacotron2_english_characters_1500_epochs_ljspeech.pth", False, "Griffin-Lim"
    )
    TACOTRON2_GRIFFINLIM_PHONE_LJSPEECH = _speaker(
        "tacotron2_english_phonemes_1500_epochs_ljspeech.pth", True, "Griffin-Lim"
    )
    TACOTRON2_WAVERNN_CHAR_LJSPEECH = _speaker(
        "tacotron2_english_characters_1500_epochs_wavernn_ljspeech.pth", False, "WaveRNN"
    )
    TACOTRON2_WAVERNN_PHONE_LJSPEECH = _speaker(
        "tacotron2_english_phonemes_1500_epochs_wavernn_ljspeech.pth", True, "WaveRNN"
    )
    DEFAULT = TACOTRON2_WAVERNN_PHONE_LJSPEECH


class WaveRNN_Weights(WeightsEnum):
    """Weights of `models.wavernn`."""

    WAVERNN_LJSPEECH = published(
        "wavernn_10k_epochs_8bits_ljspeech.pth",
        lazy("flambeau.audio.pipelines.tts_vocoders:normalized_decibels"),
        sample_rate=22050,
        docs="Trained for 10,000 epochs on LJSpeech; 8-bit mu-law samples.",
        recipe=RECIPES + "pipeline_wavernn",
        num_params=4_355_010,
    )
    DEFAULT = WAVERNN_LJSPEECH


class HiFiGAN_V3_Weights(WeightsEnum):
    """Weights of `prototype.models.hifigan_vocoder_v3`."""

    HIFIGAN_VOCODER_V3_LJSPEECH = published(
        "hifigan_vocoder_v3_ljspeech.pth",
        lazy("flambeau.audio.prototype.pipelines.hifigan_features:MelTransform"),
        sample_rate=22050,
        docs="The authors' third generator, trained on LJSpeech.",
        recipe="https://github.com/jik876/hifi-gan",
        num_params=1_462_273,
        license="MIT",
    )
    DEFAULT = HIFIGAN_VOCODER_V3_LJSPEECH
