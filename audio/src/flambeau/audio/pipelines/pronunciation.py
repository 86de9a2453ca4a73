"""English words as phonemes: the CMU pronouncing dictionary, and rules for words that it does not have."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Pronouncer", "read_dictionary", "spelled_out"]

_DICTIONARY = "http://svn.code.sf.net/p/cmusphinx/code/trunk/cmudict/cmudict-0.7b"
_SHA256 = "209a8b4cd265013e96f4658632a9878103b0c5abf62b50d4ef3ae1be226b29e4"


class Pronouncer:
    """Word -> phonemes in ARPAbet.

    Args:
        dictionary: words in upper case with their phonemes, or a file in the format of the CMU dictionary; None
            fetches version 0.7b of that when a word is first asked for.

    Example:
        >>> Pronouncer({"HELLO": ["HH", "AH0", "L", "OW1"]})("hello")
        ['HH', 'AH0', 'L', 'OW1']
    """

    def __init__(self, dictionary: Mapping[str, list[str]] | str | os.PathLike[str] | None = None) -> None:
        self._given = dictionary

    @functools.cached_property
    def dictionary(self) -> Mapping[str, list[str]]:
        """Words in upper case with their phonemes."""
        if isinstance(self._given, Mapping):
            return self._given
        if self._given is not None:
            return read_dictionary(self._given)
        from flambeau.core.hub import fetch

        return read_dictionary(fetch(_DICTIONARY, sha256=_SHA256))

    def __call__(self, word: str) -> list[str]:
        """Phonemes of a word; with stress where the dictionary has it."""
        word = word.upper()
        if word in self.dictionary:
            return list(self.dictionary[word])
        stem, mark, ending = word.rpartition("'")
        if mark and stem in self.dictionary:
            return [*self.dictionary[stem], *(_ENDINGS[ending].split() if ending in _ENDINGS else spelled_out(ending))]
        return spelled_out(word)


def read_dictionary(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read a file in the format of the CMU dictionary: `WORD  PH ON EM`, comments after `;;;`; the first one counts."""
    words: dict[str, list[str]] = {}
    for line in Path(path).read_text(encoding="latin-1").splitlines():
        word, gap, phonemes = line.partition("  ")
        if gap and not line.startswith(";;;"):
            words.setdefault(word, phonemes.split())
    return words


# (letters, what must stand before, what must stand behind, phonemes); the first rule that fits counts, so that longer
# spellings stand before shorter ones. Before and behind are regular expressions; V is a vowel, C a consonant.
_RULES: list[tuple[str, str, str, str]] = [
    ("TION", "", "", "SH AH N"),
    ("SION", "V", "", "ZH AH N"),
    ("SION", "", "", "SH AH N"),
    ("OUGHT", "", "", "AO T"),
    ("AUGHT", "", "", "AO T"),
    ("OUGH", "", "", "OW"),
    ("AUGH", "", "", "AE F"),
    ("EIGH", "", "", "EY"),
    ("IGHT", "", "", "AY T"),
    ("IGH", "", "", "AY"),
    ("TURE", "", "", "CH ER"),
    ("SURE", "V", "", "ZH ER"),
    ("TCH", "", "", "CH"),
    ("DGE", "", "", "JH"),
    ("SCH", "", "", "S K"),
    ("CIOUS", "", "", "SH AH S"),
    ("TIOUS", "", "", "SH AH S"),
    ("OUS", "", "$", "AH S"),
    ("IOUS", "", "$", "IY AH S"),
    ("AIR", "", "", "EH R"),
    ("ARE", "", "$", "EH R"),
    ("EAR", "", "", "IH R"),
    ("EER", "", "", "IH R"),
    ("OOR", "", "", "AO R"),
    ("OUR", "", "", "AW ER"),
    ("IRE", "", "$", "AY ER"),
    ("ORE", "", "$", "AO R"),
    ("ALK", "", "", "AO K"),
    ("ALL", "", "", "AO L"),
    ("ING", "", "", "IH NG"),
    ("LE", "C", "$", "AH L"),
    ("ED", "[TD]", "$", "IH D"),
    ("ED", "[PKFSXH]", "$", "T"),
    ("ED", "C", "$", "D"),
    ("ES", "(?:[SXZ]|CH|SH)", "$", "IH Z"),
    ("ES", "C", "$", "Z"),
    ("CH", "", "", "CH"),
    ("SH", "", "", "SH"),
    ("TH", "", "", "TH"),
    ("PH", "", "", "F"),
    ("WH", "", "", "W"),
    ("GH", "", "[EI]", "G"),
    ("GH", "", "", ""),
    ("CK", "", "", "K"),
    ("NG", "", "", "NG"),
    ("NK", "", "", "NG K"),
    ("QU", "", "", "K W"),
    ("KN", "^", "", "N"),
    ("WR", "^", "", "R"),
    ("PS", "^", "", "S"),
    ("GN", "^", "", "N"),
    ("MB", "", "$", "M"),
    ("AR", "", "", "AA R"),
    ("ER", "", "", "ER"),
    ("IR", "", "", "ER"),
    ("OR", "", "", "AO R"),
    ("UR", "", "", "ER"),
    ("AI", "", "", "EY"),
    ("AY", "", "", "EY"),
    ("AU", "", "", "AO"),
    ("AW", "", "", "AO"),
    ("EA", "", "", "IY"),
    ("EE", "", "", "IY"),
    ("EI", "", "", "IY"),
    ("EY", "", "$", "IY"),
    ("EY", "", "", "EY"),
    ("EU", "", "", "Y UW"),
    ("EW", "", "", "Y UW"),
    ("IE", "^C", "$", "AY"),
    ("IE", "", "", "IY"),
    ("OA", "", "", "OW"),
    ("OI", "", "", "OY"),
    ("OY", "", "", "OY"),
    ("OO", "", "K", "UH"),
    ("OO", "", "", "UW"),
    ("OU", "", "", "AW"),
    ("OW", "", "$", "OW"),
    ("OW", "", "", "AW"),
    ("UI", "", "", "UW"),
    ("UE", "", "$", "UW"),
    ("A", "", "C(?:E|ING|ED|ER)", "EY"),
    ("A", "", "$", "AH"),
    ("A", "W", "", "AA"),
    ("A", "", "", "AE"),
    ("E", "^C+", "$", "IY"),
    ("E", "", "$", ""),
    ("E", "", "CE", "IY"),
    ("E", "", "", "EH"),
    ("I", "", "CE", "AY"),
    ("I", "", "ND$", "AY"),
    ("I", "", "$", "IY"),
    ("I", "", "", "IH"),
    ("O", "", "C(?:E|ING|ED|ER)", "OW"),
    ("O", "", "$", "OW"),
    ("O", "", "L[DTK]", "OW"),
    ("O", "", "", "AA"),
    ("U", "", "C[EIAO]", "UW"),
    ("U", "", "", "AH"),
    ("Y", "^", "", "Y"),
    ("Y", "^C+", "$", "AY"),
    ("Y", "", "$", "IY"),
    ("Y", "", "CE", "AY"),
    ("Y", "", "", "IH"),
    ("C", "", "[EIY]", "S"),
    ("C", "", "", "K"),
    ("G", "", "[EIY]", "JH"),
    ("G", "", "", "G"),
    ("S", "[AEIOUYBDGLMNRVW]", "$", "Z"),
    ("S", "V", "V", "Z"),
    ("S", "", "", "S"),
    ("X", "^", "", "Z"),
    ("X", "", "", "K S"),
    ("B", "", "", "B"),
    ("D", "", "", "D"),
    ("F", "", "", "F"),
    ("H", "", "V", "HH"),
    ("H", "", "", ""),
    ("J", "", "", "JH"),
    ("K", "", "", "K"),
    ("L", "", "", "L"),
    ("M", "", "", "M"),
    ("N", "", "", "N"),
    ("P", "", "", "P"),
    ("Q", "", "", "K"),
    ("R", "", "", "R"),
    ("T", "", "", "T"),
    ("V", "", "", "V"),
    ("W", "", "V", "W"),
    ("W", "", "", ""),
    ("Z", "", "", "Z"),
]


@functools.cache
def _compiled() -> list[tuple[str, re.Pattern[str], re.Pattern[str], list[str]]]:
    def classes(pattern: str) -> str:
        return pattern.replace("V", "[AEIOUY]").replace("C", "[B-DF-HJ-NP-TV-XZ]")

    # Letters such as CH and V within a group stand for themselves.
    literal = {"(?:[SXZ]|CH|SH)", "[AEIOUYBDGLMNRVW]"}
    return [
        (
            letters,
            re.compile(f"(?:{before if before in literal else classes(before)})$" if before else ""),
            re.compile(classes(behind)),
            phonemes.split(),
        )
        for letters, before, behind, phonemes in _RULES
    ]


def spelled_out(word: str) -> list[str]:
    """Phonemes of a word by how English is usually spelled, without stress; other characters are left out.

    Example:
        >>> spelled_out("SHIPPING")
        ['SH', 'IH', 'P', 'IH', 'NG']
    """
    word = re.sub("[^A-Z]", "", word.upper())
    if word and not re.search("[AEIOUY]", word):
        return [phoneme for letter in word for phoneme in _LETTERS[letter].split()]
    phonemes: list[str] = []
    position = 0
    while position < len(word):
        if position and word[position] == word[position - 1] and word[position] in _DOUBLED:
            position += 1
            continue
        for letters, before, behind, sounds in _compiled():
            end = position + len(letters)
            if word.startswith(letters, position) and before.search(word[:position]) and behind.match(word, end):
                phonemes += sounds
                position = end
                break
    return phonemes


# What is spoken behind an apostrophe.
_ENDINGS = {"S": "Z", "T": "T", "D": "D", "M": "M", "LL": "L", "RE": "ER", "VE": "V"}
# Consonants that are spoken once where they are written twice.
_DOUBLED = frozenset("BDFGKLMNPRSTZ")
# How letters are called, for words without a vowel, which are spelled out.
_LETTERS = {
    "B": "B IY", "C": "S IY", "D": "D IY", "F": "EH F", "G": "JH IY", "H": "EY CH", "J": "JH EY", "K": "K EY",
    "L": "EH L", "M": "EH M", "N": "EH N", "P": "P IY", "Q": "K Y UW", "R": "AA R", "S": "EH S", "T": "T IY",
    "V": "V IY", "W": "D AH B AH L Y UW", "X": "EH K S", "Z": "Z IY",
}  # fmt: skip
