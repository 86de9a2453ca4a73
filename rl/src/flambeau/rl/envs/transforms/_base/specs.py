"""From the spec of one value to those of a composite: for transforms whose keys are transformed one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._keys import NestedKey, as_key, as_tuple


def _apply_to_composite(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a method that transforms one spec transform those at `in_keys` of a composite, into `out_keys`."""

    @functools.wraps(function)
    def wrapped(self: Any, spec: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(spec, Composite):
            return function(self, spec, *args, **kwargs)
        out = spec.clone()
        there = set(spec.keys(True))
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            if in_key in there:
                out[out_key] = function(self, spec[in_key].clone(), *args, **kwargs)
        return out

    return wrapped


def _apply_to_composite_inv(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a method that transforms one spec transform those at `in_keys_inv` of a composite, into `out_keys_inv`."""

    @functools.wraps(function)
    def wrapped(self: Any, spec: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(spec, Composite):
            return function(self, spec, *args, **kwargs)
        out = spec.clone()
        there = set(spec.keys(True))
        for in_key, out_key in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            if in_key not in there:
                continue
            new = function(self, spec[in_key].clone(), *args, **kwargs)
            if out_key != in_key:
                del out[in_key]
            out[out_key] = new
        return out

    return wrapped


def set_like(spec: Composite, key: NestedKey, leaf: Any, like: Composite) -> None:
    """Put a spec into a composite; composites that it lies in have the batch size of those in another one.

    Args:
        spec: changed in place.
        key: of the new spec.
        leaf: the new spec.
        like: has composites at the places that the key leads through.
    """
    parts = as_tuple(key)
    for end in range(1, len(parts)):
        place = as_key(parts[:end])
        if place not in spec.keys(True) and place in like.keys(True):
            spec[place] = Composite(shape=like[place].shape, device=spec.device)
    spec[key] = leaf
