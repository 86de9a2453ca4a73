"""Names, shapes and outputs of the models beside those that were recorded from upstream."""

from __future__ import annotations

import pytest
import torch

import flambeau.audio
from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values, parity_module

CASES = golden_values("models", __file__)["cases"]
MODELS = sorted(CASES)


@pytest.mark.parametrize("name", MODELS)
def test_model_agrees_with_the_record(name):
    cases = parity_module("cases", __file__)
    compute, _, _ = cases.MODELS[name]
    record = CASES[name]
    torch.manual_seed(0)
    assert fill.matches(compute(flambeau.audio), record["value"], record["rtol"], record["atol"]) is None
