"""The CMU Pronouncing Dictionary: 134,000 English words in phones.

References:
    Weide 1998, The Carnegie Mellon Pronouncing Dictionary. http://www.speech.cs.cmu.edu/cgi-bin/cmudict
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from flambeau.audio.datasets._recordings import Recordings, fields
from flambeau.core.datasets import DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset

__all__ = ["CMUDict"]

_BASE = "http://svn.code.sf.net/p/cmusphinx/code/trunk/cmudict/cmudict-0.7b"
_FILES = {
    _BASE: "209a8b4cd265013e96f4658632a9878103b0c5abf62b50d4ef3ae1be226b29e4",
    f"{_BASE}.symbols": "408ccaae803641c6d7b626b6299949320c2dbca96b2220fd3fb17887b023b027",
}
_INFO = DatasetInfo(
    name="cmudict",
    task="grapheme-to-phoneme",
    splits=("all",),
    files=tuple(DatasetFile(url=url, sha256=digest) for url, digest in _FILES.items()),
    schema=fields("word", Field("phones", "list"), waveform=None),
    license="BSD-2-Clause",
    citation="@misc{cmudict, author={Weide, R. L.}, title={The Carnegie Mellon Pronouncing Dictionary}, year={1998}}",
    homepage="http://www.speech.cs.cmu.edu/cgi-bin/cmudict",
    description="134,000 English words with their pronunciation in 39 phones.",
)
_ALTERNATIVE = re.compile(r"\([0-9]+\)")
# Entries that say how a mark is read: the mark and its name.
_PUNCTUATION = re.compile(r"""(\.\.\.|--|[!"#%&'()+,\-./:;?{}])[A-Z][A-Z-]*(\(\d+\))?""")
# Words that begin with a mark and are no names of it.
_NAMES = frozenset((
    "EXCLAMATION-POINT", "CLOSE-QUOTE", "DOUBLE-QUOTE", "END-OF-QUOTE", "END-QUOTE", "IN-QUOTES", "QUOTE", "UNQUOTE",
    "HASH-MARK", "POUND-SIGN", "SHARP-SIGN", "PERCENT", "AMPERSAND", "END-INNER-QUOTE", "INNER-QUOTE", "SINGLE-QUOTE",
    "BEGIN-PARENS", "IN-PARENTHESES", "LEFT-PAREN", "OPEN-PARENTHESES", "PAREN", "PARENS", "PARENTHESES",
    "CLOSE-PAREN", "CLOSE-PARENTHESES", "END-PAREN", "END-PARENS", "END-PARENTHESES", "END-THE-PAREN", "RIGHT-PAREN",
    "UN-PARENTHESES", "PLUS", "COMMA", "DASH", "HYPHEN", "ELLIPSIS", "DECIMAL", "DOT", "FULL-STOP", "PERIOD", "POINT",
    "SLASH", "COLON", "SEMI-COLON", "QUESTION-MARK", "BRACE", "LEFT-BRACE", "OPEN-BRACE", "CLOSE-BRACE",
    "RIGHT-BRACE",
))  # fmt: skip


@register_dataset(info=_INFO)
class CMUDict(Recordings):
    """134,000 English words with their pronunciation in 39 phones, vowels with stress.

    Args:
        root: folder that holds, or shall hold, the two files.
        exclude_punctuations: leave out the entries that say how marks are read, such as "!EXCLAMATION-POINT"; otherwise
            their word is the mark.
        download: fetch the files (4 MB) where they are not in place.
        url: address of the dictionary.
        url_symbols: address of the list of phones.

    Items are (word, list of phones). A word with several pronunciations is there several times.

    Raises:
        DatasetMissingError: a file is missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        exclude_punctuations: bool = True,
        *,
        download: bool = False,
        url: str = _BASE,
        url_symbols: str = f"{_BASE}.symbols",
    ) -> None:
        self.exclude_punctuations = exclude_punctuations
        info = _INFO
        if [url, url_symbols] != list(_FILES):
            files = tuple(DatasetFile(url=one, sha256=_FILES.get(one)) for one in (url, url_symbols))
            info = DatasetInfo(name="cmudict-elsewhere", files=files)
        folder = prepare_dataset(info, root, download=download)
        symbols = (folder / PurePosixPath(url_symbols).name).read_text(encoding="latin-1").splitlines()
        self._symbols = [line.strip() for line in symbols if line.strip()]
        lines = (folder / PurePosixPath(url).name).read_text(encoding="latin-1").splitlines()
        entries = (self._entry(line) for line in lines if line and not line.startswith(";;;"))
        self._dictionary = [entry for entry in entries if entry is not None]

    def _entry(self, line: str) -> tuple[str, list[str]] | None:
        word, phones = line.strip().split("  ", 1)
        mark = _PUNCTUATION.fullmatch(word)
        if mark and _ALTERNATIVE.sub("", word[len(mark[1]) :]) in _NAMES:
            if self.exclude_punctuations:
                return None
            word = mark[1]
        return _ALTERNATIVE.sub("", word), phones.split(" ")

    @property
    def symbols(self) -> list[str]:
        """The phones, vowels also with each stress."""
        return list(self._symbols)

    def __getitem__(self, n: int) -> tuple[str, list[str]]:
        """(word, phones) number `n`."""
        word, phones = self._dictionary[n]
        return word, list(phones)

    def __len__(self) -> int:
        return len(self._dictionary)
