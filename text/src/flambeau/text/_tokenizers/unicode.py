"""Character properties for the Python reference: Unicode 14, as in the native tables, whatever Python runs it."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right

from flambeau.text._tokenizers.unassigned import EDGES

# Bytes of white space to the engine that upstream matches with.
ASCII_SPACE = frozenset(" \t\n\v\f\r")
_ASCII_SYMBOLS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def assigned(character: str) -> bool:
    """Whether Unicode 14 has a character here."""
    return bisect_right(EDGES, ord(character)) % 2 == 0


def category(character: str) -> str:
    """The general category, "Cn" for what a later Unicode assigned."""
    return unicodedata.category(character) if assigned(character) else "Cn"


def is_ideograph(character: str) -> bool:
    """Whether the character is a CJK ideograph, as BERT has it."""
    point = ord(character)
    return point >= 0x3400 and any(first <= point <= last for first, last in _IDEOGRAPHS)


def is_punctuation(character: str) -> bool:
    """Whether the character is punctuation, as BERT has it: ASCII's symbols are."""
    return character in _ASCII_SYMBOLS or category(character)[0] == "P"


def lower(character: str) -> str:
    """The lower case of one character, whatever is around it; for U+0130 these are two."""
    return character.lower() if assigned(character) else character


def decomposed(text: str) -> str:
    """Normal form D, unassigned code points left alone."""
    if all(map(assigned, text)):
        return unicodedata.normalize("NFD", text)
    return "".join(unicodedata.normalize("NFD", part) if assigned(part[0]) else part for part in _parts(text))


def _parts(text: str) -> list[str]:
    parts: list[str] = []
    for character in text:
        if parts and assigned(parts[-1][0]) == assigned(character):
            parts[-1] += character
        else:
            parts.append(character)
    return parts
