"""What a function of values makes of their spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Bounded, Unbounded


def mapped(spec: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """The spec of a function's values, for a function that is monotonic in every entry.

    Args:
        spec: of its argument; bounds become the values at the bounds.
        function: takes tensors of the spec's shape and dtype.
    """
    if isinstance(spec, Bounded):
        low, high = function(spec.space.low), function(spec.space.high)
        return Bounded(low=low, high=high, shape=low.shape, dtype=low.dtype, device=spec.device)
    value = function(torch.zeros(spec.shape, dtype=spec.dtype, device=spec.device))
    return Unbounded(value.shape, dtype=value.dtype, device=spec.device)


def unbounded(spec: Any) -> Any:
    """The spec of floating-point values of any size."""
    dtype = spec.dtype if spec.dtype.is_floating_point else torch.get_default_dtype()
    return Unbounded(spec.shape, dtype=dtype, device=spec.device)
