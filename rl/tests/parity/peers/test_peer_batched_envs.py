"""Batches of environments do what torchrl's do: in one process, in several, with specs that differ."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy
import pytest
import torch
from env_subjects import agents, counting
from spec_describing import describe_rl
from test_peer_envs import names

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent
SUITE = Suite(
    "batched_envs",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict", "env_subjects"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)
LENT = {"torch": torch, "numpy": numpy}
TABLE = read_table(HERE / "batched_programs.txt")


def batch(make: Any) -> Any:
    def build(library: Any) -> Any:
        torch.manual_seed(0)
        return library.SerialEnv(3, lambda: make(library))

    return build


def cart_poles(library: Any) -> Any:
    torch.manual_seed(0)
    env = library.SerialEnv(3, lambda: library.GymEnv("CartPole-v1"))
    env.set_seed(0)
    return env


def wide(library: Any) -> Any:
    """An environment like `counting`, whose observation is longer."""
    env = counting(library)
    reset, step = env._reset, env._step
    env.set_spec_lock_(False)
    env.observation_spec = library.Composite(count=library.Unbounded((5,)))

    def longer(data: Any) -> Any:
        return data.set("count", torch.cat([data["count"], data["count"][:2]], -1))

    env._reset = lambda tensordict, **kwargs: longer(reset(tensordict, **kwargs))
    env._step = lambda tensordict: longer(step(tensordict))
    return env


def exported(library: Any) -> Any:
    """Registers an environment with gymnasium, and makes it there."""

    def make(kind: Any, **options: Any) -> Any:
        wanted = {name: options.pop(name) for name in ("transform",) if name in options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with library.set_gym_backend("gymnasium"):
                kind.register_gym("Exported-v0", **options)
                return gymnasium.make("Exported-v0", disable_env_checker=True, **wanted)

    return make


COUNTING = {"counting": {"b": batch(counting)}}
BATCHES = {**COUNTING, "agents": {"b": batch(agents)}, "cart-poles": {"b": cart_poles}}
MAKERS = {
    "f": lambda library: lambda **kwargs: counting(library, **kwargs),
    "wide": lambda library: lambda: wide(library),
}
SUITE.add(*cross("batch", BATCHES, TABLE["batch"], names=LENT))
SUITE.add(*cross("counting", COUNTING, TABLE["counting"], names=LENT))
SUITE.add(*cross("exported", {"of": {"make": exported}}, TABLE["exported"], names=LENT))
SUITE.add(*cross("made", {"of": MAKERS}, TABLE["made"], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
