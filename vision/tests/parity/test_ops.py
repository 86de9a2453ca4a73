"""Results and gradients of the operators equal those recorded from the reference implementation."""

from importlib import import_module

import pytest

import flambeau.vision
from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values, parity_module


def target(case: dict) -> str:
    """Path of what a case calls, below the root package."""
    return case["call"] if isinstance(case["call"], str) else case["call"]["module"]


def cases() -> list[dict]:
    return golden_values("ops", __file__)["cases"]


@pytest.mark.parametrize("path", sorted({target(case) for case in cases()}))
def test_everything_that_was_recorded_is_here(path):
    module, _, name = path.rpartition(".")
    assert hasattr(import_module(f"flambeau.vision.{module}"), name)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_the_result_is_the_recorded_one(case):
    inputs = parity_module("cases", __file__)
    fault = fill.matches(inputs.run(case, flambeau.vision), case["expected"], case["rtol"], case["atol"])
    assert fault is None, fault
