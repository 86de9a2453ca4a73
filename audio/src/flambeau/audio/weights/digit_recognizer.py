"""Weights of the recogniser of spoken digits; they are part of the package and need no network."""

from __future__ import annotations

from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["Digit_Recognizer_Weights"]


class Digit_Recognizer_Weights(WeightsEnum):
    """Weights of `models.digit_recognizer`."""

    ESPEAK_V1 = Weights(
        url="package:flambeau.audio/weights/files/digit_recognizer-espeak_v1-0356cb3e.safetensors",
        transforms=lazy("flambeau.audio.models.digit_recognizer:LogMelFrames"),
        meta={
            "num_params": 443_739,
            "sample_rate": 16_000,
            "tokens": ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
            "recipe": "audio/recipes/spoken_digits.py",
            "license": "BSD-3-Clause",
            "dataset": "4,000 sequences of digits spoken by espeak-ng in 7 English accents and 42 voices",
            "_metrics": {
                "espeak-ng digits, held-out voices": {"WER": 15.64},
                "espeak-ng digits, held-out voices, in noise and rooms": {"WER": 17.37},
            },
            "_file_size": 0.854,
            "_docs": (
                "Trained on sequences of one to seven English digits in noise and rooms, spoken by a synthesizer, in "
                "2,600 steps and before the recipe drew more doubles; ten voices were held out whole. Heard at once or "
                "as a stream, it makes the same errors, most of them at doubles. Of people's voices it has heard none."
            ),
        },
        sha256="0356cb3e2798884eb4407647746f23b5bb483a652022943c75809da03ea1500b",
        size=895_494,
    )
    DEFAULT = ESPEAK_V1
