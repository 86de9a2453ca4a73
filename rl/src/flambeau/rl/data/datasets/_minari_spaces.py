"""Spaces as Minari describes them in JSON, as specs."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl.data.tensor_specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    NonTensor,
    TensorSpec,
    Unbounded,
)

__all__ = ["as_spec"]


def as_spec(space: dict[str, Any]) -> TensorSpec | None:
    """The spec of a space; None for a kind of space that has none."""
    kind = space.get("type")
    if kind == "Dict":
        return Composite({name: as_spec(each) for name, each in space["subspaces"].items()})
    if kind == "Tuple":
        return Composite({f"_index_{at}": as_spec(each) for at, each in enumerate(space["subspaces"])})
    if kind == "Box":
        dtype = _dtype(space["dtype"])
        low, high = (torch.tensor(space[name], dtype=dtype).reshape(space["shape"]) for name in ("low", "high"))
        if dtype.is_floating_point and low.isinf().all() and high.isinf().all():
            return Unbounded(shape=space["shape"], dtype=dtype)
        return Bounded(low=low, high=high, shape=torch.Size(space["shape"]), dtype=dtype)
    if kind == "Discrete":
        return Categorical(n=space["n"], dtype=torch.int64)
    if kind == "MultiDiscrete":
        return MultiCategorical(nvec=torch.tensor(space["nvec"]), dtype=_dtype(space.get("dtype", "int64")))
    if kind == "MultiBinary":
        shape = [space["n"]] if isinstance(space["n"], int) else list(space["n"])
        return Binary(shape[-1], shape=torch.Size(shape))
    if kind == "Text":
        return NonTensor(shape=())
    return None


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name!r} is no dtype of torch.")
    return found
