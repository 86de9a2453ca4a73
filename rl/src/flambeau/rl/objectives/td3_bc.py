"""TD3 for recorded data: the actor also imitates the actions that were taken."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives.td3 import SmoothedTargets

__all__ = ["TD3BCLoss"]


class TD3BCLoss(SmoothedTargets):
    """TD3 with behaviour cloning (Fujimoto and Gu, 2021, arXiv:2106.06860, equations 3 and 5).

    The critics are those of `TD3Loss`. The actor's loss is `-lmbd * Q(s, pi(s)) + (pi(s) - a)^2` with
    `lmbd = alpha / mean(abs(Q))`.

    Args:
        actor_network: writes an action.
        qvalue_network: writes the value of an observation and an action, "state_action_value", `(*batch, 1)`; or a list
            of such networks.
        action_spec: of the action, for its bounds; a `Composite` is asked for the action's key.
        bounds: the lowest and the highest action, numbers or tensors, instead.
        num_qvalue_nets: how many critics there are.
        policy_noise: standard deviation of the noise on the target's actions.
        noise_clip: the most that it changes an action.
        alpha: how much the critic counts beside imitation.
        loss_function: of the critics: "l1", "l2" or "smooth_l1".
        delay_actor: keep target parameters of the actor.
        delay_qvalue: keep target parameters of the critics.
        priority_key: use `set_keys(priority=...)`.
        separate_losses: what the actor and the critics share is trained by the actor's loss alone.
        reduction: "mean", "sum" or "none".
        deactivate_vmap: call the critics one after the other.
        use_prioritized_weights: weigh the critics' errors by the entry "priority_weight": "auto" where there is one.

    Returns of `forward`:
        What `TD3Loss` returns, with "state_action_value_actor" of the first critic alone; "bc_loss", the imitation's
        part, and "lmbd", both without dimensions.

    Raises:
        ValueError: neither `action_spec` nor `bounds`, or both.
        RuntimeError: `priority_key` is given.
    """

    out_keys = [
        "loss_actor", "loss_qvalue", "bc_loss", "lmbd", "pred_value", "state_action_value_actor", "next_state_value",
        "target_value",
    ]  # fmt: skip

    def __init__(
        self, actor_network: Any, qvalue_network: Any, *, action_spec: Any = None, bounds: Any = None,
        num_qvalue_nets: int = 2, policy_noise: float = 0.2, noise_clip: float = 0.5, alpha: float = 2.5,
        loss_function: str = "smooth_l1", delay_actor: bool = True, delay_qvalue: bool = True,
        priority_key: str | None = None, separate_losses: bool = False, reduction: str | None = None,
        deactivate_vmap: bool = False, use_prioritized_weights: str | bool = "auto",
    ) -> None:  # fmt: skip
        super().__init__(
            actor_network, qvalue_network, action_spec=action_spec, bounds=bounds, num_qvalue_nets=num_qvalue_nets,
            policy_noise=policy_noise, noise_clip=noise_clip, loss_function=loss_function, delay_actor=delay_actor,
            delay_qvalue=delay_qvalue, priority_key=priority_key, separate_losses=separate_losses,
            reduction=reduction, deactivate_vmap=deactivate_vmap, use_prioritized_weights=use_prioritized_weights,
        )  # fmt: skip
        self.alpha = alpha

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        loss_actor, of_actor = self.actor_loss(tensordict)
        loss_value, of_critics = self.qvalue_loss(tensordict)
        self._rank(tensordict, of_critics.pop("td_error").max(0).values)
        found = {"loss_actor": loss_actor, "loss_qvalue": loss_value, **of_actor, **of_critics}
        return self._results(found, tensordict)

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How little the first critic values what the actor does, and how far that is from what was done."""
        data, values = self._acted(tensordict)
        key = self._tensor_keys.action
        bc_loss = F.mse_loss(data.get(key), tensordict.get(key))
        lmbd = self.alpha / values[0].abs().mean().detach()
        loss = self._weighted(bc_loss - lmbd * values[0], tensordict)
        return loss, {
            "state_action_value_actor": values[0].detach(),
            "bc_loss": bc_loss.detach(),
            "lmbd": lmbd,
        }

    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the critics are from their target."""
        return self._critic_loss(tensordict)
