"""Lazy stacks as pytree nodes: the tensordicts are the children."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch.utils import _pytree as pytree

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._tensorcollection import TensorCollection


class Stacking(NamedTuple):
    """What a lazy stack is besides its tensordicts."""

    stack_dim: int
    stack_dim_name: str | None


def flatten(stack: Any) -> tuple[list[Any], Stacking]:
    """The tensordicts, and how they are stacked."""
    return list(stack.tensordicts), Stacking(stack.stack_dim, stack._stack_dim_name)


def flatten_with_keys(stack: Any) -> tuple[list[tuple[Any, Any]], Stacking]:
    """The same, each tensordict with its position."""
    tds, stacking = flatten(stack)
    return [(pytree.SequenceKey(position), td) for position, td in enumerate(tds)], stacking


def unflatten(tensordicts: Any, stacking: Stacking) -> Any:
    """Undo `flatten`; where the tensordicts have lost dimensions, along the last that there can be."""
    where = min([stacking.stack_dim, *[len(td.batch_size) for td in tensordicts if isinstance(td, TensorCollection)]])
    return classes.LazyStackedTensorDict(*tensordicts, stack_dim=where, stack_dim_name=stacking.stack_dim_name)
