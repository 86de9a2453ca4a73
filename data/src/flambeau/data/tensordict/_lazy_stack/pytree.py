"""Lazy stacks as pytree nodes: a stack of alike tensordicts as its stacked entries, any other as its tensordicts."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.pytree import Structure, put_together, take_apart
from flambeau.data.tensordict._lazy_stack.combining import alike
from flambeau.data.tensordict._tensorcollection import TensorCollection


def flatten(stack: Any) -> tuple[list[Any], Structure]:
    """Alike tensordicts give their stacked entries, so that `vmap` cuts them where it means to."""
    tds = stack.tensordicts
    if tds and all(alike(tds[0], other) for other in tds[1:]):
        return take_apart(stack, stack.stack_dim)
    return list(tds), Structure((), stack.batch_size, None, None, (), (), None, stack.stack_dim)


def unflatten(values: Any, structure: Structure) -> Any:
    """Undo `flatten`; where dimensions came or went the result is a TensorDict."""
    if not structure.keys and not structure.fixed:
        return classes.LazyStackedTensorDict(*values, stack_dim=structure.stack_dim)
    dense = put_together(values, structure)
    if not all(isinstance(value, (Tensor, TensorCollection)) for value in values):
        return dense  # a tree of something else, which has no dimensions to be cut along
    if len(dense.batch_size) != len(structure.batch_size):
        return dense
    return classes.LazyStackedTensorDict(*dense.unbind(structure.stack_dim), stack_dim=structure.stack_dim)
