"""STOI, PESQ and SI-SDR estimated without a reference (Kumar et al. 2023, arXiv:2304.01448, section 2)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models._api import register_model
from flambeau.audio.models._recurrent import Recurrent
from flambeau.audio.weights.squim import Squim_Objective_Weights
from flambeau.core.weights import build_with_weights

__all__ = ["SquimObjective", "squim_objective_base", "squim_objective_model"]


def _wideband_pesq(raw: float) -> float:
    """What ITU-T P.862.2 makes of a raw PESQ value."""
    return 0.999 + (4.999 - 0.999) / (1 + math.exp(-1.3669 * raw + 3.8224))


# The lower end of the raw scale is not known for wideband speech; 1 is close to it.
_RANGES = {"stoi": (0.0, 1.0), "pesq": (1.0, _wideband_pesq(4.5))}
_RNNS = {"RNN": "RNN_TANH", "LSTM": "LSTM", "GRU": "GRU"}


class RangeSigmoid(nn.Module):
    """A sigmoid between two values."""

    def __init__(self, val_range: tuple[float, float] = (0.0, 1.0)) -> None:
        super().__init__()
        self.val_range = val_range

    def forward(self, x: Tensor) -> Tensor:
        """Values of any shape -> values in the range."""
        low, high = self.val_range
        return low + (high - low) * x.sigmoid()


class Encoder(nn.Module):
    """Frames of a waveform by a learned basis: one convolution and ReLU."""

    def __init__(self, feat_dim: int, win_len: int) -> None:
        super().__init__()
        self.conv1d = nn.Conv1d(1, feat_dim, win_len, stride=win_len // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time) -> (batch, feat_dim, frames)."""
        return F.relu(self.conv1d(x.unsqueeze(1)))


class SingleRNN(nn.Module):
    """A bidirectional recurrent layer and a projection back to the input's channels."""

    def __init__(self, rnn_type: str, input_size: int, hidden_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        if rnn_type not in _RNNS:
            raise ValueError(f"rnn_type is {rnn_type!r}, expected one of {', '.join(_RNNS)}.")
        self.rnn = Recurrent(
            _RNNS[rnn_type], input_size, hidden_size, dropout=dropout, batch_first=True, bidirectional=True
        )
        self.proj = nn.Linear(2 * hidden_size, input_size)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, steps, input_size) -> the same shape."""
        return self.proj(self.rnn(x)[0])  # type: ignore[no-any-return]


class DPRNN(nn.Module):
    """Recurrent layers within and across overlapping chunks (Luo et al. 2019, arXiv:1910.06379)."""

    def __init__(
        self,
        feat_dim: int = 64,
        hidden_dim: int = 128,
        num_blocks: int = 6,
        rnn_type: str = "LSTM",
        d_model: int = 256,
        chunk_size: int = 100,
        chunk_stride: int = 50,
    ) -> None:
        super().__init__()
        self.chunk_size, self.chunk_stride = chunk_size, chunk_stride
        self.row_rnn = nn.ModuleList(SingleRNN(rnn_type, feat_dim, hidden_dim) for _ in range(num_blocks))
        self.col_rnn = nn.ModuleList(SingleRNN(rnn_type, feat_dim, hidden_dim) for _ in range(num_blocks))
        self.row_norm = nn.ModuleList(nn.GroupNorm(1, feat_dim, eps=1e-8) for _ in range(num_blocks))
        self.col_norm = nn.ModuleList(nn.GroupNorm(1, feat_dim, eps=1e-8) for _ in range(num_blocks))
        self.conv = nn.Sequential(nn.Conv2d(feat_dim, d_model, 1), nn.PReLU())

    def forward(self, x: Tensor) -> Tensor:
        """(batch, feat_dim, frames) -> (batch, frames, d_model)."""
        frames = x.shape[-1]
        x = self._chunks(x)
        batch, _, size, chunks = x.shape
        for row, row_norm, col, col_norm in zip(self.row_rnn, self.row_norm, self.col_rnn, self.col_norm, strict=True):
            within = row(x.permute(0, 3, 2, 1).flatten(0, 1)).unflatten(0, (batch, chunks)).permute(0, 3, 2, 1)
            x = x + row_norm(within)
            across = col(x.permute(0, 2, 3, 1).flatten(0, 1)).unflatten(0, (batch, size)).permute(0, 3, 1, 2)
            x = x + col_norm(across)
        return self._merged(self.conv(x), frames).transpose(1, 2)

    def _chunks(self, x: Tensor) -> Tensor:
        """(batch, channels, frames) -> (batch, channels, chunk_size, chunks): two rows of chunks, interleaved."""
        size, stride = self.chunk_size, self.chunk_stride
        rest = size - (stride + x.shape[-1] % size) % size
        padded = F.pad(x, (stride, rest + stride))
        first = padded[..., :-stride].unflatten(2, (-1, size))
        second = padded[..., stride:].unflatten(2, (-1, size))
        return torch.stack([first, second], dim=3).flatten(2, 3).transpose(2, 3)

    def _merged(self, x: Tensor, frames: int) -> Tensor:
        """(batch, channels, chunk_size, chunks) -> (batch, channels, frames): overlapping chunks are added."""
        pairs = x.transpose(2, 3).unflatten(2, (-1, 2))
        first, second = pairs[:, :, :, 0].flatten(2), pairs[:, :, :, 1].flatten(2)
        return (first[..., self.chunk_stride :] + second[..., : -self.chunk_stride])[..., :frames]  # type: ignore[no-any-return]


class AutoPool(nn.Module):
    """A mean weighted by softmax, whose sharpness is learned (McFee et al. 2018, arXiv:1804.10070)."""

    def __init__(self, pool_dim: int = 1) -> None:
        super().__init__()
        self.pool_dim = pool_dim
        self.alpha = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        """Values with `pool_dim` -> values without."""
        return (x * (x * self.alpha).softmax(self.pool_dim)).sum(self.pool_dim)


class SquimObjective(nn.Module):
    """Estimate measures of speech quality.

    Args:
        encoder: (batch, time) -> (batch, channels, frames).
        dprnn: (batch, channels, frames) -> (batch, frames, d_model).
        branches: one per measure: (batch, frames, d_model) -> (batch, 1).
    """

    def __init__(self, encoder: nn.Module, dprnn: nn.Module, branches: nn.ModuleList) -> None:
        super().__init__()
        self.encoder = encoder
        self.dprnn = dprnn
        self.branches = branches

    def forward(self, x: Tensor) -> list[Tensor]:
        """Estimate.

        Args:
            x: (batch, time) at 16 kHz; the level does not matter.

        Returns:
            STOI in [0, 1], wideband PESQ in [1, 4.64] and SI-SDR in dB, (batch,) each.

        Raises:
            ValueError: `x` has not two dimensions.
        """
        if x.ndim != 2:
            raise ValueError(f"x has the shape {tuple(x.shape)}, expected (batch, time).")
        x = x / (x.square().mean(dim=1, keepdim=True).sqrt() * 20)
        x = self.dprnn(self.encoder(x))
        return [branch(x).squeeze(dim=1) for branch in self.branches]


def _create_branch(d_model: int, nhead: int, metric: str) -> nn.Module:
    """A transformer layer, pooling over time, and two linear layers."""
    head: list[nn.Module] = [nn.Linear(d_model, d_model), nn.PReLU(), nn.Linear(d_model, 1)]
    if metric in _RANGES:
        head.append(RangeSigmoid(_RANGES[metric]))
    layer = nn.TransformerEncoderLayer(d_model, nhead, d_model * 4, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, AutoPool(), nn.Sequential(*head))


def squim_objective_model(
    feat_dim: int,
    win_len: int,
    d_model: int,
    nhead: int,
    hidden_dim: int,
    num_blocks: int,
    rnn_type: str,
    chunk_size: int,
    chunk_stride: int | None = None,
) -> SquimObjective:
    """A network that estimates STOI, PESQ and SI-SDR.

    Args:
        feat_dim: channels of the learned basis.
        win_len: samples of a frame, half of which it moves on.
        d_model: channels of the branches.
        nhead: heads of their attention.
        hidden_dim: channels of the recurrent layers.
        num_blocks: recurrent blocks.
        rnn_type: "RNN", "LSTM" or "GRU".
        chunk_size: frames of a chunk.
        chunk_stride: by how many frames the second row of chunks is shifted; None for half a chunk.
    """
    stride = chunk_size // 2 if chunk_stride is None else chunk_stride
    branches = nn.ModuleList(_create_branch(d_model, nhead, metric) for metric in ("stoi", "pesq", "sisdr"))
    dprnn = DPRNN(feat_dim, hidden_dim, num_blocks, rnn_type, d_model, chunk_size, stride)
    return SquimObjective(Encoder(feat_dim, win_len), dprnn, branches)


@register_model(task="speech-quality", tags=("speech",))
def squim_objective_base(
    *, weights: Squim_Objective_Weights | None = None, progress: bool = True, **kwargs: Any
) -> SquimObjective:
    """The published network for STOI, PESQ and SI-SDR (arXiv:2304.01448).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    member = Squim_Objective_Weights.verify(weights)
    return build_with_weights(
        squim_objective_model,
        member,
        progress=progress,
        **kwargs,
        feat_dim=256,
        win_len=64,
        d_model=256,
        nhead=4,
        hidden_dim=256,
        num_blocks=2,
        rnn_type="LSTM",
        chunk_size=71,
    )
