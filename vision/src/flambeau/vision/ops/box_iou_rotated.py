"""Intersection over union of rotated boxes, as an operator: `torch.ops.flambeau_vision.box_iou_rotated`.

The native kernel is `native/box_iou_rotated.cpp`, the one for CUDA and XPU `_box_iou_rotated_triton.py`, the reference
`_rotated_iou.py`. `box_iou` with a rotated format comes here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.vision.ops._library import LIBRARY
from flambeau.vision.ops._rotated_iou import rotated_iou

__all__ = ["box_iou_rotated"]

_SUFFIX = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16"}


def box_iou_rotated(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union of all pairs of rotated boxes.

    Computed in float64, exact but for rounding: touching, nested and identical boxes need no tolerance. Boxes without
    an area overlap nothing.

    Args:
        boxes1: (..., N, 5), centre x, centre y, width, height, degrees counter-clockwise; float32, float64, float16 or
            bfloat16.
        boxes2: (..., M, 5), likewise.

    Returns:
        (..., N, M), in [0, 1], dtype of `boxes1`. It has a gradient for both, from the plain tensor operations.

    Raises:
        RuntimeError: wrong shapes, dtypes, or tensors on different devices.

    Example:
        >>> square = torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0]])
        >>> box_iou_rotated(square, torch.tensor([[0.0, 0.0, 2.0, 2.0, 90.0], [1.0, 0.0, 2.0, 2.0, 180.0]]))
        tensor([[1.0000, 0.3333]])
    """
    followed = torch.is_grad_enabled() and (boxes1.requires_grad or boxes2.requires_grad)
    if boxes1.dim() == 2 == boxes2.dim() and boxes1.dtype == boxes2.dtype and not followed:
        return torch.ops.flambeau_vision.box_iou_rotated(boxes1, boxes2)  # type: ignore[no-any-return]
    return rotated_iou(boxes1, boxes2)


def check(boxes1: Tensor, boxes2: Tensor) -> None:
    """The same sentences as in native/box_iou_rotated.cpp."""
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        if boxes.dim() != 2 or boxes.shape[1] != 5:
            raise RuntimeError(
                f"box_iou_rotated: {name} has shape {tuple(boxes.shape)}, expected (N, 5): centre, width, height, "
                "degrees."
            )
        if boxes.dtype not in _SUFFIX:
            raise RuntimeError(
                f"box_iou_rotated: {name} has dtype {boxes.dtype}, expected float32, float64, float16 or bfloat16; "
                "convert it."
            )
    if boxes1.dtype != boxes2.dtype:
        raise RuntimeError(
            f"box_iou_rotated: boxes2 has dtype {boxes2.dtype}, expected that of boxes1, {boxes1.dtype}; convert one "
            "of them."
        )
    if boxes1.device != boxes2.device:
        raise RuntimeError(
            f"box_iou_rotated: boxes2 is on {boxes2.device}, boxes1 on {boxes1.device}; move one of them."
        )


def _fake(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    check(boxes1, boxes2)
    return boxes1.new_empty(boxes1.shape[0], boxes2.shape[0])


def _reference(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    check(boxes1, boxes2)
    return rotated_iou(boxes1, boxes2)


_functions: dict[torch.dtype, Callable[..., Any]] = {}


def _native(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    check(boxes1, boxes2)
    ious = boxes1.new_empty(len(boxes1), len(boxes2))
    if boxes1.dtype not in _functions:
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        arguments = [pointer, pointer, size] * 2 + [pointer, ctypes.c_int32]
        _functions[boxes1.dtype] = LIBRARY.function(f"fb_box_iou_rotated_{_SUFFIX[boxes1.dtype]}", arguments, size)
    strides = [(ctypes.c_int64 * 2)(*boxes.stride()) for boxes in (boxes1, boxes2)]
    status = _functions[boxes1.dtype](
        boxes1.data_ptr(), ctypes.addressof(strides[0]), len(boxes1),
        boxes2.data_ptr(), ctypes.addressof(strides[1]), len(boxes2),
        ious.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    if status != 0:
        raise RuntimeError(f"box_iou_rotated: no memory left for {len(boxes2)} boxes.")
    return ious


register_op(
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    triton="flambeau.vision.ops._box_iou_rotated_triton:box_iou_rotated",
    autocast=torch.float32,
)
