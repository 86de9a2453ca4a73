"""What text-to-speech bundles are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

    from flambeau.audio.models import Tacotron2

__all__ = ["Tacotron2TTSBundle", "TextProcessor", "Vocoder"]


class TextProcessor(ABC):
    """Texts -> symbols."""

    @property
    @abstractmethod
    def tokens(self) -> list[str]:
        """What each index stands for."""

    @abstractmethod
    def __call__(self, texts: str | list[str]) -> tuple[Tensor, Tensor]:
        """(texts, most symbols) integers, padded, and (texts,) numbers of symbols."""


class Vocoder(ABC):
    """Mel spectrograms -> waveforms."""

    @property
    @abstractmethod
    def sample_rate(self) -> int:
        """Hz, of the waveforms."""

    @abstractmethod
    def __call__(self, specgrams: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """(batch, bands, frames) and (batch,) valid frames -> (batch, time) and (batch,) valid samples."""


# Inside the class these names are its attributes, which type checkers do not take for types.
_TextProcessor: TypeAlias = TextProcessor
_Vocoder: TypeAlias = Vocoder


class Tacotron2TTSBundle(ABC):
    """Text processing, a network that makes spectrograms of symbols, and one that makes waveforms of these.

    Example:
        >>> from flambeau.audio.pipelines import TACOTRON2_GRIFFINLIM_CHAR_LJSPEECH as bundle
        >>> bundle.get_text_processor()("Hello")[1]
        tensor([5], dtype=torch.int32)
    """

    TextProcessor = TextProcessor
    Vocoder = Vocoder

    @abstractmethod
    def get_text_processor(self, *, dl_kwargs: dict[str, Any] | None = None) -> _TextProcessor:
        """What makes symbols of texts.

        Args:
            dl_kwargs: how to fetch files, as for `torch.hub.load_state_dict_from_url`.
        """

    @abstractmethod
    def get_tacotron2(self, *, dl_kwargs: dict[str, Any] | None = None) -> Tacotron2:
        """The network that makes spectrograms, with its weights, in eval mode.

        Args:
            dl_kwargs: how to fetch files, as for `torch.hub.load_state_dict_from_url`.
        """

    @abstractmethod
    def get_vocoder(self, *, dl_kwargs: dict[str, Any] | None = None) -> _Vocoder:
        """What makes waveforms of spectrograms.

        Args:
            dl_kwargs: how to fetch files, as for `torch.hub.load_state_dict_from_url`.
        """
