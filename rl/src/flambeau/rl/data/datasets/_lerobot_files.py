"""LeRobot's files: what `meta/info.json` describes, in the layouts of the versions 2 and 3.

References:
    Cadene et al. 2024, LeRobot. https://github.com/huggingface/lerobot
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError
from flambeau.rl.data.datasets._images import decoded
from flambeau.rl.errors import DatasetFormatError

__all__ = ["LeRobotFiles"]


class MissingPyarrow(FlambeauError, ImportError):
    """Parquet files are read by pyarrow, which is not installed."""


class LeRobotFiles:
    """A data set's folder.

    Args:
        folder: with `meta/info.json`.

    Raises:
        DatasetFormatError: no such file, another version, or one that cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.info: dict[str, Any] = _json(folder / "meta" / "info.json")
        version = str(self.info.get("codebase_version", "")).removeprefix("v").partition(".")[0]
        if version not in ("2", "3"):
            raise DatasetFormatError(
                f"{folder / 'meta' / 'info.json'} has codebase_version {self.info.get('codebase_version')!r}; "
                f"versions 2 and 3 are read."
            )
        self.version = int(version)
        features = self.info.get("features", {})
        self.videos = sorted(name for name, each in features.items() if each.get("dtype") == "video")
        self.tasks = self._tasks()

    def tables(self) -> Iterator[dict[str, Any]]:
        """Columns of each table, in the order of episodes: tensors (rows, ...), and lists of texts.

        Raises:
            DatasetFormatError: there is none, or one cannot be read.
        """
        paths = sorted((self.folder / "data").rglob("*.parquet"))
        if not paths:
            raise DatasetFormatError(f"{self.folder / 'data'} has no tables (.parquet).")
        for path in paths:
            table = _table(path)
            columns = {name: _column(table.column(name), f"{path}, {name}") for name in table.column_names}
            if "task_index" in columns and self.tasks:
                columns["task"] = [self.tasks.get(int(at), "") for at in columns["task_index"].reshape(-1)]
            yield columns

    def video_frames(self, name: str, columns: dict[str, Any]) -> tuple[list[str], Tensor, Tensor]:
        """Paths of videos, and of each row the number of its video among them, and of its frame there."""
        episodes, frames = (columns[key].reshape(-1).long() for key in ("episode_index", "frame_index"))
        paths: list[str] = []
        owners, numbers = torch.zeros_like(episodes), torch.zeros_like(frames)
        for episode in episodes.unique().tolist():
            chosen = episodes == episode
            path, first = self._video(name, episode)
            if path not in paths:
                paths.append(path)
            owners[chosen] = paths.index(path)
            numbers[chosen] = frames[chosen] + first
        return paths, owners, numbers

    def _video(self, name: str, episode: int) -> tuple[str, int]:
        """A video's path below the folder, and the number of the episode's first frame in it."""
        pattern = self.info.get("video_path") or ""
        if self.version == 2:
            chunk = episode // int(self.info.get("chunks_size", 1000))
            return _formatted(pattern, episode_chunk=chunk, episode_index=episode, video_key=name), 0
        row = self._episodes().get(episode)
        if row is None:
            raise DatasetFormatError(f"{self.folder / 'meta'} describes no episode {episode}.")
        chunk, file = (int(row[f"videos/{name}/{each}_index"]) for each in ("chunk", "file"))
        first = round(float(row[f"videos/{name}/from_timestamp"]) * float(self.info["fps"]))
        return _formatted(pattern, chunk_index=chunk, file_index=file, video_key=name), first

    def _episodes(self) -> dict[int, dict[str, Any]]:
        if not hasattr(self, "_described"):
            self._described = {
                int(row["episode_index"]): row
                for path in sorted((self.folder / "meta" / "episodes").rglob("*.parquet"))
                for row in _table(path).to_pylist()
            }
        return self._described

    def _tasks(self) -> dict[int, str]:
        lines, table = self.folder / "meta" / "tasks.jsonl", self.folder / "meta" / "tasks.parquet"
        if lines.is_file():
            rows = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines() if line.strip()]
        elif table.is_file():
            rows = _table(table).to_pylist()
        else:
            return {}
        # Version 3 keeps the texts as the index of a table of pandas.
        return {int(row["task_index"]): str(row.get("task", row.get("__index_level_0__", ""))) for row in rows}


def _formatted(pattern: str, **values: Any) -> str:
    try:
        path = pattern.format(**values)
    except (KeyError, IndexError, ValueError) as error:
        raise DatasetFormatError(f"meta/info.json has video_path {pattern!r}, which lacks {error}.") from error
    if path.startswith("/") or ".." in path.split("/") or not path:
        raise DatasetFormatError(f"meta/info.json has video_path {pattern!r}, which leads outside of the data set.")
    return path


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetFormatError(f"{path} cannot be read: {error}") from error


def _table(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPyarrow(
            f"{path.name} is a Parquet file, and pyarrow is not installed. Run: pip install 'flambeau-rl[datasets]'"
        ) from error
    try:
        return pyarrow.parquet.read_table(path, partitioning=None)
    except (pyarrow.ArrowException, OSError) as error:
        raise DatasetFormatError(f"{path} is no Parquet file, or is damaged: {error}") from error


def _column(column: Any, where: str) -> Any:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_struct(kind):  # an image with its bytes
        return decoded([value["bytes"] for value in column.to_pylist()], where).permute(0, 3, 1, 2).contiguous()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ["" if value is None else value for value in column.to_pylist()]
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        try:
            return torch.from_numpy(np.array(column.to_pylist(), dtype=_innermost(kind)))
        except ValueError as error:
            raise DatasetFormatError(f"{where} has lists of different lengths: {error}") from error
    return torch.from_numpy(np.array(column.to_numpy()))


def _innermost(kind: Any) -> Any:
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    return kind.to_pandas_dtype()
