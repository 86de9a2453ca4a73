"""What trainers share that learn from a replay buffer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from flambeau.rl.checkpoint import Checkpoint, CheckpointRotation
from flambeau.rl.trainers._data_hooks import ReplayBufferTrainer
from flambeau.rl.trainers._optim_hooks import OptimizationStepper, TargetNetUpdaterHook, UpdateWeights
from flambeau.rl.trainers._trainer import Trainer
from flambeau.rl.trainers.algorithms._numbers import log_batches, log_buffer

__all__ = ["OffPolicyTrainer"]


class OffPolicyTrainer(Trainer):
    """Trains with samples of a replay buffer, to which each batch is added.

    Args:
        collector: gives batches, (*environments, time), or writes to the buffer itself.
        total_frames: how many frames there are.
        frame_skip: frames that the environment takes in one step.
        optim_steps_per_batch: steps of the optimizer a batch.
        loss_module: a loss of steps out of a buffer.
        optimizer: steps with the sum of the losses.
        optimization_stepper: makes the steps instead.
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
        num_epochs: how often `optim_steps_per_batch` steps are taken a batch.
        replay_buffer: the buffer.
        batch_size: of samples; default: the buffer's.
        learner_backend: "local": in this process.
        learner_backend_options: of others.
        learner_poll_interval: of others.
        enable_logging: log what follows.
        log_rewards: rewards of batches.
        log_actions: norms of actions.
        log_observations: norms of observations.
        target_net_updater: steps with each step of the optimizer.
        exploration_module: has `step(frames)`, which is called with each batch: its noise becomes less.
        async_collection: the collector runs in the background.
        log_timings: log how long hooks take.
        auto_log_optim_steps: log the number of steps, and mean losses.
        done_key: key of ends.
        terminated_key: key of ends that are no cuts.
        reward_key: key of rewards.
        episode_reward_key: key of sums of rewards.
        action_key: key of actions.
        observation_key: key of observations.
    """

    def __init__(
        self,
        *,
        collector: Any,
        total_frames: int,
        frame_skip: int,
        optim_steps_per_batch: int,
        loss_module: Any,
        optimizer: torch.optim.Optimizer | None = None,
        optimization_stepper: OptimizationStepper | None = None,
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
        num_epochs: int = 1,
        replay_buffer: Any = None,
        batch_size: int | None = None,
        learner_backend: Literal["local", "ray"] = "local",
        learner_backend_options: dict[str, Any] | None = None,
        learner_poll_interval: float = 0.05,
        enable_logging: bool = True,
        log_rewards: bool = True,
        log_actions: bool = True,
        log_observations: bool = False,
        target_net_updater: Any = None,
        exploration_module: Any = None,
        async_collection: bool = False,
        log_timings: bool = False,
        auto_log_optim_steps: bool = True,
        done_key: Any = "done",
        terminated_key: Any = "terminated",
        reward_key: Any = "reward",
        episode_reward_key: Any = "reward_sum",
        action_key: Any = "action",
        observation_key: Any = "observation",
    ) -> None:
        if replay_buffer is None:
            raise ValueError(f"{type(self).__name__} learns from a replay buffer; give replay_buffer=.")
        super().__init__(
            collector=collector,
            total_frames=total_frames,
            frame_skip=frame_skip,
            optim_steps_per_batch=optim_steps_per_batch,
            loss_module=loss_module,
            optimizer=optimizer,
            optimization_stepper=optimization_stepper,
            replay_buffer=replay_buffer,
            target_net_updater=target_net_updater,
            batch_size=batch_size,
            learner_backend=learner_backend,
            learner_backend_options=learner_backend_options,
            learner_poll_interval=learner_poll_interval,
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
            num_epochs=num_epochs,
            async_collection=async_collection,
            log_timings=log_timings,
            auto_log_optim_steps=auto_log_optim_steps,
        )
        samples = self._replay_hook(replay_buffer, batch_size)
        writes_itself = async_collection or getattr(collector, "replay_buffer", None) is not None
        if not writes_itself:
            # With the batch, so that the first random ones are kept as well, which nothing is trained with.
            self.register_op("batch_process", samples.extend)
        self.register_op("process_optim_batch", samples.sample)
        if hasattr(samples, "update_priority"):
            self.register_op("post_loss", samples.update_priority)
        self.register_module("replay_buffer", samples)
        if target_net_updater is not None:
            TargetNetUpdaterHook(target_net_updater).register(self)
        if exploration_module is not None:
            self.register_op("post_steps", _Annealing(exploration_module, self))
            self.register_module("exploration", exploration_module)
        self.register_op("post_steps", UpdateWeights(collector, 1))
        if enable_logging:
            if not writes_itself:
                keys = {"done": done_key, "reward": reward_key, "episode_reward": episode_reward_key}
                keys |= {"action": action_key, "observation": observation_key}
                log_batches(self, keys, rewards=log_rewards, actions=log_actions, observations=log_observations)
            log_buffer(self)

    def _replay_hook(self, replay_buffer: Any, batch_size: int | None) -> Any:
        """What puts batches into the buffer, and takes samples."""
        return ReplayBufferTrainer(replay_buffer, batch_size, flatten_tensordicts=True)


class _Annealing:
    """Tells an exploration module how many frames there were since the last time."""

    def __init__(self, module: Any, trainer: Trainer) -> None:
        self.module, self.trainer = module, trainer
        self.last: int | None = None

    def __call__(self) -> None:
        frames = self.trainer.collected_frames
        if self.last is None:  # the first batch, or the first after a checkpoint
            self.last = frames - getattr(self.trainer.collector, "requested_frames_per_batch", frames)
        self.module.step(frames - self.last)
        self.last = frames
