"""Decoders beside the recorded values, by the native search and by the one in Python."""

from __future__ import annotations

import pytest

import flambeau.audio
from flambeau.audio._native import LIBRARY
from flambeau.core.testing.golden import golden_module, golden_values, shared_folder

STORED = golden_values("audio_decoder", __file__)["cases"] if shared_folder(__file__) else {}


@pytest.mark.filterwarnings("ignore:A language model of tokens")
@pytest.mark.skipif(not STORED, reason="no golden values: set FLAMBEAU_SHARED to their folder")
@pytest.mark.parametrize("native", [True, False], ids=["native", "python"])
@pytest.mark.parametrize("name", sorted(STORED))
def test_the_result_is_the_recorded_one(name, native, monkeypatch):
    if not native:
        monkeypatch.setattr(LIBRARY, "load", lambda: None)
    cases = golden_module("audio_cases", __file__)
    compute, _, _ = cases.CASES["decoder"][name]
    record = STORED[name]
    assert cases.compare(compute(flambeau.audio), record["value"], record["rtol"], record["atol"]) is None
