"""Weights of Mask R-CNN, trained on COCO."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._coco import detected
from flambeau.vision.weights._records import UPSTREAM

__all__ = ["MaskRCNN_ResNet50_FPN_V2_Weights", "MaskRCNN_ResNet50_FPN_Weights"]

_RECIPES = UPSTREAM + "tree/main/references/detection#"


class MaskRCNN_ResNet50_FPN_Weights(WeightsEnum):
    """Weights of `models.detection.maskrcnn_resnet50_fpn`."""

    COCO_V1 = detected(
        "maskrcnn_resnet50_fpn_coco-bf2d0c1e.pth",
        num_params=44_401_393,
        precision={"box_map": 37.9, "mask_map": 34.6},
        gflops=134.38,
        mebibytes=169.84,
        recipe=_RECIPES + "mask-r-cnn",
        docs="Close to the results of the papers, from a plain training recipe on COCO train2017.",
    )
    DEFAULT = COCO_V1


class MaskRCNN_ResNet50_FPN_V2_Weights(WeightsEnum):
    """Weights of `models.detection.maskrcnn_resnet50_fpn_v2`."""

    COCO_V1 = detected(
        "maskrcnn_resnet50_fpn_v2_coco-73cbd019.pth",
        num_params=46_359_409,
        precision={"box_map": 47.4, "mask_map": 41.8},
        gflops=333.577,
        mebibytes=177.219,
        recipe=UPSTREAM + "pull/5773",
        docs="From the longer recipe of Li et al. 2021 (arXiv:2111.11429), all layers trained, on COCO train2017.",
    )
    DEFAULT = COCO_V1
