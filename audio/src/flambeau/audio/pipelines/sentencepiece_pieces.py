"""The pieces of a SentencePiece model, read without its library: enough to turn tokens into text.

A model file is a protocol buffer: field 1 repeats (piece, score, type), field 2 is how it was trained, with the ids of
special pieces.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Pieces", "read_pieces"]

# Field numbers of the ids in the training settings, and what they are when a file leaves them out.
_SPECIAL = {40: ("unk_id", 0), 41: ("bos_id", 1), 42: ("eos_id", 2), 43: ("pad_id", -1)}


@dataclass(frozen=True)
class Pieces:
    """The vocabulary of a model.

    Attributes:
        pieces: text of each id.
        unk_id: the unknown piece.
        bos_id: the beginning of a sentence, -1 where there is none.
        eos_id: the end of a sentence, -1 where there is none.
        pad_id: padding, -1 where there is none.
    """

    pieces: tuple[str, ...]
    unk_id: int
    bos_id: int
    eos_id: int
    pad_id: int


def read_pieces(path: str | os.PathLike[str]) -> Pieces:
    """Read a model file.

    Raises:
        ValueError: it is none, or cut off.
    """
    data = Path(path).read_bytes()
    pieces, special = [], dict(_SPECIAL.values())
    try:
        for field, value in _fields(data):
            if field == 1 and isinstance(value, bytes):
                text = next(part for number, part in _fields(value) if number == 1)
                pieces.append(bytes(text).decode("utf-8"))
            elif field == 2 and isinstance(value, bytes):
                for number, part in _fields(value):
                    if number in _SPECIAL and isinstance(part, int):
                        special[_SPECIAL[number][0]] = part if part < 1 << 31 else part - (1 << 64)
    except (IndexError, StopIteration, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no SentencePiece model, or cut off; fetch it again.") from error
    if not pieces:
        raise ValueError(f"{path} is no SentencePiece model: it holds no pieces.")
    return Pieces(tuple(pieces), **special)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's fields.

    Raises:
        IndexError: the message is cut off, or has a field of a kind that does not exist.
    """
    position = 0
    while position < len(data):
        key, position = _number(data, position)
        kind = key & 7
        if kind == 0:
            value, position = _number(data, position)
            yield key >> 3, value
            continue
        if kind not in (1, 2, 5):
            raise IndexError(f"a field of kind {kind}")
        length, position = (8 if kind == 1 else 4, position) if kind != 2 else _number(data, position)
        if position + length > len(data):
            raise IndexError("a field beyond the end")
        yield key >> 3, data[position : position + length]
        position += length


def _number(data: bytes, position: int) -> tuple[int, int]:
    """A number of seven bits per byte, lowest first, and the position behind it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
