"""Deterministic policy gradients with two critics and noise on the target's actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._critics import CriticLoss, action_spec_of

__all__ = ["TD3Loss"]


class SmoothedTargets(CriticLoss):
    """The part of TD3 that its relatives share: an actor, critics, and a target that sees noisy actions."""

    @dataclass
    class _AcceptedKeys:
        action: Any = "action"
        state_action_value: Any = "state_action_value"
        priority: Any = "td_error"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"
        priority_weight: Any = "priority_weight"

    default_keys = _AcceptedKeys
    _value_key = "state_action_value"

    def __init__(
        self, actor_network: Any, qvalue_network: Any, *, action_spec: Any, bounds: Any, num_qvalue_nets: int,
        policy_noise: float, noise_clip: float, loss_function: str, delay_actor: bool, delay_qvalue: bool,
        priority_key: str | None, separate_losses: bool, reduction: str | None, deactivate_vmap: bool,
        use_prioritized_weights: str | bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_reduction(reduction)
        self._set_deprecated_ctor_keys(priority=priority_key)
        self.loss_function, self.deactivate_vmap = loss_function, deactivate_vmap
        self.use_prioritized_weights = use_prioritized_weights
        self.delay_actor, self.delay_qvalue, self.num_qvalue_nets = delay_actor, delay_qvalue, num_qvalue_nets
        self.policy_noise, self.noise_clip = policy_noise, noise_clip
        low, high = self._bounds(action_spec, bounds)
        self.convert_to_functional(actor_network, "actor_network", create_target_params=delay_actor)
        shared = actor_network.parameters() if separate_losses else None
        self._convert_critics(qvalue_network, num_qvalue_nets, delay_qvalue, shared)
        for name, bound in (("max_action", high), ("min_action", low)):
            self.register_buffer(name, torch.as_tensor(bound, device=self._default_device))

    def _bounds(self, spec: Any, bounds: Any) -> tuple[Any, Any]:
        if (spec is None) == (bounds is None):
            raise ValueError(
                f"{type(self).__name__} needs to know between which bounds actions lie: pass either `action_spec` or "
                "`bounds`, not both."
            )
        if bounds is None:
            spec = action_spec_of(spec, self._tensor_keys.action)
            return spec.space.low, spec.space.high
        if len(bounds) != 2:
            raise ValueError(f"`bounds` is {bounds!r}, expected two: the lowest and the highest action.")
        low, high = bounds
        return low, high

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return self._read_of(self.actor_network, self.qvalue_network)

    def _acted(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, Tensor]:
        """What the actor does, and what each critic says of it, (critics, *batch)."""
        data = tensordict.select(*self.actor_network.in_keys, *self.qvalue_network.in_keys, strict=False)
        with self.actor_network_params.to_module(self.actor_network):
            data = self.actor_network(data)
        return data, self._critic_values(data, self._fixed("qvalue_network")).squeeze(-1)

    def _critic_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.no_grad():
            next_value = self._next_value(tensordict)
            target = self._target_of(tensordict, next_value)
        predicted = self._critic_values(tensordict, self.qvalue_network_params).squeeze(-1)
        loss = self._distance(predicted, target)
        predicted = predicted.detach()
        metadata = {
            "td_error": (predicted - target).pow(2),
            "next_state_value": next_value.squeeze(-1),
            "pred_value": predicted,
            "target_value": target,
        }
        return self._weighted(loss, tensordict), metadata

    def _next_value(self, tensordict: TensorDictBase) -> Tensor:
        """The least value that a target critic gives to the target actor's noisy action."""
        key = self._tensor_keys.action
        data = self._following(tensordict, self.actor_network, self.qvalue_network)
        with self.target_actor_network_params.to_module(self.actor_network):
            data = self.actor_network(data)
        action = data.get(key)
        noise = torch.randn_like(action) * self.policy_noise
        noise = noise.clamp(-self.noise_clip, self.noise_clip)
        data.set(key, (action + noise).clamp(self.min_action, self.max_action))
        return self._critic_values(data, self.target_qvalue_network_params).min(0).values


class TD3Loss(SmoothedTargets):
    """Twin delayed deterministic policy gradients (Fujimoto et al., 2018, arXiv:1802.09477, algorithm 1).

    Critics are trained towards the reward and the least discounted value that any of them gives to a noisy action of
    the target actor; the actor is trained to take actions that the first critic values.

    Args:
        actor_network: writes an action.
        qvalue_network: writes the value of an observation and an action, "state_action_value", `(*batch, 1)`; or a list
            of such networks.
        action_spec: of the action, for its bounds; a `Composite` is asked for the action's key.
        bounds: the lowest and the highest action, numbers or tensors, instead.
        num_qvalue_nets: how many critics there are.
        policy_noise: standard deviation of the noise on the target's actions.
        noise_clip: the most that it changes an action.
        loss_function: of the critics: "l1", "l2" or "smooth_l1".
        delay_actor: keep target parameters of the actor.
        delay_qvalue: keep target parameters of the critics.
        gamma: use `make_value_estimator(gamma=...)`.
        priority_key: use `set_keys(priority=...)`.
        separate_losses: what the actor and the critics share is trained by the actor's loss alone.
        reduction: "mean", "sum" or "none".
        deactivate_vmap: call the critics one after the other.
        use_prioritized_weights: weigh the critics' errors by the entry "priority_weight": "auto" where there is one.

    Returns of `forward`:
        "loss_actor", "loss_qvalue"; without gradients "pred_value" and "state_action_value_actor", (critics, *batch),
        "next_state_value" and "target_value", `batch`. The input gets "td_error", the largest squared errors.

    Raises:
        ValueError: neither `action_spec` nor `bounds`, or both.
        TypeError: `gamma` is given.
        RuntimeError: `priority_key` is given.
    """

    out_keys = [
        "loss_actor", "loss_qvalue", "pred_value", "state_action_value_actor", "next_state_value", "target_value",
    ]  # fmt: skip

    def __init__(
        self, actor_network: Any, qvalue_network: Any, *, action_spec: Any = None, bounds: Any = None,
        num_qvalue_nets: int = 2, policy_noise: float = 0.2, noise_clip: float = 0.5,
        loss_function: str = "smooth_l1", delay_actor: bool = True, delay_qvalue: bool = True,
        gamma: float | None = None, priority_key: str | None = None, separate_losses: bool = False,
        reduction: str | None = None, deactivate_vmap: bool = False, use_prioritized_weights: str | bool = "auto",
    ) -> None:  # fmt: skip
        super().__init__(
            actor_network, qvalue_network, action_spec=action_spec, bounds=bounds, num_qvalue_nets=num_qvalue_nets,
            policy_noise=policy_noise, noise_clip=noise_clip, loss_function=loss_function, delay_actor=delay_actor,
            delay_qvalue=delay_qvalue, priority_key=priority_key, separate_losses=separate_losses,
            reduction=reduction, deactivate_vmap=deactivate_vmap, use_prioritized_weights=use_prioritized_weights,
        )  # fmt: skip
        self._refuse_discount(gamma)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        loss_actor, of_actor = self.actor_loss(tensordict)
        loss_value, of_critics = self.value_loss(tensordict)
        self._rank(tensordict, of_critics.pop("td_error").max(0).values)
        found = {"loss_actor": loss_actor, "loss_qvalue": loss_value, **of_actor, **of_critics}
        return self._results(found, tensordict)

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How little the first critic values what the actor does."""
        _, values = self._acted(tensordict)
        return self._weighted(-values[0], tensordict), {"state_action_value_actor": values.detach()}

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the critics are from their target."""
        return self._critic_loss(tensordict)
