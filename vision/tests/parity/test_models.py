"""Outputs and parameter names of the models equal those recorded from the reference implementation."""

import gzip
import json

import pytest
import torch

from flambeau.core.testing.golden import golden_module, golden_values, require_shared
from flambeau.vision import models

RESNETS = [
    "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d",
    "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2",
]  # fmt: skip


@pytest.mark.parametrize("name", RESNETS)
def test_the_state_dict_has_the_recorded_names_shapes_and_order(name):
    path = require_shared(__file__) / "spec" / "data" / "vision_state_dicts.json.gz"
    recorded = json.loads(gzip.decompress(path.read_bytes()))["state_dicts"][name]
    short = {torch.float32: "f32", torch.int64: "i64"}
    with torch.device("meta"):
        state = models.get_model(name).state_dict()
    assert [(key, [short[value.dtype], *value.shape]) for key, value in state.items()] == list(recorded.items())


@pytest.mark.parametrize("name", RESNETS)
def test_the_output_is_the_recorded_one(name):
    fill = golden_module("fill", __file__)
    inputs = golden_module("vision_inputs", __file__)
    case = golden_values("vision_models", __file__)["cases"][name]
    model = fill.fill_(models.get_model(name, **case["kwargs"])).eval()
    with torch.inference_mode():
        out = model(*inputs.make(case["inputs"], None))
    fault = fill.matches(out, case["out"], case["rtol"], case["atol"])
    assert fault is None, fault
