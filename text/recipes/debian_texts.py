"""Texts in a hundred languages out of Debian's packages: translations of programs, help pages and lists of words.

Three kinds of files are read: catalogues of messages (gettext's `.mo`), GNOME's help pages (Mallard's `.page`), and the
lists of words of spelling checkers (Hunspell's `.dic`). What is left after `plain` is prose: no markup, no places of
formatted values, no marks of keys.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from manual_pages import member

from flambeau.core.hub import read_archive

SHORTEST = 30  # bytes of a text, in UTF-8

_CATALOGUE = re.compile(r"usr/(?:share|lib)/(?:.+/)?([\w@.]+)/LC_MESSAGES/.+\.mo")
_PAGE = re.compile(r"usr/share/help/([\w@.]+)/.+\.page")
_SPELLING = re.compile(r"(usr/share/hunspell/([a-z]+)(?:[_-][-\w]+)?)\.(aff|dic)")
_NO_SPACES = ("bo", "lo", "th")  # languages written without spaces between words
_NOT_PROSE = (
    (re.compile(r"<[^<>]*>"), " "),
    (re.compile(r"\w+://\S+|[\w.]+@[\w.]+|(?<!\w)[-/~][-\w/.]{2,}"), " "),
    (re.compile(r"%(?:\(\w+\)|\d+\$)?[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]|%\d|\$[{(]?\w+[)}]?|\{[^{}]*\}"), " "),
    (re.compile(r"&\w+;|&#\d+;"), " "),
    (re.compile(r"[_&~](?=\w)|\(_?\w\)$"), ""),
)  # fmt: skip


def texts(package: Path, *, originals: bool = False) -> Iterator[tuple[str, str]]:
    """(locale, text) of everything that a Debian package has in a language.

    Args:
        package: a `.deb` file.
        originals: give what was translated too, as locale "C", once for each catalogue.
    """
    with TemporaryDirectory() as folder:
        data = Path(folder, "data.tar")
        data.write_bytes(member(package, "data.tar"))
        for name, stream in read_archive(data):
            if match := _CATALOGUE.fullmatch(name):
                for original, translation in messages(stream.read()):
                    if original != translation:
                        yield from ((match[1], text) for text in plain(translation))
                    if originals:
                        yield from (("C", text) for text in plain(original))
            elif match := _PAGE.fullmatch(name):
                yield from ((match[1], text) for text in page_texts(stream.read()))


def messages(catalogue: bytes) -> Iterator[tuple[str, str]]:
    """(original, translation) of a catalogue; of plural forms each one, of damaged catalogues none."""
    order = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}.get(catalogue[:4])
    if order is None:
        return
    count, first, second = struct.unpack_from(f"{order}3I", catalogue, 8)
    for number in range(count):
        places = (struct.unpack_from(f"{order}2I", catalogue, start + 8 * number) for start in (first, second))
        original, translation = (catalogue[at : at + size].decode("utf-8", "replace") for size, at in places)
        if original:  # the message that stands for the empty one is the header
            original = original.rpartition("\x04")[2].partition("\0")[0]
            yield from ((original, form) for form in translation.split("\0"))


def page_texts(page: bytes) -> Iterator[str]:
    """The paragraphs of a help page."""
    for paragraph in ElementTree.fromstring(page).iter("{http://projectmallard.org/1.0/}p"):
        yield from plain(" ".join("".join(paragraph.itertext()).split()))


def words(package: Path) -> Iterator[tuple[str, str]]:
    """(language, twelve words from all over the list) of a spelling checker's lists in a Debian package."""
    encodings: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        data = Path(folder, "data.tar")
        data.write_bytes(member(package, "data.tar"))
        lists = {}
        for name, stream in read_archive(data):
            if match := _SPELLING.fullmatch(name):
                content = stream.read()
                if match[3] == "dic":
                    lists[match[1]] = (match[2], content)
                elif declared := re.search(rb"^SET\s+([-\w]+)", content, re.MULTILINE):
                    encodings[match[1]] = declared[1].decode()
    for stem, (language, content) in lists.items():
        listed = [
            re.split(r"[/\t]", line)[0].strip() for line in decoded(content, encodings.get(stem)).splitlines()[1:]
        ]
        listed = [word for word in listed if word and all(map(_is_letter, word))]
        between = "" if language in _NO_SPACES else " "
        lines = -(-len(listed) // 12)
        yield from ((language, text) for first in range(lines) for text in plain(between.join(listed[first::lines])))


def decoded(content: bytes, encoding: str | None) -> str:
    """What a list holds: many that declare nothing are in UTF-8, older ones in Latin-1."""
    try:
        return content.decode(encoding or "utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def plain(message: str) -> Iterator[str]:
    """The lines of a message that are running text: at least `SHORTEST` bytes, most of the characters letters."""
    for pattern, replacement in _NOT_PROSE:
        message = pattern.sub(replacement, message)
    for line in message.splitlines():
        text = unicodedata.normalize("NFC", " ".join(line.split()))
        letters = sum(character == " " or _is_letter(character) for character in text)
        if len(text.encode("utf-8", "replace")) >= SHORTEST and letters > 0.85 * len(text):
            yield text


def _is_letter(character: str) -> bool:
    """Whether words consist of it: letters and their marks, and what stands between Tibetan syllables."""
    return character == "་" or unicodedata.category(character)[0] in "LM"
