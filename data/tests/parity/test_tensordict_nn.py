"""Modules of tensordicts beside what the reference computed."""

from __future__ import annotations

from typing import Any

import pytest

from flambeau.core.testing.golden import golden_values, parity_module


def recorded() -> dict[str, Any]:
    return golden_values("tensordict_nn", __file__)


@pytest.mark.parametrize("case", recorded()["cases"], ids=lambda case: case["id"])
def test_the_reference_is_met_by(case):
    programs = parity_module("programs", __file__)
    got = programs.run_case(case["code"], recorded()["prelude"])
    assert programs.differs(got, case["result"]) is None
