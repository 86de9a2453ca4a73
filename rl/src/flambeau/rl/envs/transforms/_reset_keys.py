"""Which masks say that a value begins anew."""

from __future__ import annotations

from typing import Any

from flambeau.rl.envs._keys import RESET, NestedKey, as_tuple, with_last


def outer_reset_keys(env: Any) -> list[NestedKey]:
    """The keys of the masks of an environment's resets, without those at places below others'."""
    return [with_last(keys[0], RESET) for keys in env._outer_ends()]


def mask_key_of(key: NestedKey, known: list[NestedKey], name: str) -> NestedKey:
    """The mask for a value: that at its own place, or the nearest outside it.

    Args:
        key: of the value.
        known: keys of masks.
        name: of the transform, for the error.

    Raises:
        ValueError: there is none.
    """
    if len(known) == 1:
        return known[0]
    place = as_tuple(key)[:-1]
    fitting = [each for each in known if place[: len(as_tuple(each)) - 1] == as_tuple(each)[:-1]]
    if not fitting:
        raise ValueError(
            f"{name} cannot tell which of the masks {known} says where {key!r} begins anew; choose by reset_keys=."
        )
    return max(fitting, key=lambda each: len(as_tuple(each)))
