"""English text as symbols of the speaking networks: characters, or phonemes by a dictionary and rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from flambeau.audio.pipelines.tts_interface import TextProcessor
from flambeau.audio.weights.synthesis import CHARACTERS, PHONEMES

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["EnglishCharProcessor", "EnglishPhoneProcessor"]

_PARTS = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*|[_!'(),.:;? -]")


def _padded(indices: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """Symbols of several texts as one tensor (texts, most symbols), padded with 0, and their numbers."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    lengths = torch.tensor([len(item) for item in indices], dtype=torch.int32)
    return pad_sequence([torch.tensor(item, dtype=torch.int64) for item in indices], batch_first=True), lengths


class EnglishCharProcessor(TextProcessor):
    """Letters and punctuation as they are, in lower case; other characters are left out.

    Example:
        >>> EnglishCharProcessor()("Hi!")
        (tensor([[19, 20,  2]]), tensor([3], dtype=torch.int32))
    """

    def __init__(self) -> None:
        self._tokens = list(CHARACTERS)
        self._mapping = {character: index for index, character in enumerate(self._tokens)}

    @property
    def tokens(self) -> list[str]:
        """What each index stands for."""
        return self._tokens

    def __call__(self, texts: str | list[str]) -> tuple[Tensor, Tensor]:
        """Encode.

        Args:
            texts: one text or several.

        Returns:
            (texts, most symbols) integers, padded with 0, and (texts,) numbers of symbols.
        """
        texts = [texts] if isinstance(texts, str) else texts
        return _padded([[self._mapping[c] for c in text.lower() if c in self._mapping] for text in texts])


class EnglishPhoneProcessor(TextProcessor):
    """Phonemes without stress, and punctuation; other characters are left out.

    Args:
        pronounce: word -> phonemes (ARPAbet; stress is dropped); None for the CMU pronouncing dictionary, fetched when
            it is first used, and rules for words that are not in it.
    """

    def __init__(self, pronounce: Callable[[str], Iterable[str]] | None = None) -> None:
        if pronounce is None:
            from flambeau.audio.pipelines.pronunciation import Pronouncer

            pronounce = Pronouncer()
        self._pronounce = pronounce
        self._tokens = list(PHONEMES)
        self._mapping = {phoneme: index for index, phoneme in enumerate(self._tokens)}

    @property
    def tokens(self) -> list[str]:
        """What each index stands for."""
        return self._tokens

    def __call__(self, texts: str | list[str]) -> tuple[Tensor, Tensor]:
        """Encode.

        Args:
            texts: one text or several.

        Returns:
            (texts, most symbols) integers, padded with 0, and (texts,) numbers of symbols.
        """
        texts = [texts] if isinstance(texts, str) else texts
        return _padded([[self._mapping[symbol] for symbol in self.phonemes(text)] for text in texts])

    def phonemes(self, text: str) -> list[str]:
        """Phonemes and punctuation of a text."""
        symbols: list[str] = []
        for part in _PARTS.findall(text):
            if part[0].isalpha():
                symbols.extend(phoneme.rstrip("012") for phoneme in self._pronounce(part))
            else:
                symbols.append(part)
        return symbols
