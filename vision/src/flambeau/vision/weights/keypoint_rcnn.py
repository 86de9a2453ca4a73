"""Weights of Keypoint R-CNN, trained on the persons of COCO."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._coco import detected
from flambeau.vision.weights._records import UPSTREAM
from flambeau.vision.weights.categories import categories as label_set

__all__ = ["KeypointRCNN_ResNet50_FPN_Weights"]

_RECIPES = UPSTREAM + "tree/main/references/detection#"


class KeypointRCNN_ResNet50_FPN_Weights(WeightsEnum):
    """Weights of `models.detection.keypointrcnn_resnet50_fpn`."""

    COCO_LEGACY = detected(
        "keypointrcnn_resnet50_fpn_coco-9f466800.pth",
        num_params=59_137_258,
        precision={"box_map": 50.6, "kp_map": 61.1},
        categories="coco_person",
        keypoint_names=label_set("coco_person_keypoints"),
        gflops=133.924,
        mebibytes=226.054,
        recipe=UPSTREAM + "issues/1606",
        docs="An early training run on COCO train2017; take COCO_V1 unless results have to be repeated.",
    )
    COCO_V1 = detected(
        "keypointrcnn_resnet50_fpn_coco-fc266e95.pth",
        num_params=59_137_258,
        precision={"box_map": 54.6, "kp_map": 65.0},
        categories="coco_person",
        keypoint_names=label_set("coco_person_keypoints"),
        gflops=137.42,
        mebibytes=226.054,
        recipe=_RECIPES + "keypoint-r-cnn",
        docs="From a plain training recipe on the persons of COCO train2017.",
    )
    DEFAULT = COCO_V1
