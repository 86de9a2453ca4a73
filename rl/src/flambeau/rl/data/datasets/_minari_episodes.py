"""Episodes of Minari's files: of `main_data.hdf5`, or of a folder of Arrow files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flambeau.core.errors import FlambeauError
from flambeau.rl.data.datasets._hdf5 import arrays, opened
from flambeau.rl.data.datasets._images import decoded, is_encoded
from flambeau.rl.errors import DatasetFormatError

__all__ = ["HDF5", "episodes", "read_metadata"]

HDF5 = "main_data.hdf5"
METADATA = "metadata.json"
Key = tuple[str, ...]


class MissingPyarrow(FlambeauError, ImportError):
    """Arrow and Parquet files are read by pyarrow, which is not installed."""


def read_metadata(folder: Path) -> dict[str, Any]:
    """What a data set says of itself, with descriptions of spaces and of the environment as dictionaries."""
    path = folder / METADATA
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetFormatError(f"{path} cannot be read: {error}") from error
    for name in ("observation_space", "action_space", "env_spec", "eval_env_spec"):
        if isinstance(found.get(name), str):
            found[name] = json.loads(found[name])
    return found


def episodes(folder: Path, metadata: dict[str, Any]) -> Iterator[tuple[int, dict[Key, Any]]]:
    """Each episode's number, and its arrays by their keys: tensors, and lists of texts.

    Raises:
        DatasetFormatError: neither of the two layouts.
    """
    if (folder / HDF5).is_file():
        yield from _hdf5_episodes(folder / HDF5)
    elif metadata.get("data_format") == "arrow" or any(folder.glob("*/*.arrow")):
        yield from _arrow_episodes(folder, metadata)
    else:
        raise DatasetFormatError(f"{folder} has neither {HDF5} nor folders of Arrow files.")


def _hdf5_episodes(path: Path) -> Iterator[tuple[int, dict[Key, Any]]]:
    with opened(path) as file:
        numbers = sorted(int(name.removeprefix("episode_")) for name in file if name.startswith("episode_"))
        for number in numbers:
            found = dict(arrays(file[f"episode_{number}"]))
            yield number, {key: _picture(value, f"{path}, episode {number}") for key, value in found.items()}


def _picture(value: Any, where: str) -> Any:
    encoded = isinstance(value, list) and value and is_encoded(value[0])
    return decoded(value, where) if encoded else value


def _arrow_episodes(folder: Path, metadata: dict[str, Any]) -> Iterator[tuple[int, dict[Key, Any]]]:
    try:
        import pyarrow.ipc
    except ImportError as error:
        raise MissingPyarrow(
            f"{folder} has Arrow files, and pyarrow is not installed. Run: pip install 'flambeau-rl[datasets]'"
        ) from error
    spaces = {"observations": metadata.get("observation_space", {}), "actions": metadata.get("action_space", {})}
    for number in sorted(int(path.name) for path in folder.iterdir() if path.is_dir() and path.name.isdigit()):
        tables = []
        for part in sorted((folder / str(number)).glob("*.arrow")):
            try:
                with pyarrow.memory_map(str(part)) as mapped, pyarrow.ipc.open_file(mapped) as reader:
                    tables.append(reader.read_all())
            except pyarrow.ArrowInvalid as error:
                raise DatasetFormatError(f"{part} is no Arrow file, or is damaged: {error}") from error
        if not tables:
            raise DatasetFormatError(f"{folder / str(number)} has no Arrow file.")
        table = pyarrow.concat_tables(tables).combine_chunks()
        found: dict[Key, Any] = {}
        for field in table.schema:
            column = table.column(field.name).combine_chunks()
            found.update(_columns((field.name,), column, field, spaces.get(field.name, {}), str(folder / str(number))))
        # The last row has an observation, and stands for no step.
        steps = len(found["rewards",]) - 1
        for key, value in found.items():
            if key[0] not in ("observations", "infos"):
                found[key] = value[:steps]
        yield number, found


def _columns(key: Key, column: Any, field: Any, space: dict[str, Any], where: str) -> Iterator[tuple[Key, Any]]:
    import pyarrow as pa

    if pa.types.is_struct(column.type):
        inner = space.get("subspaces", {})
        for at in range(column.type.num_fields):
            part = column.type.field(at)
            known = inner[int(part.name)] if isinstance(inner, list) else inner.get(part.name, {})
            name = f"_index_{part.name}" if isinstance(inner, list) else part.name
            yield from _columns((*key, name), column.field(at), part, known, where)
    elif pa.types.is_fixed_size_list(column.type):
        values = column.flatten().to_numpy(zero_copy_only=False)
        yield key, torch.from_numpy(np.array(values).reshape(len(column), *_shape(field, column, space)))
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        yield key, ["" if value is None else value for value in column.to_pylist()]
    elif pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        yield key, decoded([value for value in column.to_pylist() if value is not None], where)
    else:
        yield key, torch.from_numpy(np.array(column.fill_null(False if pa.types.is_boolean(column.type) else 0)
                                             .to_numpy(zero_copy_only=False)))  # fmt: skip


def _shape(field: Any, column: Any, space: dict[str, Any]) -> tuple[int, ...]:
    said = (field.metadata or {}).get(b"shape")
    if said is not None:
        return tuple(int(size) for size in said.decode().split(",") if size)
    return tuple(space.get("shape") or (column.type.list_size,))
