"""Objectives, their gradients and priorities beside what the reference computed."""

from __future__ import annotations

from programs import cases, check


@cases("rl_objectives")
def test_the_reference_is_met_by(case):
    check("rl_objectives", case)
