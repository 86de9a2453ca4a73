"""Outputs and parameter names of all models equal those recorded from the reference implementation."""

import functools
import inspect

import pytest
import torch

from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values, parity_module, upstream_facts
from flambeau.vision import models

NAMES = models.list_models(exclude=["digit_cnn"])  # which is ours
LARGE = 150_000_000  # parameters; of larger networks no output is recorded


@functools.cache
def recorded(topic: str) -> dict:
    return upstream_facts(topic, __file__)


def build(name: str, **options):
    """The model without any weights."""
    builder = models.get_model_builder(name)
    if "weights_backbone" in inspect.signature(builder).parameters:
        options["weights_backbone"] = None
    return builder(weights=None, **options)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_dict_has_the_recorded_names_shapes_and_order(name):
    short = {torch.float32: "f32", torch.int64: "i64"}
    with torch.device("meta"):
        state = build(name).state_dict()
    expected = recorded("state_dicts")["state_dicts"][name]
    assert [(key, [short[value.dtype], *value.shape]) for key, value in state.items()] == list(expected.items())


@pytest.mark.parametrize("name", NAMES)
def test_module_class_and_number_of_parameters_are_the_recorded_ones(name):
    record = recorded("models")["models"][name]
    with torch.device("meta"):
        model = build(name)
    where = f"{type(model).__module__}.{type(model).__qualname__}"
    assert where == record["class"].replace("torchvision.", "flambeau.vision.")
    assert sum(parameter.numel() for parameter in model.parameters()) == record["num_params"]
    assert models.get_model_weights(name).__name__ == record["weights_enum"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_output_is_the_recorded_one(name):
    case = golden_values("models", __file__)["cases"].get(name)
    if case is None:
        assert recorded("models")["models"][name]["num_params"] >= LARGE
        pytest.skip("no output is recorded of networks of this size")
    if "out" not in case:
        pytest.skip("detectors: stages are compared instead, by test_detection.py")
    inputs = parity_module("cases", __file__)
    model = fill.fill_(build(name, **case["kwargs"])).eval()
    with torch.inference_mode():
        out = model(*inputs.make(case["inputs"], None), **case["call_kwargs"])
    fault = fill.matches(out, case["out"], case["rtol"], case["atol"])
    assert fault is None, fault
