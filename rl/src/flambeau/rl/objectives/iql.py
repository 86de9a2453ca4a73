"""Implicit Q-learning from recorded steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import CompositeDistribution, dispatch
from flambeau.rl.objectives._critics import ScalarOutputs
from flambeau.rl.objectives._discrete_sac import chosen_value
from flambeau.rl.objectives._keys import action_of
from flambeau.rl.objectives._reductions import _sum_td_features
from flambeau.rl.objectives._spaces import action_space_of_actor

__all__ = ["DiscreteIQLLoss", "IQLLoss"]

# Advantages do not weigh more than this.
_LARGEST_WEIGHT = 100.0


class IQLLoss(ScalarOutputs):
    """Implicit Q-learning (Kostrikov et al., 2021, arXiv:2110.06169, equations 5 to 7).

    The value network is trained to an upper expectile of the critics' values of recorded actions, the critics to the
    reward and the discounted value of the next state, and the actor to imitate recorded actions, weighed by
    `exp(temperature * advantage)`, 100 at most. No action is taken that was not recorded.

    Args:
        actor_network: has `get_dist`, such as `ProbabilisticActor`.
        qvalue_network: writes the value of an observation and an action, "state_action_value", `(*batch, 1)`; or a list
            of such networks.
        value_network: writes "state_value", `(*batch, 1)`.
        num_qvalue_nets: how many critics there are.
        loss_function: of the critics: "l1", "l2" or "smooth_l1".
        temperature: how much advantages weigh, >= 0; 0 is imitation.
        expectile: which expectile, in (0, 1).
        gamma: use `make_value_estimator(gamma=...)`.
        priority_key: use `set_keys(priority=...)`.
        separate_losses: what networks share is trained by the actor's loss alone, or else by the value network's.
        reduction: "mean", "sum" or "none".
        deactivate_vmap: call the critics one after the other.
        scalar_output_mode: see `SACLoss`.

    Returns of `forward`:
        "loss_actor", "loss_qvalue", "loss_value"; "entropy" without gradients. The input gets "td_error".

    Raises:
        RuntimeError: `priority_key` is given.
        TypeError: `gamma` is given.
    """

    @dataclass
    class _AcceptedKeys:
        value: Any = "state_value"
        action: Any = "action"
        log_prob: Any = "_log_prob"
        priority: Any = "td_error"
        state_action_value: Any = "state_action_value"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss_actor", "loss_qvalue", "loss_value", "entropy"]

    def __init__(
        self, actor_network: Any, qvalue_network: Any, value_network: Any, *, num_qvalue_nets: int = 2,
        loss_function: str = "smooth_l1", temperature: float = 1.0, expectile: float = 0.5,
        gamma: float | None = None, priority_key: str | None = None, separate_losses: bool = False,
        reduction: str | None = None, deactivate_vmap: bool = False, scalar_output_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_reduction(reduction)
        self._set_scalar_output_mode(scalar_output_mode)
        self._set_deprecated_ctor_keys(priority=priority_key)
        self.loss_function, self.deactivate_vmap = loss_function, deactivate_vmap
        self.temperature, self.expectile = temperature, expectile
        self.num_qvalue_nets, self.delay_qvalue = num_qvalue_nets, True
        self.convert_to_functional(actor_network, "actor_network")
        shared = list(actor_network.parameters()) if separate_losses else None
        self.convert_to_functional(value_network, "value_network", compare_against=shared)
        if shared is not None:
            shared += value_network.parameters()
        self._convert_critics(qvalue_network, num_qvalue_nets, True, shared)
        self._refuse_discount(gamma)

    def _estimated_network(self) -> Any:
        return self.value_network

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return self._read_of(self.actor_network, self.qvalue_network, self.value_network)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        loss_actor, of_actor = self.actor_loss(tensordict)
        loss_qvalue, of_critics = self.qvalue_loss(tensordict)
        loss_value, _ = self.value_loss(tensordict)
        self._rank(tensordict, of_critics["td_error"].max(0).values)
        found = {"loss_actor": loss_actor, "loss_qvalue": loss_qvalue, "loss_value": loss_value}
        found["entropy"] = -of_actor["log_prob"].detach().mean()
        return self._results(found, tensordict)

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How unlikely the recorded actions are, weighed by their advantages."""
        data = tensordict.select(*self.actor_network.in_keys, strict=False)
        with self.actor_network_params.to_module(self.actor_network):
            dist = self.actor_network.get_dist(data)
        log_prob = self._score(dist, tensordict)
        with torch.no_grad():
            advantage = self._least_value(tensordict) - self._state_value(tensordict, self._fixed("value_network"))
            weight = (advantage * self.temperature).exp().clamp(max=_LARGEST_WEIGHT)
        return self._reduce_loss(-(weight * log_prob), tensordict), {"log_prob": log_prob.detach()}

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the value network is from its expectile of the critics' values."""
        with torch.no_grad():
            target = self._least_value(tensordict)
        value = self._state_value(tensordict, self.value_network_params)
        return self._reduce_loss(self.loss_value_diff(target - value, self.expectile), tensordict), {}

    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the critics are from their target."""
        with torch.no_grad():
            params = self._fixed("value_network")
            target = self.value_estimator.value_estimate(tensordict, target_params=params).squeeze(-1)
        predicted = self._taken(tensordict, self.qvalue_network_params)
        loss = self._reduce_loss(self._distance(predicted, target), tensordict)
        return loss, {"td_error": (predicted - target).detach().pow(2)}

    @staticmethod
    def loss_value_diff(diff: Tensor, expectile: float = 0.8) -> Tensor:
        """Squares, weighed by `expectile` where they are of positive numbers, and by the rest to 1 elsewhere."""
        return torch.where(diff > 0, expectile, 1 - expectile) * diff.square()

    def _score(self, dist: Any, tensordict: TensorDictBase) -> Tensor:
        """The log-probability of what was done, `batch`."""
        if isinstance(dist, CompositeDistribution):
            found = dist.log_prob(tensordict)
            return found if isinstance(found, Tensor) else _sum_td_features(found)
        return dist.log_prob(action_of(tensordict, self._tensor_keys.action))  # type: ignore[no-any-return]

    def _state_value(self, tensordict: TensorDictBase, params: Any) -> Tensor:
        data = tensordict.select(*self.value_network.in_keys, strict=False)
        with params.to_module(self.value_network):
            return self.value_network(data).get(self._tensor_keys.value).squeeze(-1)  # type: ignore[no-any-return]

    def _least_value(self, tensordict: TensorDictBase) -> Tensor:
        """The least value that a target critic gives to what was done, `batch`."""
        return self._taken(tensordict, self.target_qvalue_network_params).min(0).values

    def _taken(self, tensordict: TensorDictBase, params: Any) -> Tensor:
        """What each critic says of what was done, (critics, *batch)."""
        return self._critic_values(tensordict, params).squeeze(-1)


class DiscreteIQLLoss(IQLLoss):
    """`IQLLoss` for choices: critics write the values of all actions.

    Args:
        actor_network: has `get_dist`, such as `ProbabilisticActor`.
        qvalue_network: writes the values of all actions, "state_action_value", (*batch, actions).
        value_network: writes "state_value", `(*batch, 1)`.
        action_space: "one-hot" or "categorical", or the spec of the action; by default as the actor's spec says, or
            one-hot where it has none.
        num_qvalue_nets, loss_function, temperature, expectile, gamma, priority_key, separate_losses, reduction,
            scalar_output_mode: see `IQLLoss`.
    """

    def __init__(
        self, actor_network: Any, qvalue_network: Any, value_network: Any, *, action_space: Any = None,
        num_qvalue_nets: int = 2, loss_function: str = "smooth_l1", temperature: float = 1.0, expectile: float = 0.5,
        gamma: float | None = None, priority_key: str | None = None, separate_losses: bool = False,
        reduction: str | None = None, scalar_output_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            actor_network, qvalue_network, value_network, num_qvalue_nets=num_qvalue_nets,
            loss_function=loss_function, temperature=temperature, expectile=expectile, gamma=gamma,
            priority_key=priority_key, separate_losses=separate_losses, reduction=reduction,
            scalar_output_mode=scalar_output_mode,
        )  # fmt: skip
        self.action_space = action_space_of_actor(action_space, actor_network, type(self).__name__)

    def _taken(self, tensordict: TensorDictBase, params: Any) -> Tensor:
        values = self._critic_values(tensordict, params)
        return chosen_value(values, action_of(tensordict, self._tensor_keys.action), self.action_space)
