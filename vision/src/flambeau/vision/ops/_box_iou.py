"""Intersection over union of all pairs of boxes along the axes, as an operator without gradients.

The native kernel is `native/box_iou.cpp`; `box_iou` comes here with what it takes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.vision.ops._library import LIBRARY

__all__ = ["fits", "intersection_and_union", "pairwise_iou", "plain_iou"]

_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


def fits(boxes1: Tensor, boxes2: Tensor) -> bool:
    """Whether `pairwise_iou` takes two tensors of boxes: on the CPU, of one dtype, without batches and gradients."""
    return (
        boxes1.dim() == 2 == boxes2.dim()
        and boxes1.dtype == boxes2.dtype
        and boxes1.dtype in _SUFFIX
        and boxes1.device.type == "cpu" == boxes2.device.type
        and not (torch.is_grad_enabled() and (boxes1.requires_grad or boxes2.requires_grad))
        and not torch._C._are_functorch_transforms_active()
    )


def pairwise_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union of all pairs.

    Args:
        boxes1: (N, 4), x1, y1, x2, y2; float32 or float64.
        boxes2: (M, 4), likewise.

    Returns:
        (N, M), dtype of `boxes1`. NaN where neither box has an area.

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    return torch.ops.flambeau_vision._box_iou(boxes1, boxes2)  # type: ignore[no-any-return]


def plain_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The same in tensor operations, which have gradients; (..., N, 4), (..., M, 4) -> (..., N, M)."""
    intersection, union = intersection_and_union(boxes1, boxes2)
    return intersection / union


def intersection_and_union(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """Both areas (..., N, M) of all pairs of boxes (..., N, 4) and (..., M, 4)."""
    upper_left = torch.maximum(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    lower_right = torch.minimum(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    sides = (lower_right - upper_left).clamp(min=0)
    intersection = sides[..., 0] * sides[..., 1]
    first, second = ((boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1]) for boxes in (boxes1, boxes2))
    return intersection, first[..., :, None] + second[..., None, :] - intersection


def _check(boxes1: Tensor, boxes2: Tensor) -> None:
    """The same sentences as in native/box_iou.cpp."""
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        if boxes.dim() != 2 or boxes.shape[1] != 4:
            raise RuntimeError(f"box_iou: {name} has shape {tuple(boxes.shape)}, expected (N, 4): x1, y1, x2, y2.")
        if boxes.dtype not in _SUFFIX:
            raise RuntimeError(f"box_iou: {name} has dtype {boxes.dtype}, expected float32 or float64; convert it.")
    if boxes1.dtype != boxes2.dtype:
        raise RuntimeError(
            f"box_iou: boxes2 has dtype {boxes2.dtype}, expected that of boxes1, {boxes1.dtype}; convert one of them."
        )


def _fake(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    _check(boxes1, boxes2)
    return boxes1.new_empty(boxes1.shape[0], boxes2.shape[0])


def _reference(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    _check(boxes1, boxes2)
    return plain_iou(boxes1, boxes2)


_functions: dict[torch.dtype, Callable[..., Any]] = {}


def _native(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    _check(boxes1, boxes2)
    ious = boxes1.new_empty(len(boxes1), len(boxes2))
    if boxes1.dtype not in _functions:
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        arguments = [pointer, pointer, size] * 2 + [pointer, ctypes.c_int32]
        _functions[boxes1.dtype] = LIBRARY.function(f"fb_box_iou_{_SUFFIX[boxes1.dtype]}", arguments, size)
    strides = [(ctypes.c_int64 * 2)(*boxes.stride()) for boxes in (boxes1, boxes2)]
    status = _functions[boxes1.dtype](
        boxes1.data_ptr(), ctypes.addressof(strides[0]), len(boxes1),
        boxes2.data_ptr(), ctypes.addressof(strides[1]), len(boxes2),
        ious.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    if status != 0:
        raise RuntimeError(f"box_iou: no memory left for {len(boxes2)} boxes.")
    return ious


register_op(
    "_box_iou(Tensor boxes1, Tensor boxes2) -> Tensor", library=LIBRARY, symbol=_native, fake=_fake, python=_reference
)
