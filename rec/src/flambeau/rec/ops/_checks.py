"""What operators say about arguments that do not fit: the sentences of native/indices.h, and of all references."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError

__all__ = ["INDICES", "UnknownFeatureError", "require", "require_indices"]

INDICES = (torch.int32, torch.int64)


class UnknownFeatureError(FlambeauError, IndexError, KeyError, RuntimeError):
    """A feature that there is not; of all the classes that programs written for upstream catch."""

    __str__ = Exception.__str__  # a KeyError puts its message in quotes


def require_indices(op: str, name: str, tensor: Tensor) -> None:
    """One dimension of integers.

    Raises:
        RuntimeError: another shape or dtype.
    """
    if tensor.dim() != 1 or tensor.dtype not in INDICES:
        raise RuntimeError(
            f"{op}: {name} has shape {tuple(tensor.shape)} and dtype {tensor.dtype}, expected (n,) of int32 or int64."
        )


def require(condition: bool | Tensor, message: str) -> None:
    """Refuse what does not fit.

    Raises:
        RuntimeError: the condition, or any of them, is not met.
    """
    met = bool(condition.all()) if isinstance(condition, Tensor) else condition
    if not met:
        raise RuntimeError(message)
