"""Weights of the recogniser of spoken digits; they are part of the package and need no network."""

from __future__ import annotations

from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["Digit_Recognizer_Weights"]


class Digit_Recognizer_Weights(WeightsEnum):
    """Weights of `models.digit_recognizer`."""

    ESPEAK_V1 = Weights(
        url="package:flambeau.audio/weights/files/digit_recognizer-espeak_v1-a9ac4b91.safetensors",
        transforms=lazy("flambeau.audio.models.digit_recognizer:LogMelFrames"),
        meta={
            "num_params": 420_059,
            "sample_rate": 16_000,
            "tokens": ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
            "recipe": "audio/recipes/spoken_digits.py",
            "license": "BSD-3-Clause",
            "dataset": "6,000 sequences of digits spoken by espeak-ng in 7 English accents and 42 voices",
            "_metrics": {
                "espeak-ng digits, held-out voices": {"WER": 1.38},
                "espeak-ng digits, held-out voices, in noise and rooms": {"WER": 2.51},
            },
            "_file_size": 0.807,
            "_docs": (
                "Trained on sequences of one to seven English digits in noise and rooms, spoken by a synthesizer; ten "
                "voices were held out whole, and say the 1,157 digits that were measured. Heard at once or as a "
                "stream, it makes the same errors. Of people's voices it has heard none."
            ),
        },
        sha256="a9ac4b919eff47e087578f17b6891b267767897f07aecd92456156a85cd056b5",
        size=846_070,
    )
    DEFAULT = ESPEAK_V1
