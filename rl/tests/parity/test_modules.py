"""Networks, distributions, exploration and transforms beside what the reference computed."""

from __future__ import annotations

from programs import cases, check


@cases("rl_modules")
def test_the_reference_is_met_by(case):
    check("rl_modules", case)
