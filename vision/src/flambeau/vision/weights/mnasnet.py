"""Weights of the MNASNet family, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import UPSTREAM, original, refreshed

__all__ = ["MNASNet0_5_Weights", "MNASNet0_75_Weights", "MNASNet1_0_Weights", "MNASNet1_3_Weights"]


class MNASNet0_5_Weights(WeightsEnum):
    """Weights of `models.mnasnet0_5`."""

    IMAGENET1K_V1 = original(
        "mnasnet0.5_top1_67.823-3ffadce67e.pth",
        num_params=2_218_512,
        accuracy=(67.734, 87.49),
        gflops=0.104,
        mebibytes=8.591,
        recipe="https://github.com/1e100/mnasnet_trainer",
    )
    DEFAULT = IMAGENET1K_V1


class MNASNet0_75_Weights(WeightsEnum):
    """Weights of `models.mnasnet0_75`."""

    IMAGENET1K_V1 = refreshed(
        "mnasnet0_75-7090bc5f.pth",
        num_params=3_170_208,
        accuracy=(71.18, 90.496),
        gflops=0.215,
        mebibytes=12.303,
        recipe=UPSTREAM + "pull/6019",
    )
    DEFAULT = IMAGENET1K_V1


class MNASNet1_0_Weights(WeightsEnum):
    """Weights of `models.mnasnet1_0`."""

    IMAGENET1K_V1 = original(
        "mnasnet1.0_top1_73.512-f206786ef8.pth",
        num_params=4_383_312,
        accuracy=(73.456, 91.51),
        gflops=0.314,
        mebibytes=16.915,
        recipe="https://github.com/1e100/mnasnet_trainer",
    )
    DEFAULT = IMAGENET1K_V1


class MNASNet1_3_Weights(WeightsEnum):
    """Weights of `models.mnasnet1_3`."""

    IMAGENET1K_V1 = refreshed(
        "mnasnet1_3-a4c69d6f.pth",
        num_params=6_282_256,
        accuracy=(76.506, 93.522),
        gflops=0.526,
        mebibytes=24.246,
        recipe=UPSTREAM + "pull/6019",
    )
    DEFAULT = IMAGENET1K_V1
