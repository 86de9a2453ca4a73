"""Checking what streams contain against known digests."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import Any

from flambeau.core.errors import HashMismatchError
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.utils.streams import StreamWrapper

_BLOCK = 1 << 20
_KINDS = ("sha256", "md5")


@functional_datapipe("check_hash")
class HashCheckerIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Lets samples pass whose content has the known digest, and fails at any other (functional name: `check_hash`).

    Args:
        source_datapipe: source of `(path, data)`; data is a stream, bytes or a string.
        hash_dict: path -> hexadecimal digest; every path has to be in it.
        hash_type: "sha256" or "md5".
        rewind: seek streams back to where they were; a stream that cannot seek is replaced by its content in memory.
            False leaves them at their end.

    Raises:
        HashMismatchError: while iterating, for another digest (a RuntimeError), or a path that has none.
    """

    state_fields = ()

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[str, Any]],
        hash_dict: dict[str, str],
        hash_type: str = "sha256",
        rewind: bool = True,
    ) -> None:
        check_hash_type(hash_type)
        self.source_datapipe = source_datapipe
        self.hash_dict = hash_dict
        self.hash_type = hash_type
        self.rewind = rewind

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, data in self.source_datapipe:
            if path not in self.hash_dict:
                raise HashMismatchError(
                    f"{path}: no {self.hash_type} is known for it; add it to hash_dict.", url=str(path)
                )
            found, data = self._digest(data)
            expected = self.hash_dict[path]
            if found != expected.lower():
                raise HashMismatchError(
                    f"{path}: {self.hash_type} is {found}, expected {expected}; the file is damaged, or "
                    "another version.",
                    url=str(path),
                    expected=expected,
                    actual=found,
                )
            yield path, data

    def _digest(self, data: Any) -> tuple[str, Any]:
        sum_ = hashlib.new(self.hash_type, usedforsecurity=False)
        if isinstance(data, (str, bytes, bytearray)):
            sum_.update(data.encode() if isinstance(data, str) else data)
            return sum_.hexdigest(), data
        seekable = self.rewind and hasattr(data, "seekable") and data.seekable()
        kept = io.BytesIO() if self.rewind and not seekable else None
        start = data.tell() if seekable else 0
        while block := data.read(_BLOCK):
            block = block.encode() if isinstance(block, str) else block
            sum_.update(block)
            if kept is not None:
                kept.write(block)
        if seekable:
            data.seek(start)
        elif kept is not None:
            kept.seek(0)
            recipe = data.recipe if isinstance(data, StreamWrapper) else None
            data.close()
            data = StreamWrapper(kept, recipe=tuple(recipe) if recipe else None)
        return sum_.hexdigest(), data

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


def check_hash_type(hash_type: str) -> None:
    """Make sure that a kind of digest is known.

    Raises:
        ValueError: it is not.
    """
    if hash_type not in _KINDS:
        raise ValueError(f"hash_type has to be one of {', '.join(_KINDS)}; got {hash_type!r}.")


def file_digest(path: str, hash_type: str) -> str:
    """The hexadecimal digest of a file."""
    with open(path, "rb") as file:  # noqa: PTH123  # any path-like string
        return hashlib.file_digest(file, lambda: hashlib.new(hash_type, usedforsecurity=False)).hexdigest()
