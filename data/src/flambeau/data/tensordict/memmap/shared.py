"""Shared memory without a file name: one handle, from which any number of tensors are cut."""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import torch

from flambeau.data.tensordict.memmap.files import allocate, room_for


class SharedHandle:
    """Anonymous memory that other processes can map when the handle is pickled to them.

    On Linux it has no name anywhere, and is gone when the last process that maps it ends, however it ends. Elsewhere it
    is a temporary file that its creator removes.

    Args:
        nbytes: its size, > 0. The room is taken at once.

    Raises:
        StorageFullError: there is not so much memory.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._storage: torch.UntypedStorage | None = None
        self._finalizer: weakref.finalize[..., Any]
        if hasattr(os, "memfd_create"):
            self.descriptor, self.path = os.memfd_create("tensordict", os.MFD_CLOEXEC), None
            self._finalizer = weakref.finalize(self, os.close, self.descriptor)
        else:
            self.descriptor, name = tempfile.mkstemp(prefix="tensordict-", suffix=".memmap")
            self.path = name
            self._finalizer = weakref.finalize(self, _remove, self.descriptor, name, os.getpid())
        with room_for("shared memory", nbytes):
            allocate(self.descriptor, nbytes)

    @property
    def storage(self) -> torch.UntypedStorage:
        """The memory, mapped."""
        if self._storage is None:
            path = self.path or f"/proc/self/fd/{self.descriptor}"
            storage: Any = torch.UntypedStorage.from_file(path, True, self.nbytes)
            self._storage = storage
            return storage
        return self._storage

    def __reduce__(self) -> Any:
        if self.path is not None:
            return _from_path, (self.path, self.nbytes)
        from multiprocessing.reduction import DupFd

        return _from_descriptor, (DupFd(self.descriptor), self.nbytes)


def _from_descriptor(duplicate: Any, nbytes: int) -> SharedHandle:
    handle = SharedHandle.__new__(SharedHandle)
    handle.nbytes, handle._storage, handle.path = nbytes, None, None
    handle.descriptor = duplicate.detach()
    handle._finalizer = weakref.finalize(handle, os.close, handle.descriptor)
    return handle


def _from_path(path: str, nbytes: int) -> SharedHandle:
    handle = SharedHandle.__new__(SharedHandle)
    handle.nbytes, handle._storage, handle.path, handle.descriptor = nbytes, None, path, -1
    return handle


def _remove(descriptor: int, path: str, creator: int) -> None:
    os.close(descriptor)
    if os.getpid() == creator:
        with contextlib.suppress(OSError):
            Path(path).unlink()
