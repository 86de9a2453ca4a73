"""Deterministic policy gradients with a critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.modules.tensordict_module.actors import ActorCriticWrapper
from flambeau.rl.objectives._critics import CriticLoss
from flambeau.rl.objectives._keys import after, each_once
from flambeau.rl.objectives.utils import distance_loss

__all__ = ["DDPGLoss"]


class DDPGLoss(CriticLoss):
    """Deep deterministic policy gradients (Lillicrap et al., 2016, arXiv:1509.02971, algorithm 1).

    The critic is trained towards the reward and the discounted value of the action that the target actor takes next;
    the actor is trained to take actions that the critic values.

    Args:
        actor_network: writes an action.
        value_network: writes the value of an observation and an action, "state_action_value", `(*batch, 1)`.
        loss_function: of the critic: "l1", "l2" or "smooth_l1".
        delay_actor: keep target parameters of the actor.
        delay_value: keep target parameters of the critic.
        gamma: use `make_value_estimator(gamma=...)`.
        separate_losses: what both networks share is trained by the actor's loss alone.
        reduction: "mean", "sum" or "none".
        use_prioritized_weights: weigh the critic's errors by the entry "priority_weight": "auto" where there is one.

    Returns of `forward`:
        "loss_actor", "loss_value"; without gradients "pred_value" and "target_value", `batch`, and their largest
        values. The input gets "td_error", the squared errors, as priorities.

    Raises:
        TypeError: `gamma` is given.

    Example:
        >>> from torch import nn
        >>> from flambeau.data.tensordict.nn import TensorDictModule
        >>> from flambeau.rl.modules import MLP, ValueOperator
        >>> actor = TensorDictModule(nn.Linear(4, 2), ["observation"], ["action"])
        >>> critic = ValueOperator(MLP(in_features=6, out_features=1), in_keys=["observation", "action"])
        >>> loss = DDPGLoss(actor, critic)
        >>> loss.out_keys[:2]
        ['loss_actor', 'loss_value']
    """

    @dataclass
    class _AcceptedKeys:
        state_action_value: Any = "state_action_value"
        priority: Any = "td_error"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"
        priority_weight: Any = "priority_weight"

    default_keys = _AcceptedKeys
    out_keys = ["loss_actor", "loss_value", "pred_value", "target_value", "pred_value_max", "target_value_max"]
    _value_key = "state_action_value"

    def __init__(
        self, actor_network: Any, value_network: Any, *, loss_function: str = "l2", delay_actor: bool = False,
        delay_value: bool = True, gamma: float | None = None, separate_losses: bool = False,
        reduction: str | None = None, use_prioritized_weights: str | bool = "auto",
    ) -> None:  # fmt: skip
        super().__init__()
        self._refuse_discount(gamma)
        self._set_reduction(reduction)
        self.loss_function, self.use_prioritized_weights = loss_function, use_prioritized_weights
        self.delay_actor, self.delay_value = delay_actor, delay_value
        self.convert_to_functional(actor_network, "actor_network", create_target_params=delay_actor)
        self.convert_to_functional(
            value_network,
            "value_network",
            create_target_params=delay_value,
            compare_against=list(actor_network.parameters()) if separate_losses else None,
        )
        self.__dict__["actor_critic"] = ActorCriticWrapper(actor_network, value_network)

    def _estimated_network(self) -> Any:
        return self.actor_critic

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        weights = [] if self.use_prioritized_weights is False else [self._tensor_keys.priority_weight]
        networks = self.actor_network, self.value_network
        return each_once(self._read_of(*networks), map(after, self.value_network.in_keys), weights)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        loss_value, metadata = self.loss_value(tensordict)
        self._rank(tensordict, metadata["td_error"])
        loss_actor, _ = self.loss_actor(tensordict)
        return self._results({"loss_actor": loss_actor, "loss_value": loss_value, **metadata}, tensordict)

    def loss_actor(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How little the critic values what the actor does."""
        data = tensordict.select(*self.actor_network.in_keys, *self.value_network.in_keys, strict=False).detach()
        with self.actor_network_params.to_module(self.actor_network):
            data = self.actor_network(data)
        with self._fixed("value_network").to_module(self.value_network):
            value = self.value_network(data).get(self._tensor_keys.state_action_value)
        return self._weighted(-value.squeeze(-1), tensordict), {}

    def loss_value(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the critic is from its target."""
        data = tensordict.select(*self.value_network.in_keys, strict=False).detach()
        with self.value_network_params.to_module(self.value_network):
            predicted = self.value_network(data).get(self._tensor_keys.state_action_value).squeeze(-1)
        with torch.no_grad():
            target = self.value_estimator.value_estimate(tensordict, target_params=self._targets()).squeeze(-1)
        error = predicted - target
        loss = distance_loss(predicted, target, loss_function=self.loss_function)
        predicted = predicted.detach()
        metadata = {
            "td_error": error.detach().pow(2),
            "pred_value": predicted,
            "target_value": target,
            "target_value_max": target.max(),
            "pred_value_max": predicted.max(),
        }
        return self._weighted(loss, tensordict), metadata

    def _targets(self) -> TensorDict:
        """Parameters of the actor and the critic behind it, of the targets."""
        both = (self.target_actor_network_params, self.target_value_network_params)
        return TensorDict({"module": TensorDict({str(at): params for at, params in enumerate(both)})})
