"""A storage on a key-value server: larger than memory, and shared by machines."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, is_tensor_collection
from flambeau.rl.data.replay_buffers.storages.base import Storage

__all__ = ["StoreStorage"]


class StoreStorage(Storage):
    """Tensordicts on a server that speaks Redis's protocol; reading fetches the bytes of the rows that are drawn.

    The server gets one value for each entry, with all places, when the first items are added.

    Args:
        max_size: how many places there are.
        backend: what the server is: "redis", "valkey", "dragonfly" or "keydb".
        host: of the server.
        port: of the server.
        db: number of the database.
        compilable: see `Storage`.
        store_kwargs: others of `TensorDictStore`, such as `unix_socket_path`, `password` or `client`.

    Raises:
        ValueError: max_size < 1.
        ImportError: with the first items: the package `redis` is not installed.
        ConnectionError: with the first items: no server answers.
    """

    def __init__(
        self,
        max_size: int,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        compilable: bool = False,
        **store_kwargs: Any,
    ) -> None:
        super().__init__(max_size, compilable=compilable)
        self._place = {"backend": backend, "host": host, "port": port, "db": db, **store_kwargs}
        self._store: Any = None
        self._taken = 0

    def _opened(self, data: Any) -> Any:
        """The server's tensordict, made for items like these where there is none."""
        if self._store is None:
            from flambeau.data.tensordict.store import TensorDictStore

            self._store = TensorDictStore(batch_size=[self.max_size], **self._place)
            for key, value in data.items(True, True):
                if not isinstance(value, Tensor):
                    raise TypeError(f"StoreStorage keeps tensors; there is a {type(value).__name__} at {key!r}.")
                self._store.set(key, torch.zeros(self.max_size, *value.shape[1:], dtype=value.dtype))
        return self._store

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Write items to places.

        Args:
            cursor: a place, or several.
            data: an item, or a tensordict of rows.
            set_cursor: whether this was the last place that was written.

        Raises:
            TypeError: items that are no tensordicts.
        """
        if isinstance(data, list):
            data = torch.stack(data)
        if not is_tensor_collection(data) or isinstance(data, Tensor):
            raise TypeError(f"StoreStorage keeps tensordicts, got {type(data).__name__}.")
        index = self._several(cursor)
        if data.ndim == 0 or isinstance(cursor, int) or (isinstance(cursor, Tensor) and cursor.ndim == 0):
            data = data.unsqueeze(0)
        store = self._opened(data)
        for key, value in data.items(True, True):
            store.set_at_(key, value.cpu(), index)
        if set_cursor:
            self._last_cursor = cursor
        self._taken = max(self._taken, int(index.max()) + 1)

    def _several(self, index: Any) -> Tensor:
        if isinstance(index, slice):
            return torch.arange(self.max_size if self._store is None else self._taken)[index]
        if isinstance(index, range):
            index = list(index)
        return torch.as_tensor(index, dtype=torch.int64).reshape(-1)

    def get(self, index: Any) -> Any:
        """Items at places.

        Raises:
            IndexError: one that was not written.
        """
        places = self._several(index)
        if self._store is None or (len(places) and int(places.max()) >= self._taken):
            raise IndexError(f"StoreStorage has items at {self._taken} places, and was asked for {index}.")
        found = self._store[places]
        single = isinstance(index, int) or (isinstance(index, Tensor) and index.ndim == 0)
        return found[0] if single else found

    def contains(self, item: Any) -> Any:
        """Whether there are items at places."""
        if isinstance(item, int):
            return -self._taken <= item < self._taken
        return self._several(item) < self._taken

    def __len__(self) -> int:
        """How many places are taken."""
        return self._taken

    def _empty(self) -> None:
        self._taken = 0

    def state_dict(self) -> dict[str, Any]:
        """The items, fetched from the server."""
        content = {} if self._store is None else dict(self._store[torch.arange(self.max_size)].items(True, True))
        return {"_storage": content, "_len": self._taken}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Write what `state_dict` gave to the server."""
        content = dict(state_dict["_storage"])
        if content:
            self.set(range(self.max_size), TensorDict(content, [self.max_size]))
        self._taken = int(state_dict["_len"])

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a StoreStorage is not sent to other processes: let each make its own, with td_id= of the same tensordict."
        )
