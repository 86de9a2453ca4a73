"""Hooks that change batches: choices of keys and of steps, replay buffers, normalized rewards, values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch

from flambeau.data.tensordict import TensorDictBase, pad
from flambeau.rl.collectors.utils import split_trajectories
from flambeau.rl.data.replay_buffers import TensorDictReplayBuffer
from flambeau.rl.trainers._hook_base import MASK_KEY, REWARD_KEY, Stateless, TrainerHookBase, mask_batch, masked

__all__ = ["BatchSubSampler", "ReplayBufferTrainer", "RewardNormalizer", "SelectKeys", "ValueEstimatorHook"]


class SelectKeys(Stateless):
    """Keeps some keys of each batch, and drops the others.

    Args:
        keys: those that are kept.

    Raises:
        RuntimeError: `keys` is one string, which would be taken letter by letter.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> sorted(SelectKeys(["a"])(TensorDict({"a": torch.ones(2), "b": torch.ones(2)}, [2])).keys())
        ['a']
    """

    def __init__(self, keys: Sequence[Any]) -> None:
        if isinstance(keys, str):
            raise RuntimeError(f"keys is a list of keys; got the text {keys!r}. Write [{keys!r}].")
        self.keys = keys

    def __call__(self, batch: TensorDictBase) -> TensorDictBase:
        """The batch with these keys alone."""
        return batch.select(*self.keys)

    def register(self, trainer: Any, name: str = "select_keys") -> None:
        """Select from each batch that is collected."""
        trainer.register_op("batch_process", self)
        trainer.register_module(name, self)


class ReplayBufferTrainer(TrainerHookBase):
    """Puts batches into a replay buffer, trains with samples of it, and gives it priorities back.

    Args:
        replay_buffer: the buffer.
        batch_size: of samples; default: the buffer's.
        memmap: store batches as memory-mapped files.
        device: of samples.
        flatten_tensordicts: store steps one by one, without padding, else trajectories as they come.
        max_dims: sizes to which trajectories are padded, one a dimension, -1 for none.
        iterate: take samples in the order of `iter(replay_buffer)`, and begin anew where it ends.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> from flambeau.rl.data import LazyTensorStorage
        >>> hook = ReplayBufferTrainer(TensorDictReplayBuffer(storage=LazyTensorStorage(100), batch_size=4))
        >>> _ = hook.extend(TensorDict({"a": torch.arange(10)}, [10]))
        >>> hook.sample(None).batch_size
        torch.Size([4])
    """

    def __init__(
        self,
        replay_buffer: TensorDictReplayBuffer,
        batch_size: int | None = None,
        memmap: bool = False,
        device: Any = None,
        flatten_tensordicts: bool = False,
        max_dims: Sequence[int] | None = None,
        iterate: bool = False,
    ) -> None:
        self.replay_buffer = replay_buffer
        self._update_priority = getattr(replay_buffer, "update_tensordict_priority", None)
        self.batch_size = batch_size
        self.memmap = memmap
        self.device = device
        self.flatten_tensordicts = flatten_tensordicts
        self.max_dims = max_dims
        self.iterate = iterate
        self._iterator: Any = None

    def extend(self, batch: TensorDictBase) -> TensorDictBase:
        """Put a batch into the buffer, and return it.

        Args:
            batch: as collected.
        """
        if self.flatten_tensordicts:
            stored = mask_batch(batch) if MASK_KEY in batch.keys(True) else batch.reshape(-1)
        else:
            stored = batch
            if self.max_dims is not None:
                sizes = [
                    value
                    for dim, most in enumerate(self.max_dims)
                    for value in (0, 0 if most == -1 else max(0, most - batch.shape[dim]))
                ]
                stored = pad(batch, sizes)
        stored = stored.cpu()
        if self.memmap:
            stored = stored.memmap_()
        self.replay_buffer.extend(stored)
        return batch

    def sample(self, batch: Any) -> TensorDictBase:
        """A sample of the buffer.

        Args:
            batch: is not looked at.
        """
        if self.iterate:
            sample = None if self._iterator is None else next(self._iterator, None)
            if sample is None:
                self._iterator = iter(self.replay_buffer)
                sample = next(self._iterator)
        else:
            sample = self.replay_buffer.sample(self.batch_size) if self.batch_size else self.replay_buffer.sample()
        return sample.to(self.device, non_blocking=True) if self.device is not None else sample

    def update_priority(self, batch: TensorDictBase) -> None:
        """Give the buffer the priorities that the loss wrote.

        Args:
            batch: the sample.
        """
        if self._update_priority is not None:
            self._update_priority(batch)

    def state_dict(self) -> dict[str, Any]:
        """That of the buffer."""
        return {"replay_buffer": self.replay_buffer.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Fill the buffer as it was."""
        self.replay_buffer.load_state_dict(state_dict["replay_buffer"])

    def register(self, trainer: Any, name: str = "replay_buffer") -> None:
        """Extend by each batch, sample for each step, update after each loss."""
        trainer.register_op("batch_process", self.extend)
        trainer.register_op("process_optim_batch", self.sample)
        trainer.register_op("post_loss", self.update_priority)
        trainer.register_module(name, self)


class RewardNormalizer(TrainerHookBase):
    """Gives rewards mean 0 and standard deviation `scale`, by statistics of all batches, older ones counting less.

    Args:
        decay: how much what was before counts with each batch, in (0, 1].
        scale: the standard deviation.
        eps: added to the standard deviation; default: the smallest difference of the default dtype.
        log_pbar: kept for upstream's signature.
        reward_key: key of the rewards; default: ("next", "reward").
    """

    def __init__(
        self,
        decay: float = 0.999,
        scale: float = 1.0,
        eps: float | None = None,
        log_pbar: bool = False,
        reward_key: Any = None,
    ) -> None:
        self._normalize_has_been_called = False
        self._update_has_been_called = False
        self._reward_stats: OrderedDict[str, Any] = OrderedDict(decay=decay)
        self.scale = scale
        self.eps = torch.finfo(torch.get_default_dtype()).eps if eps is None else eps
        self.reward_key = REWARD_KEY if reward_key is None else reward_key

    @torch.no_grad()
    def update_reward_stats(self, batch: TensorDictBase) -> None:
        """Count the rewards of a batch.

        Args:
            batch: as collected.
        """
        rewards = masked(batch.get(self.reward_key), batch)
        stats = self._reward_stats
        decay = stats["decay"]
        stats["sum"] = rewards.sum() + decay * stats.get("sum", 0.0)
        stats["ssq"] = rewards.pow(2).sum() + decay * stats.get("ssq", 0.0)
        stats["count"] = rewards.numel() + decay * stats.get("count", 0.0)
        count = max(1.0, stats["count"])
        stats["mean"] = stats["sum"] / count
        if stats["count"] > 1:
            stats["var"] = (stats["ssq"] - stats["sum"].pow(2) / count) / (stats["count"] - 1)
        else:
            stats["var"] = torch.zeros_like(stats["sum"])
        stats["std"] = stats["var"].clamp_min(self.eps).sqrt()
        self._update_has_been_called = True

    def normalize_reward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Normalize the rewards of a batch, in place.

        Args:
            tensordict: what is trained with.
        """
        tensordict = tensordict.to_tensordict()  # what a buffer holds stays as it is
        rewards = tensordict.get(self.reward_key)
        if rewards is not None:
            stats = self._reward_stats
            mean, std = (stats[name].to(rewards.device) for name in ("mean", "std"))
            tensordict.set(self.reward_key, (rewards - mean) / std.clamp_min(self.eps) * self.scale)
            self._normalize_has_been_called = True
        return tensordict

    def state_dict(self) -> dict[str, Any]:
        """The statistics."""
        return {
            "_reward_stats": OrderedDict(self._reward_stats),
            "scale": self.scale,
            "_normalize_has_been_called": self._normalize_has_been_called,
            "_update_has_been_called": self._update_has_been_called,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take statistics."""
        for name, value in state_dict.items():
            setattr(self, name, value)

    def register(self, trainer: Any, name: str = "reward_normalizer") -> None:
        """Count each batch, normalize what is trained with."""
        trainer.register_op("batch_process", self.update_reward_stats)
        trainer.register_op("process_optim_batch", self.normalize_reward)
        trainer.register_module(name, self)


class BatchSubSampler(Stateless):
    """Draws pieces of trajectories out of each batch.

    Args:
        batch_size: number of steps in all.
        sub_traj_len: steps of a piece; 0 or less for whole trajectories, the shortest that is long enough.
        min_sub_traj_len: leave out trajectories that are shorter; default: -1 for none.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> batch = TensorDict({"a": torch.arange(20).reshape(2, 10)}, [2, 10])
        >>> BatchSubSampler(batch_size=6, sub_traj_len=3)(batch).batch_size
        torch.Size([2, 3])
    """

    def __init__(self, batch_size: int, sub_traj_len: int = 0, min_sub_traj_len: int = 0) -> None:
        self.batch_size = batch_size
        self.sub_traj_len = sub_traj_len
        self.min_sub_traj_len = min_sub_traj_len

    def __call__(self, batch: TensorDictBase) -> TensorDictBase:
        """Pieces of the trajectories of a batch.

        Args:
            batch: (time,) or (trajectories, time), with a mask where trajectories are padded.

        Raises:
            RuntimeError: no trajectory is long enough, or the batch too small.
        """
        if batch.ndim == 1:
            return batch[torch.randperm(batch.shape[0], device=batch.device)[: self.batch_size]]
        if MASK_KEY not in batch.keys(True):
            lengths = torch.full((batch.shape[0],), batch.shape[1], device=batch.device)
            if ("collector", "traj_ids") in batch.keys(True):
                batch = split_trajectories(batch, trajectory_key=("collector", "traj_ids"))
                lengths = batch.get(MASK_KEY, batch.get("mask", None)).sum(-1)
        else:
            mask = batch.get(MASK_KEY)
            lengths = (mask.squeeze(-1) if mask.ndim > batch.ndim else mask).sum(-1)
        least = self.min_sub_traj_len
        if self.sub_traj_len > 0:
            least = max(least, self.sub_traj_len)
        long = lengths >= max(least, 1)
        if not long.any():
            raise RuntimeError(
                f"no trajectory has {least} steps; the longest has {int(lengths.max())}. Collect more steps a batch, "
                "or ask for shorter pieces."
            )
        batch, lengths = batch[long], lengths[long]
        length = self.sub_traj_len if self.sub_traj_len > 0 else int(lengths.min())
        count = self.batch_size // length
        if not count:
            raise RuntimeError(
                f"batch_size={self.batch_size} is less than a piece of {length} steps; give a larger one."
            )
        row = torch.randint(len(lengths), (count,), device=lengths.device)
        start = (torch.rand(count, device=lengths.device) * (lengths[row] - length + 1)).long()
        steps = start.unsqueeze(-1) + torch.arange(length, device=lengths.device)
        piece = batch[row.unsqueeze(-1).expand_as(steps), steps]
        names = [*batch.names]
        if any(name is not None for name in names):
            piece.names = names
        return piece

    def register(self, trainer: Any, name: str = "batch_subsampler") -> None:
        """Draw before each step."""
        trainer.register_op("process_optim_batch", self)
        trainer.register_module(name, self)


class ValueEstimatorHook(Stateless):
    """Computes values and advantages of whole batches before each epoch.

    Args:
        value_estimator: takes and returns a batch, such as `objectives.value.GAE`.
    """

    def __init__(self, value_estimator: Callable[[TensorDictBase], TensorDictBase]) -> None:
        self.value_estimator = value_estimator

    def __call__(self, batch: TensorDictBase | None) -> TensorDictBase | None:
        """The batch with values; None, of collectors that write to a buffer, stays None."""
        return None if batch is None else self.value_estimator(batch)

    def register(self, trainer: Any, name: str = "value_estimator") -> None:
        """Compute before each epoch."""
        trainer.register_op("pre_epoch", self)
        trainer.register_module(name, self)
