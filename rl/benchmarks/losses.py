"""Updates by losses beside torchrl's, in one process, on one thread.

    python rl/benchmarks/losses.py [--quick]

Microseconds of CPU time of a loss, its gradients and a step of Adam, on 64 steps of 17 observations and 6 actions, with
networks of two layers of 64; the least of several repetitions, in turn. An update of PPO takes at most 0.6 of torchrl's
time; the program exits with 1 where it takes more. Where `torchrl` is not installed it is left out. `--quick` runs
everything once, to see that it runs.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

QUICK = "--quick" in sys.argv
REPETITIONS = 1 if QUICK else 60
BATCH, OBSERVATIONS, ACTIONS, HIDDEN = 64, 17, 6, 64
BOUNDS = {"ClipPPOLoss": 0.6}


class Critic(nn.Module):
    """The value of an observation and an action."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBSERVATIONS + ACTIONS, 1)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """One number for each."""
        return self.net(torch.cat([observation, action], -1))  # type: ignore[no-any-return]


def mlp(size: int, out: int) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Linear(size, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, out)
    )


def updates(root: str, tensordict: str) -> dict[str, Callable[[], Any]]:
    """One update by each loss of one of the two libraries; nothing where it is not installed."""
    try:
        losses = importlib.import_module(f"{root}.objectives")
    except ImportError:
        return {}
    modules, specs = importlib.import_module(f"{root}.modules"), importlib.import_module(f"{root}.data")
    tensors, nets = importlib.import_module(tensordict), importlib.import_module(f"{tensordict}.nn")
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def policy(kind: Any, **bounds: float) -> Any:
        net = nn.Sequential(mlp(OBSERVATIONS, 2 * ACTIONS), nets.NormalParamExtractor())
        return modules.ProbabilisticActor(
            nets.TensorDictModule(net, ["observation"], ["loc", "scale"]), in_keys=["loc", "scale"],
            distribution_class=kind, distribution_kwargs=bounds, return_log_prob=True,
            spec=specs.Bounded(-1, 1, (ACTIONS,)),
        )  # fmt: skip

    def critic() -> Any:
        return modules.ValueOperator(Critic(), in_keys=["observation", "action"])

    def actor() -> Any:
        return modules.Actor(mlp(OBSERVATIONS, ACTIONS), in_keys=["observation"])

    choices = modules.QValueActor(mlp(OBSERVATIONS, ACTIONS), spec=specs.OneHot(ACTIONS), in_keys=["observation"])
    value = modules.ValueOperator(mlp(OBSERVATIONS, 1), in_keys=["observation"])
    made = {
        "DQNLoss": losses.DQNLoss(choices, action_space="one-hot"),
        "DDPGLoss": losses.DDPGLoss(actor(), critic()),
        "TD3Loss": losses.TD3Loss(actor(), critic(), bounds=(-1, 1)),
        "SACLoss": losses.SACLoss(policy(modules.TanhNormal, low=-1.0, high=1.0), critic()),
        "ClipPPOLoss": losses.ClipPPOLoss(policy(modules.IndependentNormal), value),
    }
    done = torch.rand(BATCH, 1, generator=generator) > 0.95
    steps = {
        "observation": draw(BATCH, OBSERVATIONS), "action": draw(BATCH, ACTIONS).tanh() * 0.9,
        "action_log_prob": draw(BATCH) - 1, "advantage": draw(BATCH, 1), "value_target": draw(BATCH, 1),
        "next": {"observation": draw(BATCH, OBSERVATIONS), "reward": draw(BATCH, 1), "done": done, "terminated": done},
    }  # fmt: skip
    batch = tensors.TensorDict(steps, [BATCH])
    chosen = nn.functional.one_hot(batch["action"].argmax(-1), ACTIONS)
    return {
        name: update(loss, batch.clone().set("action", chosen) if name == "DQNLoss" else batch.clone())
        for name, loss in made.items()
    }


def update(loss: Any, batch: Any) -> Callable[[], Any]:
    """A step of training."""
    parameters = list(loss.parameters())
    optimizer = torch.optim.Adam(parameters, 1e-4)

    def step() -> None:
        found = loss(batch)
        total = sum(value for key, value in found.items() if key.startswith("loss"))
        optimizer.zero_grad()
        total.backward()  # type: ignore[union-attr]
        optimizer.step()

    return step


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
    ours, peers = updates("flambeau.rl", "flambeau.data.tensordict"), updates("torchrl", "tensordict")
    missed = 0
    for name, function in ours.items():
        times = least([function, peers[name]] if peers else [function])
        line = f"{name:14} {times[0]:9.0f} us"
        if peers:
            line += f"   torchrl {times[1]:9.0f} us   ratio {times[0] / times[1]:.2f}"
            missed += not QUICK and times[0] / times[1] > BOUNDS.get(name, float("inf"))
        print(line)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
