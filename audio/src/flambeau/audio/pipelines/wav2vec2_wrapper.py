"""What some bundles put around their network."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models._attention import padding_mask
from flambeau.audio.models.wav2vec2.network import Wav2Vec2Model

__all__ = ["Prepared", "standardized"]


def standardized(waveforms: Tensor, lengths: Tensor | None, eps: float = 1e-5) -> Tensor:
    """Each waveform with zero mean and unit variance over its valid samples, and zeros behind them.

    Upstream normalizes a batch as a whole, so that its items depend on one another; for a single one it is the same.

    Args:
        waveforms: (batch, time).
        lengths: (batch,) valid samples, or None.
        eps: added to the variance.
    """
    if lengths is None:
        return F.layer_norm(waveforms, waveforms.shape[-1:], eps=eps)
    padding = padding_mask(lengths, waveforms.shape[1])
    count = lengths.clamp(min=1)[:, None]
    mean = waveforms.masked_fill(padding, 0.0).sum(1, keepdim=True) / count
    centred = (waveforms - mean).masked_fill(padding, 0.0)
    return centred * torch.rsqrt(centred.square().sum(1, keepdim=True) / count + eps)


class Prepared(nn.Module):
    """A network with waveforms normalized before it, and log-softmax and a label for anything behind it.

    Args:
        model: the network.
        normalize_waveform: normalize each waveform.
        apply_log_softmax: log-probabilities in place of logits.
        append_star: one output more, always 0.
    """

    def __init__(
        self, model: Wav2Vec2Model, normalize_waveform: bool, apply_log_softmax: bool, append_star: bool
    ) -> None:
        super().__init__()
        self.model = model
        self.normalize_waveform = normalize_waveform
        self.apply_log_softmax = apply_log_softmax
        self.append_star = append_star

    def forward(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """See `Wav2Vec2Model.forward`."""
        if self.normalize_waveform:
            waveforms = standardized(waveforms, lengths)
        output, lengths = self.model(waveforms, lengths)
        if self.apply_log_softmax:
            output = F.log_softmax(output, dim=-1)
        if self.append_star:
            output = F.pad(output, (0, 1))
        return output, lengths

    def extract_features(
        self, waveforms: Tensor, lengths: Tensor | None = None, num_layers: int | None = None
    ) -> tuple[list[Tensor], Tensor | None]:
        """See `Wav2Vec2Model.extract_features`."""
        if self.normalize_waveform:
            waveforms = standardized(waveforms, lengths)
        return self.model.extract_features(waveforms, lengths, num_layers)
