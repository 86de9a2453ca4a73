"""Ends of episodes: which entries are done, and what a reset of some of them leaves of the others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDictBase, is_tensor_collection, is_tensorclass
from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._keys import RESET, NestedKey, as_key, as_tuple

_ENDS = ("done", "terminated", "truncated")


def terminated_or_truncated(
    data: TensorDictBase,
    full_done_spec: Composite | None = None,
    key: str | None = RESET,
    write_full_false: bool = False,
) -> bool | Tensor:
    """Whether an episode ended anywhere, and where: the union of "done", "terminated" and "truncated" of each place.

    Args:
        data: a tensordict with such keys, nested or not.
        full_done_spec: which keys those are; default: keys of these names.
        key: where to write the union, beside the keys it is made of; None to write nothing.
        write_full_false: write it even where nothing ended.

    Returns:
        Whether anything ended.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> data = TensorDict({"done": torch.tensor([[True], [False]])}, [2])
        >>> terminated_or_truncated(data), data["_reset"].flatten().tolist()
        (tensor(True), [True, False])
    """
    ends = _ends_of(data, full_done_spec)
    any_end: bool | Tensor = False
    for union in ends.values():
        any_end = union.any() if any_end is False else any_end | union.any()
    if key is not None and ends and (write_full_false or bool(any_end)):
        for place, union in ends.items():
            data.set(as_key((*place, key)), union)
    elif key is not None:
        for place in ends:
            data.pop(as_key((*place, key)), None)
    return any_end


def _ends_of(data: Any, full_done_spec: Composite | None) -> dict[tuple[str, ...], Tensor]:
    """The union of the ends at each place; by a spec, outer ends decide for what is below their place."""
    unions: dict[tuple[str, ...], Tensor] = {}
    keys: list[tuple[str, ...]]
    if full_done_spec is None:
        keys = [as_tuple(key) for key in data.keys(True, True) if as_tuple(key)[-1] in _ENDS]
        keys = [key for key in keys if key[0] != "next"]
    else:
        keys = [as_tuple(key) for key in full_done_spec.keys(True, True)]
        places = {key[:-1] for key in keys}
        keys = [key for key in keys if not any(key[:at] in places for at in range(len(key) - 1))]
    for key in keys:
        end = data.get(as_key(key), None)
        if end is None:
            continue
        place = key[:-1]
        unions[place] = unions[place] | end if place in unions else end.clone()
    return unions


def outer_ends(groups: list[list[NestedKey]]) -> list[list[NestedKey]]:
    """Groups of ends, "done" first, without those of places below others'."""
    places = {as_tuple(keys[0])[:-1] for keys in groups}
    kept = []
    for keys in groups:
        place = as_tuple(keys[0])[:-1]
        if not any(place[:at] in places for at in range(len(place))):
            kept.append(sorted(keys, key=lambda key: as_tuple(key)[-1] != "done"))
    return kept


def free_batch(spec: Composite, data: Any) -> torch.Size:
    """The dimensions of a batch before those of a spec: all of it for an env that takes any batch."""
    more = len(data.batch_size) - len(spec.shape)
    return torch.Size(data.batch_size[: max(more, 0)])


def complete_done(full_done_spec: Composite, data: Any, batch: torch.Size | None = None) -> None:
    """Set those of "done", "terminated" and "truncated" that a spec names and a tensordict lacks, from the others.

    Args:
        full_done_spec: names the keys.
        data: is changed in place; "done" alone means terminated; nothing at all means not done.
        batch: dimensions before those of the spec; default: those that the data has more.
    """
    batch = free_batch(full_done_spec, data) if batch is None else batch
    flags: dict[str, Tensor | None] = {}
    specs: dict[str, Any] = {}
    for key, spec in full_done_spec.items():
        if isinstance(spec, Composite):
            nested = data.get(key, None)
            if nested is None:
                data.set(key, nested := spec.empty().zero())
            if hasattr(nested, "tensordicts"):
                for at, part in enumerate(nested.tensordicts):
                    complete_done(spec[(slice(None),) * (nested.stack_dim - len(batch)) + (at,)], part, batch)
            else:
                complete_done(spec, nested, batch)
        elif spec is not None:
            specs[key] = spec
            flags[key] = data.get(key, None)
    if not specs:
        return
    given = {key: value for key, value in flags.items() if value is not None}
    done, terminated, truncated = (data.get(name, None) for name in _ENDS)
    for key, spec in specs.items():
        value = given.get(key)
        if value is None:
            value = _derived(key, spec, (*batch, *spec.shape), done, terminated, truncated)
        elif value.shape != (*batch, *spec.shape):
            value = value.reshape(*batch, *spec.shape)
        else:
            continue
        data.set(key, value)


def _derived(
    key: str,
    spec: Any,
    shape: tuple[int, ...],
    done: Tensor | None,
    terminated: Tensor | None,
    truncated: Tensor | None,
) -> Tensor:
    if key == "done" and terminated is not None:
        return terminated | truncated if truncated is not None else terminated.clone()
    if key == "done" and truncated is not None:
        return truncated.clone()
    if key == "terminated" and done is not None:
        return done & ~truncated if truncated is not None else done.clone()
    device = next((flag.device for flag in (done, terminated, truncated) if flag is not None), spec.device)
    return torch.zeros(shape, dtype=spec.dtype, device=device)


def merged_reset(fresh: Any, old: Any, reset_keys: list[NestedKey]) -> Any:
    """What a reset of some entries gave, with the other entries as they were.

    Args:
        fresh: what `_reset` returned.
        old: the tensordict it was given, with masks at `reset_keys`; a place without a mask is reset as a whole.
        reset_keys: keys of the masks, those of outer places first.

    Returns:
        `old` with new values where it was reset, zeros where `fresh` has none; without the masks.
    """
    masks = {as_tuple(key)[:-1]: old.get(key, None) for key in reset_keys}
    if all(mask is None for mask in masks.values()) or _is_whole(masks):
        return _renewed(old.exclude(*reset_keys), fresh)
    out = old.exclude(*reset_keys)
    done_at = {place: mask for place, mask in masks.items() if mask is not None}
    _merge(out, fresh, done_at, (), None)
    return out


def _is_whole(masks: dict[tuple[str, ...], Tensor | None]) -> bool:
    """Whether everything was reset: the outermost mask says so, and no other one says otherwise."""
    root = masks.get(())
    return root is not None and all(mask is None or bool(mask.all()) for mask in masks.values())


def _renewed(old: Any, fresh: Any) -> Any:
    """All of what a reset gave, in the place of what was."""
    objects = [key for key, value in fresh.items() if _is_object(value)]
    old = old.update(fresh.exclude(*objects) if objects else fresh)
    for key in objects:
        old.set(key, fresh.get(key))
    return old


def _is_object(value: Any) -> bool:
    """Whether a value, such as a conversation, is new as a whole: its parts may have other shapes than the old ones."""
    return is_tensorclass(value) and not _is_data(value)


def _rows_renewed(old: Any, fresh: Any, mask: Tensor) -> Any:
    """Objects of a batch, the new ones where a mask says so."""
    mask = mask.reshape(mask.shape[: fresh.ndim]) if mask.ndim > fresh.ndim else mask
    if not mask.ndim:
        return fresh if bool(mask) else old
    rows = zip(old.unbind(0), fresh.unbind(0), mask.unbind(0), strict=True)
    return LazyStackedTensorDict.maybe_dense_stack([_rows_renewed(*row) for row in rows], 0)


def _merge(
    out: Any, fresh: Any, masks: dict[tuple[str, ...], Tensor], place: tuple[str, ...], mask: Tensor | None
) -> None:
    mask = masks.get(place, mask)
    if mask is not None:
        for key, value in out.items():
            if key not in fresh.keys() and isinstance(value, Tensor):  # noqa: SIM118  # no dictionary
                out.set(key, torch.where(spread(mask, value), torch.zeros_like(value), value))
    for key, value in fresh.items():
        if key == RESET:
            continue
        old = out.get(key, None)
        inner = (*place, key)
        if _is_object(value):
            out.set(key, value if mask is None or old is None else _rows_renewed(old, value, mask))
        elif is_tensor_collection(value) and not _is_data(value):
            if old is None:
                old = value.empty()
            if hasattr(value, "tensordicts"):
                _merge_stack(old, value, masks, inner, mask)
            else:
                _merge(old, value, masks, inner, mask)
            out.set(key, old)
        elif mask is None or old is None or _is_data(value):
            if old is None or mask is None or bool(mask.any()):
                out.set(key, value)
        else:
            out.set(key, torch.where(spread(mask, value), value, old))


def _merge_stack(out: Any, fresh: Any, masks: Any, place: tuple[str, ...], mask: Tensor | None) -> None:
    dim = fresh.stack_dim
    mask = masks.get(place, mask)
    for at, (part_out, part) in enumerate(zip(out.unbind(dim), fresh.tensordicts, strict=True)):
        inner = None if mask is None else mask.select(dim, at) if mask.ndim > dim else mask
        _merge(part_out, part, {}, (), inner)


def _is_data(value: Any) -> bool:
    return type(value).__name__ in ("NonTensorData", "NonTensorStack", "MetaData")


def spread(mask: Tensor, value: Tensor) -> Tensor:
    """A mask with the dimensions of a value."""
    mask = mask.reshape(mask.shape[: value.ndim]) if mask.ndim > value.ndim else mask
    if mask.ndim < value.ndim or mask.shape != value.shape[: mask.ndim]:
        while mask.ndim > 1 and mask.shape[-1] == 1 and mask.shape != value.shape[: mask.ndim]:
            mask = mask.squeeze(-1)
        mask = mask.reshape(*mask.shape, *[1] * (value.ndim - mask.ndim))
    return mask.expand(value.shape)
