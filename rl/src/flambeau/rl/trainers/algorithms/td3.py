"""`TD3Trainer`, and its steps: those of the critics, and fewer of the actor."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.trainers._hook_base import total_norm
from flambeau.rl.trainers._optim_hooks import OptimizationStepper
from flambeau.rl.trainers.algorithms._off_policy import OffPolicyTrainer

__all__ = ["TD3OptimizationStepper", "TD3Trainer"]


class TD3OptimizationStepper(OptimizationStepper):
    """Steps of the critics with each batch, and of the actor and the target networks with some.

    Args:
        optimizer_actor: of the actor's parameters.
        optimizer_critic: of the critics'.
        policy_update_delay: every so many batches the actor steps, >= 1.
        zero_grad_set_to_none: as `Optimizer.zero_grad` takes it.
        actor_loss_key: name of the actor's loss.
        critic_loss_key: name of the critics' loss.

    Raises:
        ValueError: `policy_update_delay` is below 1.
    """

    updates_replay_priority = True

    def __init__(
        self,
        optimizer_actor: torch.optim.Optimizer,
        optimizer_critic: torch.optim.Optimizer,
        *,
        policy_update_delay: int = 2,
        zero_grad_set_to_none: bool = True,
        actor_loss_key: str = "loss_actor",
        critic_loss_key: str = "loss_qvalue",
    ) -> None:
        if policy_update_delay < 1:
            raise ValueError(f"policy_update_delay must be 1 or more; got {policy_update_delay}.")
        self.optimizer_actor = optimizer_actor
        self.optimizer_critic = optimizer_critic
        self.policy_update_delay = policy_update_delay
        self.zero_grad_set_to_none = zero_grad_set_to_none
        self.actor_loss_key = actor_loss_key
        self.critic_loss_key = critic_loss_key
        self.update_counter = 0

    def step(self, trainer: Any, sub_batch: TensorDictBase) -> TensorDictBase:
        """As `OptimizationStepper.step`."""
        self.update_counter += 1
        losses = trainer._process_loss_hook(sub_batch, trainer.loss_module.value_loss(sub_batch))
        loss, metadata = losses if isinstance(losses, tuple) else (losses, {})
        kept = {self.critic_loss_key: loss.detach()}
        self._stepped(self.optimizer_critic, loss, trainer)
        if self.update_counter % self.policy_update_delay == 0:
            loss, _ = trainer.loss_module.actor_loss(sub_batch)
            kept[self.actor_loss_key] = loss.detach()
            self._stepped(self.optimizer_actor, loss, trainer)
            if trainer.target_net_updater is not None:
                trainer.target_net_updater.step()
        if "td_error" in metadata:
            sub_batch.set(trainer.loss_module.tensor_keys.priority, metadata["td_error"].detach().max(0)[0])
        return TensorDict(kept, [])

    def _stepped(self, optimizer: torch.optim.Optimizer, loss: torch.Tensor, trainer: Any) -> None:
        optimizer.zero_grad(set_to_none=self.zero_grad_set_to_none)
        loss.backward()
        if trainer.clip_norm is not None:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            total_norm(parameters, trainer.clip_grad_norm, trainer.clip_norm)
        optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Those of the optimizers, and what was counted."""
        return {
            "update_counter": self.update_counter,
            "optimizer_actor": self.optimizer_actor.state_dict(),
            "optimizer_critic": self.optimizer_critic.state_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take states."""
        self.update_counter = state_dict["update_counter"]
        self.optimizer_actor.load_state_dict(state_dict["optimizer_actor"])
        self.optimizer_critic.load_state_dict(state_dict["optimizer_critic"])


class TD3Trainer(OffPolicyTrainer):
    """Trains by twin delayed deterministic policy gradients.

    Its further arguments are those of `OffPolicyTrainer`.

    Args:
        optimization_stepper: steps of actor and critics, see `TD3OptimizationStepper`; default: one optimizer for both,
            with each batch.
        target_net_updater: steps with the actor.

    References:
        Fujimoto et al. 2018, arXiv:1802.09477.
    """

    def __init__(self, *, target_net_updater: Any, optimization_stepper: Any = None, **kwargs: Any) -> None:
        delayed = isinstance(optimization_stepper, TD3OptimizationStepper)
        super().__init__(
            optimization_stepper=optimization_stepper,
            target_net_updater=None if delayed else target_net_updater,
            **kwargs,
        )
        self.target_net_updater = target_net_updater
