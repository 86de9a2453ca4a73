"""From one step to the next: what stood below "next" becomes the root."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDictBase, is_tensor_collection
from flambeau.rl.envs._keys import NestedKey, as_list, tree


def step_mdp(
    tensordict: TensorDictBase,
    next_tensordict: TensorDictBase | None = None,
    keep_other: bool = True,
    exclude_reward: bool = True,
    exclude_done: bool = False,
    exclude_action: bool = True,
    reward_keys: NestedKey | list[NestedKey] = "reward",
    done_keys: NestedKey | list[NestedKey] = "done",
    action_keys: NestedKey | list[NestedKey] = "action",
) -> TensorDictBase:
    """The tensordict of step t + 1, from that of step t with what the env gave below "next".

    Args:
        tensordict: of step t; it is not changed.
        next_tensordict: where to write the result; default: a new one.
        keep_other: keep what is at the root and not below "next".
        exclude_reward: leave out the rewards.
        exclude_done: leave out the keys `done_keys`.
        exclude_action: leave out the actions.
        reward_keys: keys of rewards.
        done_keys: keys of ends.
        action_keys: keys of actions.

    Returns:
        A tensordict with the same tensors, not copies.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> data = TensorDict({"x": 0, "action": 1, "next": {"x": 2, "reward": 3, "done": False}}, [])
        >>> step_mdp(data).to_dict()
        {'x': tensor(2), 'done': tensor(False)}
    """
    excluded: list[NestedKey] = []
    if exclude_action:
        excluded += as_list(action_keys)
    if exclude_reward:
        excluded += as_list(reward_keys)
    if exclude_done:
        excluded += as_list(done_keys)
    result = moved_on(tensordict, tree(excluded), keep_other)
    return result if next_tensordict is None else next_tensordict.update(result)


def moved_on(tensordict: Any, excluded: dict[str, Any], keep_other: bool = True) -> Any:
    """`step_mdp` with what is left out as a tree of keys."""
    if isinstance(tensordict, LazyStackedTensorDict):
        parts = [moved_on(part, excluded, keep_other) for part in tensordict.tensordicts]
        return LazyStackedTensorDict(*parts, stack_dim=tensordict.stack_dim)
    out = tensordict.empty()
    _merge(out, tensordict, tensordict.get("next"), excluded, keep_other, root=True)
    return out


def _merge(out: Any, old: Any, new: Any, excluded: dict[str, Any], keep_other: bool, root: bool = False) -> None:
    """Write what `new` has, and what only `old` has, in the order of `old`."""
    behind = dict(new.items())
    for key, value in old.items():
        if root and key == "next":
            continue
        if key in behind:
            _put(out, key, value, behind.pop(key), excluded, keep_other)
        elif keep_other:
            _put(out, key, value, None, excluded, keep_other)
    for key, value in behind.items():
        _put(out, key, None, value, excluded, keep_other)


def _put(out: Any, key: str, old: Any, new: Any, excluded: dict[str, Any], keep_other: bool) -> None:
    value = old if new is None else new
    if key in excluded:
        inner = excluded[key]
        if inner is None:
            return
    else:
        inner = {}
    if not _is_nested(value) or (not inner and (new is None or not _is_nested(old))):
        out._set_str(key, value, validated=True, inplace=False, non_blocking=False)
        return
    if isinstance(value, LazyStackedTensorDict):
        olds = old.unbind(value.stack_dim) if _is_nested(old) else [None] * len(value.tensordicts)
        parts = []
        for part_old, part in zip(olds, value.tensordicts, strict=True):
            parts.append(_nested(part_old, part, inner, keep_other))
        nested: Any = LazyStackedTensorDict(*parts, stack_dim=value.stack_dim)
    else:
        nested = _nested(old if _is_nested(old) and new is not None else None, value, inner, keep_other)
    if len(list(nested.keys())) or not len(list(value.keys())):
        out._set_str(key, nested, validated=True, inplace=False, non_blocking=False)


def _nested(old: Any, value: Any, excluded: dict[str, Any], keep_other: bool) -> Any:
    nested = value.empty()
    if old is None:
        for key, each in value.items():
            _put(nested, key, None, each, excluded, keep_other)
    else:
        _merge(nested, old, value, excluded, keep_other)
    return nested


def _is_nested(value: Any) -> bool:
    return isinstance(value, TensorDictBase) or (
        is_tensor_collection(value) and not hasattr(value, "data_ptr") and _has_keys(value)
    )


def _has_keys(value: Any) -> bool:
    return type(value).__name__ not in ("NonTensorData", "NonTensorStack", "MetaData")
