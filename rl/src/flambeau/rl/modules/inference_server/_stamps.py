"""How a policy is to act, written beside each request, as the server's own surroundings do not know it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import InteractionType, set_interaction_type

STAMP = "_interaction_type"
_KINDS = tuple(InteractionType)
NONE = -1
"""The stamp of a request that says nothing."""


def stamped(request: TensorDictBase, kind: InteractionType | None) -> TensorDictBase:
    """A shallow copy of a request that says how the policy is to act."""
    return request.copy().set(STAMP, torch.full(request.batch_size, number_of(kind), dtype=torch.int8))


def number_of(kind: InteractionType | None) -> int:
    """The number by which a way of acting travels."""
    return NONE if kind is None else _KINDS.index(kind)


def kind_of(number: int) -> InteractionType | None:
    """A way of acting by its number."""
    return None if number < 0 else _KINDS[number]


def unstamped(requests: Sequence[TensorDictBase]) -> tuple[list[Any], list[int]]:
    """Shallow copies of requests without their stamps, and these as numbers."""
    numbers = []
    for request in requests:
        stamp = request.get(STAMP, None)
        numbers.append(NONE if stamp is None or not stamp.numel() else int(stamp.flatten()[0]))
    return [request.exclude(STAMP) for request in requests], numbers


@contextmanager
def acting_as(number: int) -> Iterator[None]:
    """In this block, modules act as a stamp says."""
    kind = kind_of(number)
    if kind is None:
        yield
    else:
        with set_interaction_type(kind):
            yield
