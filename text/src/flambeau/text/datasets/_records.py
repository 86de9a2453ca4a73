"""Items by number: an index of the files, made on first use, kept beside them and mapped into memory."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flambeau.core.files import replace
from flambeau.text.datasets._formats import Format, PlacedFormat, Squad, StoryFiles
from flambeau.text.datasets._lines import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

_VERSION = 1
_CHUNK = 1 << 16


class Records:
    """The items of a split by number.

    The index is kept in `folder` under a name that tells the files' sizes and times of change, so that a file that has
    changed gets a new one. Where the folder cannot be written it stays in memory. Copies in other processes open the
    same files.

    Args:
        form: what the files hold.
        paths: the files.
        folder: where the index is kept.
    """

    def __init__(self, form: Format, paths: list[Path], folder: Path) -> None:
        self.form, self.paths, self.folder = form, paths, folder
        self._index: _Spans | _Table | _Each | None = None

    def __len__(self) -> int:
        return len(self._opened())

    def __getitem__(self, number: int) -> Any:
        return self._opened()[number]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_index": None}

    def _opened(self) -> _Spans | _Table | _Each:
        if self._index is None:
            if isinstance(self.form, StoryFiles):
                self._index = _Each(self.paths, self.form.read)
            elif isinstance(self.form, Squad):
                self._index = _Table(_kept(self._name("jsonl"), _items(self.form.table(self.paths))))
            else:
                spans = _kept(self._name("spans"), _places(self.form.spans(self.paths)))
                self._index = _Spans(self.form, self.paths, spans)
        return self._index

    def _name(self, suffix: str) -> Path:
        stats = [path.stat() for path in self.paths]
        known = [_VERSION, _description(self.form), [[str(p) for p in self.paths], [s.st_size for s in stats]]]
        changed = [stat.st_mtime_ns for stat in stats]
        digest = hashlib.sha256(json.dumps([known, changed]).encode()).hexdigest()[:16]
        return self.folder / f"{digest}.{suffix}"


def _description(form: Any) -> list[Any]:
    values = [getattr(form, field.name) for field in dataclasses.fields(form)]
    named = [f"{value.__module__}.{value.__qualname__}" if callable(value) else value for value in values]
    return [type(form).__qualname__, *named]


def _kept(place: Path, blocks: Iterable[bytes]) -> bytes | mmap.mmap:
    """The content of an index file, made of these blocks unless it is there; mapped where it is not empty."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return _mapped(place)
    part = place.with_name(f".{place.name}.{os.getpid()}.{os.urandom(4).hex()}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("xb")
    except OSError:  # a folder that cannot be written
        return b"".join(blocks)
    try:
        with file:
            file.writelines(blocks)
            file.flush()
            os.fsync(file.fileno())  # or a power failure could leave an empty index under its final name
        replace(part, place)
    finally:
        part.unlink(missing_ok=True)
    return _mapped(place)


def _mapped(place: Path) -> bytes | mmap.mmap:
    with place.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _places(spans: Iterator[tuple[Span, ...]]) -> Iterator[bytes]:
    """Spans as int64, each item's width first so that an empty index is a file as well."""
    first = next(spans, None)
    if first is None:
        return
    yield np.array([len(first)], np.int64).tobytes()
    pending = [first]
    for span in spans:
        pending.append(span)
        if len(pending) == _CHUNK:
            yield np.array(pending, np.int64).tobytes()
            pending = []
    yield np.array(pending, np.int64).tobytes()


def _items(items: Iterable[Any]) -> Iterator[bytes]:
    for item in items:
        yield json.dumps(item, ensure_ascii=False).encode() + b"\n"


class _Spans:
    """Items that are parsed where they lie."""

    def __init__(self, form: PlacedFormat, paths: list[Path], index: bytes | mmap.mmap) -> None:
        self._form = form
        self._spans: NDArray[np.int64] = np.empty((0, 1, 3), np.int64)
        if index:
            values = np.frombuffer(index, np.int64)
            self._spans = values[1:].reshape(-1, int(values[0]), 3)
        self._files = [_mapped(path) for path in paths]

    def __len__(self) -> int:
        return len(self._spans)

    def __getitem__(self, number: int) -> Any:
        spans = self._spans[number].tolist()
        return self._form.item(
            [self._files[file][start:end] for file, start, end in spans], [span[0] for span in spans]
        )


class _Table:
    """Items that the index holds, a line of JSON each."""

    def __init__(self, lines: bytes | mmap.mmap) -> None:
        self._lines = lines
        ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n")) + 1 if lines else np.empty(0, np.int64)
        self._ends = np.concatenate([np.zeros(1, np.int64), ends])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> Any:
        return tuple(json.loads(self._lines[int(self._ends[number]) : int(self._ends[number + 1])]))


class _Each:
    """Items that have a file each."""

    def __init__(self, paths: list[Path], read: Callable[[Path], Any]) -> None:
        self._paths, self._read = paths, read

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> Any:
        return self._read(self._paths[number])
