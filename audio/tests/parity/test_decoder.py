"""Decoders beside the recorded values, by the native search and by the one in Python."""

from __future__ import annotations

import pytest

import flambeau.audio
from flambeau.audio._native import LIBRARY
from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values, parity_module

STORED = golden_values("decoder", __file__)["cases"]


@pytest.mark.filterwarnings("ignore:A language model of tokens")
@pytest.mark.parametrize("native", [True, False], ids=["native", "python"])
@pytest.mark.parametrize("name", sorted(STORED))
def test_the_result_is_the_recorded_one(name, native, monkeypatch):
    if not native:
        monkeypatch.setattr(LIBRARY, "load", lambda: None)
    cases = parity_module("cases", __file__)
    compute, _, _ = cases.DECODERS[name]
    record = STORED[name]
    assert fill.matches(compute(flambeau.audio), record["value"], record["rtol"], record["atol"]) is None
