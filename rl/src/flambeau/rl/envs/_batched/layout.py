"""The memory that environments and those who step them share: one block of bytes, a row of it for each environment."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase
from flambeau.rl.envs._keys import RESET, NestedKey, as_tuple, by_depth, with_last

_ALIGNMENT = 64


@dataclass
class Keys:
    """What an environment takes and gives; "next" is no part of any key.

    Args:
        inputs: actions, and what else a step reads.
        state: what a reset reads.
        masks: the reset keys.
        root: what a reset gives.
        following: what a step gives.
        carried: those of them that are not in the shared memory, as their size is not fixed, or as they are no tensors.
    """

    inputs: list[NestedKey]
    state: list[NestedKey]
    masks: list[NestedKey]
    root: list[NestedKey]
    following: list[NestedKey]
    carried: set[NestedKey] = field(default_factory=set)

    def kept(self, name: str) -> list[NestedKey]:
        """Those of a group that are in the shared memory."""
        return [key for key in getattr(self, name) if key not in self.carried]

    def sent(self, name: str) -> list[NestedKey]:
        """Those of a group that are not."""
        return [key for key in getattr(self, name) if key in self.carried]


def keys_of(specs: Any, use_buffers: bool) -> Keys:
    """The keys of an environment.

    Args:
        specs: of the environment: "input_spec" and "output_spec".
        use_buffers: whether there is shared memory at all.
    """
    given = specs["input_spec"]
    gives = specs["output_spec"]
    actions, state = given["full_action_spec"], given["full_state_spec"]
    observations, rewards, ends = gives["full_observation_spec"], gives["full_reward_spec"], gives["full_done_spec"]
    action_keys, state_keys, observation_keys, reward_keys, done_keys = (
        sorted(spec.keys(True, True), key=by_depth) for spec in (actions, state, observations, rewards, ends)
    )
    masks = sorted(dict.fromkeys(with_last(key, RESET) for key in done_keys), key=by_depth)
    root = list(dict.fromkeys([*state_keys, *observation_keys, *done_keys]))
    following = list(dict.fromkeys([*observation_keys, *reward_keys, *done_keys]))
    carried: set[NestedKey] = set() if use_buffers else set(masks)
    for spec in (state, actions, observations, rewards, ends):
        carried |= {key for key, each in spec.items(True, True) if not use_buffers or not _is_fixed(each)}
    return Keys([*action_keys, *state_keys], state_keys, masks, root, following, carried)


def _is_fixed(spec: Any) -> bool:
    """Whether a spec's values are tensors of one shape."""
    return spec is not None and type(spec).__name__ not in ("NonTensor", "Choice") and -1 not in spec.shape


@dataclass
class Place:
    """Where a value lies in the block: a row a environment, or one environment's alone.

    Args:
        key: with "next" as its first part where a step gives it.
        dtype: of the value.
        shape: of it.
        offset: in bytes.
    """

    key: tuple[str, ...]
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int


def places(data: TensorDictBase, wanted: set[tuple[str, ...]], start: int = 0) -> tuple[list[Place], int]:
    """Where to put values like those of a tensordict, and where the block ends then."""
    found = []
    for key, value in data.items(True, True):
        path = as_tuple(key)
        if path not in wanted or not isinstance(value, Tensor):
            continue
        found.append(Place(path, value.dtype, tuple(value.shape), start))
        size = math.prod(value.shape) * value.dtype.itemsize
        start += -(-size // _ALIGNMENT) * _ALIGNMENT
    return found, start


def view(block: Tensor, place: Place) -> Tensor:
    """The value at a place."""
    size = math.prod(place.shape) * place.dtype.itemsize
    return block[place.offset : place.offset + size].view(place.dtype).view(place.shape)


class Block:
    """Bytes that processes share.

    Args:
        size: their number.
        device: where they are.
        shared: processes share them.
        mapped: they are a file, which is removed with this object.
    """

    def __init__(self, size: int, device: torch.device, shared: bool, mapped: bool) -> None:
        self._file: Any = None
        size = max(size, 1)
        if mapped and device.type == "cpu":
            self._file = tempfile.NamedTemporaryFile(prefix="flambeau-envs-")  # noqa: SIM115  # lives as long as this
            self._file.truncate(size)
            self.tensor = torch.from_file(self._file.name, shared=True, size=size, dtype=torch.uint8)
        else:
            self.tensor = torch.zeros(size, dtype=torch.uint8, device=device)
            if shared and device.type == "cpu":
                self.tensor.share_memory_()

    def handle(self) -> Any:
        """What another process gets, for `opened`."""
        return (self._file.name, self.tensor.numel()) if self._file is not None else self.tensor


def opened(handle: Any) -> Tensor:
    """The bytes of a block, in another process."""
    if isinstance(handle, Tensor):
        return handle
    name, size = handle
    return torch.from_file(name, shared=True, size=size, dtype=torch.uint8)


class Buffers:
    """The values of several environments in a block.

    Args:
        zeros: what a step of each environment has; one for all where `individual` is not set.
        keys: of each environment, likewise.
        count: number of environments.
        individual: each has memory of its own, not a row of the memory of all.
        device: where the block is.
        shared: processes share it.
        mapped: it is a file.
    """

    def __init__(
        self,
        zeros: list[TensorDictBase],
        keys: list[Keys],
        count: int,
        individual: bool,
        device: torch.device,
        shared: bool,
        mapped: bool,
    ) -> None:
        self.count, self.individual = count, individual
        self.keys = keys
        self._zeros = zeros
        self._places: list[list[Place]] = []
        end = 0
        for at in range(count if individual else 1):
            data, own = zeros[min(at, len(zeros) - 1)], keys[min(at, len(keys) - 1)]
            wanted = {as_tuple(key) for name in ("inputs", "state", "masks", "root") for key in own.kept(name)}
            wanted |= {("next", *as_tuple(key)) for key in own.kept("following")}
            if not individual:
                data = data.expand(count, *data.batch_size)
            laid_out, end = places(data, wanted, end)
            self._places.append(laid_out)
        self.block = Block(end, device, shared, mapped)
        self.values = [{place.key: view(self.block.tensor, place) for place in laid_out} for laid_out in self._places]
        self._fill()
        self._trees = {group: self._made_trees(group) for group in ("root", "following")}

    def _fill(self) -> None:
        """Values that zeros of the specs have, which need not be 0."""
        for at, values in enumerate(self.values):
            data = self._zeros[min(at, len(self._zeros) - 1)]
            for key, value in values.items():
                value.copy_(data.get(key))

    def row_places(self, at: int) -> list[Place]:
        """Where the values of one environment are."""
        if self.individual:
            return self._places[at]
        rows = []
        for place in self._places[0]:
            step = math.prod(place.shape[1:]) * place.dtype.itemsize
            rows.append(Place(place.key, place.dtype, place.shape[1:], place.offset + at * step))
        return rows

    def own_keys(self, at: int) -> Keys:
        """The keys of one environment."""
        return self.keys[min(at, len(self.keys) - 1)]

    # What those who step them write and read

    def write(self, data: Any, name: str, which: list[int] | None) -> None:
        """Write the values of a group of keys that a tensordict has.

        Args:
            data: of all environments.
            name: of the group.
            which: of these environments only.
        """
        if not self.individual:
            values = self.values[0]
            for key in self.keys[0].kept(name):
                value = data.get(key, None)
                if value is not None:
                    target = values[as_tuple(key)]
                    if which is None:
                        _copy(target, value, key)
                    else:
                        target[which] = value[which].to(target.device, target.dtype)
            return
        parts = data.unbind(0)
        for at in range(self.count) if which is None else which:
            for key in self.own_keys(at).kept(name):
                value = parts[at].get(key, None)
                if value is not None:
                    _copy(self.values[at][as_tuple(key)], value, key)

    def fresh(self, group: str, device: Any, non_blocking: bool) -> Any:
        """A tensordict with copies of what steps ("following") or resets ("root") gave.

        Args:
            group: which of the two.
            device: of the tensordict; None leaves values where they are.
            non_blocking: of copies to it.
        """
        parts = [tree.copy(device, non_blocking) for tree in self._trees[group]]
        return LazyStackedTensorDict(*parts, stack_dim=0) if self.individual else parts[0]

    def _made_trees(self, group: str) -> list[_Tree]:
        prefix: tuple[str, ...] = ("next",) if group == "following" else ()
        trees = []
        for at, values in enumerate(self.values):
            data = self._zeros[min(at, len(self._zeros) - 1)]
            extra: tuple[int, ...] = () if self.individual else (self.count,)
            paths = [as_tuple(key) for key in self.own_keys(at).kept(group)]
            trees.append(
                _Tree({path: values[*prefix, *path] for path in paths}, data.get("next") if prefix else data, extra)
            )
        return trees

    def follow(self, others: list[int]) -> None:
        """Let the roots of some environments be what their last steps gave."""
        for at in others if self.individual else (0,):
            values = self.values[at]
            for key in self.own_keys(at).kept("root"):
                path = as_tuple(key)
                if ("next", *path) in values:
                    if self.individual:
                        values[path].copy_(values["next", *path])
                    else:
                        values[path][others] = values["next", *path][others]


def _copy(target: Tensor, value: Tensor, key: NestedKey) -> None:
    if value.shape != target.shape:
        if value.numel() != target.numel():
            raise RuntimeError(
                f"{key!r} has shape {tuple(value.shape)} in the tensordict, and {tuple(target.shape)} in the specs."
            )
        value = value.reshape(target.shape)
    target.copy_(value)


class _Tree:
    """Values by path as nested tensordicts, whose batch sizes are those of `like` behind `extra`."""

    def __init__(self, values: dict[tuple[str, ...], Tensor], like: Any, extra: tuple[int, ...]) -> None:
        self.size = Size([*extra, *like.batch_size])
        self.leaves = [(path[0], value) for path, value in values.items() if len(path) == 1]
        inner: dict[str, dict[tuple[str, ...], Tensor]] = {}
        for path, value in values.items():
            if len(path) > 1:
                inner.setdefault(path[0], {})[path[1:]] = value
        self.nested = [(name, _Tree(each, like.get(name), extra)) for name, each in inner.items()]

    def copy(self, device: Any, non_blocking: bool) -> Any:
        """The values as they are now."""
        if device is None:
            entries: dict[str, Any] = {name: value.clone() for name, value in self.leaves}
        else:
            entries = {
                name: value.clone() if value.device == device else _moved(value, device, non_blocking)
                for name, value in self.leaves
            }
        for name, tree in self.nested:
            entries[name] = tree.copy(device, non_blocking)
        return TensorDict._new_unsafe(entries, self.size, device)


def _moved(value: Tensor, device: torch.device, non_blocking: bool) -> Tensor:
    # A copy to the CPU that is not waited for could be read before it is there.
    return value.to(device, non_blocking=non_blocking and device.type != "cpu", copy=True)
