"""Weights of RetinaNet, trained on COCO."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._coco import detected
from flambeau.vision.weights._records import UPSTREAM

__all__ = ["RetinaNet_ResNet50_FPN_V2_Weights", "RetinaNet_ResNet50_FPN_Weights"]

_RECIPES = UPSTREAM + "tree/main/references/detection#"


class RetinaNet_ResNet50_FPN_Weights(WeightsEnum):
    """Weights of `models.detection.retinanet_resnet50_fpn`."""

    COCO_V1 = detected(
        "retinanet_resnet50_fpn_coco-eeacb38b.pth",
        num_params=34_014_999,
        precision={"box_map": 36.4},
        gflops=151.54,
        mebibytes=130.267,
        recipe=_RECIPES + "retinanet",
        docs="Close to the results of the papers, from a plain training recipe on COCO train2017.",
    )
    DEFAULT = COCO_V1


class RetinaNet_ResNet50_FPN_V2_Weights(WeightsEnum):
    """Weights of `models.detection.retinanet_resnet50_fpn_v2`."""

    COCO_V1 = detected(
        "retinanet_resnet50_fpn_v2_coco-5905b1c5.pth",
        num_params=38_198_935,
        precision={"box_map": 41.5},
        gflops=152.238,
        mebibytes=146.037,
        recipe=UPSTREAM + "pull/5756",
        docs="From the longer recipe of Li et al. 2021 (arXiv:2111.11429), all layers trained, on COCO train2017.",
    )
    DEFAULT = COCO_V1
