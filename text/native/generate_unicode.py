"""Writes the character tables of the tokenizers: `python text/native/generate_unicode.py`, on a Python of Unicode 14.

Makes `unicode_tables.h` beside itself and `_tokenizers/unassigned.py`, both checked in. Python 3.11 has Unicode 14.0,
which is the one version that tokenizers use whatever Python runs them: code points that a later version assigned count
as unassigned, since they have been so in every vocabulary's training.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

VERSION = "14.0.0"
POINTS = 0x110000
BLOCK = 128
# Bits of a code point's properties; `tokenizer.h` names them.
LETTER, NUMBER, CONTROL, MARK, SEPARATOR, PUNCTUATION, IDEOGRAPH, SPACE = (1 << bit for bit in range(8))
IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
ASCII_SYMBOLS = (
    frozenset(range(33, 48)) | frozenset(range(58, 65)) | frozenset(range(91, 97)) | frozenset(range(123, 127))
)
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by arithmetic


def properties(point: int) -> int:
    """The bits of one code point."""
    category = unicodedata.category(chr(point))
    bits = {"L": LETTER, "N": NUMBER, "C": CONTROL, "P": PUNCTUATION}.get(category[0], 0)
    bits |= {"Mn": MARK, "Zs": SEPARATOR}.get(category, 0)
    if point in ASCII_SYMBOLS:
        bits |= PUNCTUATION
    if any(first <= point <= last for first, last in IDEOGRAPHS):
        bits |= IDEOGRAPH
    return bits | (SPACE if chr(point).isspace() else 0)


def lower_delta(point: int) -> int:
    """The simple mapping, one code point to one; U+0130 is the only one whose full mapping is longer."""
    lower = chr(point).lower()
    return (ord(lower) if len(lower) == 1 else ord("i")) - point


def decompositions() -> tuple[list[int], Callable[[int], int]]:
    """All canonical decompositions end to end, each as its length and its points, and where a point's begins."""
    pool, places = [0], {}
    for point in range(POINTS):
        if point in HANGUL or 0xD800 <= point < 0xE000:
            continue
        text = unicodedata.normalize("NFD", chr(point))
        if text != chr(point):
            places[point] = len(pool)
            pool += [len(text), *map(ord, text)]
    return pool, lambda point: places.get(point, 0)


def two_stages(function: Callable[[int], int]) -> tuple[list[int], list[int]]:
    """The index of each block of code points, and the distinct blocks end to end."""
    index, blocks, known = [], [], {}
    for start in range(0, POINTS, BLOCK):
        block = tuple(function(point) for point in range(start, start + BLOCK))
        if block not in known:
            known[block] = len(known)
            blocks += block
        index.append(known[block])
    return index, blocks


def array(kind: str, name: str, values: Sequence[int]) -> str:
    """A constant array in C++."""
    return f"inline constexpr {kind} {name}[{len(values)}] = {{\n{wrapped(values)}}};\n"


def wrapped(values: Iterable[object]) -> str:
    """Values in lines of moderate length."""
    lines, line = [], "   "
    for value in values:
        if len(line) + len(str(value)) + 2 > 118:
            lines.append(line)
            line = "   "
        line += f" {value},"
    return "\n".join([*lines, line]) + "\n"


def header() -> str:
    """The tables in C++."""
    pool, place = decompositions()
    parts = [
        f"// Unicode {VERSION}, written by generate_unicode.py: not to be edited.\n",
        "#pragma once\n\n#include <stdint.h>\n",
        "namespace fb::text {\n",
    ]
    tables = {
        "properties": ("uint8_t", properties),
        "lower": ("int32_t", lower_delta),
        "combining": ("uint8_t", lambda point: unicodedata.combining(chr(point))),
        "decomposed": ("uint16_t", place),
    }
    for name, (kind, function) in tables.items():
        index, blocks = two_stages(function)
        parts += [array("uint16_t", f"{name}_index", index), array(kind, f"{name}_blocks", blocks)]
    parts += [array("uint32_t", "decompositions", pool), "}  // namespace fb::text\n"]
    return "\n".join(parts)


def unassigned() -> str:
    """The module of unassigned code points."""
    edges, inside = [], False
    for point in range(POINTS):
        if (unicodedata.category(chr(point)) == "Cn") != inside:
            edges.append(point)
            inside = not inside
    return (
        f'"""Code points without a character in Unicode {VERSION}; written by native/generate_unicode.py.\n\n'
        'Every second edge, from the first on, begins a range of them; the others end one.\n"""\n\n'
        "from __future__ import annotations\n\n"
        "# fmt: off\nEDGES: tuple[int, ...] = (\n" + wrapped(edges) + ")\n# fmt: on\n"
    )


def main() -> None:
    """Write both files."""
    if unicodedata.unidata_version != VERSION:
        sys.exit(f"This Python has Unicode {unicodedata.unidata_version}; the tables are of {VERSION} (Python 3.11).")
    folder = Path(__file__).resolve().parent
    (folder / "unicode_tables.h").write_text(header(), encoding="utf-8")
    package = folder.parent / "src" / "flambeau" / "text" / "_tokenizers"
    (package / "unassigned.py").write_text(unassigned(), encoding="utf-8")


if __name__ == "__main__":
    main()
