"""Language models for the search: written in Python, read from an n-gram file, or none."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["CTCDecoderLM", "CTCDecoderLMState"]


class CTCDecoderLMState:
    """Where a language model written in Python stands; compared by identity.

    Keep what belongs to a state in a dictionary of the model with states as keys, or in attributes of a subclass. Two
    hypotheses merge only where they have the very same object, so a model returns the same one for the same history;
    `child` does.
    """

    def __init__(self) -> None:
        self._children: dict[int, CTCDecoderLMState] = {}

    @property
    def children(self) -> dict[int, CTCDecoderLMState]:
        """The states after this one that have been asked for, by unit."""
        return self._children

    def child(self, usr_index: int) -> CTCDecoderLMState:
        """The state after this one and a unit; the same object each time."""
        found = self._children.get(usr_index)
        if found is None:
            found = self._children[usr_index] = CTCDecoderLMState()
        return found

    def compare(self, state: CTCDecoderLMState) -> int:
        """0 for the same object, else -1 or 1, opposite for the two of a pair."""
        return (id(self) > id(state)) - (id(self) < id(state))


class CTCDecoderLM(ABC):
    """A language model written in Python. Its units are words where the decoder has a lexicon, else tokens.

    What `score` returned for a state and a unit may be kept and not asked for again.

    Example:
        >>> from flambeau.audio.models.decoder import ctc_decoder
        >>> class Shorter(CTCDecoderLM):
        ...     def start(self, start_with_nothing):
        ...         return CTCDecoderLMState()
        ...     def score(self, state, usr_token_idx):
        ...         return state.child(usr_token_idx), -1.0
        ...     def finish(self, state):
        ...         return state, 0.0
        >>> decoder = ctc_decoder(lexicon=None, tokens=["-", "|", "a"], lm=Shorter())
    """

    @abstractmethod
    def start(self, start_with_nothing: bool) -> CTCDecoderLMState:
        """The state before the first unit.

        Args:
            start_with_nothing: begin without the context of a sentence's start; the decoder passes False.
        """

    @abstractmethod
    def score(self, state: CTCDecoderLMState, usr_token_idx: int) -> tuple[CTCDecoderLMState, float]:
        """The state after a unit, and the unit's score, which the decoder multiplies with `lm_weight`.

        Args:
            state: where the model stands.
            usr_token_idx: number of the word in the decoder's `word_dict`, or of the token.
        """

    @abstractmethod
    def finish(self, state: CTCDecoderLMState) -> tuple[CTCDecoderLMState, float]:
        """The state after the end of the utterance, and the score of ending there."""
