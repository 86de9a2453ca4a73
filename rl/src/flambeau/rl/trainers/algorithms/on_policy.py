"""`OnPolicyTrainer`: what trainers share that learn from what the policy has just done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from flambeau.rl.checkpoint import Checkpoint, CheckpointRotation
from flambeau.rl.objectives.value import GAE
from flambeau.rl.trainers._data_hooks import ReplayBufferTrainer, ValueEstimatorHook
from flambeau.rl.trainers._optim_hooks import LRSchedulerHook, TargetNetUpdaterHook, UpdateWeights
from flambeau.rl.trainers._trainer import Trainer
from flambeau.rl.trainers.algorithms._numbers import log_batches

__all__ = ["OnPolicyTrainer"]


class OnPolicyTrainer(Trainer):
    """Trains a policy and its values with batches of what the policy has just done.

    Before each epoch advantages are computed, by GAE with the loss's critic. With a replay buffer, whose storage takes
    a batch, each epoch trains with samples of the batch; without one, each step trains with the whole of it.

    Args:
        collector: gives batches, (*environments, time).
        total_frames: how many frames there are.
        frame_skip: frames that the environment takes in one step.
        optim_steps_per_batch: steps of the optimizer an epoch.
        loss_module: a loss of policy gradients.
        optimizer: steps with the sum of the losses.
        lr_scheduler: steps with each batch.
        target_net_updater: steps with each step of the optimizer.
        logger: where numbers go.
        clip_grad_norm: scale gradients so that their norm is `clip_norm` at most, else clamp each number to it.
        clip_norm: the limit; None for none.
        progress_bar: show one.
        seed: of the collector, torch and NumPy.
        save_trainer_interval: frames from one checkpoint to the next.
        log_interval: frames from one logged number to the next of that name.
        save_trainer_file: where checkpoints go.
        checkpoint: what is written, see `Trainer`.
        checkpoint_rotation: keeps several of them.
        checkpoint_metadata: kept with each of them.
        num_epochs: how often each batch is trained with; default: as the algorithm does it.
        replay_buffer: gives the samples of a batch.
        batch_size: of these samples; default: the buffer's.
        gamma: discount of GAE, where it is made here.
        lmbda: how far GAE looks.
        enable_logging: log what follows.
        log_rewards: rewards of batches.
        log_actions: norms of actions.
        log_observations: norms of observations.
        async_collection: the collector runs in the background.
        add_gae: compute advantages.
        gae: computes them instead.
        weight_update_map: see `UpdateWeights`; default: the policy's weights.
        log_timings: log how long hooks take.
        auto_log_optim_steps: log the number of steps, and mean losses.
        done_key: key of ends.
        terminated_key: key of ends that are no cuts.
        reward_key: key of rewards.
        episode_reward_key: key of sums of rewards.
        action_key: key of actions.
        observation_key: key of observations.
    """

    default_num_epochs: ClassVar[int] = 1

    def __init__(
        self,
        *,
        collector: Any,
        total_frames: int,
        frame_skip: int,
        optim_steps_per_batch: int,
        loss_module: Any,
        optimizer: torch.optim.Optimizer | None = None,
        lr_scheduler: Any = None,
        target_net_updater: Any = None,
        logger: Any = None,
        clip_grad_norm: bool = True,
        clip_norm: float | None = None,
        progress_bar: bool = True,
        seed: int | None = None,
        save_trainer_interval: int = 10000,
        log_interval: int = 10000,
        save_trainer_file: str | Path | None = None,
        checkpoint: Checkpoint | None = None,
        checkpoint_rotation: CheckpointRotation | None = None,
        checkpoint_metadata: Callable[[Trainer], Mapping[str, Any]] | None = None,
        num_epochs: int | None = None,
        replay_buffer: Any = None,
        batch_size: int | None = None,
        gamma: float = 0.99,
        lmbda: float = 0.95,
        enable_logging: bool = True,
        log_rewards: bool = True,
        log_actions: bool = True,
        log_observations: bool = False,
        async_collection: bool = False,
        add_gae: bool = True,
        gae: Any = None,
        weight_update_map: dict[str, str] | None = None,
        log_timings: bool = False,
        auto_log_optim_steps: bool = True,
        done_key: Any = "done",
        terminated_key: Any = "terminated",
        reward_key: Any = "reward",
        episode_reward_key: Any = "reward",
        action_key: Any = "action",
        observation_key: Any = "observation",
    ) -> None:
        super().__init__(
            collector=collector,
            total_frames=total_frames,
            frame_skip=frame_skip,
            optim_steps_per_batch=optim_steps_per_batch,
            loss_module=loss_module,
            optimizer=optimizer,
            replay_buffer=replay_buffer,
            target_net_updater=target_net_updater,
            batch_size=batch_size,
            logger=logger,
            clip_grad_norm=clip_grad_norm,
            clip_norm=clip_norm,
            progress_bar=progress_bar,
            seed=seed,
            save_trainer_interval=save_trainer_interval,
            log_interval=log_interval,
            save_trainer_file=save_trainer_file,
            checkpoint=checkpoint,
            checkpoint_rotation=checkpoint_rotation,
            checkpoint_metadata=checkpoint_metadata,
            num_epochs=self.default_num_epochs if num_epochs is None else num_epochs,
            async_collection=async_collection,
            log_timings=log_timings,
            auto_log_optim_steps=auto_log_optim_steps,
        )
        if add_gae and not async_collection:
            ValueEstimatorHook(
                gae or _advantages(loss_module, gamma, lmbda, done_key, terminated_key, reward_key)
            ).register(self)
        if replay_buffer is not None and not async_collection:
            samples = ReplayBufferTrainer(replay_buffer, batch_size, flatten_tensordicts=True)
            self.register_op("pre_epoch", _Refill(samples))
            self.register_op("process_optim_batch", samples.sample)
            self.register_op("post_loss", samples.update_priority)
        if lr_scheduler is not None:
            LRSchedulerHook(lr_scheduler).register(self)
        if target_net_updater is not None:
            TargetNetUpdaterHook(target_net_updater).register(self)
        self.register_op("post_steps", UpdateWeights(collector, 1, weight_update_map=weight_update_map, trainer=self))
        if enable_logging and not async_collection:
            keys = {"done": done_key, "reward": reward_key, "episode_reward": episode_reward_key}
            keys |= {"action": action_key, "observation": observation_key}
            log_batches(self, keys, rewards=log_rewards, actions=log_actions, observations=log_observations)


class _Refill:
    """Puts each batch into the buffer, in the place of the one before."""

    def __init__(self, samples: ReplayBufferTrainer) -> None:
        self.samples = samples

    def __call__(self, batch: Any) -> Any:
        self.samples.replay_buffer.empty()
        return self.samples.extend(batch)


def _advantages(loss: Any, gamma: float, lmbda: float, done: Any, terminated: Any, reward: Any) -> GAE:
    critic = getattr(loss, "critic_network", None)
    if critic is None:
        raise ValueError(
            f"advantages need values, and {type(loss).__name__} has no critic_network; give gae=, or add_gae=False."
        )
    estimator = GAE(gamma=gamma, lmbda=lmbda, value_network=critic, average_gae=True)
    estimator.set_keys(done=done, terminated=terminated, reward=reward)
    return estimator
