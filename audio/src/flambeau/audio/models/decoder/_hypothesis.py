"""What a CTC search finds."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["CTCHypothesis", "Path"]


class Path(NamedTuple):
    """A hypothesis as an engine gives it: tokens, where each begins in the path, words by number, score."""

    tokens: Tensor
    timesteps: Tensor
    words: list[int]
    score: float


class CTCHypothesis(NamedTuple):
    """One transcript with its score.

    Args:
        tokens: (tokens,), int64: the path's tokens without blanks and repetitions. The path has a silence before the
            first frame and one after the last, so this begins with the silence token.
        words: the words; empty without a lexicon.
        score: sum of the frames' scores and of what the language model and the options add.
        timesteps: (tokens,), int32: where in the path each token begins; 0 is the silence before the first frame.
    """

    tokens: Tensor
    words: list[str]
    score: float
    timesteps: Tensor

    @property
    def frames(self) -> Tensor:
        """(tokens,), int32: the frame in which each token begins; -1 before the first, their number after the last."""
        return self.timesteps - 1
