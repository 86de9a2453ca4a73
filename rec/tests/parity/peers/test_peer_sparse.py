"""Everything that torchrec does with sparse types, ours do as well."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch
from sparse_describing import describe_sparse

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

OURS, PEER = "flambeau.rec.sparse.jagged_tensor", "torchrec.sparse.jagged_tensor"
HERE = Path(__file__).parent
SUITE = Suite(
    "sparse",
    ours=OURS,
    peer=PEER,
    roots=("flambeau.rec", "torchrec"),
    differences=HERE / "differences.toml",
    describers=[describe_sparse],
)

LENT = {"torch": torch, "pickle": pickle, "copy": copy, "pytree": torch.utils._pytree}
JAGGED = {
    "plain": {"j": "JaggedTensor(torch.arange(6.0), lengths=torch.tensor([2, 0, 3, 1]))"},
    "int32": {"j": "JaggedTensor(torch.arange(6), lengths=torch.tensor([2, 0, 3, 1], dtype=torch.int32))"},
    "offsets": {"j": "JaggedTensor(torch.arange(6), offsets=torch.tensor([0, 2, 2, 5, 6]))"},
    "weighted": {"j": "JaggedTensor(torch.arange(6), torch.arange(6.0) / 4, torch.tensor([2, 0, 3, 1]))"},
    "vectors": {"j": "JaggedTensor(torch.arange(12.0).view(6, 2), lengths=torch.tensor([2, 0, 3, 1]))"},
    "no-items": {"j": "JaggedTensor(torch.empty(0), lengths=torch.tensor([0, 0]))"},
}
KEYS = '["f1", "f2", "f3"]'
LENGTHS = "lengths=torch.tensor([0, 3, 2, 3, 2, 2, 0, 3, 3, 1, 3, 3])"
STRIDES = "lengths=torch.tensor([2, 1, 0, 3, 1, 2, 1]), stride_per_key_per_rank=[[2], [1], [4]]"
INVERSE = f"inverse_indices=({KEYS}, torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0], [3, 2, 1, 0]]))"
KEYED = {
    "plain": {"k": f"KeyedJaggedTensor({KEYS}, torch.arange(25) % 10, {LENGTHS})"},
    "int32": {"k": f"KeyedJaggedTensor({KEYS}, (torch.arange(25) % 10).int(), {LENGTHS[:-1]}, dtype=torch.int32))"},
    "weighted": {"k": f"KeyedJaggedTensor({KEYS}, torch.arange(25) % 10, torch.arange(25.0) / 8, {LENGTHS})"},
    "offsets": {"k": f"KeyedJaggedTensor({KEYS}, torch.arange(7), offsets=torch.tensor([0, 2, 3, 3, 4, 6, 7]))"},
    "two-dimensional": {
        "k": f"KeyedJaggedTensor({KEYS}, torch.arange(4), lengths=torch.tensor([[1, 0], [2, 0], [0, 1]]))"
    },
    "no-items": {"k": f"KeyedJaggedTensor({KEYS}, torch.empty(0, dtype=torch.int64), lengths=torch.zeros(6).int())"},
    "variable": {"k": f"KeyedJaggedTensor({KEYS}, torch.arange(10), {STRIDES})"},
    "variable-weighted": {"k": f"KeyedJaggedTensor({KEYS}, torch.arange(10), torch.arange(10.0), {STRIDES})"},
    "variable-inverse": {"k": f"KeyedJaggedTensor({KEYS}, torch.arange(10), {STRIDES}, {INVERSE})"},
}
DENSE = {
    "plain": {"t": 'KeyedTensor(["a", "b", "c"], [1, 2, 1], torch.arange(8.0).view(2, 4))'},
    "first-dim": {"t": 'KeyedTensor(["a", "b", "c"], [1, 2, 1], torch.arange(8.0).view(4, 2), key_dim=0)'},
    "no-rows": {"t": 'KeyedTensor(["a", "b", "c"], [1, 2, 1], torch.empty(0, 4))'},
}
TABLE = read_table(HERE / "sparse_programs.txt")
SUITE.add(
    *cross("jagged", JAGGED, TABLE["jagged"], names=LENT),
    *cross("keyed", KEYED, TABLE["keyed"], names=LENT),
    *cross("static", {"call": {}}, TABLE["static"], names=LENT),
    *cross("dense", DENSE, TABLE["dense"], names=LENT),
)


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
