"""Environments of other libraries do what torchrl's do, where these are installed."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from spec_describing import describe_rl

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent


class Names:
    """The names of several modules of a library."""

    def __init__(self, *modules: str) -> None:
        self.modules = modules

    def __getattr__(self, name: str) -> Any:
        for module in self.modules:
            try:
                return getattr(importlib.import_module(module), name)
            except AttributeError:
                continue
        raise AttributeError(name)


def names(root: str, tensordict: str) -> Names:
    return Names(f"{root}.envs.libs", f"{root}.envs", f"{root}.data", tensordict)


def zoo(name: str) -> Any:
    return importlib.import_module(f"pettingzoo.classic.{name}")


SUITE = Suite(
    "libraries",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)
LENT = {"torch": torch, "zoo": zoo}
for _module, _lines in read_table(HERE / "library_programs.txt").items():
    if find_spec(_module) is not None:
        SUITE.add(*cross(_module, {"of": {}}, _lines, names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
