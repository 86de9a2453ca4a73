"""Where the files of tables go."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from multiprocessing.util import Finalize
from pathlib import Path

from flambeau.rec.errors import OptionError

__all__ = ["folder_of", "folder_with", "when_gone"]


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

    Args:
        owner: the object.
        prefix: of the folder's name.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    when_gone(owner, folder)
    return folder


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
