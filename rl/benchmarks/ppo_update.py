"""An update of proximal policy optimization beside torchrl's and beside plain torch, in one process, on one thread.

    python rl/benchmarks/ppo_update.py [--quick]

Microseconds of CPU time of loss, gradients and a step of Adam, for 64 steps with 17 observations, 6 actions, and
networks of two layers of 64; advantages are in the batch. The least of several repetitions, in turn. An update with
`ClipPPOLoss` takes at most 0.6 of torchrl's time and 1.5 of plain torch's; the program exits with 1 where it takes
more. Where `torchrl` is not installed it is left out. `--quick` runs everything once, to see that it runs.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

QUICK = "--quick" in sys.argv
REPETITIONS = 3 if QUICK else 400
STEPS, OBSERVATIONS, ACTIONS, CELLS = 64, 17, 6, 64
BOUNDS = {"torchrl": 0.6, "plain torch": 1.5}


def network(out: int) -> nn.Sequential:
    layers = nn.Linear(OBSERVATIONS, CELLS), nn.Tanh(), nn.Linear(CELLS, CELLS), nn.Tanh(), nn.Linear(CELLS, out)
    return nn.Sequential(*layers)


def batch() -> dict[str, Tensor]:
    """Steps with advantages and targets of values."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(STEPS, *shape, generator=generator)

    return {
        "observation": draw(OBSERVATIONS), "action": draw(ACTIONS), "action_log_prob": draw() - 8,
        "advantage": draw(1), "value_target": draw(1),
    }  # fmt: skip


def updating(loss_of: Callable[[], Tensor], parameters: list[nn.Parameter]) -> Callable[[], None]:
    optimizer = torch.optim.Adam(parameters, lr=3e-4)

    def update() -> None:
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()

    return update


def plain() -> Callable[[], None]:
    """The same losses by hand."""
    actor, critic, data = network(2 * ACTIONS), network(1), batch()

    def loss() -> Tensor:
        loc, scale = actor(data["observation"]).chunk(2, -1)
        policy = torch.distributions.Normal(loc, F.softplus(scale + 0.54).clamp_min(1e-4))
        log_ratio = (policy.log_prob(data["action"]).sum(-1) - data["action_log_prob"]).unsqueeze(-1)
        ratio = log_ratio.exp()
        gain = torch.minimum(ratio * data["advantage"], ratio.clamp(0.8, 1.2) * data["advantage"])
        entropy = policy.entropy().sum(-1)
        of_critic = F.smooth_l1_loss(critic(data["observation"]), data["value_target"])
        return -gain.mean() - 0.01 * entropy.mean() + of_critic

    return updating(loss, [*actor.parameters(), *critic.parameters()])


def library(package: str, collection: str) -> Callable[[], None] | None:
    """An update with a library's `ClipPPOLoss`; None where it is not installed."""
    try:
        tensordict, nets = importlib.import_module(collection), importlib.import_module(f"{collection}.nn")
        modules, losses = (importlib.import_module(f"{package}.{name}") for name in ("modules", "objectives"))
    except ImportError:
        return None
    layers = nn.Sequential(network(2 * ACTIONS), nets.NormalParamExtractor())
    actor = modules.ProbabilisticActor(
        nets.TensorDictModule(layers, ["observation"], ["loc", "scale"]), in_keys=["loc", "scale"],
        distribution_class=modules.IndependentNormal, return_log_prob=True,
    )  # fmt: skip
    critic = modules.ValueOperator(network(1), in_keys=["observation"])
    loss, data = losses.ClipPPOLoss(actor, critic), tensordict.TensorDict(batch(), [STEPS])

    def total() -> Any:
        found = loss(data)
        return found["loss_objective"] + found["loss_entropy"] + found["loss_critic"]

    return updating(total, list(loss.parameters()))


def least(functions: list[Callable[[], Any]]) -> list[float]:
    """The least microseconds of each, run in turn."""
    times = [float("inf")] * len(functions)
    for _ in range(REPETITIONS):
        for at, function in enumerate(functions):
            begin = time.thread_time()
            function()
            times[at] = min(times[at], (time.thread_time() - begin) * 1e6)
    return times


def main() -> int:
    """Print the table; 1 where a bound is missed."""
    torch.set_num_threads(1)
    ours = library("flambeau.rl", "flambeau.data.tensordict")
    others = {"plain torch": plain(), "torchrl": library("torchrl", "tensordict")}
    others = {name: update for name, update in others.items() if update is not None}
    assert ours is not None
    mine, *times = least([ours, *others.values()])
    print(f"{'flambeau.rl':12} {mine:8.0f} us")
    missed = 0
    for name, taken in zip(others, times, strict=True):
        print(f"{name:12} {taken:8.0f} us   ratio {mine / taken:.2f}, at most {BOUNDS[name]}")
        missed += not QUICK and mine / taken > BOUNDS[name]
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
