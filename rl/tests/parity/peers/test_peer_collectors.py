"""Collectors do what torchrl's do: batches, numbers of trajectories, options, states, weights."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from env_subjects import agents, counting, counting_of
from spec_describing import describe_rl
from test_peer_envs import Names

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent


def names(root: str, tensordict: str) -> Names:
    return Names(
        f"{root}.envs",
        f"{root}.data",
        f"{root}.collectors",
        f"{root}.collectors.utils",
        f"{root}.collectors.collectors",
        f"{root}.envs.utils",
        f"{tensordict}.nn",
        tensordict,
    )


SUITE = Suite(
    "collectors",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict", "env_subjects"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)
LENT = {"torch": torch, "time": time}
TABLE = read_table(HERE / "collector_programs.txt")


def given(make: Any) -> dict[str, Any]:
    """An environment, a collector of it with few steps, and what both are used with."""

    def env(library: Any) -> Any:
        torch.manual_seed(0)
        return make(library)

    def collector(library: Any) -> Any:
        def made(env: Any, policy: Any = None, **options: Any) -> Any:
            return library.Collector(env, policy, **{"frames_per_batch": 6, "total_frames": 12} | options)

        return made

    def buffer(library: Any) -> Any:
        return lambda size, **options: library.ReplayBuffer(
            storage=library.LazyTensorStorage(size, **options), batch_size=2
        )

    def linear(library: Any) -> Any:
        torch.manual_seed(0)
        scores = library.TensorDictModule(torch.nn.Linear(3, 4), in_keys=["count"], out_keys=["scores"])
        best = library.TensorDictModule(lambda x: x.argmax(-1), in_keys=["scores"], out_keys=["action"])
        return library.TensorDictSequential(scores, best)

    return {
        "env": env,
        "C": collector,
        "buffer": buffer,
        "linear": linear,
        "Interruptor": lambda library: library._Interruptor,
    }


def cart_pole(library: Any) -> Any:
    env = library.GymEnv("CartPole-v1")
    env.set_seed(0)
    return env


def cart_poles(library: Any) -> Any:
    env = library.SerialEnv(2, lambda: library.GymEnv("CartPole-v1"))
    env.set_seed(0)
    return env


def transformed(library: Any) -> Any:
    transforms = __import__(f"{library.EnvBase.__module__.rpartition('.')[0]}.transforms", fromlist=["Compose"])
    steps = transforms.Compose(transforms.InitTracker(), transforms.RewardSum())
    return (
        library.TransformedEnv(counting(library, (2,)), steps)
        if hasattr(library, "TransformedEnv")
        else (transforms.TransformedEnv(counting(library, (2,)), steps))
    )


SUBJECTS = {
    "counting": given(counting),
    "pairs": given(lambda library: counting(library, (2,))),
    "agents": given(agents),
    "cart-pole": given(cart_pole),
    "cart-poles": given(cart_poles),
    "transformed": given(transformed),
}
PAIRS = {name: SUBJECTS[name] for name in ("pairs", "cart-poles", "transformed")}
SUITE.add(*cross("of", SUBJECTS, TABLE["of"], names=LENT))
SUITE.add(*cross("single", {"counting": SUBJECTS["counting"]}, TABLE["single"], names=LENT))
SUITE.add(
    *cross(
        "buffers", {name: SUBJECTS[name] for name in ("counting", "agents", "cart-pole")}, TABLE["buffers"], names=LENT
    )
)
SUITE.add(*cross("batched", PAIRS, TABLE["batched"], names=LENT))
SUITE.add(*cross("policies", {"counting": SUBJECTS["counting"]}, TABLE["policies"], names=LENT))


def counting_elsewhere(library: Any) -> Any:
    """A function that makes an environment that counts, in whatever process."""
    root = library.EnvBase.__module__.partition(".envs")[0]
    return functools.partial(counting_of, root, library.TensorDict.__module__.rpartition(".")[0])


def several() -> dict[str, Any]:
    """Collectors of several processes."""

    def collector(kind: str) -> Any:
        def of(library: Any) -> Any:
            def made(count: int, policy: Any = None, **options: Any) -> Any:
                makers = [counting_elsewhere(library)] * count
                return getattr(library, kind)(makers, policy, **{"frames_per_batch": 12, "total_frames": 24} | options)

            return made

        return of

    return given(counting) | {
        "Sync": collector("MultiSyncCollector"),
        "Async": collector("MultiAsyncCollector"),
        "one": counting_elsewhere,
    }


SUITE.add(*cross("several", {"counting": several()}, TABLE["several"], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
