"""What an algorithm gives a run, and the networks that several of them use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.errors import FlambeauError
from flambeau.data.tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from flambeau.rl.data.postprocs.postprocs import MultiStep
from flambeau.rl.data.replay_buffers import LazyTensorStorage
from flambeau.rl.data.replay_buffers.replay_buffers.tensordict import TensorDictReplayBuffer
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
    "LookAhead",
    "NeededSteps",
    "Parts",
    "UnfitEnvironmentError",
    "adam",
    "continuous",
    "critic",
    "deterministic_policy",
    "discrete",
    "gaussian_policy",
    "orthogonal",
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
        hooks: are registered with the trainer.
        frames_per_batch: steps of a batch, of all environments together.
        init_random_frames: of the first steps.
    """

    policy: nn.Module
    explores: Any
    loss: Any
    trainer: Any
    options: dict[str, Any] = field(default_factory=dict)
    hooks: Sequence[Any] = ()
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
    return _squeezed(env, nn.Sequential(network(inputs, 2 * controls, cells, activation), NormalParamExtractor()))


def gaussian_policy(env: Any, cells: tuple[int, ...], activation: type[nn.Module]) -> ProbabilisticActor:
    """A policy that draws from a normal distribution, squeezed into limits, whose scale is the same in all states."""
    controls = continuous(env, "a policy")
    mean = orthogonal(network(seen(env), controls, cells, activation), last=0.01)
    return _squeezed(env, nn.Sequential(mean, AddStateIndependentNormalScale(controls)))


def _squeezed(env: Any, body: nn.Module) -> ProbabilisticActor:
    """A policy by a network of locations and scales."""
    space, controls = env.action_spec_unbatched.space, int(env.action_spec_unbatched.shape[-1])
    limits = {"low": space.low.reshape(-1, controls)[0], "high": space.high.reshape(-1, controls)[0]}
    return ProbabilisticActor(
        TensorDictModule(body, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs=limits,
        spec=env.action_spec_unbatched,
        return_log_prob=True,
    )


def orthogonal(net: nn.Module, last: float) -> nn.Module:
    """Draw orthogonal weights, and biases of 0.

    What PPO needs for continuous actions: the first policy acts around the middle in every state (Engstrom et al. 2020,
    arXiv:2005.12729; Andrychowicz et al. 2021, arXiv:2006.05990, section 3.2).

    Args:
        net: of linear layers.
        last: by what the weights of the last layer are multiplied; those of the others are by the root of 2.

    Returns:
        The network.
    """
    layers = [layer for layer in net.modules() if isinstance(layer, nn.Linear)]
    for layer in layers:
        nn.init.orthogonal_(layer.weight, last if layer is layers[-1] else 2**0.5)
        nn.init.zeros_(layer.bias)
    return net


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


class NeededSteps(TensorDictReplayBuffer):
    """A buffer that keeps of each step what a loss reads: samples of the rest would be copied in vain.

    Args:
        keys: what is kept, as far as steps have it.
        prepare: changes steps on their way into the buffer; None for nothing.
        kwargs: of the buffer.
    """

    def __init__(self, keys: Iterable[Any], prepare: Callable[[Any], Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._kept, self._prepare = list(keys), prepare

    def extend(self, tensordicts: Any, *, update_priority: bool | None = None) -> Tensor:
        """Add the rows of a tensordict, without what nothing reads; their places."""
        steps = tensordicts.select(*self._kept, strict=False)
        return super().extend(steps if self._prepare is None else self._prepare(steps), update_priority=update_priority)


def replay(
    capacity: int, batch_size: int, keys: Iterable[Any], prepare: Callable[[Any], Any] | None = None
) -> NeededSteps:
    """A buffer of what a loss reads of single steps."""
    return NeededSteps(keys, prepare, storage=LazyTensorStorage(capacity), batch_size=batch_size)


class LookAhead(MultiStep):
    """Steps of several environments, one environment after the other, that end several steps later.

    As `MultiStep`, and an episode's end within these steps is theirs, so that no value is counted behind it.

    Args:
        envs: how many environments.
        gamma: discount a step.
        n_steps: how many steps.
    """

    def __init__(self, envs: int, gamma: float, n_steps: int) -> None:
        super().__init__(gamma, n_steps)
        self.envs = envs

    def forward(self, tensordict: Any) -> Any:
        """The steps, (envs * time), with "steps_to_next_obs" and without what `MultiStep` keeps of the former."""
        found = super().forward(tensordict.reshape(self.envs, -1))
        steps = found.get("steps_to_next_obs")
        last = (torch.arange(steps.shape[1]) + steps - 1).unsqueeze(-1)
        following = found.get("next")
        for name in ("done", "terminated"):
            following.set(name, following.get(name).gather(1, last))
        return found.exclude("gamma", "nonterminal", ("next", "original_reward")).reshape(-1)


def adam(parameters: Iterable[Tensor], **options: Any) -> torch.optim.Adam:
    """Adam in one pass over all parameters, where torch has it.

    With networks as small as these the steps of one parameter after the other take as long as the gradients.

    Args:
        parameters: what is trained; a loss may move them to another device later.
        options: of the optimizer.
    """
    return torch.optim.Adam(list(parameters), fused=True, **options)


def parameters_of(loss: Any, *names: str) -> list[torch.Tensor]:
    """The parameters of a loss whose names begin so."""
    return [value for name, value in loss.named_parameters() if name.startswith(names)]
