"""Arrays of HDF5 files, and what is common to recordings that have one array for each quantity."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError
from flambeau.rl.errors import DatasetFormatError

__all__ = ["arrays", "following", "opened", "preceding"]

Key = tuple[str, ...]


class MissingH5py(FlambeauError, ImportError):
    """HDF5 files are read by h5py, which is not installed."""


def opened(path: Path) -> Any:
    """An HDF5 file, for reading.

    Raises:
        ImportError: h5py is not installed.
        DatasetFormatError: no HDF5 file, or a damaged one.
    """
    try:
        import h5py
    except ImportError as error:
        raise MissingH5py(
            f"{path.name} is an HDF5 file, and h5py is not installed. Run: pip install 'flambeau-rl[datasets]'"
        ) from error
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise DatasetFormatError(
            f"{path} is no HDF5 file, or is damaged: {error}. Remove it, and fetch it again."
        ) from error


def arrays(group: Any, prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
    """The arrays of a group and of the groups in it, by their keys: tensors, or lists of texts or encoded images."""
    for name in sorted(group):
        key = (*prefix, *(part for part in name.split("/") if part))
        node = group[name]
        if hasattr(node, "dtype"):
            yield key, _content(node)
        else:
            yield from arrays(node, key)


def _content(node: Any) -> Any:
    value = node[()]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    value = np.asarray(value)
    if value.dtype.kind in "OSU":
        if value.ndim and len(value) and isinstance(value.flat[0], np.ndarray):
            return [each.tobytes() for each in value]  # images that are encoded
        texts = [each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in value.ravel()]
        return texts if value.ndim else texts[0]
    return torch.from_numpy(np.ascontiguousarray(value.astype(value.dtype.newbyteorder("="))).reshape(value.shape))


def following(steps: Any) -> Any:
    """What each step led to, where there are as many observations as steps: the next one, and zero behind the last."""
    if not isinstance(steps, Tensor):
        return [*steps[1:], ""]
    made = torch.zeros_like(steps)
    made[:-1] = steps[1:]
    return made


def preceding(flags: Tensor) -> Tensor:
    """The flags that held before each step: those that the step before it led to, and none before the first."""
    made = torch.zeros_like(flags)
    made[1:] = flags[:-1]
    return made
