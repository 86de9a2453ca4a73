"""Non-maximum suppression: of boxes that overlap too much, the one with the best score stays.

The algorithm is greedy: boxes are visited from the best score down, and one stays unless a box that already stayed has
an intersection over union with it above the threshold. The native kernel is `native/nms.cpp`, the one for CUDA and XPU
`_nms_triton.py`; both give the bits of the reference below.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.vision.ops._library import LIBRARY

__all__ = ["batched_nms", "nms"]


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Select the boxes that remain after suppressing those that overlap a better one too much.

    The visit is in descending order of score, equal scores in their given order, NaN scores first. A box is dropped
    when its intersection over union with a box that stays is greater than `iou_threshold`; equal is not enough. A box
    with a NaN coordinate neither drops others nor is dropped. The result has no gradient.

    Args:
        boxes: (N, 4), corners x1, y1, x2, y2 with x1 <= x2 and y1 <= y2; float32, float64, or float16 and bfloat16,
            which are computed in float32. Any strides. Quantized boxes are compared by their integers.
        scores: (N,), same dtype and device.
        iou_threshold: usually in [0, 1].

    Returns:
        (K,) int64, 0 <= K <= N: indices of the boxes that stay, best score first.

    Raises:
        RuntimeError: wrong shapes, dtypes, or tensors on different devices.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0], [6.0, 6.0, 8.0, 8.0]])
        >>> nms(boxes, torch.tensor([0.5, 0.9, 0.3]), iou_threshold=0.7)
        tensor([1, 2])

    Note:
        How many boxes stay depends on values. torch.compile keeps that in one graph when
        `torch._dynamo.config.capture_dynamic_output_shape_ops` is set, which torch 2.8 does not do by itself.
    """
    return torch.ops.flambeau_vision.nms(boxes, scores, iou_threshold)  # type: ignore[no-any-return]


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """Suppress overlapping boxes as `nms` does, but only by boxes of the same class (or image, or level).

    Classes are compared, not moved apart: coordinates of any size keep their precision.

    Args:
        boxes: (N, 4), as for `nms`.
        scores: (N,), same dtype and device.
        idxs: (N,), the class of each box; any integer or floating dtype, any values.
        iou_threshold: usually in [0, 1].

    Returns:
        (K,) int64: indices of the boxes that stay, best score first over all classes.

    Raises:
        RuntimeError: wrong shapes, dtypes, or tensors on different devices.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0], [0.0, 0.0, 4.0, 3.5]])
        >>> batched_nms(boxes, torch.tensor([0.5, 0.9, 0.3]), torch.tensor([1, 2, 1]), iou_threshold=0.7)
        tensor([1, 0])
    """
    if idxs.is_floating_point():
        # Equal numbers have equal bits, once -0 is 0.
        wide = torch.float64 if idxs.dtype == torch.float64 else torch.float32
        idxs = (idxs.to(wide) + 0.0).view(torch.int64 if wide == torch.float64 else torch.int32)
    return torch.ops.flambeau_vision.batched_nms(boxes, scores, idxs.to(torch.int64), iou_threshold)  # type: ignore[no-any-return]


COMPUTE_DTYPE = {
    torch.float32: torch.float32,
    torch.float64: torch.float64,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
}


def check(op: str, boxes: Tensor, scores: Tensor, idxs: Tensor | None = None) -> None:
    """The same sentences as `valid` in native/nms.cpp."""
    if boxes.dim() != 2 or boxes.shape[1] != 4:
        raise RuntimeError(f"{op}: boxes has shape {tuple(boxes.shape)}, expected (N, 4): corners x1, y1, x2, y2.")
    count = boxes.shape[0]
    if scores.dim() != 1 or scores.shape[0] != count:
        shape = tuple(scores.shape)
        raise RuntimeError(f"{op}: scores has shape {shape}, expected ({count},): one for each row of boxes.")
    if boxes.dtype not in COMPUTE_DTYPE:
        raise RuntimeError(
            f"{op}: boxes has dtype {boxes.dtype}, expected float32, float64, float16 or bfloat16; convert it."
        )
    if scores.dtype != boxes.dtype:
        raise RuntimeError(
            f"{op}: scores has dtype {scores.dtype}, expected that of boxes, {boxes.dtype}; convert one of them."
        )
    if scores.device != boxes.device:
        raise RuntimeError(f"{op}: scores is on {scores.device}, boxes on {boxes.device}; move one of them.")
    if idxs is None:
        return
    if idxs.dim() != 1 or idxs.shape[0] != count:
        shape = tuple(idxs.shape)
        raise RuntimeError(f"{op}: idxs has shape {shape}, expected ({count},): one class for each row of boxes.")
    if idxs.dtype != torch.int64:
        raise RuntimeError(f"{op}: idxs has dtype {idxs.dtype}, expected int64; convert it.")
    if idxs.device != boxes.device:
        raise RuntimeError(f"{op}: idxs is on {idxs.device}, boxes on {boxes.device}; move one of them.")


# --- shape-only twin -------------------------------------------------------------------------------------------------


def _fake(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    check("nms", boxes, scores)
    return _some_of(boxes)


def _fake_batched(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    check("batched_nms", boxes, scores, idxs)
    return _some_of(boxes)


def _some_of(boxes: Tensor) -> Tensor:
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    if statically_known_true(boxes.shape[0] == 0):
        return boxes.new_empty(0, dtype=torch.int64)
    kept = torch.library.get_ctx().new_dynamic_size()
    torch._check(kept <= boxes.shape[0])
    return boxes.new_empty(kept, dtype=torch.int64)


# --- reference ------------------------------------------------------------------------------------

# Boxes that are resolved together. Memory is this many rows of N numbers.
_BLOCK = 256


def _reference(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    check("nms", boxes, scores)
    return _select(boxes, scores, None, iou_threshold)


def _reference_batched(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    check("batched_nms", boxes, scores, idxs)
    return _select(boxes, scores, idxs, iou_threshold)


def _select(boxes: Tensor, scores: Tensor, idxs: Tensor | None, iou_threshold: float) -> Tensor:
    compute = COMPUTE_DTYPE[boxes.dtype]
    boxes, limit = boxes.to(compute), floor_to(iou_threshold, compute)

    def covers(these: Tensor, those: Tensor) -> Tensor:
        above = _iou(boxes[these], boxes[those]) > limit
        return above if idxs is None else above & (idxs[these][:, None] == idxs[those])

    remaining = scores.sort(descending=True, stable=True).indices
    chosen = [remaining[:0]]
    while len(remaining):
        block, rest = remaining[:_BLOCK], remaining[_BLOCK:]
        stay = block[_resolve(covers(block, block).triu(diagonal=1))]
        chosen.append(stay)
        remaining = rest[~covers(stay, rest).any(0)]
    return torch.cat(chosen)


def _resolve(covers: Tensor) -> Tensor:
    """The boxes of a block that stay: those that no staying box before them covers.

    `covers` is strictly upper triangular, so the condition has one solution, and repeating it reaches that solution:
    after k rounds the first k answers are final. Real boxes take a few rounds.
    """
    stays = covers.new_ones(len(covers))
    while True:
        following = ~covers[stays].any(0)
        if torch.equal(following, stays):
            return stays
        stays = following


def _iou(boxes: Tensor, others: Tensor) -> Tensor:
    """Intersection over union, (M, N). Each operation in the order of the native kernel."""
    upper_left = torch.maximum(boxes[:, None, :2], others[:, :2])
    lower_right = torch.minimum(boxes[:, None, 2:], others[:, 2:])
    sides = (lower_right - upper_left).clamp(min=0)
    both = sides[..., 0] * sides[..., 1]
    return both / (box_area(boxes)[:, None] + box_area(others) - both)


def box_area(boxes: Tensor) -> Tensor:
    """Areas (N,) of boxes (N, 4), in their dtype: `boxes.box_area` widens, and the bits of the kernel must agree."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def floor_to(limit: float, dtype: torch.dtype) -> float:
    """The largest number of a dtype that is not above `limit`.

    Upstream: the threshold is a double, and IoUs are widened to compare. Comparing with this number is the same.
    """
    exact = torch.tensor(limit, dtype=torch.float64, device="cpu")
    rounded = exact.to(dtype)
    if rounded > exact:
        rounded = torch.nextafter(rounded, torch.full_like(rounded, -torch.inf))
    return float(rounded)


# --- native kernel through ctypes -----------------------------------------------------------------

_SUFFIX = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16"}
_functions: dict[torch.dtype, Callable[..., Any]] = {}


def _function(dtype: torch.dtype) -> Callable[..., Any]:
    if dtype not in _functions:
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        arguments = [pointer, size, size, pointer, size, pointer, size, size, ctypes.c_double, pointer, ctypes.c_int32]
        _functions[dtype] = LIBRARY.function(f"fb_nms_{_SUFFIX[dtype]}", arguments, size)
    return _functions[dtype]


def _native(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    check("nms", boxes, scores)
    return _call_native("nms", boxes, scores, None, iou_threshold)


def _native_batched(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    check("batched_nms", boxes, scores, idxs)
    return _call_native("batched_nms", boxes, scores, idxs, iou_threshold)


def _call_native(op: str, boxes: Tensor, scores: Tensor, idxs: Tensor | None, iou_threshold: float) -> Tensor:
    keep = torch.empty(boxes.shape[0], dtype=torch.int64)
    count = _function(boxes.dtype)(
        boxes.data_ptr(),
        *boxes.stride(),
        scores.data_ptr(),
        scores.stride(0),
        None if idxs is None else idxs.data_ptr(),
        0 if idxs is None else idxs.stride(0),
        boxes.shape[0],
        iou_threshold,
        keep.data_ptr(),
        torch.get_num_threads(),
    )
    if count < 0:
        raise RuntimeError(f"{op}: no memory left for {boxes.shape[0]} boxes.")
    return keep[:count].clone()


# --- quantized boxes ------------------------------------------------------------------------------


def _quantized(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Scale and zero point cancel in an intersection over union: integers are enough, and float64 holds them all."""
    return nms(_integers(boxes), _integers(scores), iou_threshold)


def _quantized_batched(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    return batched_nms(_integers(boxes), _integers(scores), idxs, iou_threshold)


def _integers(values: Tensor) -> Tensor:
    return (values.int_repr() if values.is_quantized else values).to(torch.float64)


# --- registration ---------------------------------------------------------------------------------

register_op(
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    triton="flambeau.vision.ops._nms_triton:nms",
    autocast=torch.float32,
    kernels={"QuantizedCPU": _quantized},
)
register_op(
    "batched_nms(Tensor boxes, Tensor scores, Tensor idxs, float iou_threshold) -> Tensor",
    library=LIBRARY,
    symbol=_native_batched,
    fake=_fake_batched,
    python=_reference_batched,
    triton="flambeau.vision.ops._nms_triton:batched_nms",
    autocast=torch.float32,
    kernels={"QuantizedCPU": _quantized_batched},
)
