"""Proximal policy optimization of several agents, with one critic for all or one for each."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives.ppo import ClipPPOLoss
from flambeau.rl.objectives.utils import ValueEstimators

__all__ = ["IPPOLoss", "MAPPOLoss"]


class MAPPOLoss(ClipPPOLoss):
    """Multi-agent PPO (Yu et al., 2022, arXiv:2103.01955): agents act by what each sees, one critic sees everything.

    `ClipPPOLoss` of actions (*batch, agents, actions) and values (*batch, agents, 1), whose advantages come from
    `MultiAgentGAE`, which gives rewards and ends that agents share to each of them.

    Args:
        actor_network: has `get_dist`, such as `ProbabilisticActor` over `MultiAgentMLP(centralized=False)`.
        critic_network: writes the values of all agents, such as `MultiAgentMLP(centralized=True)`.
        value_norm: compares values and targets on this norm's scale, such as `PopArtValueNorm`. It learns from the
            targets of each call, less those of steps that masks leave out.
        entropy_coeff: how much the entropy counts, or a coefficient for each head.
        normalize_advantage: bring advantages to mean 0 and deviation 1.
        normalize_advantage_exclude_dims: dimensions along which each element is so brought apart from the others;
            by default that of agents.
        **kwargs: of `ClipPPOLoss`.

    Note:
        Name the entries of the team by `set_keys(value=("agents", "state_value"), ...)`.
    """

    default_value_estimator = ValueEstimators.MAGAE
    value_norm: Any

    def __init__(
        self, actor_network: Any = None, critic_network: Any = None, *, value_norm: Any = None,
        entropy_coeff: float | dict[str, float] = 0.01, normalize_advantage: bool = True,
        normalize_advantage_exclude_dims: tuple[int, ...] = (-2,), **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            actor_network, critic_network, entropy_coeff=entropy_coeff, normalize_advantage=normalize_advantage,
            normalize_advantage_exclude_dims=normalize_advantage_exclude_dims, **kwargs,
        )  # fmt: skip
        self.value_norm = value_norm

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of a team's steps; see the class."""
        return self._results(tensordict)

    def _scaled(self, tensordict: TensorDictBase, value: Any, target: Any, former: Any) -> tuple[Any, Any, Any]:
        norm = self.value_norm
        if norm is None:
            return value, target, former
        norm.update(self._rows_that_count(tensordict))
        value, target = norm.normalize(value), norm.normalize(target)
        return value, target, None if former is None else norm.normalize(former)


class IPPOLoss(MAPPOLoss):
    """Independent PPO (de Witt et al., 2020, arXiv:2011.09533): each agent's critic sees what the agent sees.

    The same computation as `MAPPOLoss`: the critic makes the difference, such as `MultiAgentMLP(centralized=False)`.

    Args:
        actor_network, critic_network, value_norm, entropy_coeff, normalize_advantage,
            normalize_advantage_exclude_dims, **kwargs: see `MAPPOLoss`.
    """
