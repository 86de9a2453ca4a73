"""Functions on bounding boxes: formats, areas, overlaps, selection.

A box is x1, y1, x2, y2 with x1 <= x2 and y1 <= y2 where nothing else is said ("xyxy").
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from flambeau.vision.ops._box_formats import AXIS_ALIGNED, check_boxes, check_format, convert, widen
from flambeau.vision.ops._box_iou import fits, intersection_and_union, pairwise_iou, plain_iou
from flambeau.vision.ops.box_iou_rotated import box_iou_rotated
from flambeau.vision.ops.nms import batched_nms, nms

__all__ = [
    "batched_nms",
    "box_area",
    "box_convert",
    "box_iou",
    "clip_boxes_to_image",
    "complete_box_iou",
    "distance_box_iou",
    "generalized_box_iou",
    "masks_to_boxes",
    "nms",
    "remove_small_boxes",
]


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Write boxes in another format.

    Axis-aligned: "xyxy" (two corners), "xywh" (top left corner, width, height), "cxcywh" (centre, width, height).
    Rotated by r degrees counter-clockwise: "xywhr" (the corner that was top left, width, height, r), "cxcywhr"
    (centre, width, height, r), "xyxyxyxy" (the corners that were top left, top right, bottom right, bottom left).

    Args:
        boxes: (..., 4), (..., 5) or (..., 8), any floating or integer dtype.
        in_fmt: the format they have.
        out_fmt: the format wanted, of the same kind.

    Returns:
        A new tensor with the same leading dimensions. Floating boxes keep their dtype. Integer boxes give integers,
        rotated ones rounded, except in "cxcywh", whose centres need halves.

    Raises:
        ValueError: a format is unknown, or the boxes have not its number of values.
        NotImplementedError: one format is axis-aligned, the other rotated.

    Example:
        >>> box_convert(torch.tensor([1.0, 2.0, 5.0, 4.0]), "xyxy", "cxcywh")
        tensor([3., 3., 4., 2.])
    """
    check_format("box_convert", in_fmt)
    check_format("box_convert", out_fmt)
    if (in_fmt in AXIS_ALIGNED) != (out_fmt in AXIS_ALIGNED):
        raise NotImplementedError(
            f"box_convert: {in_fmt!r} to {out_fmt!r} would turn axis-aligned boxes into rotated ones or the reverse, "
            "expected two formats of one kind. Append an angle of 0, or take the extremes of the corners."
        )
    check_boxes("box_convert", "boxes", boxes, in_fmt)
    return boxes.clone() if in_fmt == out_fmt else convert(boxes, in_fmt, out_fmt)


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """Areas of boxes.

    Args:
        boxes: (..., 4), or (..., 5) and (..., 8) for rotated formats.
        fmt: a format of `box_convert`.

    Returns:
        (...,): products of the sides. float32, float64, int32 or int64; narrower dtypes are widened first.

    Raises:
        ValueError: the format is unknown, or the boxes have not its number of values.

    Example:
        >>> box_area(torch.tensor([[0, 0, 3, 2], [1, 1, 1, 5]]))
        tensor([6, 0])
    """
    check_boxes("box_area", "boxes", boxes, fmt)
    boxes = widen(boxes)
    if fmt == "xyxy":
        return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    if fmt == "xyxyxyxy":
        boxes = convert(boxes, fmt, "xywhr")
    return boxes[..., 2] * boxes[..., 3]


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Intersection over union of all pairs of boxes.

    Args:
        boxes1: (..., N, 4), or 5 or 8 values for rotated formats.
        boxes2: (..., M, 4), likewise; leading dimensions broadcast.
        fmt: the format of both, one of `box_convert`'s.

    Returns:
        (..., N, M), floating point, in [0, 1]. Two axis-aligned boxes without area give NaN.

    Raises:
        ValueError: the format is unknown, or boxes have not its number of values.

    Example:
        >>> box_iou(torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 0.0, 3.0, 2.0], [0.0, 0.0, 2.0, 2.0]]))
        tensor([[0.3333, 1.0000]])
    """
    _check_pairs("box_iou", boxes1, boxes2, fmt)
    if fmt not in AXIS_ALIGNED:
        first, second = (boxes if boxes.is_floating_point() else boxes.float() for boxes in (boxes1, boxes2))
        return box_iou_rotated(box_convert(widen(first), fmt, "cxcywhr"), box_convert(widen(second), fmt, "cxcywhr"))
    first, second = widen(_in_corners(boxes1, fmt)), widen(_in_corners(boxes2, fmt))
    return pairwise_iou(first, second) if fits(first, second) else plain_iou(first, second)


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Generalized intersection over union of all pairs: IoU minus the share of the enclosing box that is in neither.

    Args:
        boxes1: (..., N, 4), xyxy.
        boxes2: (..., M, 4), xyxy.

    Returns:
        (..., N, M), floating point, in [-1, 1].

    Raises:
        ValueError: boxes have not four values.

    References:
        Rezatofighi et al. 2019, arXiv:1902.09630, algorithm 1.
    """
    _check_pairs("generalized_box_iou", boxes1, boxes2)
    intersection, union = intersection_and_union(widen(boxes1), widen(boxes2))
    sides = _enclosing_sides(boxes1, boxes2)
    enclosing = sides[..., 0] * sides[..., 1]
    return intersection / union - (enclosing - union) / enclosing


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """Distance IoU of all pairs: IoU minus the squared distance of the centres over the enclosing box's diagonal.

    Args:
        boxes1: (..., N, 4), xyxy.
        boxes2: (..., M, 4), xyxy.
        eps: added to the squared diagonal.

    Returns:
        (..., N, M), floating point, in [-1, 1].

    Raises:
        ValueError: boxes have not four values.

    References:
        Zheng et al. 2019, arXiv:1911.08287, equation 6.
    """
    _check_pairs("distance_box_iou", boxes1, boxes2)
    return _distance_and_plain_iou(boxes1, boxes2, eps)[0]


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """Complete IoU of all pairs: distance IoU minus a term for differing aspect ratios, `alpha * v`.

    Args:
        boxes1: (..., N, 4), xyxy.
        boxes2: (..., M, 4), xyxy.
        eps: added to the squared diagonal and to alpha's denominator.

    Returns:
        (..., N, M), floating point.

    Raises:
        ValueError: boxes have not four values.

    References:
        Zheng et al. 2019, arXiv:1911.08287, equations 8 to 11; alpha has no gradient.
    """
    _check_pairs("complete_box_iou", boxes1, boxes2)
    distance_iou, iou = _distance_and_plain_iou(boxes1, boxes2, eps)
    aspects1, aspects2 = _aspect_angle(boxes1)[..., :, None], _aspect_angle(boxes2)[..., None, :]
    v = 4 / math.pi**2 * (aspects1 - aspects2) ** 2
    with torch.no_grad():
        alpha = v / (1 - iou + v + eps)
    return distance_iou - alpha * v


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Move the corners that lie outside an image onto its border.

    Args:
        boxes: (..., 4), xyxy.
        size: (height, width) of the image.

    Returns:
        A new tensor, x in [0, width] and y in [0, height].

    Raises:
        ValueError: boxes have not four values.
    """
    check_boxes("clip_boxes_to_image", "boxes", boxes, "xyxy")
    height, width = size
    x, y = boxes[..., 0::2].clamp(min=0, max=width), boxes[..., 1::2].clamp(min=0, max=height)
    return torch.stack([x, y], -1).flatten(-2)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """Find the boxes of which both sides are long enough.

    Args:
        boxes: (N, 4), xyxy.
        min_size: shortest width and height that stay.

    Returns:
        (K,) int64: their indices, ascending.

    Raises:
        ValueError: boxes have not four values.
    """
    check_boxes("remove_small_boxes", "boxes", boxes, "xyxy")
    sides = boxes[..., 2:] - boxes[..., :2]
    return torch.where((sides >= min_size).all(-1))[0]


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The smallest boxes around the pixels of masks that are not zero.

    Args:
        masks: (N, H, W), any dtype.

    Returns:
        (N, 4) float32, xyxy in pixel coordinates, the last ones included: a mask of one pixel gives a box without
        area. A mask without pixels gives zeros.

    Raises:
        ValueError: `masks` has not three dimensions.

    Example:
        >>> masks = torch.zeros(1, 4, 6)
        >>> masks[0, 1:3, 2:5] = 1
        >>> masks_to_boxes(masks)
        tensor([[2., 1., 4., 2.]])
    """
    if masks.dim() != 3:
        raise ValueError(f"masks_to_boxes: masks has shape {tuple(masks.shape)}, expected (N, H, W).")
    if masks.numel() == 0:
        return torch.zeros(masks.shape[0], 4, dtype=torch.float32, device=masks.device)
    marked = masks != 0
    ends = [_first_and_last(marked.any(dim)) for dim in (1, 2)]
    return torch.stack([ends[0][0], ends[1][0], ends[0][1], ends[1][1]], 1).float()


def _first_and_last(marked: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of the first and the last True in each row of (N, L); zeros for a row without."""
    length = marked.shape[1]
    position = torch.arange(1, length + 1, device=marked.device)
    last = (marked * position).amax(1) - 1
    first = length - (marked * position.flip(0)).amax(1)
    some = last >= 0
    return first.where(some, 0), last.where(some, 0)


# --- pairs --------------------------------------------------------------------------------------------------------


def _check_pairs(op: str, boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> None:
    check_boxes(op, "boxes1", boxes1, fmt)
    check_boxes(op, "boxes2", boxes2, fmt)


def _in_corners(boxes: Tensor, fmt: str) -> Tensor:
    return boxes if fmt == "xyxy" else convert(boxes, fmt, "xyxy")


def _enclosing_sides(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Width and height (..., N, M, 2) of the smallest box around each pair."""
    boxes1, boxes2 = widen(boxes1), widen(boxes2)
    upper_left = torch.minimum(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    lower_right = torch.maximum(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    return (lower_right - upper_left).clamp(min=0)


def _distance_and_plain_iou(boxes1: Tensor, boxes2: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    intersection, union = intersection_and_union(widen(boxes1), widen(boxes2))
    iou = intersection / union
    diagonal = _enclosing_sides(boxes1, boxes2).square().sum(-1) + eps
    between = _center(boxes1)[..., :, None, :] - _center(boxes2)[..., None, :, :]
    return iou - between.square().sum(-1) / diagonal, iou


def _center(boxes: Tensor) -> Tensor:
    boxes = widen(boxes)
    return (boxes[..., :2] + boxes[..., 2:]) / 2


def _aspect_angle(boxes: Tensor) -> Tensor:
    width, height = (boxes[..., 2:] - boxes[..., :2]).unbind(-1)
    return torch.atan(width / height)
