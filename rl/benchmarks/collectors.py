"""Frames a second of collectors on CartPole, beside torchrl's where it is installed.

    python rl/benchmarks/collectors.py

Random actions, a small MLP that chooses the better of two scores, and one that draws from them; one thread, CPU time,
the best of several batches.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from typing import Any

import torch

FRAMES, ROUNDS = 500, 7


class Library:
    """A library by the roots of its names."""

    def __init__(self, root: str, tensordict: str) -> None:
        self.collectors, self.envs = (importlib.import_module(f"{root}.{name}") for name in ("collectors", "envs"))
        self.modules, self.nn = importlib.import_module(f"{root}.modules"), importlib.import_module(f"{tensordict}.nn")


def random(library: Library, env: Any) -> None:
    """No policy."""


def best(library: Library, env: Any) -> Any:
    """The action with the higher score."""
    net = library.modules.MLP(in_features=4, out_features=2, depth=2, num_cells=64)
    return library.modules.QValueActor(net, in_keys=["observation"], spec=env.action_spec)


def drawn(library: Library, env: Any) -> Any:
    """An action drawn by its score."""
    net = library.modules.MLP(in_features=4, out_features=2, depth=2, num_cells=64)
    scores = library.nn.TensorDictModule(net, in_keys=["observation"], out_keys=["logits"])
    kind = library.modules.OneHotCategorical
    return library.modules.ProbabilisticActor(scores, in_keys=["logits"], distribution_class=kind, spec=env.action_spec)


def plain(library: Library) -> Any:
    """CartPole."""
    return library.envs.GymEnv("CartPole-v1")


def transformed(library: Library) -> Any:
    """CartPole with a count of steps and a sum of rewards."""
    steps = library.envs.Compose(library.envs.StepCounter(), library.envs.RewardSum())
    return library.envs.TransformedEnv(plain(library), steps)


def frames_per_second(library: Library, make: Any, policy: Any) -> float:
    """Of one collector."""
    env = make(library)
    collector = library.collectors.Collector(env, policy(library, env), frames_per_batch=FRAMES, total_frames=-1)
    batches = iter(collector)
    next(batches)
    fastest = 0.0
    for _ in range(ROUNDS):
        begin = time.process_time()
        next(batches)
        fastest = max(fastest, FRAMES / (time.process_time() - begin))
    collector.shutdown()
    return fastest


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    ours = Library("flambeau.rl", "flambeau.data.tensordict")
    has_peer = importlib.util.find_spec("torchrl") is not None
    peer = Library("torchrl", "tensordict") if has_peer else None
    print(f"{'frames a second':28}{'flambeau.rl':>12}{'torchrl':>12}{'ratio':>8}")
    for make in (plain, transformed):
        for policy in (random, best, drawn):
            rate = frames_per_second(ours, make, policy)
            row = f"{make.__name__ + ', ' + policy.__name__:28}{rate:12,.0f}"
            if peer is not None:
                other = frames_per_second(peer, make, policy)
                row += f"{other:12,.0f}{rate / other:8.1f}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
