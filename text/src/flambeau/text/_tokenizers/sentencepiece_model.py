"""SentencePiece's model files: the parts of them on which tokenizing depends, read and written; and its results.

Both are messages of protocol buffers; field numbers are those of `sentencepiece_model.proto` and `sentencepiece.proto`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

# Kinds of models.
UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4
# Kinds of pieces.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

Value = int | float | bytes


class ModelPiece(NamedTuple):
    """A piece, its score (the logarithm of a probability, or minus its rank), and its kind."""

    text: str
    score: float
    kind: int


class TextPiece(NamedTuple):
    """A piece of a text: its id, and the bytes of the text that it comes from."""

    id: int
    begin: int
    end: int


@dataclass(frozen=True)
class Model:
    """A model.

    Attributes:
        pieces: by id.
        kind: UNIGRAM, BPE, WORD or CHAR.
        charsmap: replacements of characters, compiled; empty for none.
        dummy_prefix: a space is put in front of every text.
        fewer_spaces: spaces at both ends are dropped, and of several one is left.
        byte_fallback: unknown characters become their bytes.
        space_behind: words end, and do not begin, with the mark of a space.
    """

    pieces: tuple[ModelPiece, ...]
    kind: int = UNIGRAM
    charsmap: bytes = b""
    dummy_prefix: bool = True
    fewer_spaces: bool = True
    byte_fallback: bool = False
    space_behind: bool = False

    @property
    def unknown(self) -> int:
        """The id of unknown characters."""
        return next(identity for identity, piece in enumerate(self.pieces) if piece.kind == UNKNOWN)


def read(data: bytes) -> Model:
    """The model in a file.

    Raises:
        ValueError: the file is damaged, or has no piece for unknown characters.
    """
    pieces: list[ModelPiece] = []
    trainer: dict[int, Value] = {}
    normalizer: dict[int, Value] = {}
    for number, value in _fields(data):
        if number == 1:
            pieces.append(_piece(dict(_fields(_bytes(value)))))
        elif number == 2:
            trainer = dict(_fields(_bytes(value)))
        elif number == 3:
            normalizer = dict(_fields(_bytes(value)))
    if not any(piece.kind == UNKNOWN for piece in pieces):
        raise ValueError("the model has no piece for unknown characters.")
    return Model(
        pieces=tuple(pieces),
        kind=int(trainer.get(3, UNIGRAM)),
        charsmap=_bytes(normalizer.get(2, b"")),
        dummy_prefix=bool(normalizer.get(3, 1)),
        fewer_spaces=bool(normalizer.get(4, 1)),
        byte_fallback=bool(trainer.get(35, 0)),
        space_behind=bool(trainer.get(24, 0)),
    )


def read_pieces(data: bytes) -> list[TextPiece]:
    """The pieces of a text that the package tokenized.

    Raises:
        ValueError: the message is damaged.
    """
    found = (dict(_fields(_bytes(value))) for number, value in _fields(data) if number == 2)
    return [TextPiece(*(int(fields.get(number, 0)) for number in (2, 4, 5))) for fields in found]


def write(model: Model) -> bytes:
    """The file of a model."""
    parts = [_message(1, _written(piece)) for piece in model.pieces]
    trainer = [_number(3, model.kind), _number(4, len(model.pieces)), _number(24, model.space_behind)]
    trainer += [_number(35, model.byte_fallback), _number(40, model.unknown)]
    for role, name in ((41, "<s>"), (42, "</s>"), (43, "<pad>")):
        known = (place for place, piece in enumerate(model.pieces) if piece.text == name and piece.kind == CONTROL)
        trainer.append(_number(role, next(known, -1)))
    spaces = [_number(3, model.dummy_prefix), _number(4, model.fewer_spaces), _number(5, 1)]
    normalizer = [_message(1, b"user_defined"), _message(2, model.charsmap), *spaces]
    return b"".join([*parts, _message(2, b"".join(trainer)), _message(3, b"".join(normalizer))])


def _piece(fields: dict[int, Value]) -> ModelPiece:
    return ModelPiece(_bytes(fields.get(1, b"")).decode(), float(fields.get(2, 0.0)), int(fields.get(3, NORMAL)))


def _written(piece: ModelPiece) -> bytes:
    return _message(1, piece.text.encode()) + b"\x15" + struct.pack("<f", piece.score) + _number(3, piece.kind)


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field of the model has another type than it should.")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Numbers and values of a message's fields, in order."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, form = key >> 3, key & 7
        if form == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if form == 2:
            size, at = _varint(data, at)
        elif form in (1, 5):
            size = 8 if form == 1 else 4
        else:
            raise ValueError(f"the model has a field of form {form} at byte {at}.")
        if at + size > len(data):
            raise ValueError(f"the model ends within a field, at byte {at}.")
        block = data[at : at + size]
        yield number, block if form == 2 else struct.unpack("<d" if form == 1 else "<f", block)[0]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"the model has no whole number at byte {at}.")


def _encoded(value: int) -> bytes:
    value &= 2**64 - 1  # negative ones in two's complement
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _number(number: int, value: int) -> bytes:
    return _encoded(number << 3) + _encoded(value)


def _message(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | 2) + _encoded(len(content)) + content
