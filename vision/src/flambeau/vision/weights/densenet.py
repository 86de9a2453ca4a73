"""Weights of the DenseNet family, trained on ImageNet-1K."""

from __future__ import annotations

from functools import partial

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import UPSTREAM, original

__all__ = ["DenseNet121_Weights", "DenseNet161_Weights", "DenseNet169_Weights", "DenseNet201_Weights"]

_densenet = partial(
    original,
    min_size=(29, 29),
    recipe=UPSTREAM + "pull/116",
    docs="Trained by the authors of the paper in LuaTorch, and converted.",
)


class DenseNet121_Weights(WeightsEnum):
    """Weights of `models.densenet121`."""

    IMAGENET1K_V1 = _densenet(
        "densenet121-a639ec97.pth",
        num_params=7_978_856,
        accuracy=(74.434, 91.972),
        gflops=2.834,
        mebibytes=30.845,
    )
    DEFAULT = IMAGENET1K_V1


class DenseNet161_Weights(WeightsEnum):
    """Weights of `models.densenet161`."""

    IMAGENET1K_V1 = _densenet(
        "densenet161-8d451a50.pth",
        num_params=28_681_000,
        accuracy=(77.138, 93.56),
        gflops=7.728,
        mebibytes=110.369,
    )
    DEFAULT = IMAGENET1K_V1


class DenseNet169_Weights(WeightsEnum):
    """Weights of `models.densenet169`."""

    IMAGENET1K_V1 = _densenet(
        "densenet169-b2777c0a.pth",
        num_params=14_149_480,
        accuracy=(75.6, 92.806),
        gflops=3.36,
        mebibytes=54.708,
    )
    DEFAULT = IMAGENET1K_V1


class DenseNet201_Weights(WeightsEnum):
    """Weights of `models.densenet201`."""

    IMAGENET1K_V1 = _densenet(
        "densenet201-c1103571.pth",
        num_params=20_013_928,
        accuracy=(76.896, 93.37),
        gflops=4.291,
        mebibytes=77.373,
    )
    DEFAULT = IMAGENET1K_V1
