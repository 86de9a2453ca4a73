"""Folders that appear all at once: whoever reads one sees what it held before or all of what was written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["replaced_folder"]


@contextmanager
def replaced_folder(path: Any) -> Iterator[Path]:
    """A folder to write to, which takes the place of `path` at the end; after an error nothing of it is left."""
    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        former = target.with_name(f".{target.name}.{os.getpid()}.former")
        if target.exists() and any(target.iterdir()):
            shutil.rmtree(former, ignore_errors=True)
            target.rename(former)
        # An empty folder is replaced in the same step.
        partial.rename(target)
        shutil.rmtree(former, ignore_errors=True)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
