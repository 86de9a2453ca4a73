"""Files under tensors: allocating, sizing and mapping them.

A descriptor is closed as soon as its file is mapped or written, so that thousands of leaves need a handful at a time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import Any, Literal

import torch

from flambeau.data.tensordict.memmap.errors import MissingLayoutError, StorageFullError, TruncatedFileError

Mode = Literal["r", "r+", "c"]
MODES = ("r", "r+", "c")

_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
_WRITE = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def create(path: str) -> int:
    """Open a new file for writing; returns the descriptor.

    What was there is unlinked first, never written: a tensor may map it, and a symbolic link may point anywhere.
    """
    try:
        return os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        os.unlink(path)  # noqa: PTH108 - a string is enough
        return os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, 0o666)


def reopen(path: str) -> int:
    """Open a file that exists for writing more into it."""
    return os.open(path, _WRITE)


@contextlib.contextmanager
def room_for(path: str, nbytes: int) -> Iterator[None]:
    """Say which file did not fit, and how much it needed."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or isinstance(error, StorageFullError):
            raise
        raise StorageFullError(
            f"no room for the {nbytes:,} bytes of {path} ({error.strerror}); free some, or save to another disk.",
            error.errno,
        ) from error


def allocate(descriptor: int, nbytes: int) -> None:
    """Give an open file its size and its room on the disk, so that touching a mapped page cannot fail later."""
    if nbytes == 0:
        return
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, nbytes)
            return
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    os.ftruncate(descriptor, nbytes)


def create_sized(path: str, nbytes: int) -> None:
    """Create a file of zeros, replacing one that is there."""
    descriptor = create(path)
    try:
        with room_for(path, nbytes):
            allocate(descriptor, nbytes)
    finally:
        os.close(descriptor)


def check_mode(mode: str) -> None:
    """Raise ValueError for anything but a known way of mapping."""
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; use 'r+' (shared), 'r' (read-only) or 'c' (copy on write).")


def map_file(path: str, nbytes: int, mode: Mode) -> tuple[torch.UntypedStorage, bool]:
    """Map the first bytes of a file.

    Args:
        path: the file.
        nbytes: how many bytes are needed; the file may be longer.
        mode: "r+" shares the pages, where the file may be written; "r" and "c" copy a page when it is written.

    Returns:
        The storage, and whether it must not be written: mode "r", and "r+" of a file without write permission or
        behind a symbolic link.

    Raises:
        MissingLayoutError: there is no such file.
        TruncatedFileError: the file is too short.
    """
    try:
        status = os.lstat(path)
        linked = stat.S_ISLNK(status.st_mode)
        if linked:
            status = os.stat(path)  # noqa: PTH116 - a string is enough, and faster for thousands of leaves
    except FileNotFoundError:
        raise MissingLayoutError(
            f"{path} is missing; {nbytes:,} bytes were expected. Save the TensorDict again."
        ) from None
    if status.st_size < nbytes:
        raise TruncatedFileError(
            f"{path} holds {status.st_size:,} bytes, but its shape and dtype need {nbytes:,}: it was cut short. "
            "Restore the file, or save the TensorDict again."
        )
    shared = mode == "r+" and not linked and _writable(path, status)
    readonly = mode == "r" or (mode == "r+" and not shared)
    if nbytes == 0:
        return torch.UntypedStorage(0), readonly
    storage: Any = torch.UntypedStorage.from_file(path, shared, nbytes)
    return storage, readonly


def _writable(path: str, status: os.stat_result) -> bool:
    # A file without any write permission is meant to stay as it is, even where root could write.
    return bool(status.st_mode & 0o222) and os.access(path, os.W_OK)


def sync(path: str) -> None:
    """Flush a file's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
