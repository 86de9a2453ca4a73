"""Writing samples into shards."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from flambeau.core.files import replace
from flambeau.data._crc32c import crc32c
from flambeau.data.shards.errors import ShardError
from flambeau.data.shards.index import Index, Member

_END = bytes(2 * tarfile.BLOCKSIZE)


class ShardWriter:
    """Writes samples into tar shards of limited size, each with an index.

    A shard gets its name only when it is whole and on the disk: a writer that is killed leaves files that end in
    `.part` and no shard that looks whole.

    Args:
        pattern: path with one integer conversion, `data/train-%06d.tar`.
        maxcount: samples in a shard at most, > 0.
        maxsize: bytes in a shard at most; a larger sample has a shard of its own.
        start_shard: number of the first shard.
        index: whether to write the index, which makes samples readable at random.
        post: called with the path of each finished shard.
        mtime: time of modification of all files; fixed, so that equal samples make equal shards.

    Raises:
        ValueError: a limit below 1, or a pattern without `%d`.

    Example:
        >>> with ShardWriter("train-%06d.tar", maxcount=1000) as writer:  # doctest: +SKIP
        ...     writer.write({"__key__": "0001", "jpg": picture, "cls": 3})
    """

    def __init__(
        self,
        pattern: str | os.PathLike[str],
        maxcount: int = 100_000,
        maxsize: float = 3e9,
        *,
        start_shard: int = 0,
        index: bool = True,
        post: Callable[[Path], object] | None = None,
        mtime: int = 0,
    ) -> None:
        self._pattern = os.fspath(pattern)
        try:
            different = self._pattern % 0 != self._pattern % 1
        except (TypeError, ValueError) as error:
            raise ValueError(f"pattern is {self._pattern!r}, expected one conversion such as %06d in it.") from error
        if not different or maxcount < 1 or maxsize < 1:
            raise ValueError(
                f"pattern is {self._pattern!r}, maxcount {maxcount}, maxsize {maxsize}; expected limits of at least 1."
            )
        self.maxcount, self.maxsize = maxcount, maxsize
        self.shards: list[Path] = []
        self.total = 0
        self._index, self._post, self._mtime = index, post, mtime
        self._number = start_shard
        self._open: _OpenShard | None = None
        self._last_key: str | None = None

    def write(self, sample: Mapping[str, Any]) -> None:
        """Append a sample.

        Args:
            sample: `__key__` with a name without dots in its last part, and file suffixes (`jpg`, `seg.png`) with
                contents: bytes; str and numbers as text; for suffixes json, npy, pt whatever these hold. Keys with
                leading underscores are left out, values None as well.

        Raises:
            ValueError: no fitting `__key__`, the same as the sample before, or no content.
            TypeError: a value that has no form as bytes.
        """
        files = _encoded(sample)
        key = sample["__key__"]
        if key == self._last_key:
            raise ValueError(f"__key__ is {key!r}, as that of the sample before; they would be read as one.")
        size = sum(_padded(content) for _, content in files)
        if self._open is not None and (
            self._open.count >= self.maxcount or self._open.size + size + len(_END) > self.maxsize
        ):
            self._finish()
        if self._open is None:
            self._open = _OpenShard(Path(self._pattern % self._number), self._mtime)
            self._number += 1
        for name, content in files:
            self._open.add(name, content)
        self._open.count += 1
        self.total += 1
        self._last_key = key

    def close(self) -> None:
        """Finish the last shard."""
        if self._open is not None:
            self._finish()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._open is not None:
            self._open.discard()

    def _finish(self) -> None:
        assert self._open is not None
        shard, self._open = self._open, None
        path = shard.finish(self._index)
        self.shards.append(path)
        if self._post is not None:
            self._post(path)


class _OpenShard:
    """A shard that is being written, under another name."""

    def __init__(self, path: Path, mtime: int) -> None:
        if path.exists():
            raise ShardError(f"{path} is there already; remove it, or begin at another start_shard.")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._file = self._part.open("wb")
        self._members: list[Member] = []
        self._mtime = mtime
        self.count = self.size = 0

    def add(self, name: str, content: bytes) -> None:
        about = tarfile.TarInfo(name)
        about.size, about.mtime, about.mode = len(content), self._mtime, 0o644
        header = about.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        padding = bytes(-len(content) % tarfile.BLOCKSIZE)
        self._file.write(header + content + padding)
        self._members.append(Member(name, self.size + len(header), len(content), crc32c(content)))
        self.size += len(header) + len(content) + len(padding)

    def finish(self, index: bool) -> Path:
        self._file.write(_END)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        replace(self._part, self._path)
        if index:
            Index.of(self._members).write(self._path)
        return self._path

    def discard(self) -> None:
        self._file.close()
        self._part.unlink()


def _padded(content: bytes) -> int:
    return 2 * tarfile.BLOCKSIZE + len(content)


def _encoded(sample: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    key = sample.get("__key__")
    if not isinstance(key, str) or not key or "." in key.rpartition("/")[2]:
        raise ValueError(f"__key__ is {key!r}, expected a name without dots in its last part.")
    given = [(kind, value) for kind, value in sample.items() if not kind.startswith("_") and value is not None]
    if not given:
        raise ValueError(f"sample {key!r} has no content, expected at least one suffix with a value.")
    return [(f"{key}.{kind}", _content(key, kind, value)) for kind, value in given]


def _content(key: str, kind: str, value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    suffix = kind.rpartition(".")[2]
    if suffix == "json":
        return json.dumps(value, ensure_ascii=False).encode()
    if suffix == "npy":
        import numpy as np

        stream = io.BytesIO()
        np.save(stream, np.asarray(value), allow_pickle=False)
        return stream.getvalue()
    if suffix in ("pt", "pth"):
        import torch

        stream = io.BytesIO()
        torch.save(value, stream)
        return stream.getvalue()
    if isinstance(value, (str, int, float)):
        return str(value).encode()
    raise TypeError(
        f"sample {key!r}: {kind!r} holds a {type(value).__name__}, expected bytes, str or a number; suffixes json, npy "
        "and pt take more."
    )
