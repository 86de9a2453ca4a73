"""Resizing of bytes, bilinear or bicubic, and on the way to a model's input what usually comes with it.

The native kernel is `native/resize.cpp`: fixed-point sums, first along rows, then down columns; results are within one
level of Pillow's. The reference here, which also serves other devices, sums floating-point numbers and differs from it
where these are near the middle between two levels.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.vision.ops._library import LIBRARY

_RESIZE, _NORMALIZE = "_resize", "_resize_normalize"

# Asked once: asking takes a lock, which graphs cannot hold.
_NATIVE = LIBRARY.provider != "python"


def is_native() -> bool:
    """Whether there is a kernel, which is faster than torch's own interpolation; the reference is not."""
    return _NATIVE


def resize(image: Tensor, size: tuple[int, int], *, cubic: bool, antialias: bool, flip: bool = False) -> Tensor:
    """Resize pictures.

    Args:
        image: (N, C, H, W), uint8, in any layout; rows, pictures and (channels last) pixels may have gaps.
        size: the new height and width.
        cubic: bicubic, else bilinear.
        antialias: low-pass filter where a picture shrinks.
        flip: also exchange left and right.

    Returns:
        (N, C, *size), uint8, channels last where those of `image` are neighbours.

    Raises:
        RuntimeError: no such picture, an empty one, or a size below (1, 1).
    """
    return torch.ops.flambeau_vision._resize(image, *size, cubic, antialias, flip)  # type: ignore[no-any-return]


def resize_normalize(
    image: Tensor,
    size: tuple[int, int],
    part: tuple[int, int, int, int],
    mean: Tensor,
    std: Tensor,
    *,
    cubic: bool,
    antialias: bool,
    flip: bool = False,
) -> Tensor:
    """Resize pictures, cut out a part, and make floating-point numbers of its levels.

    Args:
        image: as for `resize`.
        size: the new height and width of the whole.
        part: top, left, height and width of what is wanted of it.
        mean: (C,), float32, of each channel.
        std: likewise. A level becomes (level / 255 - mean) / std.
        cubic: as for `resize`.
        antialias: as for `resize`.
        flip: also exchange left and right of the part.

    Returns:
        (N, C, part height, part width), float32, channels first.

    Raises:
        RuntimeError: as for `resize`; or the part is not inside of the size.
    """
    call = torch.ops.flambeau_vision._resize_normalize
    return call(image, *size, *part, cubic, antialias, flip, mean, std)  # type: ignore[no-any-return]


def scale_levels(image: Tensor) -> Tensor:
    """Levels of uint8, in any shape, as float32 in [0, 1]; channels last where those of `image` are.

    Raises:
        RuntimeError: another dtype.
    """
    return torch.ops.flambeau_vision._scale_levels(image)  # type: ignore[no-any-return]


# --- shape-only twins -----------------------------------------------------------------------------


def _check(op: str, image: Tensor, height: int, width: int) -> None:
    """The same sentences as `valid` in native/resize.cpp."""
    if image.dim() != 4:
        raise RuntimeError(f"{op}: image has shape {tuple(image.shape)}, expected (N, C, H, W).")
    if image.dtype != torch.uint8:
        raise RuntimeError(f"{op}: image has dtype {image.dtype}, expected torch.uint8; convert it.")
    if height < 1 or width < 1:
        raise RuntimeError(f"{op}: the new size is ({height}, {width}), expected at least (1, 1).")
    if (image.shape[2] == 0 or image.shape[3] == 0) and image.shape[0] * image.shape[1] != 0:
        raise RuntimeError(f"{op}: image has shape {tuple(image.shape)}, expected pictures that are not empty.")


def _check_part(image: Tensor, size: tuple[int, int], part: tuple[int, ...], mean: Tensor, std: Tensor) -> None:
    """The same sentences as `resize_normalize` in native/resize.cpp."""
    top, left, height, width = part
    if min(top, left) < 0 or min(height, width) < 1 or top > size[0] - height or left > size[1] - width:
        raise RuntimeError(
            f"{_NORMALIZE}: the part ({top}, {left}) + ({height}, {width}) is not inside of the new size {size}."
        )
    if any(each.shape != image.shape[1:2] or each.dtype != torch.float32 for each in (mean, std)):
        raise RuntimeError(
            f"{_NORMALIZE}: mean and std have to be float32 of shape ({image.shape[1]},), one for each channel."
        )


def _is_direct(image: Tensor) -> bool:
    return image.stride(3) == 1 or (image.stride(1) == 1 and image.stride(3) >= image.shape[1])


def _empty(image: Tensor, height: int, width: int) -> Tensor:
    last = image.shape[1] > 1 and image.stride(3) != 1 and _is_direct(image)
    layout = torch.channels_last if last else torch.contiguous_format
    return image.new_empty((*image.shape[:2], height, width)).contiguous(memory_format=layout)


def _fake(image: Tensor, height: int, width: int, cubic: bool, antialias: bool, flip: bool) -> Tensor:
    _check(_RESIZE, image, height, width)
    return _empty(image, height, width)


def _fake_normalize(
    image: Tensor, height: int, width: int, top: int, left: int, out_height: int, out_width: int,
    cubic: bool, antialias: bool, flip: bool, mean: Tensor, std: Tensor,
) -> Tensor:  # fmt: skip
    _check(_NORMALIZE, image, height, width)
    _check_part(image, (height, width), (top, left, out_height, out_width), mean, std)
    return image.new_empty((*image.shape[:2], out_height, out_width), dtype=torch.float32)


def _fake_scale(image: Tensor) -> Tensor:
    if image.dtype != torch.uint8:
        raise RuntimeError(f"_scale_levels: image has dtype {image.dtype}, expected torch.uint8; convert it.")
    if not is_packed_last(image):
        return image.new_empty(image.shape, dtype=torch.float32)
    channels, height, width = image.shape[-3:]
    return image.new_empty((*image.shape[:-3], height, width, channels), dtype=torch.float32).movedim(-1, -3)


def is_packed_last(image: Tensor) -> bool:
    """Whether [C, H, W] or [N, C, H, W] has channels last, without gaps; as `is_packed_last` in native/resize.cpp."""
    if image.dim() not in (3, 4) or image.is_contiguous():
        return False
    channels, height, width = image.shape[-3:]
    strides = image.stride()
    packed = strides[-3:] == (1, channels * width, channels)
    return packed and (image.dim() == 3 or strides[0] == channels * height * width)


# --- reference ------------------------------------------------------------------------------------


def _filter(before: int, after: int, cubic: bool, antialias: bool, device: torch.device) -> Tensor:
    """(after, before): the weight of each old place in each new one."""
    scale = before / after
    wide = max(scale, 1.0) if antialias else 1.0
    center = (torch.arange(after, dtype=torch.float64, device=device)[:, None] + 0.5) * scale
    if antialias or not cubic:
        places = torch.arange(before, dtype=torch.float64, device=device) + 0.5
        distance = ((places - center) / wide).abs()
        weights = _keys(distance, -0.5) if cubic else (1 - distance).clamp(min=0)
        # The filter ends where Pillow's does, whose first and last place are whole numbers.
        reach = (2 if cubic else 1) * wide
        first, end = (center - reach + 0.5).floor(), (center + reach + 0.5).floor()
        weights = torch.where((places > first) & (places < end), weights, 0)
    else:  # outside of the picture its border goes on
        taps = (center - 0.5).floor() + torch.arange(-1, 3, device=device)
        weights = torch.zeros(after, before, dtype=torch.float64, device=device)
        weights.scatter_add_(1, taps.long().clamp(0, before - 1), _keys((taps + 0.5 - center).abs(), -0.75))
    return (weights / weights.sum(1, keepdim=True)).float()


def _keys(x: Tensor, a: float) -> Tensor:
    """The cubic of Keys 1981 at distances x >= 0."""
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x < 1, near, torch.where(x < 2, far, 0))


def resize_by_products(image: Tensor, size: tuple[int, int], *, cubic: bool) -> Tensor:
    """Resize (..., H, W), floating point, with a low-pass filter, as two products of matrices.

    That takes more arithmetic than a kernel would, and has no limit of ratios: torch's for CUDA refuses to shrink
    pictures much, as its filters do not fit into shared memory.
    """
    columns = _filter(image.shape[-1], size[1], cubic, True, image.device).to(image.dtype)
    rows = _filter(image.shape[-2], size[0], cubic, True, image.device).to(image.dtype)
    return rows @ (image @ columns.T)


def _resized(image: Tensor, height: int, width: int, cubic: bool, antialias: bool) -> Tensor:
    columns = _filter(image.shape[3], width, cubic, antialias, image.device)
    rows = _filter(image.shape[2], height, cubic, antialias, image.device)
    lines = (image.float() @ columns.T).clamp_(0, 255)
    return (rows @ lines).round_().clamp_(0, 255)


def _reference(image: Tensor, height: int, width: int, cubic: bool, antialias: bool, flip: bool) -> Tensor:
    _check(_RESIZE, image, height, width)
    out = _empty(image, height, width)
    if out.numel():
        levels = _resized(image, height, width, cubic, antialias)
        out.copy_(levels.flip(3) if flip else levels)
    return out


def _reference_normalize(
    image: Tensor, height: int, width: int, top: int, left: int, out_height: int, out_width: int,
    cubic: bool, antialias: bool, flip: bool, mean: Tensor, std: Tensor,
) -> Tensor:  # fmt: skip
    _check(_NORMALIZE, image, height, width)
    _check_part(image, (height, width), (top, left, out_height, out_width), mean, std)
    if not image.numel():
        return image.new_empty((*image.shape[:2], out_height, out_width), dtype=torch.float32)
    levels = _resized(image, height, width, cubic, antialias)
    levels = levels.narrow(2, top, out_height).narrow(3, left, out_width)
    levels = levels.flip(3) if flip else levels
    return levels.div_(255).sub_(mean[:, None, None]).div_(std[:, None, None]).contiguous()


def _reference_scale(image: Tensor) -> Tensor:
    return _fake_scale(image).copy_(image).div_(255)


# --- native kernel through ctypes -----------------------------------------------------------------


class _Arguments(ctypes.Structure):
    """`fb_resize` of native/resize.cpp."""

    _fields_ = [
        ("source", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("images", "channels", "height", "width")),
        *((name, ctypes.c_int64) for name in ("image_stride", "channel_stride", "row_stride", "pixel_stride")),
        *((name, ctypes.c_int64) for name in ("new_height", "new_width", "top", "left", "out_height", "out_width")),
        *((name, ctypes.c_void_p) for name in ("bytes", "numbers", "mean", "std")),
        *((name, ctypes.c_int32) for name in ("cubic", "antialias", "flip", "nthreads", "portable")),
    ]


_function: list[Callable[..., Any]] = []


def _call(op: str, image: Tensor, size: tuple[int, int], part: tuple[int, int, int, int], out: Tensor,
          flags: tuple[bool, bool, bool], mean: Tensor | None = None, std: Tensor | None = None,
          portable: bool = False) -> Tensor:  # fmt: skip
    if not _function:
        _function.append(LIBRARY.function("fb_resize_u8", [ctypes.c_void_p], ctypes.c_int64))
    strides = image.stride() if _is_direct(image) else None
    source = image if strides else image.contiguous()
    height, width = image.shape[2:]
    strides = strides or (image.shape[1] * height * width, height * width, width, 1)
    places = [None, out.data_ptr()] if mean is not None else [out.data_ptr(), None]
    channels = [None if each is None else each.contiguous() for each in (mean, std)]
    arguments = _Arguments(
        source.data_ptr(), *image.shape, *strides, *size, *part, *places,
        *(None if each is None else each.data_ptr() for each in channels), *flags, torch.get_num_threads(), portable,
    )  # fmt: skip
    if _function[0](ctypes.addressof(arguments)) != 0:
        raise RuntimeError(f"{op}: no memory left.")
    return out


def _native(image: Tensor, height: int, width: int, cubic: bool, antialias: bool, flip: bool) -> Tensor:
    _check(_RESIZE, image, height, width)
    out = _empty(image, height, width)
    return _call(_RESIZE, image, (height, width), (0, 0, height, width), out, (cubic, antialias, flip))


def _native_normalize(
    image: Tensor, height: int, width: int, top: int, left: int, out_height: int, out_width: int,
    cubic: bool, antialias: bool, flip: bool, mean: Tensor, std: Tensor,
) -> Tensor:  # fmt: skip
    _check(_NORMALIZE, image, height, width)
    size, part = (height, width), (top, left, out_height, out_width)
    _check_part(image, size, part, mean, std)
    out = image.new_empty((*image.shape[:2], out_height, out_width), dtype=torch.float32)
    return _call(_NORMALIZE, image, size, part, out, (cubic, antialias, flip), mean, std)


# --- registration ---------------------------------------------------------------------------------

register_op(
    "_resize(Tensor image, SymInt height, SymInt width, bool cubic, bool antialias, bool flip) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
)
register_op(
    "_resize_normalize(Tensor image, SymInt height, SymInt width, SymInt top, SymInt left, SymInt out_height, "
    "SymInt out_width, bool cubic, bool antialias, bool flip, Tensor mean, Tensor std) -> Tensor",
    library=LIBRARY,
    symbol=_native_normalize,
    fake=_fake_normalize,
    python=_reference_normalize,
)
register_op(
    "_scale_levels(Tensor image) -> Tensor",
    library=LIBRARY,
    fake=_fake_scale,
    python=_reference_scale,
)
