"""Weights of Faster R-CNN, trained on COCO."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._coco import detected
from flambeau.vision.weights._records import UPSTREAM

__all__ = [
    "FasterRCNN_MobileNet_V3_Large_320_FPN_Weights",
    "FasterRCNN_MobileNet_V3_Large_FPN_Weights",
    "FasterRCNN_ResNet50_FPN_V2_Weights",
    "FasterRCNN_ResNet50_FPN_Weights",
]

_RECIPES = UPSTREAM + "tree/main/references/detection#"


class FasterRCNN_MobileNet_V3_Large_320_FPN_Weights(WeightsEnum):
    """Weights of `models.detection.fasterrcnn_mobilenet_v3_large_320_fpn`."""

    COCO_V1 = detected(
        "fasterrcnn_mobilenet_v3_large_320_fpn-907ea3f9.pth",
        num_params=19_386_354,
        precision={"box_map": 22.8},
        gflops=0.719,
        mebibytes=74.239,
        recipe=_RECIPES + "faster-r-cnn-mobilenetv3-large-320-fpn",
        docs="For speed on small machines at low resolution, trained on COCO train2017.",
    )
    DEFAULT = COCO_V1


class FasterRCNN_MobileNet_V3_Large_FPN_Weights(WeightsEnum):
    """Weights of `models.detection.fasterrcnn_mobilenet_v3_large_fpn`."""

    COCO_V1 = detected(
        "fasterrcnn_mobilenet_v3_large_fpn-fb6a3cc7.pth",
        num_params=19_386_354,
        precision={"box_map": 32.8},
        gflops=4.494,
        mebibytes=74.239,
        recipe=_RECIPES + "faster-r-cnn-mobilenetv3-large-fpn",
        docs="For high-resolution pictures on small machines, trained on COCO train2017.",
    )
    DEFAULT = COCO_V1


class FasterRCNN_ResNet50_FPN_Weights(WeightsEnum):
    """Weights of `models.detection.fasterrcnn_resnet50_fpn`."""

    COCO_V1 = detected(
        "fasterrcnn_resnet50_fpn_coco-258fb6c6.pth",
        num_params=41_755_286,
        precision={"box_map": 37.0},
        gflops=134.38,
        mebibytes=159.743,
        recipe=_RECIPES + "faster-r-cnn-resnet-50-fpn",
        docs="Close to the results of the papers, from a plain training recipe on COCO train2017.",
    )
    DEFAULT = COCO_V1


class FasterRCNN_ResNet50_FPN_V2_Weights(WeightsEnum):
    """Weights of `models.detection.fasterrcnn_resnet50_fpn_v2`."""

    COCO_V1 = detected(
        "fasterrcnn_resnet50_fpn_v2_coco-dd69338a.pth",
        num_params=43_712_278,
        precision={"box_map": 46.7},
        gflops=280.371,
        mebibytes=167.104,
        recipe=UPSTREAM + "pull/5763",
        docs="From the longer recipe of Li et al. 2021 (arXiv:2111.11429), all layers trained, on COCO train2017.",
    )
    DEFAULT = COCO_V1
