"""What checks of instructions count in a text: words, sentences, words in capitals; and which language it is in."""

from __future__ import annotations

import functools
import importlib
import re
from typing import Any

__all__ = ["capital_words", "language", "sentences", "words"]

# After these a full stop ends no sentence.
_ABBREVIATIONS = [
    "mr",
    "mrs",
    "ms",
    "dr",
    "prof",
    "rev",
    "gen",
    "sen",
    "rep",
    "st",
    "jr",
    "sr",
    "vs",
    "etc",
    "inc",
    "ltd",
    "co",
    "corp",
    "no",
    "vol",
    "pp",
    "fig",
    "al",
    "dept",
    "est",
    "approx",
    "jan",
    "feb",
    "mar",
    "apr",
    "jun",
    "jul",
    "aug",
    "sep",
    "sept",
    "oct",
    "nov",
    "dec",
    "mon",
    "tue",
    "wed",
    "thu",
    "fri",
    "sat",
    "sun",
    "e.g",
    "i.e",
    "a.m",
    "p.m",
    "u.s",
    "u.k",
]
_ENDS = re.compile(r"[.!?]+[\"')\]]*(?=\s+|$)")
_WORDS = re.compile(r"\w+")
_TOKENS = re.compile(r"[^\W_]+(?:[-.'][^\W_]+)*")


def words(text: str) -> int:
    """How many runs of letters, digits and underscores there are."""
    return len(_WORDS.findall(text))


def sentences(text: str) -> int:
    """How many sentences there are: by NLTK's Punkt model where that is installed, else by rules.

    The published scores of IFEval count by Punkt. The rules end a sentence at a full stop, question mark or exclamation
    mark that white space follows, unless an abbreviation or an initial precedes it.
    """
    punkt = _punkt()
    return len(punkt.tokenize(text)) if punkt is not None else _by_rules(text)


def _by_rules(text: str) -> int:
    count, start = 0, 0
    for end in _ENDS.finditer(text):
        before = text[start : end.start()].split()
        last = before[-1].lower().lstrip("\"'([") if before else ""
        one_stop = text[end.start() : end.end()] == "."
        if one_stop and end.end() < len(text) and (last in _ABBREVIATIONS or re.fullmatch(r"[a-z]", last)):
            continue
        if before:
            count += 1
        start = end.end()
    return count + bool(text[start:].strip())


@functools.cache
def _punkt() -> Any:
    try:
        nltk = importlib.import_module("nltk")
        tokenizer = importlib.import_module("nltk.tokenize").PunktTokenizer
    except (ImportError, AttributeError):
        return None
    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        return None
    return tokenizer("english")


def capital_words(text: str) -> int:
    """How many words are in capitals; NLTK's tokenizer says what is a word where it is installed."""
    return sum(word.isupper() for word in _tokens(text))


def _tokens(text: str) -> list[str]:
    try:
        tokenize = importlib.import_module("nltk.tokenize").word_tokenize
    except ImportError:
        return _TOKENS.findall(text)
    # Without its model of sentences, only the stop at the end of a sentence within the text stays with its word.
    found: list[str] = tokenize(text, preserve_line=_punkt() is None)
    return found


def language(text: str) -> str | None:
    """The ISO 639-1 code of a text's language, the same at every call; None for texts without letters.

    Raises:
        ImportError: langdetect is not installed.
    """
    errors = _langdetect().lang_detect_exception
    detector = _languages().create()
    detector.seed = 0
    detector.append(text)
    try:
        found: str = detector.detect()
    except errors.LangDetectException:
        return None
    return found


def _langdetect() -> Any:
    try:
        return importlib.import_module("langdetect")
    except ImportError as error:
        raise ImportError(
            "Instructions on the language of a response are checked by langdetect, which is not installed; "
            "pip install langdetect."
        ) from error


@functools.cache
def _languages() -> Any:
    langdetect = _langdetect()
    factory = langdetect.DetectorFactory()
    factory.load_profile(langdetect.PROFILES_DIRECTORY)
    return factory
