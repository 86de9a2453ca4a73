"""Datasets that nobody can fetch by program: are the files where they belong, and if not, what is to be done."""

from __future__ import annotations

from pathlib import Path

from flambeau.core.datasets import DatasetInfo
from flambeau.core.errors import DatasetMissingError

__all__ = ["require_placed"]


def require_placed(info: DatasetInfo, root: str | Path, *paths: str) -> Path:
    """Check that files and folders that only the user can place are there.

    Args:
        info: the dataset's facts; its gate says where access is obtained.
        root: folder of the data; `~` is expanded.
        *paths: what has to be below it.

    Returns:
        The root, expanded.

    Raises:
        DatasetMissingError: something is not there; the message names it, its place and where to get it.
    """
    folder = Path(root).expanduser()
    lacking = [str(folder / path) for path in paths if not (folder / path).exists()]
    if not lacking:
        return folder
    gate = info.gated
    source = (gate and gate.url) or info.homepage or "its owner"
    advice = f" {gate.instructions}" if gate and gate.instructions else ""
    raise DatasetMissingError(
        f"dataset {info.name!r} is not complete in {folder}: {', '.join(lacking)} missing. It cannot be fetched by "
        f"program: obtain it from {source} and place it there.{advice}"
    )
