"""Where the files of tables go."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from multiprocessing.util import Finalize
from pathlib import Path

from flambeau.rec.errors import OptionError

__all__ = ["folder_of", "folder_with", "when_gone"]

_OWNER = "owner"


def folder_of(storage_directory: str, unique_id: int) -> tuple[Path, bool]:
    """The folder of some tables, and whether it is removed with them.

    Args:
        storage_directory: where it is made; several, separated by commas, of which tables take turns.
        unique_id: from 0 on, the folder has a name by it, is opened again where there is one, and stays. Below 0 it is
            a new one, for as long as the tables live.

    Raises:
        ValueError: no directory is given.
    """
    directories = [Path(one.strip()) for one in storage_directory.split(",") if one.strip()]
    if not directories:
        raise OptionError("ssd_storage_directory is empty; give the directory that tables are to be stored in.")
    directory = directories[max(unique_id, 0) % len(directories)]
    directory.mkdir(parents=True, exist_ok=True)
    if unique_id >= 0:
        return directory / f"tables-{unique_id}", False
    return Path(tempfile.mkdtemp(prefix="ssd_table_batched_embeddings", dir=directory)), True


def folder_with(owner: object, prefix: str) -> Path:
    """A new folder among temporary ones, for as long as an object lives.

    Those that processes left which were killed are removed.

    Args:
        owner: the object.
        prefix: of the folder's name; others with it are of this function.
    """
    _remove_abandoned(Path(tempfile.gettempdir()), prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    descriptor = _locked(folder)
    when_gone(owner, folder, None if descriptor is None else partial(os.close, descriptor))
    return folder


def _locked(folder: Path) -> int | None:
    """A lock in a folder that is held until its process ends; None where there are no locks."""
    try:
        import fcntl
    except ImportError:  # Windows, where nothing is taken for abandoned
        return None
    made = folder / f"{_OWNER}.new"
    descriptor = os.open(made, os.O_CREAT | os.O_RDWR, 0o600)
    os.write(descriptor, socket.gethostname().encode())
    with contextlib.suppress(OSError):  # a file system without locks; then the file has no name to be found by
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        made.rename(folder / _OWNER)
    return descriptor


def _remove_abandoned(directory: Path, prefix: str) -> None:
    """Remove folders whose lock nobody on this machine holds any more."""
    try:
        import fcntl
    except ImportError:
        return
    for folder in directory.glob(f"{prefix}*"):
        # It is in use, or another user's, or another process removes it just now.
        with contextlib.suppress(OSError), (folder / _OWNER).open("r+b") as file:
            if file.read() == socket.gethostname().encode():
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)


def when_gone(owner: object, folder: Path | None, close: Callable[[], object] | None = None) -> Finalize:
    """Remove a folder, once: when an object is gone, when the result is called, or when the process ends.

    `weakref.finalize` would not know that a process of `multiprocessing` ends, since such a one leaves out what
    `atexit` has; and it would run in processes that were forked from this one, which do not own the folder.

    Args:
        owner: the object.
        folder: to remove, if any.
        close: called before; it must not refer to the object.
    """
    return Finalize(owner, _end, (folder, close), exitpriority=0)


def _end(folder: Path | None, close: Callable[[], object] | None) -> None:
    if close is not None:
        close()
    if folder is not None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
