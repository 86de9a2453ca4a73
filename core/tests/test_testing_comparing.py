"""How the kit compares nested values: by what a person would call equal, with a line that says what differs."""

from __future__ import annotations

import dataclasses
import enum
from collections import namedtuple
from typing import Any

import pytest
import torch

from flambeau.core.testing.comparing import difference, mapped, tensors

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Record:
    value: Any
    name: str = "r"


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


ONE, TWO = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    ("actual", "expected", "finding"),
    [
        (ONE, ONE.clone(), None),
        (TWO, ONE, "result[1] is 2.0, expected nan (1 values differ)"),
        (TWO, TWO[:1], "shape (2,), expected (1,)"),
        (TWO, TWO.double(), "dtype torch.float32, expected torch.float64"),
        (TWO, [1.0, 2.0], "is a Tensor, expected a list"),
        ({"a": TWO}, {"a": TWO}, None),
        ({"a": TWO}, {"b": TWO}, "keys ['a'], expected ['b']"),
        ([1, (2, TWO)], [1, (2, ONE)], "result[1][1][1]"),
        ((1, 2), (1,), "2 parts, expected 1"),
        (float("nan"), float("nan"), None),
        (1.0, 1.5, "result is 1.0, expected 1.5"),
        ("a", "b", "'a', expected 'b'"),
        (True, 1, "is a bool, expected a int"),
        (Record(TWO), Record(TWO.clone()), None),
        (Record(TWO), Record(ONE), "result['value'][1]"),
        (Plain([1]), Plain([1]), None),
        (Plain([1]), Plain([2]), "result['value'][0]"),
    ],
)
def test_values_agree_or_the_first_difference_is_named(actual: Any, expected: Any, finding: str | None) -> None:
    found = difference(actual, expected)

    assert (found is None) if finding is None else (finding in str(found))


def test_tolerances_apply_to_tensors_and_floats() -> None:
    assert difference([TWO + 1e-4, 1.0001], [TWO, 1.0], atol=1e-3) is None
    assert difference([TWO + 1e-2, 1.0], [TWO, 1.0], atol=1e-3) is not None


def test_pictures_and_arrays_are_compared_by_their_elements() -> None:
    numpy = pytest.importorskip("numpy")
    image = pytest.importorskip("PIL.Image")

    assert difference(numpy.arange(3), numpy.arange(3)) is None
    assert "[1]" in str(difference(numpy.array([1, 2]), numpy.array([1, 3])))
    assert difference(image.new("RGB", (2, 2)), image.new("RGB", (2, 2))) is None
    assert "expected 9" in str(difference(image.new("L", (1, 1)), image.new("L", (1, 1), 9)))
    assert difference(numpy.array(["a"]), numpy.array(["b"])) == "result differs"


def test_tensors_are_found_and_mapped_in_every_nesting() -> None:
    nested = {"a": [TWO, (ONE, "x")], "b": Pair(TWO, 3), "c": Record(ONE)}

    assert len(list(tensors(nested))) == 4
    doubled = mapped(lambda value: value.double(), nested)
    assert {value.dtype for value in tensors(doubled)} == {torch.float64}
    assert type(doubled["b"]) is Pair
    assert doubled["c"].name == "r"
    assert doubled["a"][1][1] == "x"


def test_members_of_enumerations_are_compared_as_they_are() -> None:
    assert difference({"c": Colour.RED}, {"c": Colour.RED}) is None
    assert difference(Colour.RED, Colour.BLUE) == "result is <Colour.RED: 1>, expected <Colour.BLUE: 2>"
