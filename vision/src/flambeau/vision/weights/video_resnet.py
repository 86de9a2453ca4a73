"""Weights of the residual networks for video, trained on Kinetics-400."""

from __future__ import annotations

from functools import partial

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._kinetics import kinetics
from flambeau.vision.weights._records import UPSTREAM

__all__ = ["MC3_18_Weights", "R2Plus1D_18_Weights", "R3D_18_Weights"]

_video = partial(
    kinetics,
    preset={"crop_size": (112, 112), "resize_size": (128, 171)},
    min_size=(1, 1),
    clips=(16, 15.0, 5),
    recipe=UPSTREAM + "tree/main/references/video_classification",
    docs="Close to the results of the paper, by a plain recipe. Accuracy is of five clips of 16 frames at 15 Hz.",
)


class R3D_18_Weights(WeightsEnum):
    """Weights of `models.video.r3d_18`."""

    KINETICS400_V1 = _video(
        "r3d_18-b3b3357e.pth",
        num_params=33_371_472,
        accuracy=(63.2, 83.479),
        gflops=40.697,
        mebibytes=127.359,
    )
    DEFAULT = KINETICS400_V1


class MC3_18_Weights(WeightsEnum):
    """Weights of `models.video.mc3_18`."""

    KINETICS400_V1 = _video(
        "mc3_18-a90a0ba3.pth",
        num_params=11_695_440,
        accuracy=(63.96, 84.13),
        gflops=43.343,
        mebibytes=44.672,
    )
    DEFAULT = KINETICS400_V1


class R2Plus1D_18_Weights(WeightsEnum):
    """Weights of `models.video.r2plus1d_18`."""

    KINETICS400_V1 = _video(
        "r2plus1d_18-91a641e6.pth",
        num_params=31_505_325,
        accuracy=(67.463, 86.175),
        gflops=40.519,
        mebibytes=120.318,
    )
    DEFAULT = KINETICS400_V1
