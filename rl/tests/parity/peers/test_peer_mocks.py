"""Environments to test with do what torchrl's do."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
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
    return Names(f"{root}.testing.mocking_classes", f"{root}.testing", f"{root}.envs", f"{root}.data", tensordict)


SUITE = Suite(
    "mocks",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)
LENT = {"np": np, "torch": torch}
TABLE = read_table(HERE / "mock_programs.txt")
# The environment is made by the program, so that it is no input, which would be compared, too.
MADE = [f"env = {made}; {use}" for made in TABLE["environments"] for use in TABLE["uses"]]
SUITE.add(
    *cross("environments", {"of": {}}, MADE, names=LENT), *cross("others", {"of": {}}, TABLE["random"], names=LENT)
)


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
