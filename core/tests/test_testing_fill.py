"""Values made from names: the same everywhere, and compared with stored digests within tolerances."""

from __future__ import annotations

import math

import pytest
import torch

from flambeau.core.testing import fill


def test_values_depend_on_name_and_position_alone() -> None:
    assert fill.tensor("x", (3,)).tolist() == pytest.approx([0.15404235, -0.14398353, -0.90221852], abs=1e-7)
    assert torch.equal(fill.tensor("x", (2, 3)).reshape(-1)[:3], fill.tensor("x", (3,)))
    assert not torch.equal(fill.tensor("y", (3,)), fill.tensor("x", (3,)))
    values = fill.tensor("x", (10_000,), torch.float64)
    assert -1 <= values.min() < -0.99 < 0.99 < values.max() < 1


def test_integers_lie_below_their_bound_and_reach_every_value() -> None:
    values = fill.integers("i", (50, 20), 7)
    assert (values.dtype, values.shape) == (torch.int64, (50, 20))
    assert values.unique().tolist() == list(range(7))


def test_a_module_is_filled_by_its_names_whatever_it_held() -> None:
    def network() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.BatchNorm1d(8))

    first, second = fill.fill_(network()), fill.fill_(network())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert (first[1].weight - 1).abs().max() <= 0.1
    assert (first[1].running_mean.abs().max(), first[1].running_var.min()) <= (0.05, 1.3)
    assert first[1].running_var.min() >= 0.7


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(40, 3),
        torch.randn(5),
        torch.empty(0, 2),
        torch.tensor([1.0, math.nan]),
        torch.randn(6, 2, dtype=torch.complex64),
        {"a": [torch.arange(4), 0.5], 3: ("text", None)},
    ],
)
def test_a_value_matches_its_own_digest(value: object) -> None:
    assert fill.matches(value, fill.digest(value)) is None


@pytest.mark.parametrize(
    ("value", "stored", "fault"),
    [
        (torch.ones(3), torch.ones(4), r"value: shape \[3\], expected \[4\]"),
        (torch.ones(3), torch.ones(3, dtype=torch.int64), "value: dtype float32, expected int64"),
        (torch.ones(3), torch.tensor([1.0, 1.0, 1.1]), r"value\[2\]: 1.0"),
        (torch.ones(3), 1.0, "value: a tensor, expected 1.0"),
        ([1, 2], [1], r"value: 2 items, expected \[1\]"),
        ({"a": 1}, {"b": 1}, r"value: keys \['a'\], expected \['b'\]"),
        ({"a": [0.5]}, {"a": [0.6]}, r"value\.a\[0\]: 0.5, expected 0.6"),
        ("x", "y", "value: 'x', expected 'y'"),
    ],
)
def test_a_difference_is_said_in_one_line_with_its_place(value: object, stored: object, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        raise AssertionError(fill.matches(value, fill.digest(stored)))


def test_differences_within_the_tolerances_are_none() -> None:
    stored = fill.digest(torch.tensor([100.0, 0.0]))
    assert fill.matches(torch.tensor([100.0, 0.004]), stored) is None  # relative to the scale of the tensor
    assert fill.matches(torch.tensor([100.0, 0.02]), stored) is not None
    assert fill.matches(torch.tensor([100.0, 0.02]), stored, rtol=1e-3) is None
