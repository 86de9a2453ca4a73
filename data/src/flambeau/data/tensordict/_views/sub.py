"""`_SubTensorDict`: a part of a tensordict, through which writes reach the whole."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._conversion.entries import convert
from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.index import indexed_size, is_full, normal_index
from flambeau.data.tensordict._layout.keys import key_path, missing_key
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
        if isinstance(self.idx, int) and not -source.batch_size[0] <= self.idx < source.batch_size[0]:
            raise IndexError(f"index {self.idx} is out of range for batch size {list(source.batch_size)}.")
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

    def _plain(self) -> Any:
        return self.to_tensordict()

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
        whole = self._source._peek_str(key)
        value = convert(value, self._batch_size, self.device)
        plain = isinstance(value, Tensor) or not value._is_non_tensor
        if whole is not None and plain != (isinstance(whole, Tensor) or not whole._is_non_tensor):
            raise RuntimeError(
                f"{key!r} is {'non-tensor data' if plain else 'a tensor'} in the whole tensordict, of which this is a "
                f"part; a {type(value).__name__} can replace it there."
            )
        if whole is None or not options.get("validated"):
            value = classes.make_td({}, self._batch_size, self.device)._validated(key, value)
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

    def rename_key_(self, old_key: Any, new_key: Any, safe: bool = False) -> Self:
        """Move an entry of the whole to another key; see `TensorDictBase.rename_key_`."""
        self._source.rename_key_(old_key, new_key, safe)
        return self

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

    def _set_names(self, names: Any) -> None:
        if names != self._names_or_none():
            raise RuntimeError(
                "a part of a tensordict has the names of the whole; name those dimensions, or a clone's."
            )

    @property
    def is_locked(self) -> bool:
        """Whether the whole is locked; of a part this can be changed by what `lock_` and `unlock_` say alone."""
        return self._source.is_locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

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

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        # As a clone a part stands alone; the rest of the whole would be copied for nothing.
        return self.clone()

    def parent_tensordict(self) -> Any:
        """The whole."""
        return self._source

    def entry_class(self, key: Any) -> type:
        """The class of an entry; nested collections are parts as well."""
        value = self._get_path(key_path(key))
        if value is None:
            raise missing_key(key, self._key_names())
        return type(value)

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Any:
        """A TensorDict of the part's tensors, copied where they are not contiguous.

        Raises:
            NotImplementedError: `inplace`; the memory is that of the whole.
        """
        if inplace:
            raise NotImplementedError("a part of a tensordict is as contiguous as the whole; use inplace=False.")
        return super().contiguous(canonical=canonical)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """A TensorDict with copies, on another device, of another dtype or batch size; see `TensorDictBase.to`.

        Raises:
            TypeError: `inplace`; the whole can be moved alone.
        """
        if kwargs.get("inplace"):
            raise TypeError("a part of a tensordict cannot be moved in place; move the whole, or use inplace=False.")
        return self.to_tensordict().to(*args, **kwargs)._remember("to", self)

    def detach_(self) -> Any:
        """Not for a part.

        Raises:
            RuntimeError: always; detach the whole.
        """
        raise RuntimeError("a part of a tensordict cannot be detached in place; detach the whole, or use detach().")


add_in_place_methods(_SubTensorDict)
register_tensordict(_SubTensorDict)
