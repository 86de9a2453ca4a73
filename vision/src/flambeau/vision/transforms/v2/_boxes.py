"""Transforms of bounding boxes and key points themselves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2._transform import Transform, flatten
from flambeau.vision.transforms.v2._utils import (
    LabelsGetter,
    check_labels_getter,
    first,
    get_bounding_boxes,
    get_keypoints,
    get_labels,
)
from flambeau.vision.transforms.v2.functional._boxes import valid_boxes, valid_keypoints
from flambeau.vision.tv_tensors import BoundingBoxFormat
from flambeau.vision.tv_tensors._bounding_boxes import _CLAMPING_MODES, bounding_box_format


class ConvertBoundingBoxFormat(Transform):
    """Write bounding boxes in another format.

    Args:
        format: the format, or its name.
    """

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def __init__(self, format: str | BoundingBoxFormat) -> None:
        super().__init__()
        self.format = bounding_box_format(format)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one leaf."""
        return F.convert_bounding_box_format(inpt, new_format=self.format)


class ClampBoundingBoxes(Transform):
    """Cut bounding boxes at the edges of the picture; see `functional.clamp_bounding_boxes`.

    Args:
        clamping_mode: "soft", "hard", None, or "auto", the mode of the boxes.
    """

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def __init__(self, clamping_mode: str | None = "auto") -> None:
        super().__init__()
        self.clamping_mode = clamping_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Clamp one leaf."""
        return F.clamp_bounding_boxes(inpt, clamping_mode=self.clamping_mode)


class SetClampingMode(Transform):
    """Choose what the transforms that follow do with boxes that leave the picture.

    Args:
        clamping_mode: "soft", "hard" or None, see `functional.clamp_bounding_boxes`.

    Raises:
        ValueError: another word.
    """

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def __init__(self, clamping_mode: str | None) -> None:
        super().__init__()
        if clamping_mode not in _CLAMPING_MODES:
            raise ValueError(f"clamping_mode is {clamping_mode!r}, expected 'soft', 'hard' or None.")
        self.clamping_mode = clamping_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Copy one leaf, with the mode."""
        return tv_tensors.wrap(inpt.clone(), like=inpt, clamping_mode=self.clamping_mode)


class ClampKeyPoints(Transform):
    """Move key points outside of the picture to its nearest pixel."""

    _transformed_types = (tv_tensors.KeyPoints,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Clamp one leaf."""
        return F.clamp_keypoints(inpt)


class _Sanitizing(Transform):
    """Base of those that drop rows of boxes or points, and of the labels that belong to them."""

    def __init__(self, labels_getter: LabelsGetter) -> None:
        super().__init__()
        self.labels_getter = check_labels_getter(labels_getter)

    def _valid(self, flat: list[Any]) -> Tensor:
        raise NotImplementedError

    def _belongs(self, inpt: Any, valid: Tensor) -> bool:
        raise NotImplementedError

    def forward(self, *inputs: Any) -> Any:
        """Drop what is no good."""
        sample = first(inputs)
        labels = self._labels(sample)
        flat, structure = flatten(sample)
        valid = self._valid(flat)
        for label in labels:
            if label.shape[:1] != valid.shape:
                raise ValueError(f"{type(self).__name__}: labels {list(label.shape)} for {len(valid)} rows; one each.")
        params = {"valid": valid, "labels": labels}
        return pytree.tree_unflatten([self.transform(inpt, params) for inpt in flat], structure)

    def _labels(self, sample: Any) -> tuple[Tensor, ...]:
        labels = get_labels(self.labels_getter, sample)
        if labels is None:
            return ()
        several = labels if isinstance(labels, (tuple, list)) else (labels,)
        for label in several:
            if not isinstance(label, Tensor):
                raise ValueError(f"labels holds a {type(label).__name__}; expected a tensor, several of them, or None.")
        return tuple(several)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Keep the good rows of one leaf."""
        valid = params["valid"]
        if any(inpt is label for label in params["labels"]) or self._belongs(inpt, valid):
            kept = inpt[valid.to(inpt.device)]
            return tv_tensors.wrap(kept, like=inpt) if isinstance(inpt, tv_tensors.TVTensor) else kept
        return inpt


class SanitizeBoundingBoxes(_Sanitizing):
    """Drop boxes that are too small or leave the picture, with their labels and instance masks.

    It belongs at the end of a detection pipeline; see `functional.sanitize_bounding_boxes`. A mask goes along that
    holds one [H, W] for each box.

    Args:
        min_size: shortest side that is kept, in pixels, >= 1.
        min_area: smallest area that is kept, >= 1.
        labels_getter: None for no labels; a function of the sample that returns a tensor [N] or several; or "default":
            the second input, or the entry "labels" of a dictionary, else the first with "label" in its name.

    Raises:
        ValueError: limits below 1, or when called: there are no boxes, or labels of another length.
    """

    def __init__(self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: LabelsGetter = "default") -> None:
        super().__init__(labels_getter)
        if min_size < 1 or min_area < 1:
            raise ValueError(f"min_size={min_size}, min_area={min_area}; expected 1 or more.")
        self.min_size = min_size
        self.min_area = min_area

    def _valid(self, flat: list[Any]) -> Tensor:
        boxes = get_bounding_boxes(flat)
        plain = boxes.as_subclass(torch.Tensor)
        return valid_boxes(plain, boxes.format, boxes.canvas_size, self.min_size, self.min_area)

    def _belongs(self, inpt: Any, valid: Tensor) -> bool:
        if isinstance(inpt, tv_tensors.Mask):
            return inpt.ndim > 2 and len(inpt) == len(valid)
        return isinstance(inpt, tv_tensors.BoundingBoxes)


class SanitizeKeyPoints(_Sanitizing):
    """Drop key points outside of the picture, with their labels; see `functional.sanitize_keypoints`.

    Args:
        labels_getter: None for no labels; see `SanitizeBoundingBoxes`.

    Raises:
        ValueError: when called: there are no key points, or labels of another length.
    """

    def __init__(self, labels_getter: LabelsGetter = None) -> None:
        super().__init__(labels_getter)

    def _valid(self, flat: list[Any]) -> Tensor:
        points = get_keypoints(flat)
        return valid_keypoints(points.as_subclass(torch.Tensor), points.canvas_size)

    def _belongs(self, inpt: Any, valid: Tensor) -> bool:
        return isinstance(inpt, tv_tensors.KeyPoints)
