"""Programs of golden files: run under our names, with fixed draws, described as plain data and compared."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import pytest
import torch

from flambeau.core.testing import fill
from flambeau.core.testing.programs import describe, differs, rewritten, run_case

ROOTS = {"upstream": "flambeau.core"}


def result_of(code: str, prelude: str = "") -> Any:
    return run_case(code, prelude, ROOTS)


def test_imports_of_upstream_become_ours_and_others_stay():
    code = "from upstream.errors import A\nif 1:\n  import upstream\nimport upstreams\nfrom torch import nn"
    ours = "from flambeau.core.errors import A\nif 1:\n  import flambeau.core\nimport upstreams\nfrom torch import nn"
    assert rewritten(code + "\n", ROOTS) == ours + "\n"
    assert result_of("from upstream import __name__ as name; result = name") == "flambeau.core"


def test_the_prelude_runs_before_in_the_same_names():
    assert result_of("result = [twice(3), math.floor(1.5)]", "def twice(x): return 2 * x") == [6, 1]


def test_an_error_is_a_result():
    assert result_of("result = {}['absent']") == {"raises": "KeyError"}


@pytest.mark.parametrize(
    ("draw", "fixed"),
    [
        ("torch.randn(2, 3)", lambda: fill.tensor("normal", (2, 3))),
        ("torch.rand((4,))", lambda: (fill.tensor("uniform", (4,)) + 1) / 2),
        ("torch.zeros(3).normal_(1, 2)", lambda: 1 + 2 * fill.tensor("normal", (3,))),
        ("torch.empty(3).uniform_(-1, 1)", lambda: fill.tensor("uniform", (3,))),
        ("torch.normal(torch.ones(2), torch.ones(2))", lambda: 1 + fill.tensor("normal", (2,))),
        ("torch.distributions.Normal(0.0, 1.0).sample((2,))", lambda: fill.tensor("normal", (2,))),
    ],
)
def test_draws_are_fixed_while_a_program_runs(draw, fixed):
    assert differs(result_of(f"result = {draw}"), describe(fixed())) is None
    assert not torch.equal(torch.rand(4), (fill.tensor("uniform", (4,)) + 1) / 2)


def test_values_are_described_as_plain_data_that_json_takes():
    values = [None, 1, math.inf, torch.Size([2]), torch.int8, int, {"a": (1, 2)}, {3, 1}, ValueError("text")]
    values += [torch.tensor([1.5]), torch.zeros(30), object()]
    described = describe(values)
    assert json.loads(json.dumps(described)) == described
    assert described[:9] == [
        None,
        1,
        "inf",
        {"size": [2]},
        "torch.int8",
        {"class": "int"},
        {"dict": {"a": [1, 2]}},
        {"set": ["1", "3"]},
        {"raises": "ValueError"},
    ]
    assert described[9] == {"tensor": {"shape": [1], "dtype": "float32", "all": [1.5]}}
    assert described[10] == {"tensor": fill.digest(torch.zeros(30))}
    assert described[11] == {"object": "object"}


def test_describers_of_a_domain_come_first_and_reach_into_collections():
    def complex_number(value: Any, inner: Any) -> Any:
        return {"re": inner(value.real)} if isinstance(value, complex) else None

    assert describe([1j, 2], [complex_number]) == [{"re": 0.0}, 2]


@pytest.mark.parametrize(
    ("got", "want", "fault"),
    [
        (1.0, 1.00001, None),
        (1.0, 1.1, "result: 1.0, expected 1.1"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "result.a[1]: 2, expected 3"),
        ({"a": 1}, {"b": 1}, "result: fields ['a'], expected ['b']"),
        ([1], [1, 2], "result: 1 items, expected 2"),
        ("a", 1.0, "result: 'a', expected 1.0"),
    ],
)
def test_the_first_difference_is_named_by_its_place(got, want, fault):
    assert differs(got, want) == fault


def test_digests_are_compared_within_tolerance():
    tensor = torch.arange(100.0)
    assert differs(describe(tensor), describe(tensor + 1e-5)) is None
    assert "expected" in (differs(describe(tensor), describe(tensor + 1)) or "")
    assert "dtype" in (differs(describe(tensor), describe(tensor.double())) or "")


def test_what_is_compiled_while_draws_are_fixed_does_not_change_what_is_compiled_later() -> None:
    code = """
import torch
from flambeau.core.testing.programs import fixed_draws
with fixed_draws():
    torch.compile(lambda x: torch.sin(x), backend="eager", fullgraph=True)(torch.ones(2))
torch.compile(lambda x: x + torch.randn(2), backend="eager", fullgraph=True)(torch.ones(2))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
