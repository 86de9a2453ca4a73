"""Folders that are either old or new, never a mixture: replaced in one step, and found again after a crash.

Files have `flambeau.core.files.write_atomic`. A folder cannot be renamed over one that holds something, so the two
change places where the system has a call for that; elsewhere the old one steps aside for a moment, under a name that
`recover_folder` knows.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flambeau.core.files import sync_directory
from flambeau.core.hub.temporary_files import abandoned, claim, release

__all__ = ["exchange", "recover_folder", "replaced_folder"]

_HERE = -100  # AT_FDCWD: paths are relative to the working folder
_SWAP = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
# What kernels and file systems say that do not have the call.
_UNABLE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}


def exchange(first: Path, second: Path) -> bool:
    """Let two files or folders of one file system change places, in one step.

    Returns:
        Whether they did; False where the operating system or the file system has no such call.

    Raises:
        OSError: one of them does not exist, or may not be moved.
    """
    if sys.platform not in ("linux", "darwin"):
        return False
    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(first), os.fsencode(second)
    if (swap := getattr(library, "renameat2", None)) is not None:
        failed = swap(_HERE, paths[0], _HERE, paths[1], _SWAP)
    elif (swap := getattr(library, "renamex_np", None)) is not None:
        failed = swap(*paths, _SWAP)
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _UNABLE and first.exists() and second.exists():
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


@contextmanager
def replaced_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to write to, which takes the place of `path` when the block ends.

    Whoever looks at `path` sees what it held before, or all of what was written, also when this process is killed.
    After an error nothing of the new folder is left.

    Args:
        path: the folder; it need not exist, and neither need its parents.

    Yields:
        A new, empty folder beside it.
    """
    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    recover_folder(target)
    for left in list(abandoned(target, "tmp")):
        shutil.rmtree(left, ignore_errors=True)
    partial = claim(target, "tmp")
    partial.mkdir()
    try:
        yield partial
        _put(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        release(partial)


def recover_folder(path: str | os.PathLike[str]) -> None:
    """Give a folder its name back that was stepping aside for a new one when its process was killed."""
    target = Path(path).absolute()
    former = _former(target)
    if not former.exists():
        return
    if target.exists():
        shutil.rmtree(former, ignore_errors=True)  # the new one had taken its place already
    else:
        former.rename(target)


def _put(partial: Path, target: Path) -> None:
    if not target.is_dir() or not any(target.iterdir()):
        partial.rename(target)  # in one step: there is nothing, or a folder that holds nothing
    elif not exchange(partial, target):
        former = _former(target)
        target.rename(former)
        partial.rename(target)
        shutil.rmtree(former, ignore_errors=True)
    sync_directory(target.parent)


def _former(target: Path) -> Path:
    return target.with_name(f".{target.name}.former")
