"""Episodes of Open X-Embodiment's files: shards (`.tar`) of pickled episodes, or tables of them (`.parquet`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError
from flambeau.core.hub import read_archive
from flambeau.rl.data.datasets._hdf5 import following
from flambeau.rl.data.datasets._images import decoded
from flambeau.rl.data.datasets._pickled_arrays import load_pickle
from flambeau.rl.errors import DatasetFormatError

__all__ = ["SUFFIXES", "episodes", "steps_of"]

SUFFIXES = (".tar", ".parquet")
_CONTENT = "data.pickle"
_NAMES = {
    "is_first": ("is_init",),
    "is_last": ("next", "done"),
    "is_terminal": ("next", "terminated"),
    "reward": ("next", "reward"),
}
Key = tuple[str, ...]


class MissingPyarrow(FlambeauError, ImportError):
    """Parquet files are read by pyarrow, which is not installed."""


def episodes(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Where each episode is in a file, and its steps as they were recorded.

    Raises:
        DatasetFormatError: the file holds something else.
        UnsafePickleError: an episode holds something else than arrays and plain values.
    """
    rows = _of_table(path) if path.suffix == ".parquet" else _of_shard(path)
    for where, content in rows:
        steps = content.get("steps") if isinstance(content, dict) else None
        if not isinstance(steps, list) or not steps or not all(isinstance(step, dict) for step in steps):
            raise DatasetFormatError(f'{where} is no episode: it has no list of "steps".')
        yield where, steps


def _of_shard(path: Path) -> Iterator[tuple[str, Any]]:
    for member, stream in read_archive(path):
        if member.endswith(f".{_CONTENT}"):
            where = f"{path.name}, {member}"
            yield where, load_pickle(stream, where)


def _of_table(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPyarrow(
            f"{path.name} is a Parquet file, and pyarrow is not installed. Run: pip install 'flambeau-rl[datasets]'"
        ) from error
    import io

    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            for number, batch in enumerate(table.iter_batches(batch_size=1)):
                where = f"{path.name}, row {number}"
                if _CONTENT not in batch.schema.names:
                    raise DatasetFormatError(f"{where} has no column {_CONTENT!r}.")
                content = batch.column(_CONTENT)[0].as_py()
                yield where, load_pickle(io.BytesIO(content), where) if isinstance(content, bytes) else content
    except pyarrow.ArrowInvalid as error:
        raise DatasetFormatError(f"{path} is no Parquet file, or is damaged: {error}") from error


def steps_of(recorded: list[dict[str, Any]], episode: int, where: str) -> dict[Key, Any]:
    """Steps by their keys: tensors (steps, ...), images (steps, channels, height, width), and lists of texts.

    Raises:
        DatasetFormatError: steps with other entries than the first.
    """
    made: dict[Key, Any] = {}
    for key, values in _columns(recorded, (), where).items():
        made[_NAMES.get(key[0], key) if len(key) == 1 else key] = values
    count = len(recorded)
    if ("action",) not in made and not any(key[0] == "action" for key in made):
        raise DatasetFormatError(f"{where} has no action.")
    last = torch.arange(count) == count - 1
    done = made.pop(("next", "done"), last).bool().reshape(count, 1)
    terminated = made.pop(("next", "terminated"), torch.zeros(count)).bool().reshape(count, 1)
    made["next", "reward"] = made.pop(("next", "reward"), torch.zeros(count)).reshape(count, 1)
    made.update({("next", "done"): done, ("next", "terminated"): terminated, ("next", "truncated"): done & ~terminated})
    for key in [key for key in made if key[0] == "observation"]:
        made["next", *key] = following(made[key])
    for flag in ("done", "terminated", "truncated"):
        made[flag,] = torch.zeros(count, 1, dtype=torch.bool)
    made["episode",] = torch.full((count,), episode, dtype=torch.int32)
    return made


def _columns(rows: list[Any], prefix: Key, where: str) -> dict[Key, Any]:
    """Values of all steps by their keys."""
    first = rows[0]
    if isinstance(first, dict) and "bytes" in first:
        return {prefix: decoded([row["bytes"] for row in rows], where).permute(0, 3, 1, 2).contiguous()}
    if not isinstance(first, dict):
        return {prefix: _column(rows, f"{where}, {'.'.join(prefix)}")}
    made: dict[Key, Any] = {}
    for name in sorted(first):
        try:
            made.update(_columns([row[name] for row in rows], (*prefix, name), where))
        except (KeyError, TypeError) as error:
            raise DatasetFormatError(f"{where}: not every step has {'.'.join((*prefix, name))}.") from error
    return made


def _column(values: list[Any], where: str) -> Any:
    if isinstance(values[0], str | bytes):
        return [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values]
    try:
        stacked = np.stack([np.asarray(value) for value in values])
        if stacked.dtype == np.float64 and isinstance(values[0], float) and not isinstance(values[0], np.generic):
            stacked = stacked.astype(np.float32)
        if stacked.dtype.kind in "OSU":
            return [str(value) for value in stacked.reshape(len(values), -1)[:, 0]]
        found: Tensor = torch.from_numpy(stacked)
    except (ValueError, TypeError) as error:
        raise DatasetFormatError(f"{where}: steps have values of different shapes or kinds: {error}") from error
    return found
