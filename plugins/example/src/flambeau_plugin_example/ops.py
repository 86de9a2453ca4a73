"""Rotation of points: an operator with a plain reference, a gradient and a native kernel (native/rotate.cpp)."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch
from flambeau.core.native import KernelLibrary, register_op
from torch import Tensor

__all__ = ["rotate"]

LIBRARY = KernelLibrary("flambeau_plugin_example", "_kernels", namespace="flambeau_example")


def rotate(points: Tensor, angle: float) -> Tensor:
    """Turn points round the origin.

    Args:
        points: (..., 2), float32 or float64, x and y.
        angle: in radians, from the x axis towards the y axis.

    Returns:
        Same shape, dtype and device. Differentiable in `points`.

    Raises:
        RuntimeError: another shape or dtype.

    Example:
        >>> rotate(torch.tensor([1.0, 0.0]), math.pi).round()
        tensor([-1., 0.])
    """
    result: Tensor = torch.ops.flambeau_example.rotate(points.contiguous(), angle)
    return result


def _check(points: Tensor) -> None:
    """The same sentences as in native/rotate.cpp."""
    if points.shape[-1:] != (2,):
        raise RuntimeError(f"rotate: points has shape {tuple(points.shape)}, expected (..., 2).")
    if points.dtype not in _SUFFIX:
        raise RuntimeError(
            f"rotate: points has dtype {points.dtype}, expected torch.float32 or torch.float64; convert it."
        )


def _fake(points: Tensor, angle: float) -> Tensor:
    _check(points)
    return torch.empty_like(points, memory_format=torch.contiguous_format)


def reference(points: Tensor, angle: float) -> Tensor:
    """The operator in plain torch: for other devices, and what the native kernel is tested against."""
    _check(points)
    cosine, sine = math.cos(angle), math.sin(angle)
    x, y = points.unbind(-1)
    return torch.stack([cosine * x - sine * y, sine * x + cosine * y], dim=-1)


_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


def _native(points: Tensor, angle: float) -> Tensor:
    """The native kernel through ctypes, where torch's dispatcher cannot call it directly."""
    _check(points)
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    function = LIBRARY.function(
        f"fb_rotate_{_SUFFIX[points.dtype]}", [pointer, size, ctypes.c_double, pointer, ctypes.c_int32], ctypes.c_int32
    )
    points = points.contiguous()
    result = torch.empty_like(points)
    function(points.data_ptr(), points.numel() // 2, angle, result.data_ptr(), torch.get_num_threads())
    return result


def _setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
    ctx.angle = inputs[1]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    # The transpose of a rotation is the rotation back.
    return rotate(grad, -ctx.angle), None


register_op(
    "rotate(Tensor points, float angle) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=reference,
    backward=_backward,
    setup_context=_setup_context,
)
