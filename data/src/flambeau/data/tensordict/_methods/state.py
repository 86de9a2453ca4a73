"""State dicts: what checkpoints hold."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.keys import listing
from flambeau.data.tensordict._tensorcollection import TensorCollection


class StateMethods:
    """`state_dict` and `load_state_dict`."""

    def state_dict(
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
    ) -> OrderedDict[str, Any]:
        """The entries as a dict that `torch.save` and `load_state_dict` take.

        Args:
            destination: a dict to write into.
            prefix: before every key.
            keep_vars: keep the tensors' history; otherwise they are detached.
            flatten: one level, keys joined by dots; otherwise nested dicts, with batch size and device at each level in
                their `_metadata`.
        """
        out: Any = OrderedDict() if destination is None else destination
        source = self.flatten_keys(".") if flatten else self
        for key, value in source._items():
            if isinstance(value, Tensor):
                out[prefix + key] = value if keep_vars else value.detach()
            elif value._is_non_tensor:
                out[prefix + key] = value._unwrap()
            else:
                out[prefix + key] = value.state_dict(keep_vars=keep_vars, flatten=False)
        if not flatten and isinstance(out, OrderedDict):
            out._metadata = OrderedDict({prefix: {"batch_size": self.batch_size, "device": self.device}})
        return out

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, assign: bool = False, from_flatten: bool | None = None
    ) -> Self:
        """Take the entries of a state dict.

        Args:
            state_dict: as `state_dict` makes it, flat or nested.
            strict: the keys must be the same.
            assign: take the tensors themselves; otherwise their values are copied into those that exist.
            from_flatten: whether it is flat; found out where None.

        Raises:
            RuntimeError: `strict`, and keys are missing or unknown.
        """
        flat = (
            not any(isinstance(value, dict) for value in state_dict.values()) if from_flatten is None else from_flatten
        )
        if flat:
            nested: dict[Any, Any] = {tuple(key.split(".")): value for key, value in state_dict.items()}
            mine = {tuple(key.split(".")) for key in self.flatten_keys(".")._key_names()}
        else:
            size = _batch_size(state_dict)
            if strict and size is not None and torch.Size(size) != self.batch_size:
                self.batch_size = size
            mine = {(key,) for key in self._key_names()}
            nested = {(key,): value for key, value in state_dict.items()}
        if strict and mine != set(nested):
            odd = sorted(".".join(path) for path in mine ^ set(nested))
            raise RuntimeError(f"the state dict does not fit; on one side only: {listing(odd)}.")
        for path, value in nested.items():
            target = self._get_path(path)
            if isinstance(target, TensorCollection) and not target._is_non_tensor and isinstance(value, dict):
                target.load_state_dict(value, strict=strict, assign=assign, from_flatten=False)
            elif target is not None and not assign:
                self._set_path(path, value, inplace=True)
            elif target is not None or not strict:
                self._set_path(path, value)
        return self


def _batch_size(state_dict: Any) -> torch.Size | None:
    """The batch size that a nested state dict notes."""
    notes = getattr(state_dict, "_metadata", None) or {}
    return next((note["batch_size"] for note in notes.values() if "batch_size" in note), None)
