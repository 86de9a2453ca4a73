"""Names, shapes and outputs of the models beside those that were recorded from upstream."""

from __future__ import annotations

import pytest
import torch

import flambeau.audio
from flambeau.core.testing.golden import golden_module, golden_values, shared_folder

CASES = golden_values("audio_models", __file__)["cases"] if shared_folder(__file__) else {}
MODELS = sorted(CASES)


@pytest.mark.skipif(not MODELS, reason="no golden values: set FLAMBEAU_SHARED to their folder")
@pytest.mark.parametrize("name", MODELS or ["none"])
def test_model_agrees_with_the_record(name):
    cases = golden_module("audio_cases", __file__)
    compute, _, _ = cases.CASES["models"][name]
    record = CASES[name]
    torch.manual_seed(0)
    assert cases.compare(compute(flambeau.audio), record["value"], record["rtol"], record["atol"]) is None
