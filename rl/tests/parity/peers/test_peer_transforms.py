"""Transforms do what torchrl's do: of rewards, actions, state and ends, in environments, buffers and as modules."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from env_subjects import agents, counting
from spec_describing import describe_rl
from transform_subjects import acting, masking, steps

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
    return Names(
        f"{root}.envs.transforms.transforms", f"{root}.envs.transforms", f"{root}.envs", f"{root}.data",
        f"{root}.modules", f"{root}._utils", tensordict, f"{tensordict}.nn",
    )  # fmt: skip


SUITE = Suite(
    "transforms",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict", "env_subjects", "transform_subjects"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)


def seeded(library: Any) -> Any:
    env = library.GymEnv("Pendulum-v1")
    env.set_seed(0)
    torch.manual_seed(0)
    return env


LENT = {
    "torch": torch,
    "counting": counting,
    "agents": agents,
    "masking": masking,
    "acting": acting,
    "steps": steps,
    "seeded": seeded,
}
TABLE = read_table(HERE / "transform_programs.txt")
ENVS = {
    "single": "counting(library)",
    "batched": "counting(library, (2,))",
    "agents": "agents(library)",
    "gym": "seeded(library)",
    "acting": "acting(library)",
    "acting-batched": "acting(library, (3,))",
    "still": "acting(library, state=False)",
    "masking": "masking(library)",
    "masking-numbers": "masking(library, (2,), one_hot=False)",
}


def kinds() -> dict[str, dict[str, str]]:
    """A transform in each environment that its line names, as "environments: transform"."""
    found = {}
    for line in TABLE["transforms"]:
        places, _, made = line.partition(": ")
        for place in places.split():
            found[f"{place}-{made}"] = {"env": f"TransformedEnv({ENVS[place]}, {made})", "base": ENVS[place], "t": made}
    return found


def alone() -> dict[str, dict[str, str]]:
    """Each transform by itself, with data."""
    made = [line.partition(": ")[2] for line in TABLE["transforms"]] + TABLE["offline"]
    data = {"td": "steps(library)", "flat": "steps(library, (5,))", "unnamed": "steps(library, named=False)"}
    return {each: {"t": each, **data} for each in dict.fromkeys(made)}


SUITE.add(*cross("env", kinds(), TABLE["env"], names=LENT))
SUITE.add(*cross("alone", alone(), TABLE["alone"], names=LENT))
SUITE.add(*cross("base", {"of": {}}, TABLE["base"], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
