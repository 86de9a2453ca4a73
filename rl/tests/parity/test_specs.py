"""Specs of tensors and functions on steps beside what the reference computed."""

from __future__ import annotations

from programs import cases, check


@cases("rl_specs")
def test_the_reference_is_met_by(case):
    check("rl_specs", case)
