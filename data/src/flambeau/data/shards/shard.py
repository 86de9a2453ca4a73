"""What every shard is: a sequence of samples at random access."""

from __future__ import annotations

import abc
import operator
from collections.abc import Iterator
from typing import Any

from flambeau.data.shards.bytes_source import BytesSource


class Shard(abc.ABC):
    """A sequence of samples in one file.

    Each is a dictionary. A shard may be read from any thread, and pickled: what it has open is opened again.

    Args:
        source: its bytes.
    """

    def __init__(self, source: BytesSource) -> None:
        self.source = source

    @property
    def path(self) -> str:
        """Where it lies."""
        return self.source.path

    @property
    def remote(self) -> bool:
        """Whether it lies in an object store."""
        return self.source._remote

    @property
    def settings(self) -> dict[str, Any]:
        """How its store is reached."""
        return self.source._settings

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of samples."""

    @abc.abstractmethod
    def read(self, item: int) -> dict[str, Any]:
        """The sample of a number from 0 to `len(self) - 1`.

        Raises:
            DamagedShardError: it cannot be read; the message names shard and byte.
        """

    def salvage(self) -> int:
        """Make do with the samples in front of the damage that stopped `len`; returns how many they are."""
        return 0

    def __getitem__(self, item: int) -> dict[str, Any]:
        place = operator.index(item)
        count = len(self)
        if not -count <= place < count:
            raise IndexError(f"{self.path}: item {item} of a shard of {count}.")
        return self.read(place % count)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self.read(item) for item in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"
