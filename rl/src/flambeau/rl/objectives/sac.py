"""Soft actor-critic, for continuous actions and for choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import composite_lp_aggregate, dispatch
from flambeau.rl.modules.tensordict_module.actors import ActorCriticWrapper
from flambeau.rl.objectives._discrete_sac import DiscreteSACLoss as DiscreteSACLoss
from flambeau.rl.objectives._temperature import TemperedLoss
from flambeau.rl.objectives._temperature import compute_rsample_log_prob as compute_rsample_log_prob
from flambeau.rl.objectives.utils import distance_loss

__all__ = ["DiscreteSACLoss", "SACLoss", "compute_rsample_log_prob"]


class SACLoss(TemperedLoss):
    """Soft actor-critic (Haarnoja et al., 2018, arXiv:1812.05905; with a value network arXiv:1801.01290).

    Critics are trained towards the reward and the discounted soft value of the next state, `min Q - alpha * log pi`;
    the actor towards actions of high soft value; the temperature alpha so that the policy's entropy meets a target.
    With a value network (the first version), that learns the soft values, and each critic learns from its own part of
    a batch.

    Args:
        actor_network: writes an action, and has `get_dist`, such as `ProbabilisticActor`.
        qvalue_network: writes the value of an observation and an action, "state_action_value", `(*batch, 1)`; or a list
            of such networks.
        value_network: writes "state_value", `(*batch, 1)`, for the first version.
        num_qvalue_nets: how many critics there are.
        loss_function: of the critics: "l1", "l2" or "smooth_l1".
        alpha_init: the first temperature, > 0.
        min_alpha: the least temperature.
        max_alpha: the largest.
        action_spec: of the action; that of the actor unless given.
        fixed_alpha: do not train the temperature.
        target_entropy: the entropy to meet, in nats; "auto" is minus the number of the action's elements.
        delay_actor: keep target parameters of the actor.
        delay_qvalue: keep target parameters of the critics.
        delay_value: keep target parameters of the value network.
        gamma: use `make_value_estimator(gamma=...)`.
        priority_key: use `set_keys(priority=...)`.
        separate_losses: what the actor and the critics share is trained by the actor's loss alone.
        reduction: "mean", "sum" or "none".
        skip_done_states: do not call networks on states after a trajectory's end, which count for nothing; for
            compiled code, use False.
        deactivate_vmap: call the critics one after the other.
        use_prioritized_weights: weigh the critics' errors by the entry "priority_weight": "auto" where there is one.
        scalar_output_mode: with `reduction="none"`, what becomes of results that are single numbers: "exclude" them,
            or "non_tensor" for entries that are no tensors.

    Returns of `forward`:
        "loss_actor", "loss_qvalue", "loss_alpha", "loss_value" of the first version; "alpha" and "entropy" without
        gradients. The input gets "td_error".

    Raises:
        RuntimeError: `priority_key` is given; a batch that cannot be divided among the critics of the first version.
        TypeError: `gamma` is given.
        ValueError: a word other than "auto" for the entropy.
    """

    @dataclass
    class _AcceptedKeys:
        action: Any = "action"
        value: Any = "state_value"
        state_action_value: Any = "state_action_value"
        log_prob: Any = None
        priority: Any = "td_error"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"
        priority_weight: Any = "priority_weight"

        def __post_init__(self) -> None:
            if self.log_prob is None:
                self.log_prob = "sample_log_prob" if composite_lp_aggregate(nowarn=True) else "action_log_prob"

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy"]

    def __init__(
        self, actor_network: Any, qvalue_network: Any, value_network: Any = None, *, num_qvalue_nets: int = 2,
        loss_function: str = "smooth_l1", alpha_init: float = 1.0, min_alpha: float | None = None,
        max_alpha: float | None = None, action_spec: Any = None, fixed_alpha: bool = False,
        target_entropy: str | float = "auto", delay_actor: bool = False, delay_qvalue: bool = True,
        delay_value: bool = True, gamma: float | None = None, priority_key: str | None = None,
        separate_losses: bool = False, reduction: str | None = None, skip_done_states: bool = False,
        deactivate_vmap: bool = False, use_prioritized_weights: str | bool = "auto",
        scalar_output_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_reduction(reduction)
        self._set_scalar_output_mode(scalar_output_mode)
        self._set_deprecated_ctor_keys(priority=priority_key)
        self.loss_function, self.deactivate_vmap = loss_function, deactivate_vmap
        self.skip_done_states, self.use_prioritized_weights = skip_done_states, use_prioritized_weights
        self.delay_actor, self.delay_qvalue = delay_actor, delay_qvalue
        self.num_qvalue_nets = num_qvalue_nets
        self._version = 2 if value_network is None else 1
        self.convert_to_functional(actor_network, "actor_network", create_target_params=delay_actor)
        shared = list(actor_network.parameters()) if separate_losses else []
        if value_network is not None:
            self.delay_value = delay_value
            self.out_keys = [*self.out_keys, "loss_value"]
            self.convert_to_functional(
                value_network, "value_network", create_target_params=delay_value, compare_against=shared or None
            )
            self.__dict__["actor_critic"] = ActorCriticWrapper(actor_network, value_network)
            shared += list(value_network.parameters()) if separate_losses else []
        else:
            self.value_network_params = self.target_value_network_params = None
        self._convert_critics(qvalue_network, num_qvalue_nets, delay_qvalue, shared if separate_losses else None)
        self._convert_temperature(alpha_init, min_alpha, max_alpha, fixed_alpha, target_entropy, action_spec)
        self._refuse_discount(gamma)

    def _estimated_network(self) -> Any:
        return self.value_network if self._version == 1 else None

    target_entropy = target_entropy_buffer = property(TemperedLoss._entropy_to_meet)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self._default_device

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        networks = [self.actor_network, self.qvalue_network]
        return self._read_of(*networks, *([self.value_network] if self._version == 1 else []))

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        alpha = self._alpha()
        loss_actor, of_actor = self.actor_loss(tensordict)
        extra = {}
        if self._version == 1:
            loss_qvalue, of_critics = self.qvalue_v1_loss(tensordict)
            extra["loss_value"], _ = self.value_loss(tensordict)
        else:
            loss_qvalue, of_critics = self.qvalue_v2_loss(tensordict)
        loss_alpha = self.alpha_loss(of_actor["log_prob"])
        self._rank(tensordict, of_critics["td_error"])
        found = {"loss_actor": loss_actor, "loss_qvalue": loss_qvalue}
        found["loss_alpha"] = self._weighted(loss_alpha, tensordict)
        found |= {**extra, "alpha": alpha, "entropy": -of_actor["log_prob"].detach().mean()}
        return self._results(found, tensordict)

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How low the soft value of what the actor does is."""
        data = tensordict.select(*self.actor_network.in_keys, *self.qvalue_network.in_keys, strict=False)
        log_prob = self._acted(data, self.actor_network_params)
        value = self._critic_values(data, self._fixed("qvalue_network")).min(0).values.squeeze(-1)
        if log_prob.shape != value.shape:
            raise RuntimeError(
                f"Log-probabilities have shape {tuple(log_prob.shape)}, and values of actions {tuple(value.shape)} "
                "without their last dimension; both must be one for each step."
            )
        loss = self._alpha() * log_prob - value
        return self._weighted(loss, tensordict), {"log_prob": log_prob.detach()}

    def qvalue_v1_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far each critic is from its target on its part of the batch."""
        count, steps = self.num_qvalue_nets, tensordict.numel()
        if steps % count:
            raise RuntimeError(
                f"A batch of {steps} steps cannot be divided among {count} critics; with a value network each learns "
                "from its own part."
            )
        with torch.no_grad():
            target = self.value_estimator.value_estimate(
                tensordict, target_params=self.target_value_network_params
            ).squeeze(-1)
        parts = tensordict.select(*self.qvalue_network.in_keys, strict=False).reshape(count, -1)
        target = target.reshape(count, -1)
        predicted = self._critic_values(parts, self.qvalue_network_params, dims=(0, 0)).squeeze(-1)
        loss = distance_loss(predicted, target, loss_function=self.loss_function).reshape(tensordict.shape)
        error = (predicted - target).detach().pow(2).reshape(tensordict.shape)
        return self._weighted(loss, tensordict), {"td_error": error}

    def qvalue_v2_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the critics are from their target."""
        with torch.no_grad():
            target = self._compute_target_v2(tensordict)
        predicted = self._critic_values(tensordict, self.qvalue_network_params).squeeze(-1)
        error = (predicted - target).detach().abs()
        return self._weighted(self._distance(predicted, target), tensordict), {"td_error": error.max(0).values}

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the value network is from the soft values of what the actor does."""
        data = tensordict.select(*self.value_network.in_keys, strict=False)
        params: Any = self.value_network_params
        with params.to_module(self.value_network):
            predicted = self.value_network(data).get(self._tensor_keys.value).squeeze(-1)
        with torch.no_grad():
            data = tensordict.select(*self.actor_network.in_keys, *self.qvalue_network.in_keys, strict=False)
            log_prob = self._acted(data, self.target_actor_network_params)
            value = self._critic_values(data, self.target_qvalue_network_params).min(0).values.squeeze(-1)
            target = value - self._alpha() * log_prob
        return self._weighted(distance_loss(predicted, target, loss_function=self.loss_function), tensordict), {}

    def alpha_loss(self, log_prob: Tensor) -> Tensor:
        """How far the entropy is from its target, by the logarithm of the temperature."""
        return self._loss_of_temperature(log_prob)

    def _compute_target_v2(self, tensordict: TensorDictBase) -> Tensor:
        data = self._following(tensordict, self.actor_network, self.qvalue_network)
        return self._target_of(tensordict, self._where_it_goes_on(self._soft_value, data, tensordict))

    def _soft_value(self, data: TensorDictBase) -> Tensor:
        # Upstream: the actor as it is, also where there is a delayed one.
        log_prob = self._acted(data, self.actor_network_params)
        value = self._critic_values(data, self.target_qvalue_network_params).min(0).values
        return value - self._alpha() * log_prob.unsqueeze(-1)
