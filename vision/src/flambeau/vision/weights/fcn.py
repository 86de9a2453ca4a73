"""Weights of the fully convolutional networks for segmentation."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._coco import segmented
from flambeau.vision.weights._records import UPSTREAM

__all__ = ["FCN_ResNet50_Weights", "FCN_ResNet101_Weights"]

_RECIPES = UPSTREAM + "tree/main/references/segmentation#"


class FCN_ResNet101_Weights(WeightsEnum):
    """Weights of `models.segmentation.fcn_resnet101`."""

    COCO_WITH_VOC_LABELS_V1 = segmented(
        "fcn_resnet101_coco-7ecb50ca.pth",
        num_params=54_314_346,
        accuracy=(63.7, 91.9),
        gflops=232.738,
        mebibytes=207.711,
        recipe=_RECIPES + "deeplabv3_resnet101",
        docs="Trained on the pictures of COCO train2017 that show any of the 20 classes of Pascal VOC.",
    )
    DEFAULT = COCO_WITH_VOC_LABELS_V1


class FCN_ResNet50_Weights(WeightsEnum):
    """Weights of `models.segmentation.fcn_resnet50`."""

    COCO_WITH_VOC_LABELS_V1 = segmented(
        "fcn_resnet50_coco-1167a1af.pth",
        num_params=35_322_218,
        accuracy=(60.5, 91.4),
        gflops=152.717,
        mebibytes=135.009,
        recipe=_RECIPES + "fcn_resnet50",
        docs="Trained on the pictures of COCO train2017 that show any of the 20 classes of Pascal VOC.",
    )
    DEFAULT = COCO_WITH_VOC_LABELS_V1
