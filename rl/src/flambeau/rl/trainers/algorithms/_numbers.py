"""What the trainers of all algorithms log of batches and buffers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.trainers._log_hooks import LogScalar

__all__ = ["log_batches", "log_buffer"]


def log_batches(trainer: Any, keys: dict[str, Any], *, rewards: bool, actions: bool, observations: bool) -> None:
    """Have a trainer log ends, rewards, actions and observations of each batch.

    Args:
        trainer: the trainer.
        keys: "done", "reward", "episode_reward", "action" and "observation", each with its key.
        rewards: log rewards: their mean, the largest sum of an episode, the sum of all.
        actions: log the norm of actions.
        observations: log the norm of observations.
    """
    trainer.register_op("pre_steps_log", LogScalar(_next(keys["done"]), "done_percentage", include_std=False))
    if rewards:
        trainer.register_op("pre_steps_log", LogScalar(_next(keys["reward"]), "r_training", log_pbar=True))
        trainer.register_op("pre_steps_log", _Sums(_next(keys["episode_reward"]), _next(keys["reward"])))
    if actions:
        trainer.register_op("pre_steps_log", _Norm(keys["action"], "action_norm"))
    if observations:
        trainer.register_op("pre_steps_log", _Norm(keys["observation"], "obs_norm"))


def log_buffer(trainer: Any) -> None:
    """Have a trainer log how often each stored step was trained with, what was stored, and steps of the optimizer."""

    def numbers(batch: Any) -> dict[str, Any]:
        buffer = trainer.replay_buffer
        count = buffer.write_count
        size = trainer.batch_size or getattr(buffer, "batch_size", None) or getattr(buffer, "_batch_size", None) or 1
        return {
            "utd_ratio": size * trainer._optim_count / count if count else 0.0,
            "write_count": count,
            "update_count": trainer._optim_count,
        }

    trainer.register_op("post_steps_log", numbers)


class _Sums:
    """The largest and the sum of rewards, of whole episodes where the environment sums them up."""

    def __init__(self, key: Any, otherwise: Any) -> None:
        self.key, self.otherwise = key, otherwise

    def __call__(self, batch: TensorDictBase) -> dict[str, Any]:
        value = batch.get(self.key, None)
        if value is None:
            value = batch.get(self.otherwise)
        value = value.float()
        return {"r_max": value.max().item(), "r_total": value.sum().item()}


class _Norm:
    """The mean norm of vectors; of a number, how large it is."""

    def __init__(self, key: Any, name: str) -> None:
        self.key, self.name = key, name

    def __call__(self, batch: TensorDictBase) -> dict[str, Any]:
        value: Tensor = batch.get(self.key).float()
        norms = torch.linalg.vector_norm(value, dim=-1) if value.ndim > batch.ndim else value.abs()
        return {self.name: norms.mean().item(), f"{self.name}_std": norms.std().item() if norms.numel() > 1 else 0.0}


def _next(key: Any) -> Any:
    return ("next", key) if isinstance(key, str) else ("next", *key)
