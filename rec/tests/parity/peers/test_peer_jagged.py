"""Operators on jagged tensors give what FBGEMM's of the same name give: values, gradients, errors."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import pytest
import torch

import flambeau.rec.ops
from flambeau.core.testing.differential import Cell, Suite, matches
from flambeau.core.testing.fill import tensor

pytest.importorskip("fbgemm_gpu", reason="needs fbgemm-gpu; `nox -s parity -- peers rec` has it")
importlib.import_module("fbgemm_gpu.sll")
sys.path.insert(0, str(Path(__file__).parents[2] / "ops"))
importlib.import_module("sll_cases")
from jagged_cases import JAGGED_CASES
from operator_cases import copied, leaves, spread

for _module in pkgutil.iter_modules(flambeau.rec.ops.__path__, "flambeau.rec.ops."):
    if _module.name.rpartition(".")[2].startswith(("jagged_", "sll_")):
        importlib.import_module(_module.name)

SUITE = Suite(
    "jagged",
    ours=torch.ops.flambeau_rec,
    peer=torch.ops.fbgemm,
    roots=("flambeau.rec", "fbgemm_gpu"),
    differences=Path(__file__).with_name("differences.toml"),
)

# What ends the peer's process, or lets it read or leave memory as it finds it, is no cell.
UNDEFINED: tuple[str, ...] = ()


def outcome(library, given, operator):
    """Results, and the gradients of whatever asks for them."""
    arguments = list(given.values())
    result = getattr(library, operator)(*arguments)
    listed = list(result) if isinstance(result, (list, tuple)) else [result]
    wanted = [one for one in leaves(arguments) if one.requires_grad]
    outputs = [one for one in leaves(listed) if one.requires_grad]
    if outputs:
        losses = (one * tensor(f"grad{at}", tuple(one.shape)).to(one.dtype) for at, one in enumerate(outputs))
        sum(one.nan_to_num(0, 0, 0).sum() for one in losses).backward()
    shown = [one.detach() if isinstance(one, torch.Tensor) else one for one in listed]
    return {"result": shown, "gradients": [one.grad for one in wanted]}


def cell(name, arguments, text=""):
    operator = name.partition("/")[0]
    given = spread if text else copied
    return Cell(
        f"{name}{text}",
        operator,
        lambda library, given_: outcome(library, given_, operator),
        lambda library: {f"argument{at}": one for at, one in enumerate(given(arguments))},
        printed=False,
    )


_spread: set[str] = set()
for _name, _arguments in JAGGED_CASES.items():
    _cells = [cell(_name, _arguments)]
    if (_operator := _name.partition("/")[0]) not in _spread:  # the first of each operator's, with gaps
        _spread.add(_operator)
        _cells.append(cell(_name, _arguments, "/gaps"))
    SUITE.add(*(one for one in _cells if not any(matches(one.id, pattern) for pattern in UNDEFINED)))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
