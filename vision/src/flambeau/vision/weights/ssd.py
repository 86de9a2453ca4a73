"""Weights of SSD, trained on COCO."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._coco import detected
from flambeau.vision.weights._records import UPSTREAM

__all__ = ["SSD300_VGG16_Weights"]

_RECIPES = UPSTREAM + "tree/main/references/detection#"


class SSD300_VGG16_Weights(WeightsEnum):
    """Weights of `models.detection.ssd300_vgg16`."""

    COCO_V1 = detected(
        "ssd300_vgg16_coco-b556d3b4.pth",
        num_params=35_641_826,
        precision={"box_map": 25.1},
        gflops=34.858,
        mebibytes=135.988,
        recipe=_RECIPES + "ssd300-vgg16",
        docs="Close to the results of the paper, trained on COCO train2017.",
    )
    DEFAULT = COCO_V1
