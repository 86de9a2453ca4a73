"""Soft actor-critic for choices among a number of actions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._keys import action_of
from flambeau.rl.objectives._spaces import action_space_of_actor
from flambeau.rl.objectives._temperature import TemperedLoss

__all__ = ["DiscreteSACLoss", "chosen_value"]


def chosen_value(values: Tensor, action: Tensor, space: str) -> Tensor:
    """The values of the actions that were taken.

    Args:
        values: (*any, *batch, actions).
        action: `(*batch, actions)` one-hot, or numbers, `batch` or (*batch, 1), where `space` is "categorical".
        space: the name of the kind of actions.

    Returns:
        (*any, *batch).
    """
    if space == "categorical":
        if action.dim() < values.dim() and action.shape != values.shape[-action.dim() - 1 : -1]:
            action = action.squeeze(-1)
        places = action.unsqueeze(-1).expand(*values.shape[:-1], 1)
        return values.gather(-1, places).squeeze(-1)
    return (values * action.to(values.dtype)).sum(-1)


class DiscreteSACLoss(TemperedLoss):
    """Soft actor-critic for choices (Christodoulou, 2019, arXiv:1910.07207).

    As `SACLoss`, with expectations over all actions in place of draws.

    Args:
        actor_network: has `get_dist`, whose distribution has `probs` (*batch, actions).
        qvalue_network: writes the values of all actions, "action_value", (*batch, actions).
        action_space: "one-hot" or "categorical", or the spec of the action; by default as the actor's spec says, or
            one-hot where it has none.
        num_actions: how many actions there are; of the spec unless given.
        num_qvalue_nets: how many critics there are.
        loss_function: of the critics: "l1", "l2" or "smooth_l1".
        alpha_init: the first temperature, > 0.
        min_alpha: the least temperature.
        max_alpha: the largest.
        fixed_alpha: do not train the temperature.
        target_entropy_weight: what part of the largest entropy "auto" is.
        target_entropy: the entropy to meet, in nats; "auto" is `target_entropy_weight * log(num_actions)`.
        delay_qvalue: keep target parameters of the critics.
        priority_key: use `set_keys(priority=...)`.
        separate_losses: what the actor and the critics share is trained by the actor's loss alone.
        reduction: "mean", "sum" or "none".
        skip_done_states: do not call networks on states after a trajectory's end, which count for nothing; for
            compiled code, use False.
        deactivate_vmap: call the critics one after the other.
        use_prioritized_weights: weigh errors by the entry "priority_weight": "auto" where there is one.
        scalar_output_mode: see `SACLoss`.

    Returns of `forward`:
        "loss_actor", "loss_qvalue", "loss_alpha"; "alpha" and "entropy" without gradients. The input gets "td_error".

    Raises:
        RuntimeError: `priority_key` is given.
        ValueError: `num_actions` is needed, or no action space is known.
    """

    @dataclass
    class _AcceptedKeys:
        action: Any = "action"
        value: Any = "state_value"
        action_value: Any = "action_value"
        priority: Any = "td_error"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"
        log_prob: Any = "log_prob"
        priority_weight: Any = "priority_weight"

    default_keys = _AcceptedKeys
    delay_actor = False
    out_keys: Any = ["loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy"]

    def __init__(
        self, actor_network: Any, qvalue_network: Any, *, action_space: Any = None, num_actions: int | None = None,
        num_qvalue_nets: int = 2, loss_function: str = "smooth_l1", alpha_init: float = 1.0,
        min_alpha: float | None = None, max_alpha: float | None = None, fixed_alpha: bool = False,
        target_entropy_weight: float = 0.98, target_entropy: str | float = "auto", delay_qvalue: bool = True,
        priority_key: str | None = None, separate_losses: bool = False, reduction: str | None = None,
        skip_done_states: bool = False, deactivate_vmap: bool = False, use_prioritized_weights: str | bool = "auto",
        scalar_output_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_reduction(reduction)
        self._set_scalar_output_mode(scalar_output_mode)
        self._set_deprecated_ctor_keys(priority=priority_key)
        self.loss_function, self.deactivate_vmap = loss_function, deactivate_vmap
        self.skip_done_states, self.use_prioritized_weights = skip_done_states, use_prioritized_weights
        self.delay_qvalue, self.num_qvalue_nets = delay_qvalue, num_qvalue_nets
        self.convert_to_functional(actor_network, "actor_network")
        shared = actor_network.parameters() if separate_losses else None
        self._convert_critics(qvalue_network, num_qvalue_nets, delay_qvalue, shared)
        self.action_space = action_space_of_actor(action_space, actor_network, type(self).__name__)
        if target_entropy == "auto":
            count = getattr(getattr(action_space, "space", None), "n", None) if num_actions is None else num_actions
            if count is None:
                raise ValueError(
                    "target_entropy='auto' needs to know how many actions there are: pass num_actions, or the spec of "
                    "the action as action_space."
                )
            target_entropy = target_entropy_weight * math.log(count)
        self._convert_temperature(alpha_init, min_alpha, max_alpha, fixed_alpha, target_entropy, None)

    _target_name = "target_entropy"

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return self._read_of(self.actor_network, self.qvalue_network)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        loss_actor, of_actor = self.actor_loss(tensordict)
        loss_qvalue, of_critics = self.qvalue_loss(tensordict)
        loss_alpha = self.alpha_loss(of_actor["log_prob"])
        self._rank(tensordict, of_critics["td_error"])
        found = {"loss_actor": loss_actor, "loss_qvalue": loss_qvalue}
        found["loss_alpha"] = self._weighted(loss_alpha, tensordict)
        found |= {"alpha": self._alpha(), "entropy": -of_actor["log_prob"].detach().mean()}
        return self._results(found, tensordict)

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How low the expected soft value is."""
        data = tensordict.select(*self.actor_network.in_keys, *self.qvalue_network.in_keys, strict=False)
        prob, log_prob = self._probabilities(data, self.actor_network_params)
        value = self._critic_values(data, self._fixed("qvalue_network"), self._tensor_keys.action_value).min(0).values
        loss = (prob * (self._alpha() * log_prob - value)).sum(-1)
        return self._weighted(loss, tensordict), {"log_prob": (log_prob * prob).sum(-1).detach()}

    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the critics are from their target."""
        keys = self._tensor_keys
        with torch.no_grad():
            data = self._following(tensordict, self.actor_network, self.qvalue_network)
            target = self._target_of(tensordict, self._where_it_goes_on(self._soft_value, data, tensordict))
        values = self._critic_values(tensordict, self.qvalue_network_params, keys.action_value)
        predicted = chosen_value(values, action_of(tensordict, keys.action), self.action_space)
        error = (predicted - target).detach().abs()
        return self._weighted(self._distance(predicted, target), tensordict), {"td_error": error.max(0).values}

    def alpha_loss(self, log_prob: Tensor) -> Tensor:
        """How far the entropy is from its target, by the logarithm of the temperature."""
        return self._loss_of_temperature(log_prob)

    def _probabilities(self, data: TensorDictBase, params: Any) -> tuple[Tensor, Tensor]:
        prob = self._policy(data, params).probs
        return prob, torch.where(prob == 0, 1e-8, prob).log()

    def _soft_value(self, data: TensorDictBase) -> Tensor:
        prob, log_prob = self._probabilities(data, self.actor_network_params)
        params, key = self.target_qvalue_network_params, self._tensor_keys.action_value
        value = self._critic_values(data, params, key).min(0).values
        return (prob * (value - self._alpha() * log_prob)).sum(-1, keepdim=True)
