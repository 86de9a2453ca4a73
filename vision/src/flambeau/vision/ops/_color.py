"""Colours of uint8 and float32 pictures in one pass: what functionals of transforms do to plain tensors on the CPU.

The native kernel is `native/color.cpp`. The reference is the functional's formula in torch, which also serves where
gradients are wanted, other dtypes and devices, and graphs that are being compiled: compilers fuse it by themselves.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.vision.ops._library import LIBRARY
from flambeau.vision.ops._resize import is_native, is_packed_last

_OP = "_color"
_SUFFIX = {torch.uint8: "u8", torch.float32: "f32"}
_FUNCTIONALS = "flambeau.vision.transforms.v2.functional"
# In the order of `Kind` in native/color.cpp, with what the formula is: a function (image, factor).
_FORMULAS = {
    "brightness": "_color:brightened",
    "contrast": "_color:contrasted",
    "saturation": "_color:saturated",
    "hue": "_color:hue_turned",
    "gray": "_grayscale:grayed",
    "solarize": "_intensity:solarized",
    "posterize": "_intensity:posterized",
    "autocontrast": "_intensity:autocontrasted",
    "equalize": "_intensity:equalized",
    "sharpness": "_blur:sharpened",
}
_KINDS = {name: number for number, name in enumerate(_FORMULAS)}
Kind = Literal[
    "brightness", "contrast", "saturation", "hue", "gray", "solarize", "posterize", "autocontrast", "equalize",
    "sharpness",
]  # fmt: skip


def serves(image: Tensor) -> bool:
    """Whether `recolored` takes a tensor and is faster than the formula."""
    return (
        image.dtype in _SUFFIX
        and image.device.type == "cpu"
        and image.ndim >= 3
        and not torch.compiler.is_compiling()
        and not (image.requires_grad and torch.is_grad_enabled())
        and not torch._C._functorch.is_functorch_wrapped_tensor(image)
        and is_native()
    )


def recolored(kind: Kind, image: Tensor, factor: float = 0.0) -> Tensor:
    """Change the colours of pictures.

    Args:
        kind: what to do.
        image: (..., C, H, W), uint8 or float32. Hue, saturation and gray need three channels, contrast one or three;
            only uint8 can be equalized.
        factor: of brightness, contrast, saturation and sharpness; turns of hue; channels of gray; threshold of
            solarizing; levels of posterizing (floating point).

    Returns:
        Same shape, but for gray, and dtype; channels last where those of `image` are.

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    return torch.ops.flambeau_vision._color(image, _KINDS[kind], factor)  # type: ignore[no-any-return]


def recurved(image: Tensor, table: Tensor) -> Tensor:
    """Replace levels by those of a table.

    Args:
        image: (..., C, H, W), uint8.
        table: (256,), uint8.

    Returns:
        Same shape; channels last where those of `image` are.

    Raises:
        RuntimeError: other dtypes, or another table.
    """
    look_up = torch.ops.flambeau_vision._look_up
    if is_packed_last(image):
        return look_up(image.movedim(-3, -1), table).movedim(-1, -3)  # type: ignore[no-any-return]
    return look_up(image, table)  # type: ignore[no-any-return]


def _check(image: Tensor, kind: int) -> None:
    """The same sentences as `valid` in native/color.cpp."""
    if not 0 <= kind < len(_KINDS):
        raise RuntimeError(f"{_OP}: kind is {kind}, expected 0 to {len(_KINDS) - 1}.")
    if image.dim() < 3:
        raise RuntimeError(f"{_OP}: image has shape {tuple(image.shape)}, expected (..., C, H, W).")
    if image.dtype not in _SUFFIX or (kind == _KINDS["equalize"] and image.dtype != torch.uint8):
        raise RuntimeError(f"{_OP}: image has dtype {image.dtype}, expected torch.uint8 or torch.float32; convert it.")
    coloured = kind in (_KINDS["saturation"], _KINDS["hue"], _KINDS["gray"])
    channels = image.shape[-3]
    if (coloured and channels != 3) or (kind == _KINDS["contrast"] and channels not in (1, 3)):
        raise RuntimeError(f"{_OP}: image has shape {tuple(image.shape)}, expected 3 channels.")


def _fake(image: Tensor, kind: int, factor: float) -> Tensor:
    _check(image, kind)
    channels = int(factor) if kind == _KINDS["gray"] else image.shape[-3]
    sizes = (*image.shape[:-3], channels, *image.shape[-2:])
    if not is_packed_last(image):
        return image.new_empty(sizes)
    turned = image.new_empty((*image.shape[:-3], *image.shape[-2:], channels))
    return turned.movedim(-1, -3)


def _reference(image: Tensor, kind: int, factor: float) -> Tensor:
    _check(image, kind)
    module, name = list(_FORMULAS.values())[kind].split(":")
    result = _fake(image, kind, factor)
    return result.copy_(getattr(import_module(f"{_FUNCTIONALS}.{module}"), name)(image, factor))


def _check_table(image: Tensor, table: Tensor) -> None:
    """The same sentences as `look_up` in native/color.cpp."""
    if image.dtype != torch.uint8 or table.dtype != torch.uint8:
        raise RuntimeError(f"_look_up: image has dtype {image.dtype} and table {table.dtype}, expected torch.uint8.")
    if table.shape != (256,):
        raise RuntimeError(f"_look_up: table has shape {tuple(table.shape)}, expected (256,).")


def _fake_look_up(image: Tensor, table: Tensor) -> Tensor:
    _check_table(image, table)
    return image.new_empty(image.shape)


def _reference_look_up(image: Tensor, table: Tensor) -> Tensor:
    _check_table(image, table)
    return table[image.long()].contiguous()


# --- native kernel through ctypes -----------------------------------------------------------------


class _Arguments(ctypes.Structure):
    """`fb_color` of native/color.cpp."""

    _fields_ = [
        ("image", ctypes.c_void_p),
        ("result", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("images", "channels", "height", "width")),
        ("factor", ctypes.c_double),
        *((name, ctypes.c_int32) for name in ("channels_last", "kind", "nthreads")),
    ]


_functions: dict[torch.dtype, Callable[..., Any]] = {}


def _native(image: Tensor, kind: int, factor: float) -> Tensor:
    _check(image, kind)
    if image.dtype not in _functions:
        name = f"fb_color_{_SUFFIX[image.dtype]}"
        _functions[image.dtype] = LIBRARY.function(name, [ctypes.c_void_p], ctypes.c_int64)
    last = is_packed_last(image)
    source, result = image if last else image.contiguous(), _fake(image, kind, factor)
    given = _Arguments(
        source.data_ptr(), result.data_ptr(), image.shape[:-3].numel(), *image.shape[-3:], factor, last, kind,
        torch.get_num_threads(),
    )  # fmt: skip
    if _functions[image.dtype](ctypes.addressof(given)) != 0:
        raise RuntimeError(f"{_OP}: no memory left.")
    return result


register_op(
    "_color(Tensor image, int kind, float factor) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
)
register_op(
    "_look_up(Tensor image, Tensor table) -> Tensor",
    library=LIBRARY,
    fake=_fake_look_up,
    python=_reference_look_up,
)
