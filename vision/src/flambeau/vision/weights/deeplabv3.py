"""Weights of DeepLab v3."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._coco import segmented
from flambeau.vision.weights._records import UPSTREAM

__all__ = ["DeepLabV3_MobileNet_V3_Large_Weights", "DeepLabV3_ResNet50_Weights", "DeepLabV3_ResNet101_Weights"]

_RECIPES = UPSTREAM + "tree/main/references/segmentation#"


class DeepLabV3_MobileNet_V3_Large_Weights(WeightsEnum):
    """Weights of `models.segmentation.deeplabv3_mobilenet_v3_large`."""

    COCO_WITH_VOC_LABELS_V1 = segmented(
        "deeplabv3_mobilenet_v3_large-fc3c493d.pth",
        num_params=11_029_328,
        accuracy=(60.3, 91.2),
        gflops=10.452,
        mebibytes=42.301,
        recipe=_RECIPES + "deeplabv3_mobilenet_v3_large",
        docs="Trained on the pictures of COCO train2017 that show any of the 20 classes of Pascal VOC.",
    )
    DEFAULT = COCO_WITH_VOC_LABELS_V1


class DeepLabV3_ResNet101_Weights(WeightsEnum):
    """Weights of `models.segmentation.deeplabv3_resnet101`."""

    COCO_WITH_VOC_LABELS_V1 = segmented(
        "deeplabv3_resnet101_coco-586e9e4e.pth",
        num_params=60_996_202,
        accuracy=(67.4, 92.4),
        gflops=258.743,
        mebibytes=233.217,
        recipe=_RECIPES + "fcn_resnet101",
        docs="Trained on the pictures of COCO train2017 that show any of the 20 classes of Pascal VOC.",
    )
    DEFAULT = COCO_WITH_VOC_LABELS_V1


class DeepLabV3_ResNet50_Weights(WeightsEnum):
    """Weights of `models.segmentation.deeplabv3_resnet50`."""

    COCO_WITH_VOC_LABELS_V1 = segmented(
        "deeplabv3_resnet50_coco-cd0a2569.pth",
        num_params=42_004_074,
        accuracy=(66.4, 92.4),
        gflops=178.722,
        mebibytes=160.515,
        recipe=_RECIPES + "deeplabv3_resnet50",
        docs="Trained on the pictures of COCO train2017 that show any of the 20 classes of Pascal VOC.",
    )
    DEFAULT = COCO_WITH_VOC_LABELS_V1
