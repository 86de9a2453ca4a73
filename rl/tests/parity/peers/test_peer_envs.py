"""Environments do what torchrl's do: specs, steps, resets of parts, rollouts, gymnasium's environments."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import gymnasium
import numpy
import pytest
import torch
from env_subjects import agents, counting
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
    return Names(f"{root}.envs", f"{root}.data", f"{root}.envs.common", f"{root}.envs.libs.gym", tensordict)


SUITE = Suite(
    "envs",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict", "env_subjects"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)
LENT = {"torch": torch, "numpy": numpy, "gymnasium": gymnasium}
TABLE = read_table(HERE / "env_programs.txt")


def gym(name: str) -> Any:
    def build(library: Any) -> Any:
        env = library.GymEnv(name)
        env.set_seed(0)
        torch.manual_seed(0)
        return env

    return build


ENVS = {
    "single": {"e": counting},
    "batched": {"e": lambda library: counting(library, (2,))},
    "on-device": {"e": lambda library: counting(library, device="cpu")},
    "agents": {"e": agents},
}
STEPS = {
    "flat": {
        "td": "TensorDict({'o': 1, 'action': 2, 'h': 3, 'next': {'o': 4, 'reward': 5.0, 'done': False, 'x': 6}}, [])"
    },
    "nested": {
        "td": "TensorDict({'a': {'o': 1, 'action': 2, 'h': 3, 'done': True}, 'done': True, 'next': {'a': {'o': 4, "
        "'reward': 5.0, 'done': False}, 'reward': 6.0, 'done': False}}, [])"
    },
    "only-actions": {
        "td": "TensorDict({'a': {'action': 2}, 'next': {'reward': 6.0, 'done': False, 'b': {'x': 1}}}, [])"
    },
}
ENDS = {
    "flat": {"d": "TensorDict({'done': torch.tensor([[True], [False]])}, [2])"},
    "several": {
        "d": "TensorDict({'done': torch.zeros(2, 1, dtype=torch.bool), 'truncated': torch.tensor([[True], [False]]), "
        "'terminated': torch.zeros(2, 1, dtype=torch.bool)}, [2])"
    },
    "nested": {
        "d": "TensorDict({'done': torch.zeros(2, 1, dtype=torch.bool), 'a': TensorDict({'done': torch.ones(2, 3, 1, "
        "dtype=torch.bool)}, [2, 3])}, [2])"
    },
}
PENDULUM = {"seeded": {"p": "PendulumEnv(seed=3)"}}
GYM = {name: {"g": gym(name)} for name in ("CartPole-v1", "Pendulum-v1", "MountainCar-v0")}
SUITE.add(*cross("env", ENVS, TABLE["env"], names=LENT))
SUITE.add(*cross("batched", {"batched": ENVS["batched"]}, TABLE["batched"], names=LENT))
SUITE.add(*cross("step", STEPS, TABLE["step"], names=LENT))
SUITE.add(*cross("ends", ENDS, TABLE["ends"], names=LENT))
SUITE.add(*cross("utilities", {"of": {}}, TABLE["utilities"], names=LENT))
SUITE.add(*cross("pendulum", PENDULUM, TABLE["pendulum"], names=LENT))
SUITE.add(*cross("gym", GYM, TABLE["gym"], names=LENT))
SUITE.add(*cross("gym-made", {"of": {}}, TABLE["gym-made"], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
