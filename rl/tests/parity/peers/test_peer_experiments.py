"""Trainers, recorders, loggers and checkpoints do what torchrl's do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from experiment_subjects import Batches, batch, film, kept, passed, recorded, trained, trainer, written
from spec_describing import describe_rl
from test_peer_envs import Names

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent


def names(root: str, tensordict: str) -> Names:
    return Names(
        f"{root}.trainers.trainers",
        f"{root}.record",
        f"{root}.record.loggers",
        f"{root}.checkpoint",
        f"{root}.envs",
        f"{root}.envs.transforms",
        f"{root}.data",
        tensordict,
    )


SUITE = Suite(
    "experiments",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict", "experiment_subjects"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)
LENT = {"torch": torch, "numpy": numpy}
TABLE = read_table(HERE / "experiment_programs.txt")


def buffer(library: Any) -> Any:
    return lambda size: library.TensorDictReplayBuffer(storage=library.LazyTensorStorage(size), batch_size=4)


GIVEN = {
    "training": {"train": trained, "trainer": trainer, "batches": Batches, "buffer": buffer},
    "hooks": {"batch": batch},
    "films": {"film": recorded, "env": film},
    "logs": {"logged": written},
    "checkpoints": {"saved": passed, "rotated": kept},
}
for part, given in GIVEN.items():
    SUITE.add(*cross(part, {"all": given}, TABLE[part], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
