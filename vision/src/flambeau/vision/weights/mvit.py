"""Weights of the multiscale vision transformers, trained on Kinetics-400."""

from __future__ import annotations

from functools import partial

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._kinetics import kinetics

__all__ = ["MViT_V1_B_Weights", "MViT_V2_S_Weights"]

_mvit = partial(
    kinetics,
    preset={"crop_size": (224, 224), "resize_size": (256,), "mean": (0.45, 0.45, 0.45), "std": (0.225, 0.225, 0.225)},
    min_size=(224, 224),
    min_temporal_size=16,
    clips=(16, 7.5, 5),
    docs="Converted from the authors' weights. Accuracy is that of five clips of 16 frames at 7.5 Hz.",
)


class MViT_V1_B_Weights(WeightsEnum):
    """Weights of `models.video.mvit_v1_b`."""

    KINETICS400_V1 = _mvit(
        "mvit_v1_b-dbeb1030.pth",
        num_params=36_610_672,
        accuracy=(78.477, 93.582),
        recipe="https://github.com/facebookresearch/pytorchvideo/blob/main/docs/source/model_zoo.md",
        gflops=70.599,
        mebibytes=139.764,
    )
    DEFAULT = KINETICS400_V1


class MViT_V2_S_Weights(WeightsEnum):
    """Weights of `models.video.mvit_v2_s`."""

    KINETICS400_V1 = _mvit(
        "mvit_v2_s-ae3be167.pth",
        num_params=34_537_744,
        accuracy=(80.757, 94.665),
        recipe="https://github.com/facebookresearch/SlowFast/blob/main/MODEL_ZOO.md",
        gflops=64.224,
        mebibytes=131.884,
    )
    DEFAULT = KINETICS400_V1
