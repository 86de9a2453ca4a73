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
sys.path.insert(0, str(Path(__file__).parents[2] / "ops"))
from operator_cases import copied, leaves, spread
from sll_cases import JAGGED_CASES

importlib.import_module("fbgemm_gpu.sll")
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
UNDEFINED = (
    # Items from the max_L-th of a row on are left as the memory was; gradients of items that are cut off, too.
    *(f"*{operator}/{rows}/2*" for operator in ("jagged_softmax", "pack_segments") for rows in ("ragged/*", "one/*")),
    "pack_segments_backward/cut/*",
    "pack_segments/items-left",
    # A mask that is too short is read beyond its end, and strides of what is added up are not looked at.
    "masked_select_jagged_1d/short-mask",
    "jagged_index_add_2d_forward*/gaps",
)


def defined(cell):
    return not any(matches(cell.id, pattern) for pattern in UNDEFINED)


def outcome(function, given):
    """Results, and the gradients of whatever asks for them."""
    arguments = list(given.values())
    result = function(*arguments)
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
        lambda library, given_: outcome(getattr(library, operator), given_),
        lambda library: {f"argument{at}": one for at, one in enumerate(given(arguments))},
        printed=False,
    )


_spread: set[str] = set()
for _name, _arguments in JAGGED_CASES.items():
    _cells = [cell(_name, _arguments)]
    if (_operator := _name.partition("/")[0]) not in _spread:  # the first of each operator's, with gaps
        _spread.add(_operator)
        _cells.append(cell(_name, _arguments, "/gaps"))
    SUITE.add(*(one for one in _cells if defined(one)))


def face(name, arguments):
    """The Python function over an operator."""
    function = f"cpu_{name.partition('/')[0].removeprefix('sll_')}"

    def call(library, given):
        module = "flambeau.rec.fbgemm_gpu.sll.cpu.cpu_sll" if library.ours else "fbgemm_gpu.sll.cpu.cpu_sll"
        return outcome(getattr(importlib.import_module(module), function), given)

    return Cell(
        f"face/{name}",
        "sll in Python",
        call,
        lambda library: {f"argument{at}": one for at, one in enumerate(copied(arguments))},
        printed=False,
    )


for _operator in dict.fromkeys(name.partition("/")[0] for name in JAGGED_CASES if name.startswith("sll_")):
    _named = [name for name in JAGGED_CASES if name.startswith(f"{_operator}/")]
    SUITE.add(*(one for one in (face(name, JAGGED_CASES[name]) for name in _named[:3]) if defined(one)))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
