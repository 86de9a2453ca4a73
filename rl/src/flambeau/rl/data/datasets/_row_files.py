"""Rows that are appended to the files of memory-mapped tensors, so that memory holds one episode at a time."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from flambeau.data.tensordict import MemoryMappedTensor, NonTensorStack, TensorDict, lazy_stack
from flambeau.rl.errors import DatasetFormatError

__all__ = ["RowFiles"]

Key = tuple[str, ...]


class RowFiles:
    """Writes episodes one behind the other; `finish` makes a tensordict of them.

    Args:
        folder: where the files go.
        name: of the data set, for messages.
        inner: further dimensions of the batch, behind the rows, which each tensor has.
    """

    def __init__(self, folder: Path, name: str, inner: tuple[int, ...] = ()) -> None:
        self.inner = inner
        self.folder = folder
        self.name = name
        self.rows = 0
        self._files: dict[Key, IO[bytes]] = {}
        self._kinds: dict[Key, tuple[tuple[int, ...], torch.dtype]] = {}
        self._texts: dict[Key, list[Any]] = {}

    def append(self, episode: dict[Key, Any], where: str) -> None:
        """Write rows.

        Args:
            episode: tensors (rows, *inner, ...), or lists of texts, by their keys; with `inner`, lists of such lists.
            where: what they come from, for messages.

        Raises:
            DatasetFormatError: other keys, shapes or dtypes than the rows before, or of different lengths; then nothing
                of them is written.
        """
        rows = self._checked(episode, where)
        for key, value in episode.items():
            if isinstance(value, Tensor):
                file = self._files[key]
                content = value.detach().contiguous()
                if content.dtype == torch.bfloat16:
                    content = content.view(torch.int16)
                file.write(content.reshape(-1).view(torch.uint8).numpy().data)
            else:
                self._texts[key].extend(value)
        self.rows += rows

    def finish(self) -> TensorDict:
        """Close the files, and describe them so that `TensorDict.load_memmap` reads the folder.

        Raises:
            DatasetFormatError: there are no rows.
        """
        self.close()
        if not self.rows:
            raise DatasetFormatError(f"{self.name} has no rows: no file of it holds an episode that can be read.")
        made = TensorDict({}, [self.rows, *self.inner])
        for key, (shape, dtype) in self._kinds.items():
            whole = torch.Size([self.rows, *shape])
            made.set(key, MemoryMappedTensor.from_filename(str(self._path(key)), dtype, whole))
        for key, texts in self._texts.items():
            made.set(key, _stacked(texts))
        mapped: TensorDict = made.memmap_(self.folder)
        return mapped

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _checked(self, episode: dict[Key, Any], where: str) -> int:
        lengths = {len(value) for value in episode.values()}
        if len(lengths) != 1:
            raise DatasetFormatError(
                f"{self.name}, {where}: entries have {sorted(lengths)} rows, expected as many each."
            )
        kinds = {
            key: (tuple(value.shape[1:]), value.dtype) for key, value in episode.items() if isinstance(value, Tensor)
        }
        texts = set(episode) - set(kinds)
        if not self._files and not self._texts:
            for key in episode:
                _check_name(key, f"{self.name}, {where}")
            self._kinds = kinds
            self._texts = {key: [] for key in sorted(texts)}
            for key in kinds:
                self._path(key).parent.mkdir(parents=True, exist_ok=True)
                self._files[key] = self._path(key).open("wb")
        elif kinds != self._kinds or texts != set(self._texts):
            differing = sorted(
                ".".join(key)
                for key in kinds.keys() | self._kinds.keys() | (texts ^ set(self._texts))
                if kinds.get(key) != self._kinds.get(key) or (key in texts) != (key in self._texts)
            )
            raise DatasetFormatError(
                f"{self.name}, {where}: {', '.join(differing)} have another shape or dtype than the rows before, or "
                f"are only here or there."
            )
        return int(lengths.pop())

    def _path(self, key: Key) -> Path:
        return self.folder.joinpath(*key[:-1], f"{key[-1]}.memmap")


def _check_name(key: Key, where: str) -> None:
    """Keys are names of files, and come from files of others."""
    if any(part in ("", ".", "..") or set(part) & set("/\\\0") for part in key):
        raise DatasetFormatError(f"{where}: {'.'.join(key)!r} is no name of an entry.")


def _stacked(texts: list[Any]) -> Any:
    if texts and isinstance(texts[0], list):
        return lazy_stack([NonTensorStack(*row) for row in texts])
    return NonTensorStack(*texts)
