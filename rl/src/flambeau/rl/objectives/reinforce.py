"""The plain policy gradient."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._policy_gradient import PolicyGradientLoss

__all__ = ["ReinforceLoss"]


class ReinforceLoss(PolicyGradientLoss):
    """REINFORCE with a baseline (Williams, 1992, doi:10.1007/BF00992696).

    The actor is trained to make likelier what had an advantage, the critic to meet the returns.

    Args:
        actor_network: has `get_dist`, such as `ProbabilisticActor`.
        critic_network: writes "state_value", `(*batch, 1)`.
        delay_value: keep target parameters of the critic.
        loss_critic_type: "l1", "l2" or "smooth_l1".
        gamma: use `make_value_estimator(gamma=...)`.
        advantage_key: use `set_keys(advantage=...)`.
        value_target_key: use `set_keys(value_target=...)`.
        separate_losses: what both networks share is trained by the actor's loss alone.
        functional: take the parameters out of the networks; otherwise these are submodules, as DDP and FSDP need them.
        actor: the former name of `actor_network`.
        critic: the former name of `critic_network`.
        reduction: "mean", "sum" or "none".
        clip_value: how far the critic's values may move from "state_value" in the batch.

    Returns of `forward`:
        "loss_actor" and "loss_value"; "value_clip_fraction" with `clip_value`. Where the input has no "advantage", it
        gets one, with "value_target" and the values of states.

    Raises:
        TypeError: a network is missing, or `gamma` is given.
        RuntimeError: a key is given, or `delay_value` without `functional`.
        ValueError: `clip_value` is no number.
    """

    out_keys: Any = ["loss_actor", "loss_value"]
    _schedulable_buffers: ClassVar[frozenset[str]] = frozenset({"clip_value"})

    def __init__(
        self, actor_network: Any, critic_network: Any = None, *, delay_value: bool = False,
        loss_critic_type: str = "smooth_l1", gamma: float | None = None, advantage_key: str | None = None,
        value_target_key: str | None = None, separate_losses: bool = False, functional: bool = True,
        actor: Any = None, critic: Any = None, reduction: str | None = None, clip_value: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        actor_network = actor if actor_network is None else actor_network
        critic_network = critic if critic_network is None else critic_network
        self._given_networks(actor_network, critic_network, needs_critic=True)
        self._refuse_discount(gamma)
        self._set_deprecated_ctor_keys(advantage=advantage_key, value_target=value_target_key)
        if delay_value and not functional:
            raise RuntimeError("delay_value=True keeps parameters of a target, which functional=False does not do.")
        self._set_reduction(reduction)
        self.loss_critic_type, self.delay_value = loss_critic_type, delay_value
        self.critic_coeff = self.advantage_norm = None
        self._set_networks(
            actor_network,
            critic_network,
            functional=functional,
            separate_losses=separate_losses,
            delay_value=delay_value,
        )
        self._set_clip_value(clip_value)
        self._set_in_keys()

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        return self._results(tensordict)

    def _terms(self, tensordict: TensorDictBase) -> dict[str, Any]:
        advantage = self._advantage(tensordict)
        data, masks = tensordict.copy(), self._loss_masks(tensordict)
        log_prob = self._log_prob(self._policy(data), data).unsqueeze(-1)
        self._check_advantage(advantage, log_prob)
        loss_value, clipped = self.loss_critic(data)
        found = {"loss_actor": -log_prob * advantage.detach(), "loss_value": loss_value}
        found = {name: self._loss_of(errors, data, masks) for name, errors in found.items()}
        if clipped is not None:
            found["value_clip_fraction"] = clipped
        return found

    def loss_critic(self, tensordict: TensorDictBase) -> tuple[Any, Tensor | None]:
        """How far the critic's values are from their targets, not reduced, and how many of them were clipped."""
        loss, clipped, _ = self._critic_loss(tensordict)
        return loss, clipped
