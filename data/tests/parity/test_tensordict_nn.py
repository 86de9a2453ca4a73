"""Modules of tensordicts beside what the reference computed: those of `golden/rl_modules.json` that need no more."""

from __future__ import annotations

import pytest

from flambeau.core.testing.golden import golden_module, golden_values, shared_folder

CASES = (
    "composite-distribution", "ensemble", "mappings", "normal-param-extractor", "prob-module-modes",
    "prob-sequential-log-prob", "td-module", "td-module-dict-in-keys", "td-module-inplace-false",
    "td-module-missing-key-raises", "td-module-multi-out", "td-module-plain-call", "td-sequential",
    "td-sequential-select-out",
)  # fmt: skip


@pytest.mark.skipif(shared_folder(__file__) is None, reason="no golden values: set FLAMBEAU_SHARED")
@pytest.mark.parametrize("name", CASES)
def test_the_reference_is_met_by(name):
    golden, runner = golden_values("rl_modules", __file__), golden_module("rl_run", __file__)
    (case,) = (case for case in golden["cases"] if case["id"] == name)
    got = runner.run_case(case["code"], golden["prelude"], runner.ROOTS)
    assert runner.differs(got, case["result"]) is None
