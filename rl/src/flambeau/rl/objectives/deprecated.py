"""Losses in their former form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import composite_lp_aggregate, dispatch
from flambeau.rl.objectives.redq import RandomizedEnsemble

__all__ = ["DoubleREDQLoss_deprecated", "REDQLoss_deprecated"]


class REDQLoss_deprecated(RandomizedEnsemble):  # upstream's name
    """`REDQLoss` as it was before: the temperature is trained by what the actor does before the steps alone.

    It takes the arguments of `REDQLoss`, but for `scalar_output_mode`, and returns "loss_actor", "loss_qvalue",
    "loss_alpha", "alpha" and "entropy" alone. The priority is the largest absolute error.
    """

    @dataclass
    class _AcceptedKeys:
        action: Any = "action"
        state_action_value: Any = "state_action_value"
        value: Any = "state_value"
        log_prob: Any = None
        priority: Any = "td_error"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"

        def __post_init__(self) -> None:
            if self.log_prob is None:
                self.log_prob = "sample_log_prob" if composite_lp_aggregate(nowarn=True) else "action_log_prob"

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy"]

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return self._read_of(self.actor_network, self.qvalue_network)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        loss_actor, log_prob = self._actor_loss(tensordict)
        loss_qvalue, error = self._qvalue_loss(tensordict)
        self._rank(tensordict, error)
        found = {
            "loss_actor": self._reduce_each(loss_actor, tensordict),
            "loss_qvalue": self._reduce_each(loss_qvalue, tensordict),
            "loss_alpha": self._reduce_loss(self._loss_of_temperature(log_prob), tensordict),
            "alpha": self._alpha(),
            "entropy": -log_prob.detach().mean(),
        }
        return TensorDict(self._selected(found), [])

    def _actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, Tensor]:
        data = tensordict.select(*self.actor_network.in_keys, *self.qvalue_network.in_keys, strict=False)
        log_prob = self._acted(data, self.actor_network_params)
        value = self._critic_values(data, self._fixed("qvalue_network")).squeeze(-1)
        return self._alpha() * log_prob - value, log_prob.detach()

    def _qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            data = self._following(tensordict, self.actor_network, self.qvalue_network)
            log_prob = self._acted(data, self.actor_network_params)
            value = self._critic_values(data, self._some_targets()).min(0).values
            target = self._target_of(tensordict, value - self._alpha() * log_prob.unsqueeze(-1))
        predicted = self._critic_values(tensordict, self.qvalue_network_params).squeeze(-1)
        return self._distances(predicted, target), (predicted - target).detach().abs().max(0).values


class DoubleREDQLoss_deprecated(REDQLoss_deprecated):  # upstream's name
    """`REDQLoss_deprecated` with target parameters."""

    delay_qvalue = True
