"""Bundles of streaming transducers: features, search, text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from flambeau.audio.pipelines._files import BASE_URL, asset
from flambeau.audio.weights.rnnt import Emformer_RNNT_Base_Weights
from flambeau.core.weights import WeightsEnum

if TYPE_CHECKING:
    from torch import Tensor

    from flambeau.audio.models import RNNT, RNNTBeamSearch

__all__ = ["EMFORMER_RNNT_BASE_LIBRISPEECH", "FeatureExtractor", "RNNTBundle", "TokenProcessor"]


class FeatureExtractor(ABC):
    """Waveform (time,) -> features (frames, channels) and their number (1,)."""

    @abstractmethod
    def __call__(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the features."""


class TokenProcessor(ABC):
    """Tokens -> text."""

    @abstractmethod
    def __call__(self, tokens: list[int], **kwargs: Any) -> str:
        """Make text of tokens, the first of which is the blank that every hypothesis begins with."""


class _SentencePieceTokenProcessor(TokenProcessor):
    def __init__(self, sp_model_path: str) -> None:
        from flambeau.audio.pipelines.sentencepiece_pieces import read_pieces

        self.pieces = read_pieces(sp_model_path)
        self.silent = {self.pieces.unk_id, self.pieces.eos_id, self.pieces.pad_id}

    def __call__(self, tokens: list[int], lstrip: bool = True) -> str:  # type: ignore[override]
        """Make text of tokens.

        Args:
            tokens: ids, the first of which is left out: the blank that every hypothesis begins with.
            lstrip: whether a space at the beginning goes; keep it where texts of a stream's segments are joined.
        """
        text = "".join(self.pieces.pieces[token] for token in tokens[1:] if token not in self.silent)
        text = text.replace("\u2581", " ")
        return text.lstrip() if lstrip else text


# Inside the class these names are its attributes, which type checkers do not take for types.
_FeatureExtractor: TypeAlias = FeatureExtractor
_TokenProcessor: TypeAlias = TokenProcessor


@dataclass
class RNNTBundle:
    """A transducer with its features and its text.

    Example:
        >>> from flambeau.audio.pipelines import EMFORMER_RNNT_BASE_LIBRISPEECH as bundle
        >>> bundle.segment_length * bundle.hop_length / bundle.sample_rate  # seconds
        0.16
    """

    FeatureExtractor = FeatureExtractor
    TokenProcessor = TokenProcessor

    _rnnt_path: str
    _rnnt_factory_func: Callable[[], RNNT]
    _global_stats_path: str
    _sp_model_path: str
    _right_padding: int
    _blank: int
    _sample_rate: int
    _n_fft: int
    _n_mels: int
    _hop_length: int
    _segment_length: int
    _right_context_length: int

    @classmethod
    def _of(cls, member: WeightsEnum) -> Self:
        meta = member.meta
        return cls(
            _rnnt_path=member.url.removeprefix(BASE_URL),
            _rnnt_factory_func=partial(_emformer, num_symbols=meta["num_symbols"]),
            _global_stats_path=meta["global_stats"].removeprefix(BASE_URL),
            _sp_model_path=meta["sentencepiece"].removeprefix(BASE_URL),
            _right_padding=4,
            _blank=meta["blank"],
            _sample_rate=meta["sample_rate"],
            _n_fft=400,
            _n_mels=80,
            _hop_length=160,
            _segment_length=16,
            _right_context_length=4,
        )

    @property
    def sample_rate(self) -> int:
        """Hz, of the waveforms that the features are made of."""
        return self._sample_rate

    @property
    def n_fft(self) -> int:
        """Samples of a window."""
        return self._n_fft

    @property
    def n_mels(self) -> int:
        """Mel bands."""
        return self._n_mels

    @property
    def hop_length(self) -> int:
        """Samples from one frame to the next."""
        return self._hop_length

    @property
    def segment_length(self) -> int:
        """Frames of a segment."""
        return self._segment_length

    @property
    def right_context_length(self) -> int:
        """Frames behind a segment that it sees."""
        return self._right_context_length

    def _get_model(self) -> RNNT:
        from flambeau.core.weights import build_with_weights

        return build_with_weights(self._rnnt_factory_func, asset(self._rnnt_path)).eval()

    def get_decoder(self) -> RNNTBeamSearch:
        """Build the network with its weights and a beam search around it.

        Raises:
            DownloadError: a file could not be fetched.
            CheckpointError: it does not fit.
        """
        from flambeau.audio.models import RNNTBeamSearch

        return RNNTBeamSearch(self._get_model(), self._blank)

    def get_feature_extractor(self) -> _FeatureExtractor:
        """Features of whole recordings, padded for the last segment's right context."""
        return self._features(self._right_padding)

    def get_streaming_feature_extractor(self) -> _FeatureExtractor:
        """Features of a piece of a stream, not padded."""
        return self._features(0)

    def _features(self, right_padding: int) -> _FeatureExtractor:
        from flambeau.audio.pipelines.rnnt_features import Features

        return Features(
            global_stats=self._global_stats_path,
            right_padding=right_padding,
            sample_rate=self._sample_rate,
            n_fft=self._n_fft,
            n_mels=self._n_mels,
            hop_length=self._hop_length,
        )

    def get_token_processor(self) -> _TokenProcessor:
        """Makes text of tokens; its argument `lstrip` keeps the first space where it is False."""
        return _SentencePieceTokenProcessor(asset(self._sp_model_path))


def _emformer(num_symbols: int) -> RNNT:
    from flambeau.audio.models import emformer_rnnt_base

    return emformer_rnnt_base(num_symbols)


EMFORMER_RNNT_BASE_LIBRISPEECH = RNNTBundle._of(Emformer_RNNT_Base_Weights.EMFORMER_RNNT_BASE_LIBRISPEECH)
