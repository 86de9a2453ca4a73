"""Weights of the recogniser of spoken digits; they are part of the package and need no network."""

from __future__ import annotations

from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["Digit_Recognizer_Weights"]


class Digit_Recognizer_Weights(WeightsEnum):
    """Weights of `models.digit_recognizer`."""

    ESPEAK_V2 = Weights(
        url="package:flambeau.audio/weights/files/digit_recognizer-espeak_v2-561ce3cb.safetensors",
        transforms=lazy("flambeau.audio.models.digit_recognizer:LogMelFrames"),
        meta={
            "num_params": 420_059,
            "sample_rate": 16_000,
            "tokens": ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
            "recipe": "audio/recipes/spoken_digits.py",
            "license": "BSD-3-Clause",
            "dataset": (
                "22,000 sequences of digits spoken by espeak-ng in 7 English accents and 69 voices, at 90 to 380 words "
                "a minute"
            ),
            "_metrics": {
                "espeak-ng digits, held-out voices": {"WER": 2.22},
                "espeak-ng digits, held-out voices, in noise and rooms": {"WER": 2.43},
                "espeak-ng digits, held-out voices, 240 to 380 words a minute": {"WER": 2.94},
                "espeak-ng digits, held-out voices, 390 to 450 words a minute": {"WER": 14.00},
                "espeak-ng digits, unheard families of voices": {"WER": 6.35},
                "espeak-ng digits, unheard accent": {"WER": 0.90},
                "Flite digits, another synthesizer": {"WER": 18.50},
                "Flite digits, 240 to 380 words a minute": {"WER": 22.34},
            },
            "_file_size": 0.807,
            "_docs": (
                "Trained on sequences of one to seven English digits in noise and rooms, spoken by a synthesizer: "
                "5,500 steps on 6,000 sequences up to 230 words a minute, then by `--start` 4,000 steps on 6,000 "
                "others and 3,000 on 10,000 others, half of them faster. What the figures are measured on, 950 to "
                "1,030 digits each, training has not heard: ten voices held out whole, at 110 to 230 words a minute "
                "where no rate is named; rates above all of training's; whole families of voices, robots and "
                "whisperers; the accent of New York; another synthesizer, Flite. The first 5,500 steps alone made 1.38 "
                "% errors on another 1,157 digits of the first kind, all of them 1.90 %; above 240 words a minute they "
                "made 43 %. Heard at once or as a stream, it makes the same errors. Of people's voices it has heard "
                "none."
            ),
        },
        sha256="561ce3cb7a69aad3bc6cda9818f603c6efcbcd2097ef3358c17528e062d202fd",
        size=846_070,
    )
    DEFAULT = ESPEAK_V2
