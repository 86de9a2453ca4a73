"""Operators give what the reference's give: values, gradients, arguments changed in place."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
import torch
from arguments import argument

import flambeau.rec.ops
from flambeau.core.testing.fill import matches, tensor
from flambeau.core.testing.golden import golden_values

for _module in pkgutil.iter_modules(flambeau.rec.ops.__path__, "flambeau.rec.ops."):
    importlib.import_module(_module.name)

CASES = golden_values("rec_ops", __file__)["cases"]
UNWRITTEN = {"lengths_range": "with a shape, the reference leaves the end of its result as it finds the memory"}
WRONG = {
    "linearize_cache_indices": "the reference writes nothing on the CPU",
    "linearize_cache_indices_from_row_idx": "the reference writes nothing on the CPU",
    "permute_sequence_embeddings": "the reference moves single numbers where it means rows of them",
}


def registered(name: str) -> bool:
    return hasattr(torch.ops.flambeau_rec, name)


def judged(case: dict[str, Any]) -> bool:
    name = case["op"]
    return registered(name) and name not in WRONG and not (name in UNWRITTEN and len(case.get("args", [])) > 1)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case['op']}-{at}") for at, case in enumerate(CASES) if judged(case)]
)
def test_an_operator_gives_the_recorded_result(case):
    operator = getattr(torch.ops.flambeau_rec, case["op"])
    args = [argument(one) for one in case.get("args", [])]
    if "input_from" in case:
        earlier = case["input_from"]
        made = getattr(torch.ops.flambeau_rec, earlier["op"])(*[argument(one) for one in earlier["args"]])
        args = [made, *[argument(one) for one in case.get("args_after_input", [])]]
    result = operator(*args, **{name: argument(one) for name, one in case.get("kwargs", {}).items()})

    rtol, atol = (2e-3, 2e-3) if "16" in str(case) else (1e-5, 1e-6)
    listed = list(result) if isinstance(result, tuple) else result
    fault = matches(listed, case["output"], rtol=rtol, atol=atol)
    assert fault is None, fault
    for place, stored in case.get("mutated_args", {}).items():
        assert matches(args[int(place)], stored) is None
    if case.get("grads"):
        outputs = [one for one in (result if isinstance(result, (tuple, list)) else [result]) if _differentiable(one)]
        sum((one * tensor(f"grad{at}", tuple(one.shape))).sum() for at, one in enumerate(outputs)).backward()
        leaves = [one for arg in args for one in (arg if isinstance(arg, list) else [arg]) if _differentiable(one)]
        for leaf, stored in zip(leaves, case["grads"], strict=True):
            # Where the reference has no gradient, ours is compared with finite differences.
            assert stored is None or matches(leaf.grad, stored, rtol=rtol, atol=atol) is None


def _differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
