"""What the datasets of recordings have in common: where their files are, how they are fetched and read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor
from torch.utils.data import Dataset

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset
from flambeau.core.errors import DatasetMissingError, UnknownNameError, close_names

__all__ = [
    "Listed",
    "Recordings",
    "archive",
    "chosen",
    "fields",
    "from_elsewhere",
    "read_recording",
    "read_sample_rate",
    "read_waveform",
    "require_folder",
]

WAVEFORM = Field("waveform", "waveform", shape=("channels", "time"), dtype="float32")
SAMPLE_RATE = Field("sample_rate", "int")


class Recordings(Dataset[Any], ABC):
    """Base of the datasets here: `get_metadata` of an item, and the item with the waveform in the path's place."""

    split_argument: ClassVar[str | None] = None
    """What the dataset calls its split; `load_dataset(name, split=...)` gives it that."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of items."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} items)"


class Listed(Recordings):
    """Base of datasets with one recording for each item, of the sample rate that its file tells."""

    _path: Path

    @abstractmethod
    def _entry(self, n: int) -> tuple[Path, tuple[Any, ...]]:
        """The recording of item `n`, and what comes behind its waveform and sample rate."""

    def get_metadata(self, n: int) -> tuple[Any, ...]:
        """Item `n` with the recording's path below the dataset's folder in place of the waveform, decoding nothing."""
        path, rest = self._entry(n)
        return path.relative_to(self._path).as_posix(), read_sample_rate(path), *rest

    def __getitem__(self, n: int) -> tuple[Any, ...]:
        """Item `n`: waveform, sample rate, and what the class says."""
        path, rest = self._entry(n)
        return *read_recording(path), *rest


def fields(*parts: str | Field, waveform: Field | None = WAVEFORM) -> tuple[Field, ...]:
    """The schema of an item: waveform, sample rate, and further parts, of which a bare name is a text."""
    first = () if waveform is None else (waveform, SAMPLE_RATE)
    return (*first, *(Field(part, "text") if isinstance(part, str) else part for part in parts))


def archive(
    url: str, sha256: str | None, leaves: str, *, into: str = ".", splits: Sequence[str] = (), path: str = ""
) -> DatasetFile:
    """An archive that is unpacked into a folder and leaves another one there.

    Args:
        url: where it is fetched from.
        sha256: its digest.
        leaves: folder below the root that is there once it is unpacked.
        into: folder below the root to unpack into.
        splits: the splits that need it.
        path: where it lies; its name below the root when left out.
    """
    return DatasetFile(
        url=url, path=path, sha256=sha256, extract=into, contents=(Content(leaves),), splits=tuple(splits)
    )


def from_elsewhere(
    info: DatasetInfo, root: str | Path, url: str, leaves: str, *, download: bool, into: str = "."
) -> Path:
    """Make sure that a dataset is there that comes from an address, or lies in a folder, of the caller's choice.

    What is known of the address among the dataset's own files, above all its digest, is used.
    """
    known = {file.url: file for file in info.files}
    file = known.get(url)
    if file is not None and [content.path for content in file.contents] == [leaves]:
        return prepare_dataset(info, root, download=download, splits=file.splits or None)
    given = archive(url, file.sha256 if file else None, leaves, into=into)
    return prepare_dataset(DatasetInfo(name=f"{info.name}-elsewhere", files=(given,)), root, download=download)


def chosen(value: str, name: str, choices: Sequence[str]) -> str:
    """Check an argument that has a fixed set of values.

    Raises:
        UnknownNameError: another value; a ValueError as well.
    """
    if value in choices:
        return value
    close = close_names(str(value), choices)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise UnknownNameError(f"{name} is {value!r}, expected one of {', '.join(map(repr, choices))}.{hint}")


def require_folder(info: DatasetInfo, root: str | Path, *paths: str) -> Path:
    """Check that files and folders are there that only the user can place.

    Raises:
        DatasetMissingError: one is not; the message says where it belongs and who has it.
    """
    folder = Path(root).expanduser()
    lacking = [str(folder / path) for path in paths if not (folder / path).exists()]
    if not lacking:
        return folder
    gate = info.gated
    source = (gate and gate.url) or info.homepage or "its owner"
    raise DatasetMissingError(
        f"dataset {info.name!r} is not complete in {folder}: {', '.join(lacking)} missing. It cannot be fetched by "
        f"program: obtain it from {source} and place it there.{f' {gate.instructions}' if gate else ''}"
    )


def read_recording(path: str | Path, *, offset: int = 0, frames: int = -1) -> tuple[Tensor, int]:
    """A recording: (channels, time), float32, full scale [-1, 1]; and its sample rate."""
    from flambeau.audio import load

    waveform, sample_rate = load(str(path), frame_offset=offset, num_frames=frames)
    return waveform, sample_rate


def read_sample_rate(path: str | Path) -> int:
    """The sample rate of a recording, of which the header alone is read."""
    from flambeau.audio import info

    sample_rate: int = info(str(path)).sample_rate
    return sample_rate


def read_waveform(path: str | Path, sample_rate: int) -> Tensor:
    """A recording of a known sample rate.

    Raises:
        ValueError: it has another.
    """
    waveform, actual = read_recording(path)
    if actual != sample_rate:
        raise ValueError(f"{path} has {actual} Hz, expected {sample_rate}; the file was resampled or is another.")
    return waveform
