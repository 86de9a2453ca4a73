"""How records of checkpoints that were trained on COCO are written: segmentation and detection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau.core.weights import Weights, lazy
from flambeau.vision.weights._records import published

__all__ = ["detected", "segmented"]


def segmented(file: str, *, accuracy: tuple[float, float], **facts: Any) -> Weights:
    """A segmentation of pictures into background and the 20 classes of Pascal VOC.

    Args:
        file: its name below `https://download.pytorch.org/models/`.
        accuracy: mean intersection over union and share of right pixels on COCO val2017, in percent.
        facts: the other arguments of `published`.
    """
    mean_iou, pixels = accuracy
    return published(
        file,
        lazy("flambeau.vision.transforms._presets:SemanticSegmentation", resize_size=520),
        min_size=(1, 1),
        categories="voc_21",
        metrics={"COCO-val2017-VOC-labels": {"miou": mean_iou, "pixel_acc": pixels}},
        **facts,
    )


def detected(file: str, *, precision: Mapping[str, float], categories: str = "coco_91", **facts: Any) -> Weights:
    """A detector of the objects of COCO.

    Args:
        file: its name below `https://download.pytorch.org/models/`.
        precision: mean average precision on COCO val2017, in percent: `box_map`, `mask_map`, `kp_map`.
        categories: the label set.
        facts: the other arguments of `published`.
    """
    return published(
        file,
        lazy("flambeau.vision.transforms._presets:ObjectDetection"),
        min_size=(1, 1),
        categories=categories,
        metrics={"COCO-val2017": precision},
        **facts,
    )
