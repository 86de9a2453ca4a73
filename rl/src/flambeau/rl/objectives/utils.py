"""What losses are made of, and what follows them: distances, estimators, target networks, optimizers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.objectives._estimator_choice import ValueEstimators as ValueEstimators
from flambeau.rl.objectives._estimator_choice import _coerce_value_type as _coerce_value_type
from flambeau.rl.objectives._estimator_choice import _registered_value_type as _registered_value_type
from flambeau.rl.objectives._estimator_choice import _value_estimator_aliases as _value_estimator_aliases
from flambeau.rl.objectives._estimator_choice import build_value_estimator as build_value_estimator
from flambeau.rl.objectives._estimator_choice import default_value_kwargs as default_value_kwargs
from flambeau.rl.objectives._estimator_choice import dispatch_value_estimator as dispatch_value_estimator
from flambeau.rl.objectives._estimator_choice import get_value_estimator_entry as get_value_estimator_entry
from flambeau.rl.objectives._estimator_choice import register_value_estimator as register_value_estimator
from flambeau.rl.objectives._networks import _get_default_device as _get_default_device
from flambeau.rl.objectives._networks import _pseudo_vmap as _pseudo_vmap
from flambeau.rl.objectives._networks import _vmap_func as _vmap_func
from flambeau.rl.objectives._networks import hold_out_net as hold_out_net
from flambeau.rl.objectives._networks import hold_out_params as hold_out_params
from flambeau.rl.objectives._optimizers import KLAdaptiveLR as KLAdaptiveLR
from flambeau.rl.objectives._optimizers import group_optimizers as group_optimizers
from flambeau.rl.objectives._reductions import AUTO_LOSS_MASK_KEYS as AUTO_LOSS_MASK_KEYS
from flambeau.rl.objectives._reductions import _clip_value_loss as _clip_value_loss
from flambeau.rl.objectives._reductions import _reduce as _reduce
from flambeau.rl.objectives._reductions import _sum_td_features as _sum_td_features
from flambeau.rl.objectives._reductions import _valid_value_target_rows as _valid_value_target_rows
from flambeau.rl.objectives._reductions import _validate_clip_epsilon as _validate_clip_epsilon
from flambeau.rl.objectives._reductions import distance_loss as distance_loss
from flambeau.rl.objectives._target_updates import HardUpdate as HardUpdate
from flambeau.rl.objectives._target_updates import SoftUpdate as SoftUpdate
from flambeau.rl.objectives._target_updates import TargetNetUpdater as TargetNetUpdater

__all__ = [
    "HardUpdate",
    "KLAdaptiveLR",
    "SoftUpdate",
    "TargetNetUpdater",
    "TensorLike",
    "ValueEstimators",
    "build_value_estimator",
    "default_value_kwargs",
    "dispatch_value_estimator",
    "distance_loss",
    "get_value_estimator_entry",
    "group_optimizers",
    "hold_out_net",
    "hold_out_params",
    "next_state_value",
    "register_value_estimator",
]

TensorLike = TypeVar("TensorLike", Tensor, TensorDictBase)
F = TypeVar("F", bound=Callable[..., Any])


def next_state_value(
    tensordict: TensorDictBase,
    operator: Any = None,
    next_val_key: str = "state_action_value",
    gamma: float = 0.99,
    pred_next_val: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    """What a step brings: its reward, and the discounted value of the state after it, unless the episode is over.

    target = reward + gamma^k * (1 - done) * value, where k is "steps_to_next_obs" if there is such an entry, else 1.

    Args:
        tensordict: with ("next", "reward") and ("next", "done"), each (*batch, 1), and what the network
            reads in "next".
        operator: the network whose `next_val_key` is the value; called on "next" with `kwargs`.
        next_val_key: (*batch, 1) or (*batch,).
        gamma: discount.
        pred_next_val: the value, instead of a network.
        **kwargs: of the network's call.

    Returns:
        The batch's shape, without gradients to the network.
    """
    reward = tensordict.get(("next", "reward")).squeeze(-1)
    done = tensordict.get(("next", "done")).squeeze(-1)
    steps = tensordict.get("steps_to_next_obs", None)
    discount = gamma if steps is None else gamma ** steps.squeeze(-1)
    if pred_next_val is None:
        if operator is None:
            raise AttributeError("next_state_value has neither an operator nor pred_next_val; pass one of them.")
        following = tensordict.get("next").select(*operator.in_keys)
        with torch.no_grad():
            pred_next_val = operator(following, **kwargs).get(next_val_key)
    if pred_next_val.dim() > reward.dim():
        pred_next_val = pred_next_val.squeeze(-1)
    target: Tensor = reward + (~done).to(reward.dtype) * discount * pred_next_val
    return target


def _cache_values(func: F) -> F:
    """Keep what a method or property of a loss gives, until the loss moves or loads other values."""
    name = f"_cached:{func.__name__}"

    @functools.wraps(func)
    def cached(self: Any) -> Any:
        if torch.compiler.is_compiling():
            return func(self)
        cache = self.__dict__.setdefault("_cache", {})
        if name not in cache:
            cache[name] = func(self)
        return cache[name]

    return cached  # type: ignore[return-value]


def _maybe_get_or_select(
    td: Any, key_or_keys: Any, target_shape: Any = None, padding_side: str = "left", padding_value: int = 0
) -> Any:
    """The entry of a key, or a tensordict of several; ragged entries padded to a shape. None where there is none."""
    if not isinstance(key_or_keys, (str, tuple)):
        return td.select(*key_or_keys)
    found = td.get(key_or_keys, None)
    if found is None or target_shape is None or tuple(found.shape) == tuple(target_shape):
        return found
    if isinstance(found, Tensor) and found.is_nested:
        return _padded(found.unbind(), target_shape, padding_side, padding_value)
    if isinstance(found, (list, tuple)):
        return _padded(found, target_shape, padding_side, padding_value)
    return found


def _padded(rows: Any, shape: Any, side: str, value: int) -> Tensor:
    length = shape[-1]
    made = []
    for row in rows:
        missing = length - row.shape[-1]
        made.append(torch.nn.functional.pad(row, (missing, 0) if side == "left" else (0, missing), value=value))
    return torch.stack(made)


def _maybe_add_or_extend_key(tensor_keys: list[Any], key_or_list_of_keys: Any, prefix: Any = None) -> None:
    """Append a key, or several, below another."""
    keys = [key_or_list_of_keys] if isinstance(key_or_list_of_keys, (str, tuple)) else key_or_list_of_keys
    above = () if prefix is None else (prefix,) if isinstance(prefix, str) else tuple(prefix)
    for key in keys:
        below = (key,) if isinstance(key, str) else tuple(key)
        tensor_keys.append((*above, *below) if above or len(below) > 1 else below[0])
