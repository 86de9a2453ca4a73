"""Scores of generated texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

__all__ = ["bleu_score"]

Smoothing = Literal["none", "floor", "add-k", "exp"]
_FLOOR = 0.1


def bleu_score(
    candidate_corpus: Iterable[Sequence[str]],
    references_corpus: Iterable[Sequence[Sequence[str]]],
    max_n: int = 4,
    weights: Sequence[float] = (0.25, 0.25, 0.25, 0.25),
    *,
    smoothing: Smoothing = "none",
) -> float:
    """How much candidates resemble references, over a corpus (BLEU).

    The geometric mean of the shares of the candidates' n-grams that references have, each counted at most as often as
    in the reference that has it most often; times exp(1 - r / c) where the candidates have fewer tokens, c, than the
    references nearest to them in length, r.

    Args:
        candidate_corpus: the tokens of each candidate.
        references_corpus: for each candidate the tokens of its references, at least one.
        max_n: n-grams of 1 to so many tokens.
        weights: of the logarithms of their shares.
        smoothing: what becomes of an order without any match, which makes the score 0 with "none": "floor" counts 0.1
            matches; "add-k" adds one to matches and to n-grams from 2 tokens on; "exp" counts 1/2, 1/4, ... matches,
            halved for each further such order (methods 1, 2 and 3 of Chen and Cherry).

    Returns:
        From 0 to 1. Sums are in float32.

    Raises:
        AssertionError: the corpora, or `weights` and `max_n`, have different lengths; or a candidate has no references.
        ValueError: another `smoothing`.

    Example:
        >>> candidates = [["the", "mill", "turns"]]
        >>> round(bleu_score(candidates, [[["the", "mill", "turns", "slowly"]]], max_n=2, weights=[0.5, 0.5]), 4)
        0.7165

    References:
        K. Papineni et al. (2002), "BLEU: a Method for Automatic Evaluation of Machine Translation", ACL.
        B. Chen and C. Cherry (2014), "A Systematic Comparison of Smoothing Techniques for Sentence-Level BLEU", WMT.
    """
    if smoothing not in get_args(Smoothing):
        raise ValueError(f"smoothing is {smoothing!r}; expected one of {', '.join(get_args(Smoothing))}.")
    if max_n != len(weights):
        raise AssertionError(f"There are {len(weights)} weights for n-grams of 1 to {max_n} tokens; give {max_n}.")
    candidates, references = list(candidate_corpus), list(references_corpus)
    if len(candidates) != len(references):
        raise AssertionError(f"There are {len(candidates)} candidates and references for {len(references)}.")
    matches, totals = [0] * max_n, [0] * max_n
    length = nearest = 0
    for place, (candidate, known) in enumerate(zip(candidates, references, strict=True)):
        if not known:
            raise AssertionError(f"Candidate {place} has no references; each needs at least one.")
        length += len(candidate)
        nearest += min(map(len, known), key=lambda one: abs(len(candidate) - one))
        allowed = _compute_ngram_counter(known[0], max_n)
        for reference in known[1:]:
            allowed |= _compute_ngram_counter(reference, max_n)
        for ngram, count in (_compute_ngram_counter(candidate, max_n) & allowed).items():
            matches[len(ngram) - 1] += count
        for n in range(max_n):
            totals[n] += max(len(candidate) - n, 0)
    shares = _shares(matches, totals, smoothing)
    if shares is None:
        return 0.0
    # Added one after another, as upstream does: the last digit depends on it.
    score = torch.exp(sum(torch.tensor(weights) * torch.log(shares), start=torch.zeros(())))
    return math.exp(min(1 - nearest / length, 0)) * score.item()


def _shares(matches: list[int], totals: list[int], smoothing: Smoothing) -> Tensor | None:
    """(max_n,) float32: what part of the n-grams matches; None if some order has no matches that count."""
    counts = torch.tensor(matches, dtype=torch.float32)
    of = torch.tensor(totals, dtype=torch.float32)
    if smoothing == "add-k":
        counts[1:] += 1
        of[1:] += 1
    elif smoothing != "none" and any(matches):
        halving = 1.0
        for n in range(len(matches)):
            if counts[n] == 0 and of[n] > 0:
                halving /= 2
                counts[n] = _FLOOR if smoothing == "floor" else halving
    return None if counts.min() == 0 else counts / of


def _compute_ngram_counter(tokens: Sequence[str], max_n: int) -> Counter[tuple[str, ...]]:
    """How often each sequence of 1 to `max_n` neighbouring tokens occurs.

    Raises:
        AssertionError: `max_n` is not above 0.

    Example:
        >>> _compute_ngram_counter(["me", "me", "you"], 2)
        Counter({('me',): 2, ('you',): 1, ('me', 'me'): 1, ('me', 'you'): 1})
    """
    if max_n <= 0:
        raise AssertionError(f"max_n is {max_n}; expected 1 or more.")
    counts: Counter[tuple[str, ...]] = Counter()
    for n in range(1, max_n + 1):
        counts.update(zip(*(tokens[first:] for first in range(n)), strict=False))
    return counts
