"""The bytes of a shard, at random: a mapped file of this machine, or ranges of an object in a store."""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path
from typing import Any

from flambeau.data.shards.errors import ShardError
from flambeau.data.storage import is_remote


class BytesSource:
    """Random access to the bytes of a path or URL, from any thread, and after a fork or unpickling.

    Args:
        path: a file, or what `flambeau.data.storage.open_object` takes.
        settings: keywords of `open_object` from `region` on, for URLs.
    """

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any] | None = None) -> None:
        self.path = os.fspath(path)
        self._settings = settings or {}
        self._remote = is_remote(self.path)
        self._lock = threading.Lock()
        self._map: mmap.mmap | bytes | None = None
        self._size: int | None = None

    @property
    def size(self) -> int:
        """Length in bytes."""
        if self._size is None:
            if self._remote:
                from flambeau.data.storage import open_object

                with open_object(self.path, **self._settings) as file:
                    self._size = file.size  # type: ignore[attr-defined]
            else:
                self._size = len(self._mapped())
        return self._size

    def read(self, start: int, stop: int) -> memoryview:
        """The bytes [start, stop), cut at the end; of a local file without a copy."""
        if self._remote:
            from flambeau.data.storage import read_range

            return read_range(self.path, start, stop, **self._settings)
        return memoryview(self._mapped())[start:stop]

    def whole(self) -> memoryview:
        """All bytes; of a local file without a copy."""
        return self.read(0, self.size)

    def _mapped(self) -> mmap.mmap | bytes:
        with self._lock:
            if self._map is None:
                try:
                    with Path(self.path).open("rb") as file:
                        # An empty file cannot be mapped.
                        empty = os.fstat(file.fileno()).st_size == 0
                        self._map = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                except FileNotFoundError as error:
                    raise ShardError(f"{self.path}: there is no such shard; check the path.") from error
            return self._map

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_settings": self._settings, "_remote": self._remote}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["_settings"])  # type: ignore[misc]
