"""Soft actor-critic without target networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._temperature import TemperedLoss

__all__ = ["CrossQLoss"]


class CrossQLoss(TemperedLoss):
    """CrossQ (Bhatt et al., 2024, arXiv:1902.05605): values before and after steps in one call of the critics.

    As `SACLoss`, but targets come from the trained critics. These normalize by batches (`BatchRenorm1d`), so that both
    kinds of states have to be in one batch.

    Args:
        actor_network: writes an action, and has `get_dist`, such as `ProbabilisticActor`.
        qvalue_network: writes the value of an observation and an action, "state_action_value", `(*batch, 1)`; or a list
            of such networks.
        num_qvalue_nets: how many critics there are.
        loss_function: of the critics: "l1", "l2" or "smooth_l1".
        alpha_init: the first temperature, > 0.
        min_alpha: the least temperature.
        max_alpha: the largest.
        action_spec: of the action; that of the actor unless given.
        fixed_alpha: do not train the temperature.
        target_entropy: the entropy to meet, in nats; "auto" is minus the number of the action's elements.
        priority_key: use `set_keys(priority=...)`.
        separate_losses: what the actor and the critics share is trained by the actor's loss alone.
        reduction: "mean", "sum" or "none".
        deactivate_vmap: call the critics one after the other.
        scalar_output_mode: see `SACLoss`.

    Returns of `forward`:
        "loss_actor", "loss_qvalue", "loss_alpha"; without gradients "alpha", "entropy", and of each step "log_prob" and
        "td_error". The input gets "td_error".

    Raises:
        RuntimeError: `priority_key` is given.
        ValueError: a word other than "auto" for the entropy.
    """

    @dataclass
    class _AcceptedKeys:
        action: Any = "action"
        state_action_value: Any = "state_action_value"
        priority: Any = "td_error"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"
        log_prob: Any = "_log_prob"

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy"]
    _value_key = "state_action_value"

    def __init__(
        self, actor_network: Any, qvalue_network: Any, *, num_qvalue_nets: int = 2, loss_function: str = "smooth_l1",
        alpha_init: float = 1.0, min_alpha: float | None = None, max_alpha: float | None = None,
        action_spec: Any = None, fixed_alpha: bool = False, target_entropy: str | float = "auto",
        priority_key: str | None = None, separate_losses: bool = False, reduction: str | None = None,
        deactivate_vmap: bool = False, scalar_output_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_reduction(reduction)
        self._set_scalar_output_mode(scalar_output_mode)
        self._set_deprecated_ctor_keys(priority=priority_key)
        self.loss_function, self.deactivate_vmap = loss_function, deactivate_vmap
        self.num_qvalue_nets = num_qvalue_nets
        self.convert_to_functional(actor_network, "actor_network")
        shared = actor_network.parameters() if separate_losses else None
        self._convert_critics(qvalue_network, num_qvalue_nets, False, shared)
        self._convert_temperature(alpha_init, min_alpha, max_alpha, fixed_alpha, target_entropy, action_spec)

    target_entropy = target_entropy_buffer = property(TemperedLoss._entropy_to_meet)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self._default_device

    def get_action_spec(self) -> Any:
        """The spec of actions that was given, or the actor's."""
        return self._action_spec if self._action_spec is not None else getattr(self.actor_network, "spec", None)

    def maybe_init_target_entropy(self, fault_tolerant: bool = True) -> None:
        """Work out the target entropy, which is done from the start where a spec is known.

        Raises:
            RuntimeError: no spec is known, unless `fault_tolerant`.
        """
        if not fault_tolerant:
            self._entropy_to_meet()

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return self._read_of(self.actor_network, self.qvalue_network)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        loss_qvalue, of_critics = self.qvalue_loss(tensordict)
        loss_actor, of_actor = self.actor_loss(tensordict)
        loss_alpha = self.alpha_loss(of_actor["log_prob"], tensordict)
        self._rank(tensordict, of_critics["td_error"])
        found = {"loss_actor": loss_actor, "loss_qvalue": loss_qvalue, "loss_alpha": loss_alpha}
        found |= {**of_actor, **of_critics, "alpha": self._alpha(), "entropy": -of_actor["log_prob"].detach().mean()}
        return self._results(found, tensordict)

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How low the soft value of what the actor does is."""
        data = tensordict.select(*self.actor_network.in_keys, *self.qvalue_network.in_keys, strict=False)
        log_prob = self._acted(data, self.actor_network_params)
        value = self._critic_values(data, self._fixed("qvalue_network")).min(0).values.squeeze(-1)
        return self._reduce_loss(self._alpha() * log_prob - value, tensordict), {"log_prob": log_prob.detach()}

    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the critics are from their target."""
        inputs = self.qvalue_network.in_keys
        following = self._following(tensordict, self.actor_network, self.qvalue_network)
        with torch.no_grad():
            log_prob = self._acted(following, self.actor_network_params)
        both = torch.cat([tensordict.select(*inputs, strict=False), following.select(*inputs, strict=False)], 0)
        values, next_values = self._critic_values(both, self.qvalue_network_params).chunk(2, 1)
        with torch.no_grad():
            value = next_values.min(0).values - self._alpha() * log_prob.unsqueeze(-1)
            target = self._target_of(tensordict, value)
        predicted = values.squeeze(-1)
        loss = self._reduce_loss(self._distance(predicted, target), tensordict)
        return loss, {"td_error": (predicted - target).detach().abs().max(0).values}

    def alpha_loss(self, log_prob: Tensor, tensordict: TensorDictBase | None = None) -> Tensor:
        """How far the entropy is from its target, by the logarithm of the temperature."""
        return self._reduce_loss(self._loss_of_temperature(log_prob), tensordict)
