"""Bundles of wav2vec 2.0, XLS-R, HuBERT and WavLM: features, transcripts, forced alignment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from flambeau.audio.models.wav2vec2.architectures import arguments
from flambeau.audio.pipelines._files import checkpoint
from flambeau.audio.weights import wav2vec2 as enums
from flambeau.audio.weights._records import MODELS
from flambeau.core.weights import WeightsEnum

if TYPE_CHECKING:
    from torch import Tensor, nn

    from flambeau.audio.functional import TokenSpan

__all__ = ["Aligner", "Tokenizer", "Wav2Vec2ASRBundle", "Wav2Vec2Bundle", "Wav2Vec2FABundle"]


@dataclass
class Wav2Vec2Bundle:
    """A network that gives features of speech.

    Example:
        >>> from flambeau.audio.pipelines import HUBERT_BASE
        >>> HUBERT_BASE.sample_rate
        16000
    """

    _path: str
    _params: dict[str, Any]
    _sample_rate: float
    _normalize_waveform: bool
    _model_type: str

    @classmethod
    def _of(cls, model: str, member: WeightsEnum) -> Self:
        """The bundle that a member of a weights enum makes up."""
        meta = member.meta
        more = {}
        if "labels" in meta:
            more = {"_labels": tuple(meta["labels"][1:]), "_remove_aux_axis": tuple(meta["remove_aux_axes"])}
        return cls(
            _path=member.url.removeprefix(MODELS),
            _params=arguments(model, **meta["arguments"]),
            _sample_rate=meta["sample_rate"],
            _normalize_waveform=meta["normalize_waveform"],
            _model_type="WavLM" if model.startswith("wavlm") else "Wav2Vec2",
            **more,
        )

    @property
    def sample_rate(self) -> float:
        """Hz, of the waveforms that the network takes."""
        return self._sample_rate

    def _load(self, dl_kwargs: dict[str, Any] | None, axes: Sequence[int] = ()) -> Any:
        from flambeau.audio.models import wav2vec2_model, wavlm_model
        from flambeau.audio.models._checkpoints import without_outputs
        from flambeau.core.weights import build_with_weights

        if self._model_type not in ("Wav2Vec2", "WavLM"):
            raise ValueError(f"Supported model types are Wav2Vec2 and WavLM, found {self._model_type!r}.")
        factory = wavlm_model if self._model_type == "WavLM" else wav2vec2_model
        path, options = checkpoint(self._path, dl_kwargs)
        return build_with_weights(factory, path, convert=without_outputs(axes), **options, **self._params)

    def get_model(self, *, dl_kwargs: dict[str, Any] | None = None) -> nn.Module:
        """Build the network with its weights.

        Args:
            dl_kwargs: how to fetch the file, as for `torch.hub.load_state_dict_from_url`.

        Returns:
            A `Wav2Vec2Model` in eval mode, or one inside a module that normalizes waveforms first and has the same two
            methods, `forward` and `extract_features`.

        Raises:
            DownloadError: the file could not be fetched.
            CheckpointError: it does not fit.
        """
        return _ready(self._load(dl_kwargs), self._normalize_waveform)


@dataclass
class Wav2Vec2ASRBundle(Wav2Vec2Bundle):
    """A network that gives logits of letters."""

    _labels: tuple[str, ...]
    _remove_aux_axis: tuple[int, ...] = (1, 2, 3)

    def get_labels(self, *, blank: str = "-") -> tuple[str, ...]:
        """What the network's outputs stand for.

        Args:
            blank: the name of the first one, the CTC blank. The second one, `|`, stands between words.
        """
        return (blank, *self._labels)

    def get_model(self, *, dl_kwargs: dict[str, Any] | None = None) -> nn.Module:
        """Build the network with its weights; see `Wav2Vec2Bundle.get_model`."""
        return _ready(self._load(dl_kwargs, self._remove_aux_axis), self._normalize_waveform)


class Tokenizer(ABC):
    """Words -> labels."""

    @abstractmethod
    def __call__(self, transcript: list[str]) -> list[list[int]]:
        """Labels of each word.

        Args:
            transcript: words, of characters that the network knows.
        """


class Aligner(ABC):
    """Log-probabilities and labels -> where each label is spoken."""

    @abstractmethod
    def __call__(self, emission: Tensor, tokens: list[list[int]]) -> list[list[TokenSpan]]:
        """Spans of each word.

        Args:
            emission: (frames, labels), log-probabilities.
            tokens: labels of each word.
        """


class _Tokenizer(Tokenizer):
    def __init__(self, dictionary: dict[str, int]) -> None:
        self.dictionary = dictionary

    def __call__(self, transcript: list[str]) -> list[list[int]]:
        unknown = sorted({character for word in transcript for character in word} - self.dictionary.keys())
        if unknown:
            raise ValueError(
                f"the transcript has {', '.join(map(repr, unknown))}, which no label stands for; romanize it to lower "
                "case, or put the label for anything, '*', in its place."
            )
        return [[self.dictionary[character] for character in word] for word in transcript]


class _Aligner(Aligner):
    def __init__(self, blank: int) -> None:
        self.blank = blank

    def __call__(self, emission: Tensor, tokens: list[list[int]]) -> list[list[TokenSpan]]:
        import torch

        from flambeau.audio.functional.forced_align import forced_align, merge_tokens

        if emission.ndim != 2:
            raise ValueError(f"emission has the shape {tuple(emission.shape)}, expected (frames, labels).")
        flat = torch.tensor([[label for word in tokens for label in word]], dtype=torch.int32, device=emission.device)
        path, scores = forced_align(emission.unsqueeze(0), flat, blank=self.blank)
        spans = iter(merge_tokens(path[0], scores[0].exp(), blank=self.blank))
        return [[next(spans) for _ in word] for word in tokens]


# Inside the class these names are its attributes, which type checkers do not take for types.
_AnyTokenizer: TypeAlias = Tokenizer
_AnyAligner: TypeAlias = Aligner


@dataclass
class Wav2Vec2FABundle(Wav2Vec2ASRBundle):
    """A network for forced alignment, with a label that stands for anything.

    Example:
        >>> from flambeau.audio.pipelines import MMS_FA
        >>> MMS_FA.get_tokenizer()(["hi", "*"])
        [[15, 2], [28]]
    """

    Tokenizer = Tokenizer
    Aligner = Aligner

    def get_labels(self, star: str | None = "*", blank: str = "-") -> tuple[str, ...]:
        """What the network's outputs stand for.

        Args:
            star: the name of the last one, which stands for anything; None where the network has none.
            blank: the name of the first one.
        """
        labels = super().get_labels(blank=blank)
        return labels if star is None else (*labels, star)

    def get_model(self, with_star: bool = True, *, dl_kwargs: dict[str, Any] | None = None) -> nn.Module:
        """Build the network with its weights.

        Args:
            with_star: append an output of log-probability 0 for the label that stands for anything.
            dl_kwargs: how to fetch the file.

        Returns:
            A module in eval mode: (batch, time) and optional lengths -> log-probabilities and lengths.
        """
        model = self._load(dl_kwargs, self._remove_aux_axis)
        return _ready(model, self._normalize_waveform, log_softmax=True, star=with_star)

    def get_dict(self, star: str | None = "*", blank: str = "-") -> dict[str, int]:
        """The index of each label; arguments as of `get_labels`."""
        return {label: index for index, label in enumerate(self.get_labels(star=star, blank=blank))}

    def get_tokenizer(self) -> _AnyTokenizer:
        """Makes labels of words; what it is called with: a list of words."""
        return _Tokenizer(self.get_dict())

    def get_aligner(self) -> _AnyAligner:
        """Finds where labels are spoken; what it is called with: log-probabilities, and the labels of each word."""
        return _Aligner(blank=0)


def _ready(model: Any, normalize: bool, log_softmax: bool = False, star: bool = False) -> nn.Module:
    if normalize or log_softmax or star:
        from flambeau.audio.pipelines.wav2vec2_wrapper import Prepared

        model = Prepared(model, normalize, log_softmax, star)
    return model.eval()  # type: ignore[no-any-return]


def _bundles() -> dict[str, Wav2Vec2Bundle]:
    """One per member of the enums, by its name."""
    families = {
        "wav2vec2_base": enums.Wav2Vec2_Base_Weights,
        "wav2vec2_large": enums.Wav2Vec2_Large_Weights,
        "wav2vec2_large_lv60k": enums.Wav2Vec2_Large_LV60K_Weights,
        "wav2vec2_xlsr_300m": enums.Wav2Vec2_XLSR_300M_Weights,
        "wav2vec2_xlsr_1b": enums.Wav2Vec2_XLSR_1B_Weights,
        "wav2vec2_xlsr_2b": enums.Wav2Vec2_XLSR_2B_Weights,
        "hubert_base": enums.HuBERT_Base_Weights,
        "hubert_large": enums.HuBERT_Large_Weights,
        "hubert_xlarge": enums.HuBERT_XLarge_Weights,
        "wavlm_base": enums.WavLM_Base_Weights,
        "wavlm_large": enums.WavLM_Large_Weights,
    }
    made: dict[str, Wav2Vec2Bundle] = {}
    for model, enum in families.items():
        for member in enum:
            kind = Wav2Vec2ASRBundle if "labels" in member.meta else Wav2Vec2Bundle
            made[member.name] = (Wav2Vec2FABundle if member.name == "MMS_FA" else kind)._of(model, member)
    return made


_BUNDLES = _bundles()
globals().update(_BUNDLES)
__all__ += sorted(_BUNDLES)
