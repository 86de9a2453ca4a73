"""What the poolings of regions share: how regions are given, their checks, and how ctypes calls a native kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.vision.ops._library import LIBRARY

COMPUTE_DTYPE = {
    torch.float32: torch.float32,
    torch.float64: torch.float64,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
}
_SUFFIX = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16"}


def pair(op: str, name: str, value: Any) -> tuple[int, int]:
    """(height, width) from one number or two."""
    if isinstance(value, Sequence) and len(value) in (1, 2):
        return value[0], value[-1]
    if isinstance(value, Sequence):
        raise ValueError(f"{op}: {name} is {value!r}, expected one number or (height, width).")
    return value, value


def rois_of(op: str, boxes: Tensor | Sequence[Tensor]) -> Tensor:
    """Regions as rows (image, x1, y1, x2, y2), from such rows or from the boxes of each image."""
    if isinstance(boxes, Tensor):
        if boxes.dim() != 2 or boxes.shape[1] != 5:
            raise ValueError(
                f"{op}: boxes has shape {tuple(boxes.shape)}, expected (K, 5): image, x1, y1, x2, y2; or give a list "
                "with a tensor (L, 4) for each image."
            )
        return boxes
    if not isinstance(boxes, (list, tuple)) or not all(isinstance(rows, Tensor) for rows in boxes):
        raise TypeError(
            f"{op}: boxes is {boxes!r:.100}, expected a tensor (K, 5), or a list with a tensor (L, 4) for each image."
        )
    for index, rows in enumerate(boxes):
        if rows.dim() != 2 or rows.shape[1] != 4:
            raise ValueError(
                f"{op}: boxes[{index}] has shape {tuple(rows.shape)}, expected (L, 4): corners x1, y1, x2, y2."
            )
    if not boxes:
        raise ValueError(f"{op}: boxes is an empty list, expected a tensor (L, 4) for each image; L may be 0.")
    return torch.cat([torch.cat([torch.full_like(rows[:, :1], i), rows], 1) for i, rows in enumerate(boxes)])


def check(op: str, name: str, maps: Tensor, rois: Tensor, bins: tuple[int, int]) -> None:
    """The same sentences as `valid_regions` in native/regions.h."""
    if maps.dim() != 4:
        raise RuntimeError(f"{op}: {name} has shape {tuple(maps.shape)}, expected (N, C, H, W).")
    if maps.dtype not in COMPUTE_DTYPE:
        raise RuntimeError(
            f"{op}: {name} has dtype {maps.dtype}, expected float32, float64, float16 or bfloat16; convert it."
        )
    if rois.dim() != 2 or rois.shape[1] != 5:
        raise RuntimeError(f"{op}: boxes has shape {tuple(rois.shape)}, expected (K, 5): image, x1, y1, x2, y2.")
    if rois.dtype != maps.dtype:
        raise RuntimeError(
            f"{op}: boxes has dtype {rois.dtype}, expected that of {name}, {maps.dtype}; convert one of them."
        )
    if rois.device != maps.device:
        raise RuntimeError(f"{op}: boxes is on {rois.device}, {name} on {maps.device}; move one of them.")
    if bins[0] < 1 or bins[1] < 1:
        raise RuntimeError(f"{op}: output_size is ({bins[0]}, {bins[1]}), expected at least (1, 1).")


def split(maps: Tensor, rows: int) -> tuple[Tensor, ...]:
    """Views of so many rows each, the last perhaps of fewer."""
    return torch.split(maps, rows)


def check_grad(op: str, grad: Tensor, sizes: tuple[int, int, int, int]) -> None:
    """The same sentence as `valid_grad` in native/regions.h."""
    if any(given != wanted for given, wanted in zip(grad.shape, sizes, strict=True)):
        raise RuntimeError(f"{op}: grad has shape {tuple(grad.shape)}, expected {sizes}.")


def check_second(op: str, grad: Tensor, second: Tensor) -> None:
    """The same sentence as `pooling_backward` in native/pooling.h."""
    alike = second.dim() == 4 and all(a == b for a, b in zip(second.shape, grad.shape, strict=True))
    if not alike or second.dtype != torch.int32:
        raise RuntimeError(
            f"{op}: the second result of the forward pass has shape {tuple(second.shape)} and dtype {second.dtype}, "
            f"expected {tuple(grad.shape)} and torch.int32."
        )


def check_images(op: str, rois: Tensor, images: int) -> None:
    """Refuse regions of images that are not there; on an accelerator that would wait for it, and is not done."""
    if rois.device.type != "cpu":
        return
    there = (rois[:, 0] > -1) & (rois[:, 0] < images)
    if not there.all():
        row = int((~there).nonzero()[0])
        raise RuntimeError(f"{op}: row {row} of boxes names an image that is not there; input has {images}.")


def is_channels_last(maps: Tensor) -> bool:
    """Whether pooled maps come in channels-last layout: theirs is that and no other."""
    return maps.is_contiguous(memory_format=torch.channels_last) and not maps.is_contiguous()


def empty_maps(like: Tensor, sizes: Sequence[int], *, dtype: torch.dtype | None = None) -> Tensor:
    """New maps in the layout of others."""
    layout = torch.channels_last if is_channels_last(like) else torch.contiguous_format
    return torch.empty(sizes, dtype=dtype or like.dtype, device=like.device, memory_format=layout)


def as_layout_of(maps: Tensor, like: Tensor) -> Tensor:
    """The same values, contiguous in the layout of others."""
    return in_layout_of(maps.to(like.dtype), like)


def in_layout_of(maps: Tensor, like: Tensor) -> Tensor:
    """The same values in their own dtype, contiguous in the layout of others."""
    return maps.contiguous(memory_format=torch.channels_last if is_channels_last(like) else torch.contiguous_format)


def no_second_derivative(op: str) -> Callable[..., Any]:
    """The gradient formula of an operator's gradient."""

    def refuse(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"{op}: the second derivative is not defined; differentiate once, or detach what torch.autograd.grad gave."
        )

    return refuse


# --- native kernels through ctypes ----------------------------------------------------------------


class Regions(ctypes.Structure):
    """`fb_regions` of native/regions.h."""

    _fields_ = [
        ("rois", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("count", "images", "channels", "height", "width")),
        *((name, ctypes.c_int64) for name in ("bins_high", "bins_wide", "sampling_ratio")),
        ("scale", ctypes.c_double),
        *((name, ctypes.c_int32) for name in ("aligned", "channels_last", "pooled_last", "nthreads")),
    ]


_functions: dict[tuple[str, torch.dtype], Callable[..., Any]] = {}


def call_native(
    op: str,
    kernel: str,
    rois: Tensor,
    tensors: Sequence[Tensor],
    *,
    sizes: Sequence[int],
    bins: tuple[int, int],
    scale: float,
    channels_last: bool,
    pooled_last: bool,
    sampling_ratio: int = 0,
    aligned: bool = True,
) -> None:
    """Run `fb_<kernel>_<dtype>(regions, *tensors)`; `sizes` are those of the maps. Tensors have no gaps."""
    dtype = rois.dtype
    if (kernel, dtype) not in _functions:
        pointers = [ctypes.c_void_p] * (1 + len(tensors))
        _functions[kernel, dtype] = LIBRARY.function(f"fb_{kernel}_{_SUFFIX[dtype]}", pointers, ctypes.c_int64)
    rois = rois.contiguous()
    regions = Regions(
        rois.data_ptr(),
        len(rois),
        *sizes,
        *bins,
        sampling_ratio,
        scale,
        aligned,
        channels_last,
        pooled_last,
        torch.get_num_threads(),
    )
    status = _functions[kernel, dtype](ctypes.addressof(regions), *(tensor.data_ptr() for tensor in tensors))
    if status == -1:
        raise RuntimeError(f"{op}: no memory left for {len(rois)} boxes.")
    if status > 0:
        raise RuntimeError(f"{op}: row {status - 1} of boxes names an image that is not there; input has {sizes[0]}.")
