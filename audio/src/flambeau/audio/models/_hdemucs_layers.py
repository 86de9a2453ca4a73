"""Layers of Hybrid Demucs (Defossez 2021, arXiv:2111.03600): encoders, decoders, residual branches."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models._recurrent import Recurrent

__all__ = ["DecoderLayer", "EncoderLayer", "ScaledEmbedding"]


class ScaledEmbedding(nn.Module):
    """An embedding that is learned `scale` times as fast, smooth over neighbours at the start.

    Args:
        num_embeddings: entries.
        embedding_dim: channels.
        scale: what the stored values are multiplied by.
        smooth: begin with a random walk instead of independent values.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, scale: float = 1.0, smooth: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_embeddings, embedding_dim)
        with torch.no_grad():
            if smooth:
                steps = torch.arange(1, num_embeddings + 1, device=self.embedding.weight.device)
                self.embedding.weight.copy_(self.embedding.weight.cumsum(0) / steps.sqrt()[:, None])
            self.embedding.weight.div_(scale)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Integers (...) -> (..., embedding_dim)."""
        return self.embedding(x) * self.scale  # type: ignore[no-any-return]


class _BLSTM(nn.Module):
    """A bidirectional LSTM over overlapping windows of at most 200 frames, with a shortcut around it."""

    max_steps = 200

    def __init__(self, dim: int, layers: int) -> None:
        super().__init__()
        self.lstm = Recurrent("LSTM", dim, dim, num_layers=layers, bidirectional=True)
        self.linear = nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, frames) -> the same shape."""
        if x.shape[2] <= self.max_steps:
            return x + self._run(x)
        batch, channels, frames = x.shape
        stride = self.max_steps // 2
        count = -(-frames // stride)
        windows = F.pad(x, (0, (count - 1) * stride + self.max_steps - frames)).unfold(2, self.max_steps, stride)
        out = self._run(windows.permute(0, 2, 1, 3).reshape(-1, channels, self.max_steps))
        out = out.reshape(batch, count, channels, self.max_steps)
        # The outer quarters of each window lack context; its neighbours have them in their middle.
        edge = stride // 2
        middle = out[..., edge:-edge].transpose(1, 2).flatten(2)
        joined = torch.cat([out[:, 0, :, :edge], middle, out[:, -1, :, -edge:]], dim=2)
        return x + joined[..., :frames]

    def _run(self, x: Tensor) -> Tensor:
        return self.linear(self.lstm(x.permute(2, 0, 1))[0]).permute(1, 2, 0)  # type: ignore[no-any-return]


class _LocalState(nn.Module):
    """Attention that leaves out the frame itself, with learned penalties for distance in place of positions."""

    def __init__(self, channels: int, heads: int = 4, ndecay: int = 4) -> None:
        super().__init__()
        self.heads, self.ndecay = heads, ndecay
        self.content = nn.Conv1d(channels, channels, 1)
        self.query = nn.Conv1d(channels, channels, 1)
        self.key = nn.Conv1d(channels, channels, 1)
        self.query_decay = nn.Conv1d(channels, heads * ndecay, 1)
        with torch.no_grad():
            self.query_decay.weight.mul_(0.01)
            self.query_decay.bias.fill_(-2)  # type: ignore[union-attr]
        self.proj = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, frames) -> the same shape."""
        query, key, content, decay = (
            layer(x).unflatten(1, (self.heads, -1)) for layer in (self.query, self.key, self.content, self.query_decay)
        )
        frames = torch.arange(x.shape[2], device=x.device)
        distance = (frames[:, None] - frames).abs().to(x.dtype)
        rates = torch.arange(1, self.ndecay + 1, device=x.device, dtype=x.dtype)
        penalty = (decay.sigmoid() / 2 * rates[:, None]).sum(2) / math.sqrt(self.ndecay)
        scores = query.transpose(2, 3) @ key / math.sqrt(key.shape[2]) - penalty[..., None] * distance
        itself = torch.eye(len(frames), device=x.device, dtype=torch.bool)
        weights = scores.masked_fill(itself, -100.0).softmax(dim=3)  # finite, so that a single frame sees itself
        return x + self.proj((content @ weights.transpose(2, 3)).flatten(1, 2))  # type: ignore[no-any-return]


class _LayerScale(nn.Module):
    """Scale each channel by a learned factor that begins small."""

    def __init__(self, channels: int, init: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((channels,), float(init)))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, frames) -> the same shape."""
        return self.scale[:, None] * x


class _DConv(nn.Module):
    """Residual branches of dilated convolutions, the inner ones with LSTM and attention."""

    def __init__(self, channels: int, compress: float, depth: int, init: float, attn: bool, lstm: bool) -> None:
        super().__init__()
        hidden = int(channels / compress)
        self.layers = nn.ModuleList()
        for dilation in (2**d for d in range(depth)):
            self.layers.append(
                nn.Sequential(
                    nn.Conv1d(channels, hidden, 3, dilation=dilation, padding=dilation),
                    nn.GroupNorm(1, hidden),
                    nn.GELU(),
                    *([_BLSTM(hidden, layers=2)] if lstm else []),
                    *([_LocalState(hidden)] if attn else []),
                    nn.Conv1d(hidden, 2 * channels, 1),
                    nn.GroupNorm(1, 2 * channels),
                    nn.GLU(1),
                    _LayerScale(channels, init),
                )
            )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, frames) -> the same shape."""
        for layer in self.layers:
            x = x + layer(x)
        return x


def _norm(norm_type: str, groups: int, channels: int) -> nn.Module:
    return nn.GroupNorm(groups, channels) if norm_type == "group_norm" else nn.Identity()


class EncoderLayer(nn.Module):
    """A strided convolution along frequency or time, residual branches, and a gated pointwise convolution.

    Args:
        chin: channels of the input.
        chout: channels of the output.
        kernel_size: taps.
        stride: from one output to the next.
        norm_groups: groups of the group norms.
        empty: the convolution alone: the last layer of the time branch, whose output joins the other branch.
        freq: whether it works along frequency, on (batch, channels, bins, frames).
        norm_type: "group_norm" or "none".
        context: taps to either side of the gated convolution.
        dconv_kw: for the residual branches.
        pad: whether the input is padded.
    """

    def __init__(
        self,
        chin: int,
        chout: int,
        kernel_size: int = 8,
        stride: int = 4,
        norm_groups: int = 4,
        empty: bool = False,
        freq: bool = True,
        norm_type: str = "group_norm",
        context: int = 0,
        dconv_kw: dict[str, Any] | None = None,
        pad: bool = True,
    ) -> None:
        super().__init__()
        padding = kernel_size // 4 if pad else 0
        self.freq, self.stride, self.empty = freq, stride, empty
        if freq:
            self.conv: nn.Module = nn.Conv2d(chin, chout, (kernel_size, 1), (stride, 1), (padding, 0))
        else:
            self.conv = nn.Conv1d(chin, chout, kernel_size, stride, padding)
        self.norm1 = _norm(norm_type, norm_groups, chout)  # Upstream: in an empty layer it is there, and not used
        self.rewrite: nn.Module = nn.Identity()
        self.norm2: nn.Module = nn.Identity()
        self.dconv: nn.Module = nn.Identity()
        if not empty:
            convolution = nn.Conv2d if freq else nn.Conv1d
            self.rewrite = convolution(chout, 2 * chout, 1 + 2 * context, 1, context)
            self.norm2 = _norm(norm_type, norm_groups, 2 * chout)
            self.dconv = _DConv(chout, **dconv_kw or {})

    def forward(self, x: Tensor, inject: Tensor | None = None) -> Tensor:
        """Encode.

        Args:
            x: (batch, chin, bins, frames) or (batch, chin, frames).
            inject: what the time branch ended in, (batch, chout, frames); added behind the convolution.

        Returns:
            As `x`, with fewer bins or frames.
        """
        if not self.freq:
            x = x.flatten(1, 2) if x.ndim == 4 else x
            x = F.pad(x, (0, -x.shape[-1] % self.stride))
        y = self.conv(x)
        if self.empty:
            return y  # type: ignore[no-any-return]
        if inject is not None:
            y = y + (inject[:, :, None] if inject.ndim < y.ndim else inject)
        y = F.gelu(self.norm1(y))
        if self.freq:
            bins = y.shape[2]
            y = self.dconv(y.transpose(1, 2).flatten(0, 1)).unflatten(0, (-1, bins)).transpose(1, 2)
        else:
            y = self.dconv(y)
        return F.glu(self.norm2(self.rewrite(y)), dim=1)


class DecoderLayer(nn.Module):
    """The other way round: a gated convolution over the sum with the encoder's output, and a transposed convolution.

    Args:
        chin: channels of the input.
        chout: channels of the output.
        last: the outermost layer, without a non-linearity behind it.
        kernel_size: taps.
        stride: as in the encoder.
        norm_groups: groups of the group norms.
        empty: the transposed convolution alone: the first layer of the time branch.
        freq: whether it works along frequency.
        norm_type: "group_norm" or "none".
        context: taps to either side of the gated convolution.
        dconv_kw: not used; here so that both kinds of layers take the same settings.
        pad: whether the encoder's layer was padded.
    """

    def __init__(
        self,
        chin: int,
        chout: int,
        last: bool = False,
        kernel_size: int = 8,
        stride: int = 4,
        norm_groups: int = 1,
        empty: bool = False,
        freq: bool = True,
        norm_type: str = "group_norm",
        context: int = 1,
        dconv_kw: dict[str, Any] | None = None,
        pad: bool = True,
    ) -> None:
        super().__init__()
        self.pad = (kernel_size - stride) // 2 if pad else 0
        self.last, self.freq, self.chin, self.empty = last, freq, chin, empty
        if freq:
            self.conv_tr: nn.Module = nn.ConvTranspose2d(chin, chout, (kernel_size, 1), (stride, 1))
        else:
            self.conv_tr = nn.ConvTranspose1d(chin, chout, kernel_size, stride)
        self.norm2 = _norm(norm_type, norm_groups, chout)
        self.rewrite: nn.Module = nn.Identity()
        self.norm1: nn.Module = nn.Identity()
        if not empty:
            convolution = nn.Conv2d if freq else nn.Conv1d
            self.rewrite = convolution(chin, 2 * chin, 1 + 2 * context, 1, context)
            self.norm1 = _norm(norm_type, norm_groups, 2 * chin)

    def forward(self, x: Tensor, skip: Tensor | None, length: int) -> tuple[Tensor, Tensor]:
        """Decode.

        Args:
            x: (batch, chin, bins, frames) or (batch, chin, frames).
            skip: the encoder's output, None in an empty layer.
            length: frames to give, in the time branch.

        Returns:
            The output, and what went into the transposed convolution.
        """
        if self.freq and x.ndim == 3:
            x = x.unflatten(1, (self.chin, -1))
        if skip is not None:
            x = F.glu(self.norm1(self.rewrite(x + skip)), dim=1)
        z = self.norm2(self.conv_tr(x))
        if self.freq:
            z = z[..., self.pad : z.shape[-2] - self.pad, :]
        else:
            z = z[..., self.pad : self.pad + length]
        return (z if self.last else F.gelu(z)), x
