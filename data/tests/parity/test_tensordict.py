"""TensorDicts behave as recorded from the reference implementation: some 300 small programs and their results."""

import json

import pytest

from flambeau.core.testing.golden import golden_values, parity_module

# The reference raises where we do what was asked for.
OURS_WORKS = {"memmap-unserializable-set-raises", "from-any-namedtuple-in-dict-raises"}
WORKS = {"from-any-namedtuple-in-dict-raises"}


def recorded() -> dict:
    return golden_values("tensordict", __file__)


@pytest.mark.parametrize("case", recorded()["cases"], ids=lambda case: case["id"])
def test_the_result_is_the_recorded_one(case):
    programs = parity_module("programs", __file__)
    result = programs.run_case(case["code"], recorded()["prelude"])
    result = json.loads(json.dumps(result))
    if case["id"] in WORKS:
        assert "raises" not in result
        return
    if case["id"] in OURS_WORKS:
        assert "raises" in case["result"]
        assert "raises" not in result
        return
    fault = programs.differs(result, case["result"], rtol=case.get("rtol", 1e-4), atol=case.get("atol", 1e-5))
    assert fault is None, fault
