"""Weights and inputs made from names alone: the same values on every machine, for comparison with golden values.

No random generator takes part, so nothing hangs on a library's version or platform::

    fill_(module)                  # parameters and running statistics, by their names
    tensor("x", (1, 3, 64, 64))    # an input in [-1, 1), by name and shape
    digest(output)                 # what a golden file stores of an output
    matches(output, stored)        # the comparison, within tolerances
"""

from __future__ import annotations

import math
import zlib
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)

_MASK = 0xFFFFFFFF


def tensor(name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Values in [-1, 1) that depend on `name` and position alone.

    Args:
        name: any text; another one gives other values.
        shape: of the result.
        dtype: of the result; values are made in float64 and rounded to it.
    """
    return _uniform(name, math.prod(shape)).reshape(shape).to(dtype)


def integers(name: str, shape: tuple[int, ...], high: int) -> Tensor:
    """int64 values in [0, high) that depend on `name` and position alone."""
    values = (_uniform(name, math.prod(shape)) + 1.0) / 2.0 * high
    return values.long().clamp_(0, high - 1).reshape(shape)


@torch.no_grad()
def fill_(module: Module) -> Module:
    """Overwrite every parameter and the running statistics in place, by their names; other buffers stay.

    Matrices and kernels get variance 1/fan_in, one-dimensional `weight`s (of norms) lie near 1, other one-dimensional
    parameters near 0, running means near 0, running variances near 1.

    Returns:
        The module itself.
    """
    for name, parameter in module.named_parameters():
        parameter.copy_(_parameter(name, tuple(parameter.shape)))
    for name, value in module.named_buffers():
        if name.endswith("running_mean"):
            value.copy_(0.05 * tensor(name, tuple(value.shape)))
        elif name.endswith("running_var"):
            value.copy_(1.0 + 0.3 * tensor(name, tuple(value.shape)))
    return module


def digest(value: Any, samples: int = 12, at: list[int] | None = None) -> Any:
    """What is stored of a result: of each tensor its shape, dtype, some values, mean and standard deviation.

    Args:
        value: a tensor, or a dictionary, list or tuple of results; anything else stands for itself.
        samples: how many values of a tensor are kept; their flat positions depend on its number of elements alone.
        at: flat positions to keep instead, for a tensor.
    """
    if isinstance(value, Tensor):
        flat = _flat(value)
        size = flat.numel()
        count = min(samples, size)
        kept = at or sorted({round(i * (size - 1) / max(1, count - 1)) for i in range(count)})
        return {
            "shape": list(value.shape),
            "dtype": str(value.dtype).removeprefix("torch."),
            "at": kept,
            "values": [float(flat[i]) for i in kept],
            "mean": float(flat.mean()) if size else 0.0,
            "std": float(flat.std(unbiased=False)) if size else 0.0,
        }
    if isinstance(value, dict):
        return {str(key): digest(each, samples) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [digest(each, samples) for each in value]
    return value


def matches(value: Any, stored: Any, rtol: float = 1e-4, atol: float = 1e-5) -> str | None:
    """None where `value` agrees with the stored digest, else one line that says where not.

    Args:
        value: what `digest` takes.
        stored: what `digest` gave for the reference.
        rtol: relative to the larger of an expected value and the tensor's scale, |mean| + std.
        atol: in the unit of the values.
    """
    return _differs("value", value, stored, rtol, atol)


def _uniform(name: str, size: int) -> Tensor:
    """float64 values in [-1, 1): an integer hash of name and position."""
    x = torch.arange(size, dtype=torch.int64).add_(zlib.crc32(name.encode())).bitwise_and_(_MASK)
    for multiplier, shift in ((0x7FEB352D, 15), (0x2C1B3C6D, 12)):
        x = (x ^ (x >> 16)).mul_(multiplier).bitwise_and_(_MASK)
        x = x ^ (x >> shift)
    x = (x ^ (x >> 16)).bitwise_and_(_MASK)
    return x.to(torch.float64).div_(2.0**31).sub_(1.0)


def _parameter(name: str, shape: tuple[int, ...]) -> Tensor:
    values = tensor(name, shape)
    if len(shape) >= 2:
        return values * math.sqrt(3.0 / max(1, math.prod(shape[1:])))
    if name.rpartition(".")[2] == "weight":
        return 1.0 + 0.1 * values
    return 0.05 * values


def _flat(value: Tensor) -> Tensor:
    """All elements in float64; of complex ones real and imaginary part after one another."""
    flat = value.detach().as_subclass(Tensor).reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat.resolve_conj()).reshape(-1)
    return flat.to(torch.float64)


def _differs(where: str, value: Any, stored: Any, rtol: float, atol: float) -> str | None:
    if isinstance(value, Tensor):
        return _tensor_differs(where, value, stored, rtol, atol)
    if isinstance(value, dict):
        if not isinstance(stored, dict) or {str(key) for key in value} != set(stored):
            return f"{where}: keys {sorted(map(str, value))}, expected {sorted(stored)}"
        parts = [(f"{where}.{key}", each, stored[str(key)]) for key, each in value.items()]
    elif isinstance(value, (list, tuple)):
        if not isinstance(stored, list) or len(value) != len(stored):
            return f"{where}: {len(value)} items, expected {stored!r:.200}"
        parts = [(f"{where}[{i}]", each, old) for i, (each, old) in enumerate(zip(value, stored, strict=True))]
    elif isinstance(value, float) and isinstance(stored, float):
        return None if _close(value, stored, rtol * abs(stored) + atol) else f"{where}: {value!r}, expected {stored!r}"
    else:
        return None if value == stored else f"{where}: {value!r}, expected {stored!r}"
    return next((fault for part in parts if (fault := _differs(*part, rtol, atol)) is not None), None)


def _tensor_differs(where: str, value: Tensor, stored: Any, rtol: float, atol: float) -> str | None:
    if not isinstance(stored, dict) or "at" not in stored:
        return f"{where}: a tensor, expected {stored!r:.200}"
    for field, mine in (("shape", list(value.shape)), ("dtype", str(value.dtype).removeprefix("torch."))):
        if mine != stored[field]:
            return f"{where}: {field} {mine}, expected {stored[field]}"
    found = digest(value, at=stored["at"])
    scale = abs(stored["mean"]) + stored["std"]
    labels = [*(f"[{i}]" for i in stored["at"]), ".mean", ".std"]
    mine, theirs = ([*each["values"], each["mean"], each["std"]] for each in (found, stored))
    for label, a, b in zip(labels, mine, theirs, strict=True):
        if not _close(a, b, atol + rtol * max(abs(b), scale)):
            return f"{where}{label}: {a!r}, expected {b!r}"
    return None


def _close(value: float, expected: float, tolerance: float) -> bool:
    both_nan = math.isnan(value) and math.isnan(expected)
    return value == expected or both_nan or abs(value - expected) <= tolerance
