"""Results of the functionals equal those recorded from the reference implementation."""

import json

import pytest

import flambeau.vision
from flambeau.core.testing.golden import golden_module, golden_values, shared_folder
from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2 import functional

TYPES = ("Video", "Mask", "BoundingBoxes", "KeyPoints")


def covered() -> list[dict]:
    """The cases whose functional and tensor types exist here."""
    if shared_folder(__file__) is None:
        return []
    cases = golden_values("vision_transforms", __file__)["cases"]
    return [case for case in cases if hasattr(functional, case["call"].rpartition(".")[2]) and types_of(case)]


def types_of(case: dict) -> bool:
    text = json.dumps(case["args"])
    return all(
        hasattr(tv_tensors, name)
        for name in ("Video", "Mask", "BoundingBoxes", "KeyPoints")
        if f'"tv": "{name}"' in text
    )


def test_there_are_golden_values():
    golden_values("vision_transforms", __file__)  # skips where the folder is absent
    assert len(covered()) >= 60


@pytest.mark.parametrize("case", covered(), ids=lambda case: case["id"])
def test_the_result_is_the_recorded_one(case):
    inputs = golden_module("vision_inputs", __file__)
    fault = inputs.matches(inputs.run(case, flambeau.vision), case["expected"], case["rtol"], case["atol"])
    assert fault is None, fault
