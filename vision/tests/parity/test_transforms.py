"""Results of the functionals equal those recorded from the reference implementation."""

import pytest
import torch

import flambeau.vision
from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values, parity_module
from flambeau.vision.transforms.v2 import functional
from flambeau.vision.transforms.v2.functional import convert_bounding_box_format

# The same boxes as recorded, but the corner that counts as the first is the opposite one: case -> number of the box.
HALF_TURNED = {
    "affine/0/boxes/CXCYWHR": 5,
    "rotate/90/expand/boxes/XYWHR": 2,
    "rotate/90/expand/boxes/XYXYXYXY": 2,
}


def cases() -> list[dict]:
    return golden_values("transforms", __file__)["cases"]


def test_there_are_golden_values():
    assert len(cases()) >= 600
    assert {case["id"] for case in cases()} >= HALF_TURNED.keys()


def test_no_recorded_functional_is_missing():
    assert [case["id"] for case in cases() if not hasattr(functional, case["call"].rpartition(".")[2])] == []


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_the_result_is_the_recorded_one(case):
    inputs = parity_module("cases", __file__)
    result = inputs.run(case, flambeau.vision)
    if case["id"] in HALF_TURNED:
        result["out"] = half_turned(result["out"], HALF_TURNED[case["id"]], case["id"].rpartition("/")[2])
    fault = fill.matches(result, case["expected"], case["rtol"], case["atol"])
    assert fault is None, fault


def half_turned(boxes: torch.Tensor, number: int, format: str) -> torch.Tensor:
    """Boxes of which one begins with its opposite corner."""
    corners = convert_bounding_box_format(boxes, format, "XYXYXYXY").clone()
    corners[number] = corners[number].roll(4)
    turned = convert_bounding_box_format(corners, "XYXYXYXY", format)
    return torch.where(torch.arange(len(boxes))[:, None] == number, turned, boxes)
