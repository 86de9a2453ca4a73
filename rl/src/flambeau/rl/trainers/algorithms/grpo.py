"""`GRPOTrainer`: training of language models by rewards of their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.checkpoint import Checkpoint, CheckpointRotation
from flambeau.rl.trainers._optim_hooks import MixedPrecisionOptimizationStepper, OptimizationStepper, UpdateWeights
from flambeau.rl.trainers._trainer import Trainer

__all__ = ["GRPOTrainer"]

_REWARD = ("next", "reward")


class GRPOTrainer(Trainer):
    """Trains a language model with advantages within groups of answers (Shao et al., 2024, arXiv:2402.03300).

    The collector's answers go to a replay buffer whose `MCAdvantage` keeps them back until their group is complete.
    Each epoch goes over the buffer in batches; batches for which no group was complete are not trained with.

    Args:
        collector: gives answers, or writes them to the replay buffer itself and gives None.
        total_frames: how many answers (turns of dialogs) there are.
        frame_skip: 1.
        optim_steps_per_batch: batches an epoch takes from the buffer; by default as many as it holds.
        loss_module: a `GRPOLoss`, or anything whose output has entries that begin with "loss_".
        optimizer: steps with the sum of the losses.
        optimization_stepper: takes steps instead.
        weight_sync_sender: brings the engine that answers new weights, by `update_weights()`.
        weight_update_frequency: with `async_collection`, steps from one such update to the next; otherwise there is one
            after each batch.
        empty_replay_buffer_on_weight_update: forget answers of the former weights.
        replay_buffer: holds answers; without one each step trains with the collector's batch.
        batch_size: of the samples; default: the buffer's.
        device: where samples go.
        mixed_precision: compute losses in `autocast_dtype`.
        autocast_dtype: bfloat16, or float16, for which losses are scaled.
        gradient_accumulation_steps: batches whose gradients make one step.
        logger: where numbers go.
        clip_norm: the largest norm of gradients; None for none.
        progress_bar: show one.
        seed: of the collector, torch and NumPy.
        save_trainer_interval: frames from one checkpoint to the next.
        log_interval: frames from one logged number to the next of that name.
        save_trainer_file: where checkpoints go.
        checkpoint: what is written, see `Trainer`.
        checkpoint_rotation: keeps several of them.
        checkpoint_metadata: kept with each of them.
        num_epochs: how often each batch is trained with.
        async_collection: the collector runs in the background.
        log_timings: log how long hooks take.
        auto_log_optim_steps: log the number of steps, and mean losses.
        log_rewards: log the rewards of samples.
        log_kl: log divergences.

    Raises:
        ValueError: there is neither an optimizer nor a stepper, or a number is out of range.
    """

    def __init__(
        self,
        *,
        collector: Any,
        total_frames: int,
        frame_skip: int = 1,
        optim_steps_per_batch: int | None = None,
        loss_module: Any,
        optimizer: torch.optim.Optimizer | None = None,
        optimization_stepper: OptimizationStepper | None = None,
        weight_sync_sender: Any = None,
        weight_update_frequency: int = 1,
        empty_replay_buffer_on_weight_update: bool = False,
        replay_buffer: Any = None,
        batch_size: int | None = None,
        device: Any = None,
        mixed_precision: bool = False,
        autocast_dtype: torch.dtype = torch.bfloat16,
        gradient_accumulation_steps: int = 1,
        logger: Any = None,
        clip_norm: float | None = 1.0,
        progress_bar: bool = True,
        seed: int | None = None,
        save_trainer_interval: int = 10000,
        log_interval: int = 10000,
        save_trainer_file: str | Path | None = None,
        checkpoint: Checkpoint | None = None,
        checkpoint_rotation: CheckpointRotation | None = None,
        checkpoint_metadata: Callable[[Trainer], Mapping[str, Any]] | None = None,
        num_epochs: int = 1,
        async_collection: bool = False,
        log_timings: bool = False,
        auto_log_optim_steps: bool = True,
        log_rewards: bool = True,
        log_kl: bool = True,
    ) -> None:
        if weight_update_frequency < 1:
            raise ValueError(f"weight_update_frequency is {weight_update_frequency}, expected 1 step or more.")
        if optimization_stepper is None:
            if optimizer is None:
                raise ValueError("optimizer is missing; give it, or an optimization_stepper.")
            optimization_stepper = MixedPrecisionOptimizationStepper(
                optimizer, mixed_precision=mixed_precision, autocast_dtype=autocast_dtype,
                gradient_accumulation_steps=gradient_accumulation_steps, clip_norm=clip_norm,
            )  # fmt: skip
        self._log_kl = log_kl
        super().__init__(
            collector=collector, total_frames=total_frames, frame_skip=frame_skip,
            optim_steps_per_batch=optim_steps_per_batch,  # type: ignore[arg-type]
            loss_module=loss_module, optimizer=optimizer, optimization_stepper=optimization_stepper,
            replay_buffer=replay_buffer, batch_size=batch_size, logger=logger, clip_norm=clip_norm,
            progress_bar=progress_bar, seed=seed, save_trainer_interval=save_trainer_interval,
            log_interval=log_interval, save_trainer_file=save_trainer_file, checkpoint=checkpoint,
            checkpoint_rotation=checkpoint_rotation, checkpoint_metadata=checkpoint_metadata, num_epochs=num_epochs,
            async_collection=async_collection, log_timings=log_timings, auto_log_optim_steps=auto_log_optim_steps,
        )  # fmt: skip
        self.weight_sync_sender = weight_sync_sender
        self._register_samples(device)
        self.register_op("process_loss", _as_numbers)
        self._register_weights(weight_update_frequency, empty_replay_buffer_on_weight_update)
        if log_rewards:
            self.register_op("post_optim_log", _rewards)

    def _register_samples(self, device: Any) -> None:
        buffer = self.replay_buffer
        if buffer is None:
            once = _Once(self, device)
            self.register_op("pre_epoch", once.begin)
            self.register_op("process_optim_batch", once.take)
            return
        samples = _Samples(self, buffer, device)
        if getattr(self.collector, "replay_buffer", None) is None and not self.async_collection:
            self.register_op("batch_process", samples.write)
        self.register_op("pre_epoch", samples.begin)
        self.register_op("process_optim_batch", samples.take)
        if callable(getattr(buffer, "state_dict", None)):
            self.register_module("replay_buffer", buffer)

    def _register_weights(self, frequency: int, empty: bool) -> None:
        sender = self.weight_sync_sender
        if self.async_collection:
            if sender is not None:
                hook = UpdateWeights(sender=sender, update_weights_interval=frequency, trainer=self,
                                     interval_unit="optim_steps")  # fmt: skip
                self.register_op("post_optim", hook)
            return
        if sender is not None:
            self.register_op("post_steps", sender.update_weights)
        if empty and self.replay_buffer is not None:
            self.register_op("post_steps", self.replay_buffer.empty)

    def optim_steps(self, batch: Any) -> None:
        """Train with what the buffer holds; with nothing where no group is complete yet.

        Args:
            batch: of the collector, or None.
        """
        if self.replay_buffer is not None and not len(self.replay_buffer):
            return
        super().optim_steps(batch)

    def _log(self, log_pbar: bool = False, **kwargs: Any) -> None:
        kept = kwargs if self._log_kl else {name: value for name, value in kwargs.items() if "kl" not in name}
        super()._log(log_pbar, **kept)


class _Samples:
    """Goes over a replay buffer, once an epoch where the number of steps is not given."""

    def __init__(self, trainer: Trainer, buffer: Any, device: Any) -> None:
        self.trainer, self.buffer, self.device = trainer, buffer, device
        self.left = 0

    def write(self, batch: Any) -> Any:
        """Add the collector's batch."""
        if batch is not None:
            self.buffer.extend(batch)
        return batch

    def begin(self, batch: Any) -> Any:
        """Begin an epoch."""
        size = self._size()
        steps = self.trainer.optim_steps_per_batch
        self.left = -(-len(self.buffer) // size) if steps is None else steps
        return batch

    def take(self, batch: Any) -> Any:
        """The next batch of samples.

        Raises:
            StopIteration: the epoch is over.
        """
        if not self.left:
            raise StopIteration
        self.left -= 1
        found = self.buffer.sample(self._size())
        return found if self.device is None else found.to(self.device)

    def _size(self) -> int:
        size = self.trainer.batch_size or getattr(self.buffer, "batch_size", None)
        if not size:
            raise ValueError("batch_size is missing; give it to the trainer, or to the replay buffer.")
        return min(int(size), max(1, len(self.buffer)))


class _Once:
    """Gives the collector's own batch, once an epoch where the number of steps is not given."""

    def __init__(self, trainer: Trainer, device: Any) -> None:
        self.trainer, self.device, self.left = trainer, device, 0

    def begin(self, batch: Any) -> Any:
        """Begin an epoch."""
        steps = self.trainer.optim_steps_per_batch
        self.left = 1 if steps is None else steps
        return batch

    def take(self, batch: Any) -> Any:
        """The batch.

        Raises:
            StopIteration: the epoch is over.
        """
        if not self.left:
            raise StopIteration
        self.left -= 1
        return batch if self.device is None else batch.to(self.device)


def _as_numbers(sub_batch: Any, losses: Any) -> TensorDict:
    """The entries of a loss's output that are there."""
    names = getattr(type(losses), "_field_names", None) or tuple(losses.keys())
    found = {name: losses.get(name, None) for name in names}
    return TensorDict({name: value for name, value in found.items() if isinstance(value, Tensor)}, [])


def _rewards(sub_batch: Any) -> dict[str, float]:
    rewards = [one.get(_REWARD, None) for one in sub_batch.reshape(-1).unbind(0)]
    known = [reward.float().flatten() for reward in rewards if reward is not None]
    if not known:
        return {}
    joined = torch.cat(known)
    return {"reward_mean": joined.mean().item(), "reward_max": joined.max().item(), "reward_min": joined.min().item()}
