"""Weights of FCOS, trained on COCO."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._coco import detected
from flambeau.vision.weights._records import UPSTREAM

__all__ = ["FCOS_ResNet50_FPN_Weights"]

_RECIPES = UPSTREAM + "tree/main/references/detection#"


class FCOS_ResNet50_FPN_Weights(WeightsEnum):
    """Weights of `models.detection.fcos_resnet50_fpn`."""

    COCO_V1 = detected(
        "fcos_resnet50_fpn_coco-99b0c9b7.pth",
        num_params=32_269_600,
        precision={"box_map": 39.2},
        gflops=128.207,
        mebibytes=123.608,
        recipe=_RECIPES + "fcos-resnet-50-fpn",
        docs="Close to the results of the papers, from a plain training recipe on COCO train2017.",
    )
    DEFAULT = COCO_V1
