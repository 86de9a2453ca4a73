"""Weights of the digit classifier; they are part of the package and need no network."""

from __future__ import annotations

from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["DigitCNN_Weights"]


class DigitCNN_Weights(WeightsEnum):
    """Weights of `models.digit_cnn`."""

    UCI_V1 = Weights(
        url="package:flambeau.vision/weights/files/digit_cnn-uci_v1-ce71e9f9.safetensors",
        transforms=lazy("flambeau.vision.transforms._presets:HandwrittenDigit", size=8),
        meta={
            "num_params": 66_154,
            "min_size": (1, 1),
            "categories": [str(digit) for digit in range(10)],
            "recipe": "vision/recipes/digits.py",
            "license": "CC-BY-4.0",
            "dataset": "UCI Optical Recognition of Handwritten Digits, https://doi.org/10.24432/C50P49",
            "_metrics": {"UCI digits, 510 held-out samples": {"acc@1": 98.627}},
            "_ops": 0.002,
            "_file_size": 0.255,
            "_docs": (
                "Trained on ten sheets of handwritten digits, measured on the four sheets that follow them; the data "
                "are those of Alpaydin and Kaynak (1998), which are shared under CC BY 4.0."
            ),
        },
        sha256="ce71e9f9bb61ee49f6f9ed65b4ba7c98d24113c645c2a652f712ee7ce81fa7e4",
        size=267_568,
    )
    DEFAULT = UCI_V1
