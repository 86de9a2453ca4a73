"""Vocabulary files: local, or fetched once; read with errors that name the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def local(path: str | os.PathLike[str]) -> Path:
    """The file itself, or for a URL its copy in the cache, fetched if it is not there.

    Raises:
        FileNotFoundError: there is no such file.
    """
    text = os.fspath(path)
    if "://" in text:
        from flambeau.core.hub import fetch

        return Path(fetch(text))
    if not Path(text).is_file():
        raise FileNotFoundError(f"{text!r} is no file; give the path or the URL of a vocabulary file.")
    return Path(text)


def read_text(path: str | os.PathLike[str]) -> str:
    """The content of a vocabulary file, its line ends as they are.

    Raises:
        ValueError: it is not UTF-8.
    """
    data = local(path).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)!r} is not UTF-8 at byte {error.start}; is it a vocabulary file?") from error


def read_vocabulary(path: str | os.PathLike[str]) -> dict[str, int]:
    """A JSON object of tokens and their ids.

    Raises:
        ValueError: it is not that; ids are whole numbers, not negative, and differ.
    """
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{os.fspath(path)!r} is not JSON (line {error.lineno}: {error.msg}).") from error
    check_vocabulary(content, os.fspath(path))
    return content  # type: ignore[no-any-return]


def check_vocabulary(content: Any, where: str) -> None:
    """Raise ValueError unless `content` is an object of tokens and different ids."""
    if not isinstance(content, dict):
        raise ValueError(f"{where!r} holds a {type(content).__name__}; a vocabulary is an object of tokens and ids.")
    identities = content.values()
    whole = set(map(type, identities)) <= {int}
    if not whole or min(identities, default=0) < 0 or max(identities, default=0) >= 2**31:
        token = next(t for t, i in content.items() if not (type(i) is int and 0 <= i < 2**31))
        raise ValueError(f"{where!r}: the id of {token!r} is {content[token]!r}; expected a whole number from 0 on.")
    if len(set(identities)) != len(content):
        raise ValueError(f"{where!r}: tokens share ids; each token needs one of its own.")


def parse_merges(lines: list[str], where: str) -> dict[tuple[str, str], int]:
    """Merges by rank, the last of equal ones; empty lines count and merge nothing.

    Raises:
        ValueError: a line is no pair.
    """
    # Tens of thousands of lines, and most of the time to open a vocabulary: one pass in C after the other.
    parts = list(map(tuple, map(str.split, lines)))
    ranks: dict[Any, int] = dict(zip(parts, range(len(parts)), strict=True))
    sizes = list(map(len, parts))
    ranks.pop((), None)
    if not set(sizes) <= {0, 2}:
        rank = next(rank for rank, size in enumerate(sizes) if size not in (0, 2))
        raise ValueError(f"{where!r}, merge {rank + 1}: {lines[rank]!r} is no pair of symbols; is the file damaged?")
    return ranks
