"""`OfflineToOnlineTrainer`: a soft actor-critic that learns of recorded steps first, and of its own more and more."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.data.replay_buffers.offline_to_online import OfflineToOnlineReplayBuffer
from flambeau.rl.trainers._hook_base import TrainerHookBase, mask_batch
from flambeau.rl.trainers.algorithms.sac import SACTrainer

__all__ = ["OfflineToOnlineAnnealHook", "OfflineToOnlineReplayBufferHook", "OfflineToOnlineTrainer"]


class OfflineToOnlineReplayBufferHook(TrainerHookBase):
    """Puts collected steps into the buffer that grows, and trains with samples of both.

    Args:
        replay_buffer: the buffer of both.
        batch_size: of samples; default: the buffer's.
        device: of samples.
        align_to_offline_keys: keep only those entries of collected steps that recorded ones have, as samples of both
            have to be alike.
    """

    def __init__(
        self, replay_buffer: OfflineToOnlineReplayBuffer, *, batch_size: int | None = None, device: Any = None,
        align_to_offline_keys: bool = True,
    ) -> None:  # fmt: skip
        self.replay_buffer = replay_buffer
        self.batch_size, self.device = batch_size, device
        self.align_to_offline_keys = align_to_offline_keys
        self._keys: list[Any] | None = None

    def _recorded_keys(self) -> list[Any]:
        if self._keys is None:
            self._keys = list(self.replay_buffer.offline_buffer[:1].keys(True, True))
        return self._keys

    def extend(self, batch: TensorDictBase) -> TensorDictBase:
        """Put a batch, (*environments, time), into the buffer step by step, and return it."""
        steps = mask_batch(batch)
        steps = steps.reshape(-1).cpu()
        if self.align_to_offline_keys:
            steps = steps.select(*self._recorded_keys(), strict=False)
        self.replay_buffer.extend(steps)
        return batch

    def sample(self, batch: Any) -> TensorDictBase:
        """A sample of both; `batch` is not looked at."""
        found: TensorDictBase = self.replay_buffer.sample(self.batch_size)
        return found if self.device is None else found.to(self.device)

    def state_dict(self) -> dict[str, Any]:
        """The buffers'."""
        return {"replay_buffer": self.replay_buffer.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.replay_buffer.load_state_dict(state_dict["replay_buffer"])

    def register(self, trainer: Any, name: str = "replay_buffer") -> None:
        """Have a trainer call it with every batch, and before every step."""
        trainer.register_op("pre_epoch", self.extend)
        trainer.register_op("process_optim_batch", self.sample)
        trainer.register_module(name, self)


class OfflineToOnlineAnnealHook(TrainerHookBase):
    """Lets the share of recorded steps in samples go to 0, in a straight line.

    Args:
        trainer: knows how many frames there were.
        replay_buffer: whose share it is.
        anneal_frames: frames after which it is 0, > 0.
    """

    def __init__(self, trainer: Any, replay_buffer: OfflineToOnlineReplayBuffer, anneal_frames: int) -> None:
        self.trainer, self.replay_buffer, self.anneal_frames = trainer, replay_buffer, anneal_frames

    def __call__(self) -> None:
        """Move the share to where it is after the trainer's frames."""
        frames = min(self.trainer.collected_frames, self.anneal_frames)
        self.replay_buffer.anneal(0.0, frames, self.anneal_frames)

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the share follows from the trainer's frames."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take nothing."""

    def register(self, trainer: Any, name: str = "offline_to_online_anneal") -> None:
        """Have a trainer call it after every batch."""
        trainer.register_op("post_steps", self)
        trainer.register_module(name, self)


class OfflineToOnlineTrainer(SACTrainer):
    """Trains a soft actor-critic with recorded steps and, more and more, with its own.

    Its further arguments are those of `OffPolicyTrainer`.

    Args:
        replay_buffer: of recorded and of collected steps.
        anneal_frames: frames after which no recorded steps are used any more; default: all; 0 or less keeps the share.
        batch_size: of samples.

    References:
        Haarnoja et al. 2018, arXiv:1812.05905; Ball et al. 2023, arXiv:2302.02948.
    """

    def __init__(
        self, *, total_frames: int, replay_buffer: OfflineToOnlineReplayBuffer, anneal_frames: int | None = None,
        batch_size: int | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(total_frames=total_frames, replay_buffer=replay_buffer, batch_size=batch_size, **kwargs)
        frames = total_frames if anneal_frames is None else anneal_frames
        if frames > 0:
            OfflineToOnlineAnnealHook(self, replay_buffer, frames).register(self)

    def _replay_hook(self, replay_buffer: Any, batch_size: int | None) -> Any:
        return OfflineToOnlineReplayBufferHook(replay_buffer, batch_size=batch_size)
