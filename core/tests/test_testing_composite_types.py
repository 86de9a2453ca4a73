"""The kit's checks of types that are several tensors together: what passes, and that each fault is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flambeau.core.registry import TENSOR_TYPES
from flambeau.core.testing import Result, run
from flambeau.core.testing.tensor_types import bind_tensor_type


class Pair:
    """Two tensors."""

    def __init__(self, one: Tensor, other: Tensor) -> None:
        self.one, self.other = one, other

    def to(self, device: torch.device) -> Pair:
        return type(self)(self.one.to(device), self.other.to(device))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({tuple(self.one.shape)}, {tuple(self.other.shape)})"


class Deaf(Pair):
    """Stays where it is."""

    def to(self, device: torch.device) -> Pair:
        return type(self)(self.one.to(device), self.other)


class Sharing(Pair):
    """Copies share memory."""

    def __deepcopy__(self, memo: Any) -> Pair:
        return type(self)(self.one, self.other.clone())


class Swapped(Pair):
    """Comes back from a tree the other way round."""


class Talkative(Pair):
    """Shows its elements."""

    def __repr__(self) -> str:
        return f"Talkative(\n{self.one}\n{self.other})"


class Shapeless(Pair):
    """pytree knows nothing of it."""


def _node(cls: type[Pair], order: int = 1) -> None:
    pytree.register_pytree_node(
        cls,
        lambda pair: ([pair.one, pair.other], None),
        lambda parts, context: cls(*list(parts)[::order]),
        serialized_type_name=f"{__name__}.{cls.__name__}",
        flatten_with_keys_fn=lambda pair: (
            [(pytree.GetAttrKey("one"), pair.one), (pytree.GetAttrKey("other"), pair.other)],
            None,
        ),
    )


for _class in (Pair, Deaf, Sharing, Talkative):
    _node(_class)
_node(Swapped, order=-1)
torch.serialization.add_safe_globals([Pair, Deaf, Sharing, Swapped, Talkative])


def results(cls: type, *checks: str, samples: Any = None) -> dict[str, Result]:
    name = TENSOR_TYPES.register("kit-pair", cls, replace=True).id
    made = [cls(torch.tensor([1.0, 2.0]), torch.tensor([3]))] if samples is None else samples
    bound = bind_tensor_type(name, samples=SimpleNamespace(tensor_samples=lambda short: made))
    return {result.check: result for result in run(one for one in bound if not checks or one.check in checks)}


def test_a_sound_type_passes_every_check() -> None:
    assert {check: str(one) for check, one in results(Pair).items() if one.status != "passed"} == {}


@pytest.mark.parametrize(
    ("cls", "check", "finding"),
    [
        (Deaf, "to", "leaves 1 of its tensors on cpu"),
        (Sharing, "deepcopy", "shares memory"),
        (Swapped, "pytree", "changes elements"),
        (Talkative, "repr", "expected one short line"),
        (Shapeless, "samples", "neither a TypedTensor nor a node of pytree"),
    ],
)
def test_a_fault_is_found(cls: type, check: str, finding: str) -> None:
    result = results(cls, check)[check]
    assert result.status == "failed"
    assert finding in result.message


@pytest.mark.parametrize(("samples", "finding"), [([], "lists nothing"), ([1], "lists a int")])
def test_missing_or_wrong_samples_are_found(samples: list[Any], finding: str) -> None:
    assert finding in results(Pair, "samples", samples=samples)["samples"].message
