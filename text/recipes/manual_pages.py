"""Paragraphs of Debian's manual pages in 22 languages, which the recipes beside this file train and measure on.

The manual pages of Debian 12 and their translations are free software; the texts are under the GPL (version 2 or 3
and later), the BSD licences and similar ones, as `/usr/share/doc/<package>/copyright` says of each. The packages are
fetched with

    apt-get download manpages manpages-{cs,da,de,es,fi,fr,hu,id,it,ja,nl,pl,pt-br,ro,ru,sr,sv,tr,uk,vi,zh}

Versions on record: manpages 6.03-2, manpages-l10n 4.18.1-1, manpages-ja 0.5.0.0.20221215+dfsg-1, manpages-tr 2.0.6-2,
manpages-zh 1.6.4.0-1.

Paragraphs are taken out of the pages; those that occur in two languages are left out, for they were not translated.

Split: a page is held out, in every language that has it, when the first byte of the SHA-256 of its name is below 26 (a
tenth), so that no translation of a held-out page has been seen. Fifty paragraphs of each language (where there are so
many) are drawn from the held-out pages by their own digests and cut at 120 characters.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from flambeau.core.hub import read_archive

LANGUAGES = {
    "cs": "Czech", "da": "Danish", "de": "German", "en": "English", "es": "Spanish", "fi": "Finnish",
    "fr": "French", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "nl": "Dutch",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sr": "Serbian", "sv": "Swedish",
    "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
HELD_OUT_BELOW = 26
SAMPLES_PER_LANGUAGE = 50
LONGEST_SAMPLE = 120

_ESCAPES = (
    (re.compile(r"\\f(\(..|\[[^]]*\]|.)"), ""),
    (re.compile(r"\\s[-+]?\d"), ""),
    (re.compile(r"\\\(co|\\\[co\]"), "©"),
    (re.compile(r"\\\((aq|cq|oq)|\\\[(aq|cq|oq)\]"), "'"),
    (re.compile(r"\\\((lq|rq|dq)|\\\[(lq|rq|dq)\]"), '"'),
    (re.compile(r"\\\((em|en|hy)|\\\[(em|en|hy)\]|\\-"), "-"),
    (re.compile(r"\\[ ~]"), " "),
    (re.compile(r'\\[&%:/,|^c)]|\\"[^\n]*'), ""),
    (re.compile(r"\\\*?(\(..|\[[^]]*\])"), ""),
    (re.compile(r"\\e"), "\\\\"),
)  # fmt: skip


def pages(package: Path) -> Iterator[tuple[str, str, str]]:
    """(language, name, source) of each manual page in a Debian package."""
    with TemporaryDirectory() as folder:
        data = Path(folder, "data.tar")
        data.write_bytes(member(package, "data.tar"))
        for name, stream in read_archive(data):
            match = re.fullmatch(r"usr/share/man/(?:([a-z]{2})(?:_\w+)?(?:\.[\w-]+)?(?:@\w+)?/)?man\d/(.+)\.gz", name)
            if match and (match[1] or "en") in LANGUAGES:
                source = gzip.decompress(stream.read()).decode("utf-8", "replace")
                yield match[1] or "en", match[2], source


def member(package: Path, prefix: str) -> bytes:
    """One member of an `ar` archive, by the beginning of its name."""
    content, at = package.read_bytes(), 8
    while at < len(content):
        header = content[at : at + 60]
        size = int(header[48:58])
        if header[:16].decode().strip().rstrip("/").startswith(prefix):
            return content[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    raise ValueError(f"{package} has no member {prefix}; it is no Debian package.")


def paragraphs(source: str) -> Iterator[str]:
    """Running text of a manual page: paragraphs of at least 30 characters, most of them letters."""
    lines: list[str] = []
    for line in [*source.splitlines(), "."]:
        if line.startswith((".", "'")) or not line.strip():
            text = plain(" ".join(lines))
            letters = sum(character.isalpha() or character == " " for character in text)
            if len(text.encode()) >= 30 and letters > 0.85 * len(text):
                yield text
            lines = []
            continue
        lines.append(line)


def plain(text: str) -> str:
    """A text without roff's escapes, in Unicode's composed form."""
    for pattern, replacement in _ESCAPES:
        text = pattern.sub(replacement, text)
    return " ".join(unicodedata.normalize("NFC", text).split())


def is_held_out(page: str) -> bool:
    """Whether the page of a name is for measuring alone."""
    return hashlib.sha256(page.encode()).digest()[0] < HELD_OUT_BELOW


def corpus(folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Paragraphs for training and held-out ones, by language, sorted and each once."""
    found: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for package in sorted(folder.glob("manpages*.deb")):
        for language, page, source in pages(package):
            for text in paragraphs(source):
                found[language][text] = found[language].get(text, False) or is_held_out(page)
    shared = Counter(text for texts in found.values() for text in texts)
    parts = ({}, {})
    for held_out, part in enumerate(parts):
        for language in LANGUAGES:
            part[language] = sorted(t for t, held in found[language].items() if shared[t] == 1 and held == held_out)
    return parts


def samples(held_out: dict[str, list[str]]) -> list[tuple[str, str]]:
    """(language, text) for measuring: of each language the paragraphs with the smallest digests."""
    chosen = []
    for language, texts in held_out.items():
        first = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())[:SAMPLES_PER_LANGUAGE]
        chosen += [(language, text[:LONGEST_SAMPLE].strip()) for text in first]
    return chosen
