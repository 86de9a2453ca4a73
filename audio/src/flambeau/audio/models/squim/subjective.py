"""Mean opinion scores from any clean speech as a reference (Kumar et al. 2023, arXiv:2304.01448, section 3).

The network is NORESQA-MOS (Manocha and Kumar 2022, arXiv:2206.12285).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.models._api import register_model
from flambeau.audio.models.wav2vec2.builders import wav2vec2_base, wav2vec2_large
from flambeau.audio.models.wav2vec2.model import Wav2Vec2Model
from flambeau.audio.weights.squim import Squim_Subjective_Weights
from flambeau.core.weights import build_with_weights

__all__ = ["SquimSubjective", "squim_subjective_base", "squim_subjective_model"]

_BACKBONES: dict[str, Callable[[], Wav2Vec2Model]] = {"wav2vec2_base": wav2vec2_base, "wav2vec2_large": wav2vec2_large}


class AttPool(nn.Module):
    """A mean over frames with learned weights, and a linear layer."""

    def __init__(self, input_dim: int, att_dim: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(input_dim, 1)
        self.linear2 = nn.Linear(input_dim, att_dim)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, input_dim) -> (batch, att_dim)."""
        weights = self.linear1(x).softmax(dim=1)
        return self.linear2((weights * x).sum(dim=1))  # type: ignore[no-any-return]


class Predictor(nn.Module):
    """How much worse than the reference, from 0 to 4: the mean over equally spaced bins."""

    def __init__(self, input_dim: int, att_dim: int) -> None:
        super().__init__()
        self.att_pool_layer = AttPool(input_dim, att_dim)
        self.att_dim = att_dim

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, input_dim) -> (batch,)."""
        bins = torch.linspace(0, 4, steps=self.att_dim, device=x.device, dtype=x.dtype)
        scores: Tensor = (self.att_pool_layer(x).softmax(dim=1) * bins).sum(dim=1)
        return scores


class SquimSubjective(nn.Module):
    """Estimate the mean opinion score of speech beside clean speech that may say something else.

    Args:
        ssl_model: a wav2vec 2.0 network.
        projector: its features -> fewer channels.
        predictor: both recordings' channels -> difference of scores.
    """

    def __init__(self, ssl_model: nn.Module, projector: nn.Module, predictor: nn.Module) -> None:
        super().__init__()
        self.ssl_model = ssl_model
        self.projector = projector
        self.predictor = predictor

    def _features(self, waveform: Tensor) -> Tensor:
        return self.projector(self.ssl_model.extract_features(waveform)[0][-1])  # type: ignore[no-any-return, operator]

    def forward(self, waveform: Tensor, reference: Tensor) -> Tensor:
        """Estimate.

        Args:
            waveform: (batch, time) at 16 kHz.
            reference: (batch, time of the reference); repeated or cut to the length of `waveform`.

        Returns:
            (batch,) scores from 1 to 5.
        """
        time = waveform.shape[1]
        reference = reference.repeat(1, -(-time // reference.shape[1]))[:, :time]
        both = torch.cat([self._features(reference), self._features(waveform)], dim=2)
        return 5 - self.predictor(both)  # type: ignore[no-any-return]


def squim_subjective_model(ssl_type: str, feat_dim: int, proj_dim: int, att_dim: int) -> SquimSubjective:
    """A network that estimates mean opinion scores.

    Args:
        ssl_type: "wav2vec2_base" or "wav2vec2_large".
        feat_dim: channels of its features.
        proj_dim: channels they are projected to.
        att_dim: bins of the score.

    Raises:
        ValueError: another `ssl_type`.
    """
    if ssl_type not in _BACKBONES:
        raise ValueError(f"ssl_type is {ssl_type!r}, expected one of {', '.join(_BACKBONES)}.")
    return SquimSubjective(_BACKBONES[ssl_type](), nn.Linear(feat_dim, proj_dim), Predictor(2 * proj_dim, att_dim))


@register_model(task="speech-quality", tags=("speech",))
def squim_subjective_base(
    *, weights: Squim_Subjective_Weights | None = None, progress: bool = True, **kwargs: Any
) -> SquimSubjective:
    """The published network for mean opinion scores (arXiv:2304.01448).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    member = Squim_Subjective_Weights.verify(weights)
    sizes: dict[str, Any] = {"ssl_type": "wav2vec2_base", "feat_dim": 768, "proj_dim": 32, "att_dim": 5}
    return build_with_weights(squim_subjective_model, member, progress=progress, **kwargs, **sizes)
