"""Tokenizers by name, sequences of neighbouring tokens, keys and seeds."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

__all__ = [
    "RandomShuffler",
    "dtype_to_attr",
    "get_tokenizer",
    "get_torch_version",
    "interleave_keys",
    "is_tokenizer_serializable",
    "ngrams_iterator",
]

T = TypeVar("T")
Tokenizer = Callable[[str], list[str]]

# Marks that stand for themselves, marks that part words, and the apostrophe, which does both.
_SPACED = {ord(mark): f" {mark} " for mark in ".,()!?'"} | {ord(mark): " " for mark in ";:"}
_SPACY_MODELS = {"en": "en_core_web_sm", "de": "de_core_news_sm", "fr": "fr_core_news_sm", "es": "es_core_news_sm"}


def get_tokenizer(tokenizer: str | Tokenizer | None, language: str = "en") -> Tokenizer:
    """A function from a text to its tokens.

    Args:
        tokenizer: None splits at whitespace; "basic_english" lower-cases and sets marks apart; "spacy", "moses",
            "toktok", "revtok" and "subword" (revtok with marks for capitals) are those of other packages; a function
            is given back as it is.
        language: of the text; "basic_english" is for "en" alone, and for "spacy" it may be a model's name.

    Raises:
        ValueError: an unknown name, or a language that "basic_english" is not for.
        ModuleNotFoundError: the package is not installed; the message says which.

    Example:
        >>> get_tokenizer("basic_english")("You can't (yet)!")
        ['you', 'can', "'", 't', '(', 'yet', ')', '!']
    """
    if tokenizer is None:
        return _split_tokenizer
    if callable(tokenizer):
        return tokenizer
    if tokenizer == "basic_english":
        if language != "en":
            raise ValueError(f"basic_english is for the language 'en', got {language!r}; use spacy, or a function.")
        return _basic_english_normalize
    if tokenizer not in _PACKAGES:
        known = ", ".join(["basic_english", *_PACKAGES])
        raise ValueError(f"There is no tokenizer {tokenizer!r}; expected one of {known}, a function, or None.")
    package, make = _PACKAGES[tokenizer]
    try:
        return make(language)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"The tokenizer {tokenizer!r} needs a package: pip install {package} ({error})."
        ) from error


def is_tokenizer_serializable(tokenizer: Any, language: str) -> bool:
    """Whether a tokenizer of `get_tokenizer` can be pickled; spacy's cannot.

    Args:
        tokenizer: as for `get_tokenizer`.
        language: has no effect.
    """
    return bool(tokenizer != "spacy")


def interleave_keys(a: int, b: int) -> int:
    """The bits of two numbers of 16 bits in turn, those of `a` first: sorting by it sorts by both at once.

    Args:
        a: from 0 to 65535. Upstream: of a longer number the first bits count, as many as the other has.
        b: likewise.

    Example:
        >>> f"{interleave_keys(0b10, 0b11):b}"
        '1101'
    """
    pairs = zip(format(a, "016b"), format(b, "016b"), strict=False)
    return int("".join(x + y for x, y in pairs), base=2)


def get_torch_version() -> tuple[int, int]:
    """The two first numbers of torch's version."""
    import torch

    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def dtype_to_attr(dtype: torch.dtype) -> str:
    """The name of a dtype in torch.

    Args:
        dtype: such as `torch.int32`, for "int32".
    """
    return str(dtype).removeprefix("torch.")


def ngrams_iterator(token_list: Sequence[str], ngrams: int) -> Iterator[str]:
    """The tokens, then two neighbours joined by a space, and so on up to so many neighbours.

    Args:
        token_list: the tokens.
        ngrams: the most neighbours, at least 1.

    Example:
        >>> list(ngrams_iterator(["here", "we", "are"], 2))
        ['here', 'we', 'are', 'here we', 'we are']
    """
    yield from token_list
    for n in range(2, ngrams + 1):
        for neighbours in zip(*(token_list[first:] for first in range(n)), strict=False):
            yield " ".join(neighbours)


class RandomShuffler:
    """Shuffles with random numbers of its own, so that what it does depends on nothing else.

    Args:
        random_state: of Python's `random.getstate()`; the present one when None.
    """

    def __init__(self, random_state: Any = None) -> None:
        self._random_state = random.getstate() if random_state is None else random_state

    @contextmanager
    def use_internal_state(self) -> Iterator[None]:
        """Let Python's `random` draw from this object's numbers for the duration of a `with` block."""
        outside = random.getstate()
        random.setstate(self._random_state)
        try:
            yield
        finally:
            self._random_state = random.getstate()
            random.setstate(outside)

    @property
    def random_state(self) -> Any:
        """A copy of the state; assigning one sets it."""
        return copy.deepcopy(self._random_state)

    @random_state.setter
    def random_state(self, state: Any) -> None:
        self._random_state = state

    def __call__(self, data: Iterable[T]) -> list[T]:
        """A new list of the same things in another order."""
        with self.use_internal_state():
            things = data if isinstance(data, Sequence) else list(data)
            return random.sample(things, len(things))


def _split_tokenizer(line: str) -> list[str]:
    return line.split()


def _basic_english_normalize(line: str) -> list[str]:
    # In this order: what dropping quotation marks joins may be a tag.
    return line.lower().replace('"', "").replace("<br />", " ").translate(_SPACED).split()


def _spacy(language: str) -> Tokenizer:
    import spacy  # type: ignore[import-not-found,unused-ignore]

    try:
        model = spacy.load(language)
    except OSError:
        name = _SPACY_MODELS.get(language, language)
        try:
            model = spacy.load(name)
        except OSError as error:
            raise ImportError(f"spacy has no model {name!r}; python -m spacy download {name}") from error
    return partial(_spacy_tokenize, spacy=model)


def _spacy_tokenize(line: str, spacy: Any) -> list[str]:
    return [token.text for token in spacy.tokenizer(line)]


def _moses(language: str) -> Tokenizer:
    from sacremoses import MosesTokenizer  # type: ignore[import-not-found,unused-ignore]

    tokenize: Tokenizer = MosesTokenizer().tokenize
    return tokenize


def _toktok(language: str) -> Tokenizer:
    from nltk.tokenize.toktok import ToktokTokenizer  # type: ignore[import-not-found,unused-ignore]

    tokenize: Tokenizer = ToktokTokenizer().tokenize
    return tokenize


def _revtok(language: str) -> Tokenizer:
    import revtok  # type: ignore[import-not-found,unused-ignore]

    tokenize: Tokenizer = revtok.tokenize
    return tokenize


def _subword(language: str) -> Tokenizer:
    import revtok

    return partial(revtok.tokenize, decap=True)


_PACKAGES: dict[str, tuple[str, Callable[[str], Tokenizer]]] = {
    "spacy": ("spacy", _spacy),
    "moses": ("sacremoses", _moses),
    "toktok": ("nltk", _toktok),
    "revtok": ("revtok", _revtok),
    "subword": ("revtok", _subword),
}
