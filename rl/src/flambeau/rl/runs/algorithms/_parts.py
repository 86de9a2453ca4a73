"""What an algorithm gives a run, and the networks that several of them use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from flambeau.core.errors import FlambeauError
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.data import LazyTensorStorage, TensorDictReplayBuffer
from flambeau.rl.data.tensor_specs import Bounded, OneHot
from flambeau.rl.modules import (
    MLP,
    NormalParamExtractor,
    OneHotCategorical,
    ProbabilisticActor,
    TanhModule,
    TanhNormal,
    ValueOperator,
)

__all__ = [
    "Parts",
    "UnfitEnvironmentError",
    "continuous",
    "critic",
    "deterministic_policy",
    "discrete",
    "q_network",
    "replay",
    "stochastic_policy",
]


class UnfitEnvironmentError(FlambeauError, ValueError):
    """The algorithm takes no actions of the kind that the environment has."""


@dataclass
class Parts:
    """What an algorithm consists of.

    Attributes:
        policy: acts, and is evaluated.
        explores: acts while steps are collected; often the same.
        loss: what is trained.
        trainer: the class of the trainer.
        options: its further arguments.
        frames_per_batch: steps of a batch, of all environments together.
        init_random_frames: of the first steps.
    """

    policy: nn.Module
    explores: Any
    loss: Any
    trainer: Any
    options: dict[str, Any] = field(default_factory=dict)
    frames_per_batch: int = 1
    init_random_frames: int = 0


def discrete(env: Any, algorithm: str) -> int:
    """The number of an environment's actions.

    Raises:
        UnfitEnvironmentError: they are no choices.
    """
    spec = env.action_spec_unbatched
    if not isinstance(spec, OneHot):
        raise UnfitEnvironmentError(
            f"{algorithm} chooses among actions, and this environment takes {type(spec).__name__}; "
            "use ppo, a2c, sac, td3, ddpg, iql or cql."
        )
    return int(spec.space.n)


def continuous(env: Any, algorithm: str) -> int:
    """The number of an environment's controls.

    Raises:
        UnfitEnvironmentError: they are not continuous, or have no limits.
    """
    spec = env.action_spec_unbatched
    if not isinstance(spec, Bounded):
        raise UnfitEnvironmentError(
            f"{algorithm} takes continuous actions with limits, and this environment's are {type(spec).__name__}; "
            "use ppo, a2c or dqn."
        )
    return int(spec.shape[-1])


def seen(env: Any) -> int:
    """The number of an environment's observations."""
    return int(env.observation_spec["observation"].shape[-1])


def network(inputs: int, outputs: int, cells: tuple[int, ...], activation: type[nn.Module]) -> MLP:
    """A network of linear layers."""
    return MLP(in_features=inputs, out_features=outputs, num_cells=list(cells), activation_class=activation)


def stochastic_policy(env: Any, cells: tuple[int, ...], activation: type[nn.Module]) -> ProbabilisticActor:
    """A policy that draws its actions: of one-hot choices, or of a normal distribution that is squeezed into limits."""
    inputs = seen(env)
    if isinstance(env.action_spec_unbatched, OneHot):
        module = TensorDictModule(
            network(inputs, int(env.action_spec_unbatched.space.n), cells, activation), ["observation"], ["logits"]
        )
        return ProbabilisticActor(
            module,
            in_keys=["logits"],
            distribution_class=OneHotCategorical,
            spec=env.action_spec_unbatched,
            return_log_prob=True,
        )
    controls = continuous(env, "a policy")
    body = nn.Sequential(network(inputs, 2 * controls, cells, activation), NormalParamExtractor())
    space = env.action_spec_unbatched.space
    limits = {"low": space.low.reshape(-1, controls)[0], "high": space.high.reshape(-1, controls)[0]}
    return ProbabilisticActor(
        TensorDictModule(body, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs=limits,
        spec=env.action_spec_unbatched,
        return_log_prob=True,
    )


def deterministic_policy(env: Any, cells: tuple[int, ...], algorithm: str) -> Any:
    """A policy that gives one action, within limits."""
    from flambeau.data.tensordict.nn import TensorDictSequential

    controls = continuous(env, algorithm)
    body = TensorDictModule(network(seen(env), controls, cells, nn.ReLU), ["observation"], ["param"])
    return TensorDictSequential(
        body, TanhModule(in_keys=["param"], out_keys=["action"], spec=env.action_spec_unbatched)
    )


def critic(env: Any, cells: tuple[int, ...], activation: type[nn.Module]) -> ValueOperator:
    """Values of observations."""
    return ValueOperator(network(seen(env), 1, cells, activation), in_keys=["observation"])


def q_network(env: Any, cells: tuple[int, ...]) -> ValueOperator:
    """Values of observations and actions."""
    controls = int(env.action_spec_unbatched.shape[-1])
    return ValueOperator(network(seen(env) + controls, 1, cells, nn.ReLU), in_keys=["observation", "action"])


def replay(capacity: int, batch_size: int, device: Any = None) -> TensorDictReplayBuffer:
    """A buffer of single steps."""
    storage = LazyTensorStorage(capacity) if device is None else LazyTensorStorage(capacity, device=device)
    return TensorDictReplayBuffer(storage=storage, batch_size=batch_size)


def parameters_of(loss: Any, *names: str) -> list[torch.Tensor]:
    """The parameters of a loss whose names begin so."""
    return [value for name, value in loss.named_parameters() if name.startswith(names)]
