"""`TrainerHookBase`: what hooks of a trainer are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase

__all__ = ["REWARD_KEY", "TrainerHookBase", "flatten_dict", "mask_batch"]

REWARD_KEY = ("next", "reward")
MASK_KEY = ("collector", "mask")


class TrainerHookBase(ABC):
    """Something that is done at certain points of training, and knows by itself at which."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What it has to remember."""

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""

    @abstractmethod
    def register(self, trainer: Any, name: str) -> None:
        """Have a trainer call it, and keep its state.

        Args:
            trainer: the trainer.
            name: of the state in the trainer's.
        """


class Stateless(TrainerHookBase):
    """A hook that remembers nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take nothing."""


def mask_batch(batch: TensorDictBase) -> TensorDictBase:
    """The steps of a batch that are none of padding: those where ("collector", "mask") is so; all without a mask.

    Args:
        batch: (*, time).
    """
    mask = batch.get(MASK_KEY, None)
    if mask is None:
        return batch
    return batch[mask.squeeze(-1) if mask.ndim > batch.ndim else mask]


def masked(value: Tensor, batch: TensorDictBase) -> Tensor:
    """The entries of a value of a batch that are none of padding."""
    mask = batch.get(MASK_KEY, None)
    if mask is None:
        return value
    return value[mask.squeeze(-1) if mask.ndim > batch.ndim else mask]


def flatten_dict(d: dict[str, Any]) -> dict[str, Any]:
    """A dictionary whose dictionaries are joined by dots.

    Example:
        >>> flatten_dict({"a": {"b": 1}, "c": 2})
        {'a.b': 1, 'c': 2}
    """
    flat: dict[str, Any] = {}
    for key, value in d.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": each for inner, each in flatten_dict(value).items()}
        else:
            flat[key] = value
    return flat


def total_norm(parameters: list[Tensor], clip_grad_norm: bool, clip_norm: float | None) -> Tensor:
    """The norm of gradients before they are clipped; they are not, where there is no `clip_norm`.

    Args:
        parameters: have the gradients.
        clip_grad_norm: scale them so that their norm is `clip_norm` at most, else clamp each number to it.
        clip_norm: the limit.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return torch.zeros(())
    if len({(gradient.device, gradient.dtype, gradient.layout) for gradient in gradients}) > 1:
        norm = torch.nn.utils.get_total_norm(gradients)
        if clip_grad_norm and clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm)
    else:
        # As torch does where `foreach` is allowed, which is not on the CPU, where a call a parameter takes as long as
        # small networks do.
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        if clip_grad_norm and clip_norm is not None:
            torch._foreach_mul_(gradients, (clip_norm / (norm + 1e-6)).clamp(max=1.0))
    if not clip_grad_norm and clip_norm is not None:
        torch.nn.utils.clip_grad_value_(parameters, clip_norm)
    return norm
