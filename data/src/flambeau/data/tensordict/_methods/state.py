"""State dicts: what checkpoints hold.

A state dict has the tensors alone. Batch size, device and non-tensor data of each level stand in its `_metadata`, under
the level's prefix, where modules keep their versions. Checkpoints of older versions have batch size and device as
entries `__batch_size` and `__device` of nested dicts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.keys import listing
from flambeau.data.tensordict._tensorcollection import CollectionMethods

_OLD_NOTES = {"__batch_size": "batch_size", "__device": "device"}


class StateMethods(CollectionMethods):
    """`state_dict` and `load_state_dict`."""

    def state_dict(
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
    ) -> OrderedDict[str, Any]:
        """The tensors as a dict that `torch.save` and `load_state_dict` take.

        Args:
            destination: a dict to write into.
            prefix: before every key.
            keep_vars: keep the tensors' history; otherwise they are detached.
            flatten: one level, keys joined by dots; otherwise nested dicts. Batch size, device and non-tensor data of
                each level are in `_metadata` of the dict.
        """
        out: Any = OrderedDict() if destination is None else destination
        note(out, prefix, self)
        for key, value in self._items():
            name = prefix + key
            if isinstance(value, Tensor):
                out[name] = value if keep_vars else value.detach()
                continue
            below = out if flatten else OrderedDict()
            start = f"{name}." if flatten else ""
            if value._is_non_tensor:
                note(below, start, value)
            else:
                value.state_dict(below, start, keep_vars, flatten)
            if not flatten:
                out[name] = below
        return out

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, assign: bool = False, from_flatten: bool | None = None
    ) -> Self:
        """Take the entries of a state dict, and the batch sizes that it notes.

        Args:
            state_dict: as `state_dict` makes it, flat or nested, or as older versions made it.
            strict: the keys must be the same.
            assign: take the tensors themselves; otherwise their values are copied into those that exist.
            from_flatten: whether it is flat; found out where None.

        Raises:
            RuntimeError: `strict`, and keys are missing or unknown.
        """
        if from_flatten is None:
            from_flatten = not any(isinstance(value, Mapping) for value in state_dict.values())
        entries, notes = dict(_entries(state_dict, ())), dict(_notes(state_dict, ()))
        # A name with a dot is a key of its own where there is such a key, and a path otherwise.
        mine = {".".join(path): path for path in _tensor_paths(self, ())}
        found = {".".join(path): (path, value) for path, value in entries.items()}
        if strict and (odd := sorted(mine.keys() ^ {name for name in found if not _is_non_tensor(self, name)})):
            raise RuntimeError(f"the state dict does not fit; on one side only: {listing(odd)}.")
        for name, (path, value) in found.items():
            target = mine.get(name)
            if target is not None and not assign:
                self._set_path(target, value, inplace=True)
            elif target is not None or not strict:
                self._set_path(target or (tuple(name.split(".")) if from_flatten else path), value)
        for path, said in notes.items():
            level: Any = self._get_path(path) if path else self
            size = said.get("batch_size")
            if "_is_non_tensor" in said.get("_non_tensor", ()):
                value = classes.NonTensorData(said["_non_tensor"]["data"], batch_size=size)
                self._set_path(path, value, ignore_lock=True)
            elif level is not None and size is not None and torch.Size(size) != level.batch_size:
                level.batch_size = torch.Size(size)
            if getattr(level, "_is_tensorclass", False) and not level._is_non_tensor:
                level._load_non_tensors(said.get("_non_tensor", {}))
        return self


def note(state_dict: Any, prefix: str, level: Any) -> None:
    """Say in the metadata of a state dict what a collection is besides its tensors."""
    if not isinstance(state_dict, OrderedDict):  # a plain dict takes no attributes
        return
    if not hasattr(state_dict, "_metadata"):
        state_dict._metadata = OrderedDict()  # type: ignore[attr-defined]  # as modules do
    said: dict[str, Any] = {"batch_size": level.batch_size, "device": level.device}
    if type(level).__name__ in ("NonTensorData", "MetaData"):
        said |= {
            "_type": type(level).__name__,
            "_non_tensor": {"data": level.data, "_is_non_tensor": True, "_metadata": None},
        }
    state_dict._metadata[prefix[:-1]] = said  # type: ignore[attr-defined]


def _tensor_paths(td: Any, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in td._items():
        if isinstance(value, Tensor):
            yield (*prefix, key)
        elif not value._is_non_tensor:
            yield from _tensor_paths(value, (*prefix, key))


def _entries(state_dict: Mapping[str, Any], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The tensors of a state dict, by their path of keys."""
    for key, value in state_dict.items():
        if isinstance(value, Mapping):
            yield from _entries(value, (*prefix, key))
        elif key.rpartition(".")[2] not in _OLD_NOTES:
            yield (*prefix, key), value


def _notes(state_dict: Mapping[str, Any], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """What is said of each level."""
    for name, said in (getattr(state_dict, "_metadata", None) or {}).items():
        yield (*prefix, *(name.split(".") if name else ())), said
    for key, value in state_dict.items():
        path, _, last = key.rpartition(".")
        if isinstance(value, Mapping):
            yield from _notes(value, (*prefix, key))
        elif last == "__batch_size":
            yield (*prefix, *(path.split(".") if path else ())), {"batch_size": value}


def _is_non_tensor(td: Any, name: str) -> bool:
    """Whether a state dict, as earlier versions wrote it, names non-tensor data that is there."""
    value = td._get_path(tuple(name.split(".")))
    return value is not None and getattr(value, "_is_non_tensor", False)
