"""How records of checkpoints with 8-bit integers are written."""

from __future__ import annotations

from functools import partial

from flambeau.vision.weights._records import RECIPES, imagenet

__all__ = ["calibrated", "trained"]

calibrated = partial(
    imagenet,
    preset={"crop_size": 224},
    backend="fbgemm",
    recipe=RECIPES + "post-training-quantized-models",
    docs="Quantized after training: ranges of activations were measured on some batches of the training set.",
)
trained = partial(
    imagenet,
    preset={"crop_size": 224},
    backend="qnnpack",
    docs="Trained further with simulated quantization, from the weights in floating point.",
)
