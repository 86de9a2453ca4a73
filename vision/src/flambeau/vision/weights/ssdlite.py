"""Weights of SSDlite, trained on COCO."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._coco import detected
from flambeau.vision.weights._records import UPSTREAM

__all__ = ["SSDLite320_MobileNet_V3_Large_Weights"]

_RECIPES = UPSTREAM + "tree/main/references/detection#"


class SSDLite320_MobileNet_V3_Large_Weights(WeightsEnum):
    """Weights of `models.detection.ssdlite320_mobilenet_v3_large`."""

    COCO_V1 = detected(
        "ssdlite320_mobilenet_v3_large_coco-a79551df.pth",
        num_params=3_440_060,
        precision={"box_map": 21.3},
        gflops=0.583,
        mebibytes=13.418,
        recipe=_RECIPES + "ssdlite320-mobilenetv3-large",
        docs="For small machines, trained from scratch on COCO train2017.",
    )
    DEFAULT = COCO_V1
