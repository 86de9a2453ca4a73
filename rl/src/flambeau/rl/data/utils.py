"""Stacks of specs that differ, made alike; functions on their way to other processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flambeau.rl._comm.makers import Maker
from flambeau.rl.data.tensor_specs import Composite, Stacked, StackedComposite, TensorSpec

__all__ = ["CloudpickleWrapper", "check_no_exclusive_keys", "consolidate_spec", "contains_lazy_spec"]


def contains_lazy_spec(spec: TensorSpec) -> bool:
    """Whether a spec is a stack of specs that differ, or has such below it.

    Args:
        spec: any spec.
    """
    if isinstance(spec, (Stacked, StackedComposite)):
        return True
    if isinstance(spec, Composite):
        return any(contains_lazy_spec(each) for each in spec.values() if each is not None)
    return False


def check_no_exclusive_keys(spec: TensorSpec, recurse: bool = True) -> bool:
    """Whether all specs of every stack have the same keys.

    Args:
        spec: any spec.
        recurse: look at what is below, too.
    """
    if isinstance(spec, StackedComposite):
        keys = [set(each.keys()) for each in spec._specs]
        if any(each != keys[0] for each in keys):
            return False
        return not recurse or all(check_no_exclusive_keys(each) for each in spec._specs)
    if isinstance(spec, Composite) and recurse:
        return all(check_no_exclusive_keys(each) for each in spec.values() if each is not None)
    return True


def consolidate_spec(
    spec: Composite, recurse_through_entries: bool = True, recurse_through_stack: bool = True
) -> Composite:
    """A spec whose stacks have the same keys everywhere: those that one lacks are there with sizes of 0.

    Args:
        spec: a composite.
        recurse_through_entries: change what is below, too.
        recurse_through_stack: change what is below the specs of a stack, too.
    """
    spec = spec.clone()
    if not isinstance(spec, StackedComposite):
        if recurse_through_entries:
            for key, each in list(spec.items()):
                if isinstance(each, Composite):
                    spec.set(key, consolidate_spec(each, recurse_through_entries, recurse_through_stack))
        return spec
    parts: list[Any] = [each.clone() for each in spec._specs]
    known: dict[Any, Any] = {}
    for part in parts:
        for key, each in part.items():
            known.setdefault(key, (each, part.ndim))
    for part in parts:
        for key, (each, dims) in known.items():
            if key not in set(part.keys()):
                part.set(key, _nothing(each, part.shape, dims))
    if recurse_through_stack:
        parts = [consolidate_spec(part, recurse_through_entries, recurse_through_stack) for part in parts]
    return torch.stack(parts, spec.stack_dim)  # type: ignore[return-value]


def _nothing(spec: Any, batch: torch.Size, dims: int) -> Any:
    """A spec with the same dimensions, whose sizes beyond the batch are 0."""
    if isinstance(spec, Composite):
        inner = spec.shape[dims:]
        made = Composite(shape=[*batch, *inner])
        for key, each in spec.items():
            made.set(key, _nothing(each, made.shape, spec.ndim))
        return made
    sizes = [*batch, *([0] * (len(spec.shape) - dims))]
    # A row of the spec, of which there are none.
    row = spec
    while len(row.shape) > 0 and row.shape[0] != 0 and len(row.shape) > len(spec.shape) - dims:
        row = row[0]
    empty = row[(slice(0, 0),) * len(row.shape)] if len(row.shape) else row
    return empty.expand(sizes)


class _Once(type):
    def __call__(cls: Any, fn: Any, **kwargs: Any) -> Any:
        return fn if isinstance(fn, cls) and not kwargs else type.__call__(cls, fn, **kwargs)


class CloudpickleWrapper(metaclass=_Once):
    """A function that can be sent to other processes, also where it is a lambda.

    Args:
        fn: the function; one that is wrapped is given back as it is.
        kwargs: arguments that it gets with each call.
    """

    def __init__(self, fn: Callable[..., Any], **kwargs: Any) -> None:
        self.fn, self.kwargs = fn, kwargs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns."""
        return self.fn(*args, **(self.kwargs | kwargs))

    def __reduce__(self) -> Any:
        return _unwrapped, (Maker(_pair, {"fn": self.fn, "kwargs": self.kwargs}),)


def _pair(fn: Any, kwargs: Any) -> Any:
    return fn, kwargs


def _unwrapped(maker: Maker) -> CloudpickleWrapper:
    fn, kwargs = maker()
    made: CloudpickleWrapper = CloudpickleWrapper(fn, **kwargs)
    return made
