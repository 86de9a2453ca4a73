"""Soft actor-critic with many critics, of which a few at a time make the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import composite_lp_aggregate, dispatch
from flambeau.rl.objectives._keys import each_once
from flambeau.rl.objectives._temperature import TemperedLoss

__all__ = ["REDQLoss"]


class RandomizedEnsemble(TemperedLoss):
    """The part of REDQ that its older form shares: many critics, a random few for each target."""

    delay_actor = False
    _target_name = "target_entropy_buffer"
    target_entropy = property(TemperedLoss._entropy_to_meet)

    def __init__(
        self, actor_network: Any, qvalue_network: Any, *, num_qvalue_nets: int = 10, sub_sample_len: int = 2,
        loss_function: str = "smooth_l1", alpha_init: float = 1.0, min_alpha: float = 0.1, max_alpha: float = 10.0,
        action_spec: Any = None, fixed_alpha: bool = False, target_entropy: str | float = "auto",
        delay_qvalue: bool = True, gSDE: bool = False, gamma: float | None = None,
        priority_key: str | None = None, separate_losses: bool = False, reduction: str | None = None,
        deactivate_vmap: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_reduction(reduction)
        self._set_deprecated_ctor_keys(priority=priority_key)
        self.loss_function, self.deactivate_vmap = loss_function, deactivate_vmap
        self.num_qvalue_nets, self.delay_qvalue, self.gSDE = num_qvalue_nets, delay_qvalue, gSDE
        self.sub_sample_len = max(1, min(sub_sample_len, num_qvalue_nets - 1))
        self.convert_to_functional(actor_network, "actor_network")
        shared = actor_network.parameters() if separate_losses else None
        self._convert_critics(qvalue_network, num_qvalue_nets, delay_qvalue, shared)
        self._convert_temperature(alpha_init, min_alpha, max_alpha, fixed_alpha, target_entropy, action_spec)
        self._refuse_discount(gamma)

    @property
    def alpha(self) -> Tensor:
        """The temperature, without gradients."""
        return self._alpha()

    def _some_targets(self) -> Any:
        """Parameters of a few critics, drawn without repetition."""
        chosen = torch.randperm(self.num_qvalue_nets, device=self.log_alpha.device)[: self.sub_sample_len].sort().values
        return self.target_qvalue_network_params.data[chosen]

    def _shape_of_results(self, tensordict: TensorDictBase) -> Any:
        return []  # critics come before the batch

    def _loss_of_temperature(self, log_prob: Tensor) -> Tensor:
        alpha = self.log_alpha.clamp(self.min_log_alpha, self.max_log_alpha).exp()
        return -alpha * (log_prob.detach() + self._entropy_to_meet())


class REDQLoss(RandomizedEnsemble):
    """Randomized ensembled double Q-learning (Chen et al., 2021, arXiv:2101.05982, algorithm 1).

    Args:
        actor_network: writes an action, and has `get_dist`, such as `ProbabilisticActor`.
        qvalue_network: writes the value of an observation and an action, "state_action_value", `(*batch, 1)`; or a list
            of such networks.
        num_qvalue_nets: how many critics there are.
        sub_sample_len: how many of them, drawn anew each time, make a target: from 1 to one less than there are.
        loss_function: of the critics: "l1", "l2" or "smooth_l1".
        alpha_init: the first temperature, > 0.
        min_alpha: the least temperature.
        max_alpha: the largest.
        action_spec: of the action; that of the actor unless given.
        fixed_alpha: do not train the temperature.
        target_entropy: the entropy to meet, in nats; "auto" is minus the number of the action's elements.
        delay_qvalue: keep target parameters of the critics.
        gSDE: the actor explores by `gSDEModule`, whose noise in the input is kept for the states after the steps.
        gamma: use `make_value_estimator(gamma=...)`.
        priority_key: use `set_keys(priority=...)`.
        separate_losses: what the actor and the critics share is trained by the actor's loss alone.
        reduction: "mean", "sum" or "none".
        deactivate_vmap: call the critics one after the other.
        scalar_output_mode: see `SACLoss`.

    Returns of `forward`:
        "loss_actor" and "loss_qvalue", with `reduction="none"` (critics, *batch), and "loss_alpha", (2, *batch) of the
        states before and after the steps; without gradients "alpha", "entropy", and of each step
        "state_action_value_actor" (critics, *batch), "action_log_prob_actor", "next.state_value" and "target_value".
        The input gets "td_error".

    Raises:
        RuntimeError: `priority_key` is given.
        TypeError: `gamma` is given.
    """

    @dataclass
    class _AcceptedKeys:
        action: Any = "action"
        value: Any = "state_value"
        sample_log_prob: Any = None
        priority: Any = "td_error"
        state_action_value: Any = "state_action_value"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"

        def __post_init__(self) -> None:
            if self.sample_log_prob is None:
                self.sample_log_prob = "sample_log_prob" if composite_lp_aggregate(nowarn=True) else "action_log_prob"

    default_keys = _AcceptedKeys
    out_keys: Any = [
        "loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy", "state_action_value_actor",
        "action_log_prob_actor", "next.state_value", "target_value",
    ]  # fmt: skip

    def __init__(
        self, actor_network: Any, qvalue_network: Any, *, num_qvalue_nets: int = 10, sub_sample_len: int = 2,
        loss_function: str = "smooth_l1", alpha_init: float = 1.0, min_alpha: float = 0.1, max_alpha: float = 10.0,
        action_spec: Any = None, fixed_alpha: bool = False, target_entropy: str | float = "auto",
        delay_qvalue: bool = True, gSDE: bool = False, gamma: float | None = None,
        priority_key: str | None = None, separate_losses: bool = False, reduction: str | None = None,
        deactivate_vmap: bool = False, scalar_output_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            actor_network, qvalue_network, num_qvalue_nets=num_qvalue_nets, sub_sample_len=sub_sample_len,
            loss_function=loss_function, alpha_init=alpha_init, min_alpha=min_alpha, max_alpha=max_alpha,
            action_spec=action_spec, fixed_alpha=fixed_alpha, target_entropy=target_entropy, delay_qvalue=delay_qvalue,
            gSDE=gSDE, gamma=gamma, priority_key=priority_key, separate_losses=separate_losses, reduction=reduction,
            deactivate_vmap=deactivate_vmap,
        )  # fmt: skip
        self._set_scalar_output_mode(scalar_output_mode)

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return each_once(self._read_of(self.actor_network, self.qvalue_network), self._tensor_keys.sample_log_prob)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        actor = self.actor_network
        now = tensordict.select(*actor.in_keys, *self.qvalue_network.in_keys, strict=False)
        following = self._following(tensordict, actor, self.qvalue_network)
        if self.gSDE:
            following.set("_eps_gSDE", torch.zeros_like(tensordict.get("_eps_gSDE")))
        alpha = self._alpha()
        inputs = [each.select(*actor.in_keys, strict=False) for each in (now, following)]
        both: Any = torch.stack(inputs, 0)
        log_probs = self._acted(both, self.actor_network_params)
        for data, acted in zip((now, following), both.unbind(0), strict=True):
            data.set(self._tensor_keys.action, acted.get(self._tensor_keys.action))
        log_prob, next_log_prob = log_probs[0], log_probs[1].detach()
        with torch.no_grad():
            next_value = self._critic_values(following, self._some_targets()).min(0).values
            next_value = next_value - alpha * next_log_prob.unsqueeze(-1)
            target = self._target_of(tensordict, next_value)
        value = self._critic_values(now, self._fixed("qvalue_network")).squeeze(-1)
        predicted = self._critic_values(tensordict, self.qvalue_network_params).squeeze(-1)
        error = (predicted - target).detach().pow(2)
        self._rank(tensordict, error.max(0).values)
        found = {
            "loss_actor": self._reduce_each(alpha * log_prob - value, tensordict),
            "loss_qvalue": self._reduce_each(self._distances(predicted, target), tensordict),
            "loss_alpha": self._reduce_each(self._loss_of_temperature(log_probs), tensordict),
            "alpha": alpha,
            "entropy": -log_probs.detach().mean(),
            "state_action_value_actor": value.detach(),
            "action_log_prob_actor": log_prob.detach(),
            "next.state_value": next_value.squeeze(-1),
            "target_value": target,
        }
        return self._results(found, tensordict)
