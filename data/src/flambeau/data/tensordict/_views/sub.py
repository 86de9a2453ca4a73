"""`_SubTensorDict`: a part of a tensordict, through which writes reach the whole."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.index import indexed_size, is_full, normal_index
from flambeau.data.tensordict._layout.keys import missing_key
from flambeau.data.tensordict._layout.pytree import register_tensordict
from flambeau.data.tensordict._layout.sizes import refuse_device
from flambeau.data.tensordict._methods.names import indexed_names
from flambeau.data.tensordict._methods.written_back import add_in_place_methods
from flambeau.data.tensordict.base import TensorDictBase


class _SubTensorDict(TensorDictBase):
    """What `td[idx]` shows, but every entry is read from and written to `td`, whatever kind of index it is.

    Args:
        source: the tensordict.
        idx: of its batch dimensions.
        batch_size: of the part; worked out by default.
    """

    def __init__(self, source: Any, idx: Any, batch_size: Any = None) -> None:
        self._source = source
        self.idx = normal_index(idx, len(source.batch_size))
        self._batch_size = indexed_size(source.batch_size, self.idx)
        if batch_size is not None and torch.Size(batch_size) != self._batch_size:
            raise RuntimeError(f"the index selects batch size {list(self._batch_size)}, not {list(batch_size)}.")

    @property
    def _shares_memory(self) -> bool:
        """Whether the tensors that are read are views of the whole's; otherwise they are copies."""
        index = self.idx if isinstance(self.idx, tuple) else (self.idx,)
        if not all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in index):
            return False
        source = self._source
        return source._shares_memory if isinstance(source, _SubTensorDict) else isinstance(source, classes.TensorDict)

    def _written_back(self, local: Any) -> Self:
        for key, value in local._items():
            if isinstance(value, Tensor) or not value._is_non_tensor:
                self._source._set_at_str(key, value, self.idx)
        return self

    def _items(self) -> Any:
        return [(key, self._get_str(key)) for key in self._source._key_names()]

    def _key_names(self) -> Any:
        return self._source._key_names()

    def _get_str(self, key: str, default: Any = None, **kwargs: Any) -> Any:
        value = self._source._get_at_str(key, self.idx)
        return default if value is None else value

    def _set_str(self, key: str, value: Any, **options: Any) -> None:
        self._source._set_at_str(key, value, self.idx)

    def _set_at_str(self, key: str, value: Any, index: Any) -> None:
        if self._get_str(key) is None:
            self._zeros_around(key, value, index)
        part = self._get_str(key)
        if self._shares_memory or isinstance(part, _SubTensorDict):
            super()._set_at_str(key, value, index)
            return
        local = classes.make_td({key: part}, self._batch_size, self.device)
        local._set_at_str(key, value, index)
        self._source._set_at_str(key, local._get_str(key), self.idx)

    def _apply_nest(self, call: Any, others: Any, prefix: tuple[str, ...] = ()) -> Any:
        if not call.inplace or self._shares_memory:
            return super()._apply_nest(call, others, prefix)
        local = self.to_tensordict()
        local._apply_nest(call, others, prefix)
        return self._written_back(local)

    def _make_child(self, key: str, *, ignore_lock: bool = False) -> Any:
        self._source._make_child(key, ignore_lock=ignore_lock)
        return self._get_str(key)

    def _del_str(self, key: str) -> None:
        self._source._del_str(key)

    def _index(self, index: Any) -> Any:
        if is_full(index):
            return self
        return _SubTensorDict(self, index)

    @property
    def batch_size(self) -> torch.Size:
        """The batch size of the part, which is fixed.

        Raises:
            RuntimeError: on assignment of another.
        """
        return self._batch_size

    @batch_size.setter
    def batch_size(self, size: Any) -> None:
        if torch.Size(size) != self._batch_size:
            raise RuntimeError("the batch size of a part of a tensordict is fixed; change a clone() of it.")

    @property
    def device(self) -> torch.device | None:
        """The device of the whole."""
        return self._source.device

    @device.setter
    def device(self, device: Any) -> None:
        refuse_device(device)

    def _names_or_none(self) -> Any:
        names = self._source._names_or_none()
        return None if names is None else indexed_names(names, self.idx)

    @property  # type: ignore[misc]  # the whole alone is locked
    def is_locked(self) -> bool:
        """Whether the whole is locked."""
        return self._source.is_locked

    def lock_(self) -> Self:
        """Not for a part.

        Raises:
            RuntimeError: always; lock the whole.
        """
        raise RuntimeError("a part of a tensordict cannot be locked; lock the whole tensordict.")

    def unlock_(self) -> Self:
        """Nothing to do where the whole is not locked; of a locked one a part cannot be unlocked.

        Raises:
            RuntimeError: the whole is locked.
        """
        if self.is_locked:
            raise RuntimeError("a part of a tensordict cannot be unlocked; unlock the whole tensordict.")
        return self._remember("unlock_", argument=False)

    def _lock_below(self, parent: Any) -> None:
        self._source._lock_below(parent)

    def parent_tensordict(self) -> Any:
        """The whole."""
        return self._source

    def entry_class(self, key: Any) -> type:
        """The class of an entry of the whole."""
        if key not in self:
            raise missing_key(key, self._key_names())
        return self._source.entry_class(key)

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Any:
        """A TensorDict with copies of the part's tensors."""
        return self.clone().contiguous(canonical=canonical)


add_in_place_methods(_SubTensorDict)
register_tensordict(_SubTensorDict)
