"""What samples are made of: tensors that are the same in every process, and the operator that takes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.testing import Sample, fill

__all__ = ["FLOATS", "I32", "WHOLE", "ends", "floats", "ints", "operator"]

I32 = torch.int32
FLOATS = ("float32", "float64")
WHOLE = ("int32", "int64")


def operator(name: str, *args: Any, **promises: Any) -> Sample:
    """A sample of an operator called by its own name; what `promises` says beside `Sample`'s defaults."""
    import flambeau.rec.ops.namespace  # noqa: F401 operators are found by their names

    call = getattr(torch.ops.flambeau_rec, name)
    return Sample(name, call, args, operator=f"flambeau_rec::{name}", **promises)


def ints(values: list[Any], dtype: torch.dtype = torch.int64) -> Tensor:
    """A tensor of integers."""
    return torch.tensor(values, dtype=dtype)


def floats(name: str, *shape: int) -> Tensor:
    """Numbers in [-1, 1), always the same for a name."""
    return fill.tensor(name, shape)


def ends(lengths: list[int]) -> Tensor:
    """Offsets of rows of these lengths."""
    return ints([sum(lengths[:at]) for at in range(len(lengths) + 1)])
