"""Weights of LR-ASPP, segmentation with MobileNet v3."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._coco import segmented
from flambeau.vision.weights._records import UPSTREAM

__all__ = ["LRASPP_MobileNet_V3_Large_Weights"]

_RECIPES = UPSTREAM + "tree/main/references/segmentation#"


class LRASPP_MobileNet_V3_Large_Weights(WeightsEnum):
    """Weights of `models.segmentation.lraspp_mobilenet_v3_large`."""

    COCO_WITH_VOC_LABELS_V1 = segmented(
        "lraspp_mobilenet_v3_large-d234d4ea.pth",
        num_params=3_221_538,
        accuracy=(57.9, 91.2),
        gflops=2.086,
        mebibytes=12.49,
        recipe=_RECIPES + "lraspp_mobilenet_v3_large",
        docs="Trained on the pictures of COCO train2017 that show any of the 20 classes of Pascal VOC.",
    )
    DEFAULT = COCO_WITH_VOC_LABELS_V1
