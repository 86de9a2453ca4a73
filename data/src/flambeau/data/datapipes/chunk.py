"""A batch of samples that is a list and keeps its items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class DataChunk(list[T]):
    """A list of samples; what `batch` yields.

    Args:
        items: the samples; read once.

    Attributes:
        items: the samples as a plain list.
    """

    def __init__(self, items: Iterable[T] = ()) -> None:
        items = items if type(items) is list else list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The items in brackets, as `str` prints each."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[T]:
        """The items one by one, also where a subclass makes iteration mean something else."""
        yield from self.items

    def __reduce__(self) -> tuple[type[DataChunk[T]], tuple[list[T]]]:
        return type(self), (list(self.items),)
