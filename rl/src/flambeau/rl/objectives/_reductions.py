"""From errors of single steps to losses: distances, masks, weights and their means."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

# Where collectors and estimators mark the steps that count.
AUTO_LOSS_MASK_KEYS: tuple[Any, ...] = (("collector", "mask"), "shifted_valid")


def distance_loss(v1: Any, v2: Any, loss_function: str, strict_shape: bool = True) -> Any:
    """How far two tensors are from each other, element by element.

    Args:
        v1: a tensor or a tensordict.
        v2: of the same shape.
        loss_function: "l1" (absolute difference), "l2" (its square) or "smooth_l1" (Huber's, with threshold 1).
        strict_shape: refuse shapes that differ but broadcast.

    Returns:
        The shape of both, not reduced.

    Raises:
        RuntimeError: the shapes differ.
        NotImplementedError: another name of a distance.

    Example:
        >>> distance_loss(torch.tensor([3.0]), torch.tensor([1.0]), "l2")
        tensor([4.])
    """
    if v1.shape != v2.shape:
        if strict_shape:
            raise RuntimeError(
                f"distance_loss compares values of one shape, got {tuple(v1.shape)} and {tuple(v2.shape)}; reshape "
                "one of them, or allow broadcasting by strict_shape=False."
            )
        warnings.warn(
            f"A value of shape {tuple(v2.shape)} is broadcast to meet one of {tuple(v1.shape)}.", stacklevel=2
        )
    if not isinstance(v1, Tensor):
        return v1.apply(lambda one, other: _distance(one, other, loss_function), v2)
    return _distance(v1, v2, loss_function)


def _distance(v1: Tensor, v2: Tensor, kind: str) -> Tensor:
    if kind == "l2":
        # Twice as fast as a difference and its square, where no broadcasting is needed.
        return F.mse_loss(v1, v2, reduction="none") if v1.shape == v2.shape else (v1 - v2).square()
    if kind == "l1":
        return (v1 - v2).abs()
    if kind == "smooth_l1":
        return F.smooth_l1_loss(v1, v2, reduction="none")
    raise NotImplementedError(f"There is no loss function {kind!r}; use 'l1', 'l2' or 'smooth_l1'.")


def _reduce(tensor: Tensor, reduction: str, mask: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
    """The mean, the sum, or all values; of those that a mask lets through, with weights.

    Weighted means are divided by the sum of weights. "none" with a mask gives the values left, in one row.
    """
    if reduction not in ("none", "mean", "sum"):
        raise NotImplementedError(f"There is no reduction {reduction!r}; use 'none', 'mean' or 'sum'.")
    if weights is not None:
        if weights.shape != tensor.shape:
            raise ValueError(f"weights have shape {tuple(weights.shape)}, expected {tuple(tensor.shape)}.")
        tensor = tensor * weights
    if reduction == "none":
        return tensor if mask is None else tensor[mask]
    if mask is not None:
        # Not by indexing, whose result has a shape that depends on values, which compilers cannot know.
        tensor = torch.where(mask, tensor, 0)
    if reduction == "sum":
        return tensor.sum()
    if mask is None and weights is None:
        return tensor.mean()
    counted = torch.ones_like(tensor) if weights is None else weights
    return tensor.sum() / (counted if mask is None else torch.where(mask, counted, 0)).sum()


def _expand_loss_mask(mask: Tensor, loss: Tensor) -> Tensor:
    """A mask of steps as one of the loss's elements: what is one per step goes to all features, and back."""
    while mask.dim() > loss.dim() and mask.shape[-1] == 1:
        mask = mask.squeeze(-1)
    return mask.view(mask.shape + (1,) * (loss.dim() - mask.dim())).expand(loss.shape)


def _valid_value_target_rows(value_target: Tensor, tensordict: Any, mask_keys: Iterable[Any]) -> Tensor:
    """The targets of those steps that all masks let through; all of them where there is no mask."""
    valid = None
    for key in mask_keys:
        mask = tensordict.get(key, None)
        if mask is not None:
            mask = mask.view(mask.shape[: tensordict.ndim])
            valid = mask if valid is None else valid & mask
    return value_target if valid is None else value_target[valid]


def _sum_td_features(data: Any) -> Tensor:
    """The sum of all features of each element of a tensordict: the shape of its batch."""
    dims = data.batch_dims
    parts = [leaf.flatten(dims).sum(-1) if leaf.dim() > dims else leaf for leaf in data.values(True, True)]
    total: Tensor = sum(parts[1:], parts[0])
    return total


def _clip_value_loss(
    old_state_value: Any, state_value: Any, clip_value: Any, target_return: Any, loss_value: Any, loss_critic_type: str
) -> tuple[Any, Tensor]:
    """The larger of two losses, one of them of a value that moved no further than `clip_value`; and how often it did.

    Schulman et al., 2017 (arXiv:1707.06347); Engstrom et al., 2020 (arXiv:2005.12729), section 3.
    """
    step = state_value - old_state_value
    clipped = old_state_value + step.clamp(-clip_value, clip_value)
    loss_of_clipped = distance_loss(clipped, target_return, loss_function=loss_critic_type)
    moved = step.abs() > clip_value
    if not isinstance(moved, Tensor):
        moved = torch.cat([leaf.flatten() for leaf in moved.values(True, True)])
    if isinstance(loss_value, Tensor):
        return torch.maximum(loss_value, loss_of_clipped), moved.float().mean()
    return loss_value.apply(torch.maximum, loss_of_clipped), moved.float().mean()


def _validate_clip_epsilon(clip_epsilon: Any) -> tuple[float, float]:
    """By how much ratios may fall and rise: one number for both, or two.

    Raises:
        ValueError: not one or two numbers, a negative one, or one so that ratios may fall to 0.
    """
    if isinstance(clip_epsilon, (tuple, list)):
        if len(clip_epsilon) != 2:
            raise ValueError(f"clip_epsilon has {len(clip_epsilon)} elements, expected one number or two: (low, high).")
        low, high = map(float, clip_epsilon)
    else:
        low = high = float(clip_epsilon)
    if low < 0 or high < 0:
        raise ValueError(f"clip_epsilon is {clip_epsilon}, expected numbers that are not negative.")
    if low >= 1:
        raise ValueError(f"clip_epsilon lets ratios fall by {low}, expected less than 1, as ratios are positive.")
    return low, high
