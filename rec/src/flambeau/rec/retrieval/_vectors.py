"""Vectors in and out of an index: tensors, or NumPy's arrays, which get arrays back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError

__all__ = ["METRICS", "check_k", "check_metric", "like", "vectors"]

METRICS = ("l2", "inner_product")


def vectors(name: str, given: Any, dim: int, device: torch.device) -> Tensor:
    """Given vectors as a tensor (n, dim) of float32.

    Raises:
        OptionError: they have another shape, are no floating-point numbers, or not all finite.
    """
    found = torch.as_tensor(given, device=device)
    if found.dim() != 2 or found.shape[1] != dim:
        raise OptionError(f"{name} has shape {tuple(found.shape)}, expected (n, {dim}).")
    if not found.is_floating_point():
        raise OptionError(f"{name} has dtype {found.dtype}, expected floating-point numbers; convert it by .float().")
    found = found.detach().to(torch.float32).contiguous()
    if not bool(found.isfinite().all()):
        raise OptionError(f"{name} has values that are infinite or no number; leave those vectors out.")
    return found


def like(given: Any, *results: Tensor) -> tuple[Any, ...]:
    """Results as tensors where tensors were given, else as NumPy's arrays."""
    return results if isinstance(given, Tensor) else tuple(one.cpu().numpy() for one in results)


def check_k(k: int) -> None:
    """Refuse a number of neighbours below one."""
    if k < 1:
        raise OptionError(f"k is {k}, expected at least 1.")


def check_metric(metric: str) -> None:
    """Refuse a metric that there is not."""
    if metric not in METRICS:
        raise OptionError(f"metric is {metric!r}, expected one of {', '.join(METRICS)}.")
