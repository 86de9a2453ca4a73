"""Which paths of a listing are wanted, and walking folders in a fixed order."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from pathlib import Path


def matches(masks: str | Sequence[str], name: str) -> bool:
    """Whether a file's name fits one of the shell patterns; an empty pattern fits every name."""
    if not masks:
        return True
    return any(fnmatch.fnmatch(name, mask) for mask in ([masks] if isinstance(masks, str) else masks))


def local_files(
    root: str, masks: str | Sequence[str] = "", *, recursive: bool = False, abspath: bool = False, in_order: bool = True
) -> Iterator[str]:
    """Paths of the files in a folder, sorted within each folder; `root` itself where it is a file.

    Args:
        root: folder.
        masks: shell patterns for the names.
        recursive: go into folders, too.
        abspath: absolute paths.
        in_order: sort; otherwise as the file system lists them.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    if Path(root).is_file():
        if matches(masks, Path(root).name):
            yield _path(root, abspath)
        return
    entries = list(os.scandir(root))
    if in_order:
        entries.sort(key=lambda entry: entry.name)
    folders = []
    for entry in entries:
        if entry.is_dir():
            folders.append(entry.path)
        elif matches(masks, entry.name):
            yield _path(entry.path, abspath)
    if recursive:
        for folder in folders:
            yield from local_files(folder, masks, recursive=True, abspath=abspath, in_order=in_order)


def _path(path: str, absolute: bool) -> str:
    return os.path.abspath(path) if absolute else path  # noqa: PTH100  # links stay as they are
