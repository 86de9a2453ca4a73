"""The decoder's files of tokens and words: which there are, their numbers, and how each word is spelled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["Dictionary", "read_lexicon"]

Lexicon = dict[str, list[list[str]]]


class Dictionary:
    """Entries and their numbers, from 0 on; several entries may share a number, whose name is then the first.

    Args:
        rows: the entries of number 0, of number 1, and so on.
        default: the entry that stands for all that are not there; None when there is none.

    Raises:
        ValueError: an entry is there twice.
    """

    def __init__(self, rows: Iterable[Iterable[str]], default: str | None = None) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        for number, row in enumerate(rows):
            for entry in row:
                if entry in self._numbers:
                    raise ValueError(
                        f"Duplicate entry name in dictionary {entry!r}: it has number "
                        f"{self._numbers[entry]} and is given number {number} as well; keep one of them."
                    )
                self._numbers[entry] = number
                if len(self._names) == number:
                    self._names.append(entry)
        self._default = None if default is None else self._numbers[default]

    @classmethod
    def of(cls, source: str | Path | list[str]) -> Dictionary:
        """From a list of entries, or a file with one line for each number.

        Raises:
            ValueError: an entry is there twice, or there is none.
            FileNotFoundError: there is no such file.
        """
        if isinstance(source, list):
            found = cls([entry] for entry in source)
        else:
            found = cls(fields for _, fields in _rows(source))
        if not found.index_size():
            raise ValueError(f"{source!r} has no entries; expected at least one token or word.")
        return found

    def get_index(self, entry: str) -> int:
        """The number of an entry.

        Raises:
            ValueError: there is no such entry, and none that stands for it.
        """
        number = self._numbers.get(entry, self._default)
        if number is None:
            raise ValueError(f"Unknown entry in dictionary: {entry!r}; it has {self._sample()}.")
        return number

    def get_entry(self, number: int) -> str:
        """The entry of a number.

        Raises:
            ValueError: there is no such number.
        """
        if not 0 <= number < len(self._names):
            raise ValueError(f"Unknown index in dictionary: {number}, expected 0 to {len(self._names) - 1}.")
        return self._names[number]

    def index_size(self) -> int:
        """How many numbers there are."""
        return len(self._names)

    def __contains__(self, entry: str) -> bool:
        return entry in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def _sample(self) -> str:
        shown = ", ".join(map(repr, self._names[:8]))
        return f"{shown}, ... ({len(self._names)} in all)" if len(self._names) > 8 else shown


def read_lexicon(path: str | Path) -> Lexicon:
    """The spellings of each word: lines of a word and its tokens, parted by blanks; a word may have several lines.

    Raises:
        ValueError: a line has a word and no spelling.
        FileNotFoundError: there is no such file.
    """
    lexicon: Lexicon = {}
    for number, (word, *spelling) in _rows(path):
        if not spelling:
            raise ValueError(f"{path}, line {number}: {word!r} has no spelling; expected a word and its tokens.")
        lexicon.setdefault(word, []).append(spelling)
    return lexicon


def _rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not blank: number and fields."""
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            # Of bytes only ASCII blanks part fields: a token may hold any other character, such as a no-break space.
            if fields := line.split():
                yield number, [field.decode() for field in fields]
