"""Every class and method of specs does what torchrl's does."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
from spec_describing import describe_rl

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent


def library(specs: str, tensordict: str) -> SimpleNamespace:
    return SimpleNamespace(**vars(importlib.import_module(tensordict)) | vars(importlib.import_module(specs)))


SUITE = Suite(
    "specs",
    ours=library("flambeau.rl.data.tensor_specs", "flambeau.data.tensordict"),
    peer=library("torchrl.data.tensor_specs", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)
LENT = {"torch": torch, "numpy": numpy, "pickle": pickle, "copy": copy}
TABLE = read_table(HERE / "spec_programs.txt")
BOOL = "torch.tensor({}, dtype=torch.bool)"
LEAVES = {
    "bounded": ("Bounded(-1, 2, (3,))", "torch.tensor([0.0, 1.0, 2.0])", "torch.tensor([0.0, -5.0, 2.5])"),
    "bounded-scalar": ("Bounded(-1, 1, ())", "torch.tensor(0.5)", "torch.tensor(3.0)"),
    "bounded-matrix": (
        "Bounded(torch.tensor([[-1.0], [0.0]]).expand(2, 3).clone(), torch.ones(2, 3))",
        "torch.full((2, 3), 0.5)",
        "torch.full((2, 3), -0.5)",
    ),
    "bounded-int": ("Bounded(0, 5, (2,), dtype=torch.int64)", "torch.tensor([0, 5])", "torch.tensor([-3, 9])"),
    "bounded-double": (
        "Bounded(-1, 1, (1, 2), dtype=torch.float64)",
        "torch.tensor([[0.0, 1.0]], dtype=torch.float64)",
        "torch.tensor([[0.0, 2.0]], dtype=torch.float64)",
    ),
    "unbounded": ("Unbounded((2, 3))", "torch.arange(6.0).view(2, 3)", "torch.arange(6).view(2, 3)"),
    "unbounded-scalar": ("Unbounded(())", "torch.tensor(1.0)", "torch.zeros(2)"),
    "unbounded-int": ("Unbounded((3,), dtype=torch.int32)", "torch.arange(3).int()", "torch.arange(3.0)"),
    "unbounded-bool": ("Unbounded((1,), dtype=torch.bool)", "torch.tensor([True])", "torch.tensor([2])"),
    "onehot": ("OneHot(4)", BOOL.format([0, 0, 1, 0]), BOOL.format([1, 0, 1, 0])),
    "onehot-batched": (
        "OneHot(4, shape=(3, 4), dtype=torch.int64)",
        "torch.eye(4, dtype=torch.int64)[:3]",
        "torch.ones(3, 4, dtype=torch.int64)",
    ),
    "onehot-masked": (
        "OneHot(4, mask=torch.tensor([True, False, True, False]))",
        BOOL.format([0, 0, 1, 0]),
        BOOL.format([0, 1, 0, 0]),
    ),
    "onehot-masked-batched": (
        "OneHot(3, shape=(2, 3), mask=torch.tensor([[True, False, True], [False, True, True]]))",
        BOOL.format([[1, 0, 0], [0, 0, 1]]),
        BOOL.format([[0, 1, 0], [1, 0, 0]]),
    ),
    "categorical": ("Categorical(4)", "torch.tensor(3)", "torch.tensor(9)"),
    "categorical-batched": (
        "Categorical(4, shape=(2, 3), dtype=torch.int32)",
        "torch.arange(6).view(2, 3).int() % 4",
        "torch.arange(6).view(2, 3).int()",
    ),
    "categorical-masked": (
        "Categorical(4, mask=torch.tensor([True, False, True, False]))",
        "torch.tensor(2)",
        "torch.tensor(1)",
    ),
    "categorical-masked-batched": (
        "Categorical(3, shape=(2,), mask=torch.tensor([[True, False, True], [False, True, True]]))",
        "torch.tensor([0, 2])",
        "torch.tensor([1, 0])",
    ),
    "binary": ("Binary(3)", "torch.tensor([0, 1, 1], dtype=torch.int8)", "torch.tensor([0, 2, 1], dtype=torch.int8)"),
    "binary-batched": (
        "Binary(2, shape=(3, 2), dtype=torch.bool)",
        "torch.ones(3, 2, dtype=torch.bool)",
        "torch.full((3, 2), 2)",
    ),
    "multi-onehot": ("MultiOneHot([2, 3])", BOOL.format([1, 0, 0, 0, 1]), BOOL.format([1, 1, 0, 0, 1])),
    "multi-onehot-batched": (
        "MultiOneHot([2, 3], shape=(2, 5))",
        BOOL.format([[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]]),
        BOOL.format([[1, 0, 0, 0, 1], [0, 1, 1, 1, 0]]),
    ),
    "multi-categorical": ("MultiCategorical([2, 3])", "torch.tensor([1, 2])", "torch.tensor([2, 2])"),
    "multi-categorical-batched": (
        "MultiCategorical([2, 3], shape=(4, 2))",
        "torch.tensor([[1, 2]] * 4)",
        "torch.tensor([[2, 5]] * 4)",
    ),
    "multi-categorical-nested": (
        "MultiCategorical([[2, 3], [4, 5]])",
        "torch.tensor([[1, 2], [3, 4]])",
        "torch.tensor([[1, 3], [4, 4]])",
    ),
    "non-tensor": ("NonTensor(shape=(2,), example_data='e')", "NonTensorData('a', batch_size=[2])", "torch.zeros(2)"),
    "choice": ("Choice([Categorical(3), Categorical(4)])", "torch.tensor(3)", "torch.tensor(5)"),
}
MASKED = {name: LEAVES[name] for name in ("onehot", "categorical", "binary", "multi-onehot", "multi-categorical")}
NESTED = "a=Bounded(-1, 1, ({0}3,)), b=Composite(c=Categorical(4, shape=({0})), shape=({0})), shape=({0})"
VALUES = "TensorDict({{'a': torch.full(({0}3,), {1}), 'b': {{'c': torch.full(({0}), 2)}}}}, batch_size=({0}))"
COMPOSITES = {
    "nested": {
        "c": f"Composite({NESTED.format('')})",
        "v": VALUES.format("", 0.5),
        "w": VALUES.format("", 1.5),
    },
    "batched": {
        "c": f"Composite({NESTED.format('2,')})",
        "v": VALUES.format("2,", 0.5),
        "w": VALUES.format("2,", 1.5),
    },
    "with-none": {
        "c": "Composite(a=Categorical(2), b=Composite(c=Binary(2)), d=None)",
        "v": "TensorDict({'a': torch.tensor(1), 'b': {'c': torch.zeros(2, dtype=torch.int8)}}, [])",
        "w": "TensorDict({'a': torch.tensor(2), 'b': {'c': torch.zeros(2, dtype=torch.int8)}}, [])",
    },
    "on-device": {
        "c": "Composite(a=Unbounded((3, 2)), b=Composite(c=OneHot(3, (3, 3)), shape=(3,)), shape=(3,), device='cpu')",
        "v": "TensorDict({'a': torch.zeros(3, 2), 'b': {'c': torch.eye(3).bool()}}, [3], device='cpu')",
        "w": "TensorDict({'a': torch.zeros(3, 2), 'b': {'c': torch.eye(3)}}, [3], device='cpu')",
    },
    "empty": {"c": "Composite()", "v": "TensorDict({}, [])", "w": "TensorDict({'a': torch.zeros(2)}, [])"},
}
STACKS = {
    "limits": {"x": "torch.stack([Bounded(-1, 1, (2,)), Bounded(0, 2, (2,))])"},
    "sizes": {"x": "torch.stack([Unbounded((2,)), Unbounded((3,))])"},
    "last": {"x": "torch.stack([Bounded(-1, 1, (2,)), Bounded(0, 2, (2,))], -1)"},
    "composites": {
        "x": "torch.stack([Composite(a=Unbounded((3,)), b=Composite(c=Categorical(2))), Composite(a=Unbounded((3,)))])"
    },
    "composites-of-sizes": {"x": "torch.stack([Composite(a=Unbounded((3,))), Composite(a=Unbounded((4,)))])"},
    "composites-batched": {
        "x": "torch.stack([Composite(a=Unbounded((2, 3)), shape=(2,)), Composite(a=Unbounded((2, 4)), shape=(2,))], 1)"
    },
}
KINDS = {name: {"s": s, "v": v, "w": w} for name, (s, v, w) in LEAVES.items()}
for heading in ("construction", "draws", "values", "shapes", "casts", "stacking"):
    SUITE.add(*cross(heading, KINDS, TABLE[heading], names=LENT))
SUITE.add(*cross("masks", {name: KINDS[name] for name in MASKED}, TABLE["masks"], names=LENT))
SUITE.add(*cross("built", {"of": {}}, TABLE["built"], names=LENT))
SUITE.add(*cross("compared", {"of": {}}, TABLE["compared"], names=LENT))
SUITE.add(*cross("composites", COMPOSITES, TABLE["composites"], names=LENT))
SUITE.add(*cross("stacked", STACKS, TABLE["stacked"], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


@pytest.mark.parametrize("name", ["TensorSpec", "Composite", "Bounded", "OneHot", "Categorical", "Stacked", "Choice"])
def test_every_public_member_has_a_program(name):
    public = {member for member in dir(getattr(SUITE.peer, name)) if not member.startswith("_")}
    words = {word for cell in SUITE.cells for word in re.findall(r"\.(\w+)", cell.id)}
    assert public - words - {"CONFLICTING_KWARGS", "implements_for_spec", "SPEC_HANDLED_FUNCTIONS", "cuda"} == set()


def test_every_intended_difference_is_one():
    SUITE.check_differences()
