"""Vocabularies from counted tokens."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from flambeau.text.vocab.vocab import Vocab

__all__ = ["build_vocab_from_iterator", "vocab"]


def vocab(
    ordered_dict: Mapping[str, int],
    min_freq: int = 1,
    specials: list[str] | None = None,
    special_first: bool = True,
    *,
    default: str | None = None,
) -> Vocab:
    """A vocabulary of counted tokens, in the order in which they are given.

    Args:
        ordered_dict: tokens and how often each occurs. Upstream removes the specials from it; here it stays as it is.
        min_freq: tokens that occur less often are left out.
        specials: tokens that are there in any case, in this order.
        special_first: put them before the others; False puts them after.
        default: the token whose index unknown tokens get; it must be in the vocabulary.

    Raises:
        TypeError: a token is no str.
        RuntimeError: a special occurs twice.
        ValueError: `default` is not in the vocabulary.

    Example:
        >>> vocab({"river": 3, "mill": 1}, specials=["<unk>"], default="<unk>")(["river", "brook"])
        [1, 0]
    """
    special = list(specials or ())
    apart = set(special)
    tokens = [token for token, count in ordered_dict.items() if count >= min_freq and token not in apart]
    made = Vocab(special + tokens if special_first else tokens + special)
    if default is not None:
        if default not in made:
            raise ValueError(f"default is {default!r}, which is not in the vocabulary; add it to specials.")
        made.set_default_index(made[default])
    return made


def build_vocab_from_iterator(
    iterator: Iterable[Iterable[str]],
    min_freq: int = 1,
    specials: list[str] | None = None,
    special_first: bool = True,
    max_tokens: int | None = None,
    *,
    default: str | None = None,
) -> Vocab:
    """A vocabulary of the tokens of a corpus, the most frequent first, equally frequent ones by code points.

    Args:
        iterator: gives the tokens of one text after another.
        min_freq: tokens that occur less often are left out.
        specials: tokens that are there in any case, in this order.
        special_first: put them before the others; False puts them after.
        max_tokens: how many tokens the vocabulary has at most, specials included.
        default: the token whose index unknown tokens get; it must be in the vocabulary.

    Raises:
        TypeError: a token is no str.
        AssertionError: `max_tokens` leaves no room beside the specials.
        RuntimeError: a special occurs twice.
        ValueError: `default` is not in the vocabulary.

    Warns:
        UserWarning: a text is a str: its characters count as tokens.
    """
    special = specials or []
    if max_tokens is not None and len(special) >= max_tokens:
        raise AssertionError(f"max_tokens is {max_tokens}, and there are {len(special)} specials; it must be more.")
    texts: list[str] = []
    counts = Counter(chain.from_iterable(_token_lists(iterator, texts)))
    if texts:
        warnings.warn(
            f"build_vocab_from_iterator got the str {texts[0]!r:.60}, whose characters count as tokens; give lists of "
            "tokens, for example get_tokenizer('basic_english')(text).",
            stacklevel=2,
        )
    # Two sorts, of which the second keeps the order of the first among equals, need no pairs to compare.
    tokens = sorted(counts)
    tokens.sort(key=counts.__getitem__, reverse=True)
    if max_tokens is not None:
        # Upstream: cut before the specials among them are taken out, which may leave fewer than `max_tokens`.
        tokens = tokens[: max_tokens - len(special)]
    ordered = {token: counts[token] for token in tokens}
    return vocab(ordered, min_freq=min_freq, specials=special, special_first=special_first, default=default)


def _token_lists(iterator: Iterable[Iterable[str]], texts: list[str]) -> Iterator[Iterable[str]]:
    """What the iterator gives, and the first str among it."""
    for tokens in iterator:
        if isinstance(tokens, str) and not texts:
            texts.append(tokens)
        yield tokens
