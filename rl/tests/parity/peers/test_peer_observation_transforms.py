"""Transforms of observations do what torchrl's do: in environments, in buffers, as modules, backwards."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from scene_subjects import scene, squad
from spec_describing import describe_rl

from flambeau.core.testing.differential import Cell, Suite, cross, program, read_table
from flambeau.core.testing.fill import tensor

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
    return Names(
        f"{root}.envs.transforms",
        f"{root}.envs",
        f"{root}.data",
        f"{root}.envs.transforms.functional",
        f"{root}.envs.transforms.rnd",
        tensordict,
    )


SUITE = Suite(
    "observation_transforms",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict", "scene_subjects"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
    rtol=1e-4,
    atol=1e-5,
)
LENT = {"torch": torch, "fill": tensor}
TABLE = read_table(HERE / "observation_programs.txt")


def build(library: Any, batch_size: tuple[int, ...] = (), bounded: bool = True) -> Any:
    torch.manual_seed(0)
    return scene(library, batch_size, bounded)


ENVS = {
    "single": {"e": build},
    "batched": {"e": lambda library: build(library, (2,))},
    "unbounded": {"e": lambda library: build(library, (), bounded=False)},
    "squad": {"e": squad},
}
USES = {
    "batched": [*TABLE["uses"], *TABLE["uses of all"], *TABLE["specs"]],
    "single": [*TABLE["uses of all"], *TABLE["specs"]],
    "unbounded": TABLE["specs"],
}


def used(area: str, env: str, transforms: list[str], uses: list[str]) -> list[Cell]:
    """Every transform in every use; it is made by the program, so that it is no input, which would be compared, too."""
    given = {"e": ENVS[env]["e"]}
    return [
        Cell(
            f"{area}/{env}/{transform}/{use}",
            area,
            program(f"t = {transform}; {use}", LENT),
            lambda library: {name: make(library) for name, make in given.items()},
            effects=False,
        )
        for transform in transforms
        for use in uses
    ]


for _area in ("images", "shapes", "values", "frames", "inverses"):
    for _env, _uses in USES.items():
        SUITE.add(*used(_area, _env, TABLE[f"transforms: {_area}"], _uses))
SUITE.add(*used("squad", "squad", TABLE["transforms: squad"], USES["batched"]))
for _area in ("functions", "frames by hand", "statistics", "faults", "buffers"):
    _env = "batched" if _area == "frames by hand" else "single"
    SUITE.add(*cross(_area, {_env: ENVS[_env]}, TABLE[_area], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
