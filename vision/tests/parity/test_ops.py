"""Results and gradients of the operators equal those recorded from the reference implementation."""

from importlib import import_module

import pytest

import flambeau.vision
from flambeau.core.testing.golden import golden_module, golden_values, shared_folder


def target(case: dict) -> str:
    """Path of what a case calls, below the root package."""
    return case["call"] if isinstance(case["call"], str) else case["call"]["module"]


def exists(path: str) -> bool:
    module, _, name = path.rpartition(".")
    try:
        return hasattr(import_module(f"flambeau.vision.{module}"), name)
    except ModuleNotFoundError:
        return False


def covered() -> list[dict]:
    """The cases whose operator exists here."""
    if shared_folder(__file__) is None:
        return []
    return [case for case in golden_values("vision_ops", __file__)["cases"] if exists(target(case))]


def test_there_are_golden_values():
    golden_values("vision_ops", __file__)  # skips where the folder is absent
    assert len(covered()) >= 65


@pytest.mark.parametrize("case", covered(), ids=lambda case: case["id"])
def test_the_result_is_the_recorded_one(case):
    inputs = golden_module("vision_inputs", __file__)
    fault = inputs.matches(inputs.run(case, flambeau.vision), case["expected"], case["rtol"], case["atol"])
    assert fault is None, fault
