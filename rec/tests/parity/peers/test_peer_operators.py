"""Every operator gives what FBGEMM's of the same name gives: values, gradients, arguments changed in place, errors."""

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
from operator_cases import CASES, copied, leaves, spread

for _module in pkgutil.iter_modules(flambeau.rec.ops.__path__, "flambeau.rec.ops."):
    importlib.import_module(_module.name)

SUITE = Suite(
    "operators",
    ours=torch.ops.flambeau_rec,
    peer=torch.ops.fbgemm,
    roots=("flambeau.rec", "fbgemm_gpu"),
    differences=Path(__file__).with_name("differences.toml"),
)

# What makes the peer end the process is no cell.
CRASHES = (
    "permute_2D_sparse_data/weighted-floats/*",  # gradients of features that are repeated
    "block_bucketize_sparse_features*/bounds-beyond*",
    "permute_multi_embedding*/gaps",
    "reorder_batched_ad_lengths/none",
)
# Operators that the peer has not.
OWN = ("ivfpq_scan",)


def outcome(library, given, name):
    """Results, and gradients of whatever asks for them."""
    arguments = list(given.values())
    result = getattr(library, name)(*arguments)
    wanted = [one for one in leaves(arguments) if one.requires_grad]
    outputs = [one for one in leaves(result if isinstance(result, (list, tuple)) else [result]) if one.requires_grad]
    if wanted:
        loss = sum((one * tensor(f"grad{at}", tuple(one.shape)).to(one.dtype)).sum() for at, one in enumerate(outputs))
        if outputs:
            loss.backward()
    shown = [
        one.detach() if isinstance(one, torch.Tensor) else one
        for one in ([result] if not isinstance(result, (list, tuple)) else result)
    ]
    return {"result": shown, "gradients": [one.grad for one in wanted]}


def cell(name, arguments, text=""):
    operator = name.partition("/")[0]
    return Cell(
        f"{name}{text}",
        operator,
        lambda library, given: outcome(library, given, operator),
        lambda library: {f"argument{at}": one for at, one in enumerate((spread if text else copied)(arguments))},
        printed=False,
    )


_spread: set[str] = set()
for _name, _arguments in CASES.items():
    if _name.partition("/")[0] in OWN:
        continue
    _cells = [cell(_name, _arguments)]
    if (_operator := _name.partition("/")[0]) not in _spread:  # the first of each operator's, with gaps
        _spread.add(_operator)
        _cells.append(cell(_name, _arguments, "/gaps"))
    SUITE.add(*(one for one in _cells if not any(matches(one.id, pattern) for pattern in CRASHES)))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
