"""Hybrid Demucs: music separated in waveform and spectrogram at once (Defossez 2021, arXiv:2111.03600)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models._api import register_model
from flambeau.audio.models._hdemucs_layers import DecoderLayer, EncoderLayer, ScaledEmbedding
from flambeau.audio.weights.separation import HDemucs_High_Weights
from flambeau.core.weights import build_with_weights

__all__ = ["HDemucs", "hdemucs_high", "hdemucs_low", "hdemucs_medium"]


class HDemucs(nn.Module):
    """Two U-nets, one over the complex spectrogram and one over the waveform, that share their innermost layers.

    Args:
        sources: names of the sources, in the order of the output.
        audio_channels: channels of the input.
        channels: channels behind the first layer.
        growth: factor of channels from one layer to the next.
        nfft: samples of a window of the spectrogram; a quarter of them from one to the next.
        depth: layers.
        freq_emb: weight of the embedding of frequencies behind the first layer; 0 for none.
        emb_scale: how much faster that embedding is learned.
        emb_smooth: whether it begins smooth.
        kernel_size: taps of the convolutions.
        time_stride: stride of the layers behind the one that leaves a single frequency.
        stride: stride of the others.
        context: taps to either side of the decoder's gated convolutions.
        context_enc: the same for the encoder.
        norm_starts: first layer with group norms.
        norm_groups: their groups.
        dconv_depth: residual branches of an encoder's layer.
        dconv_comp: factor by which they narrow the channels.
        dconv_attn: first layer with attention in them.
        dconv_lstm: first layer with an LSTM in them.
        dconv_init: scale of their outputs at the start.
    """

    def __init__(
        self,
        sources: list[str],
        audio_channels: int = 2,
        channels: int = 48,
        growth: int = 2,
        nfft: int = 4096,
        depth: int = 6,
        freq_emb: float = 0.2,
        emb_scale: int = 10,
        emb_smooth: bool = True,
        kernel_size: int = 8,
        time_stride: int = 2,
        stride: int = 4,
        context: int = 1,
        context_enc: int = 0,
        norm_starts: int = 4,
        norm_groups: int = 4,
        dconv_depth: int = 2,
        dconv_comp: int = 4,
        dconv_attn: int = 4,
        dconv_lstm: int = 4,
        dconv_init: float = 1e-4,
    ) -> None:
        super().__init__()
        self.depth, self.nfft = depth, nfft
        self.audio_channels, self.sources = audio_channels, sources
        self.kernel_size, self.context, self.stride, self.channels = kernel_size, context, stride, channels
        self.hop_length = nfft // 4
        self.freq_emb: ScaledEmbedding | None = None
        self.freq_encoder, self.freq_decoder = nn.ModuleList(), nn.ModuleList()
        self.time_encoder, self.time_decoder = nn.ModuleList(), nn.ModuleList()
        chin, chin_z, chout, chout_z = audio_channels, 2 * audio_channels, channels, channels
        bins = nfft // 2
        for index in range(depth):
            freq, last_freq = bins > 1, 1 < bins <= kernel_size
            shared = {
                "norm_type": "group_norm" if index >= norm_starts else "none",
                "norm_groups": norm_groups,
                "dconv_kw": {
                    "lstm": index >= dconv_lstm,
                    "attn": index >= dconv_attn,
                    "depth": dconv_depth,
                    "compress": dconv_comp,
                    "init": dconv_init,
                },
            }
            along: dict[str, Any] = {"kernel_size": kernel_size, "stride": stride, "freq": freq, **shared}
            in_time: dict[str, Any] = {"kernel_size": kernel_size, "stride": stride, "freq": False, **shared}
            if not freq:
                along |= {"kernel_size": 2 * time_stride, "stride": time_stride}
            if last_freq:
                along |= {"kernel_size": bins, "pad": False}
                chout = chout_z = max(chout, chout_z)
                if nfft == 2048:  # Upstream: so that both branches have the same number of frames here
                    in_time |= {"kernel_size": 4, "stride": 2}
            self.freq_encoder.append(EncoderLayer(chin_z, chout_z, context=context_enc, **along))
            if freq:
                encoder = EncoderLayer(chin, chout, context=context_enc, empty=last_freq, **in_time)
                self.time_encoder.append(encoder)
            if index == 0:
                chin = audio_channels * len(sources)
                chin_z = 2 * chin
            decoder = DecoderLayer(chout_z, chin_z, last=index == 0, context=context, **along)
            self.freq_decoder.insert(0, decoder)
            if freq:
                decoder = DecoderLayer(chout, chin, last=index == 0, empty=last_freq, context=context, **in_time)
                self.time_decoder.insert(0, decoder)
                bins = 1 if last_freq else bins // stride
            chin, chin_z, chout, chout_z = chout, chout_z, int(growth * chout), int(growth * chout_z)
            if index == 0 and freq_emb:
                self.freq_emb = ScaledEmbedding(bins, chin_z, smooth=emb_smooth, scale=emb_scale)
                self.freq_emb_scale = freq_emb
        _rescale(self)

    def forward(self, input: Tensor) -> Tensor:
        """Separate.

        Args:
            input: (batch, audio_channels, time), float.

        Returns:
            (batch, sources, audio_channels, time).

        Raises:
            ValueError: the input has not three dimensions, or other channels.
        """
        if input.ndim != 3 or input.shape[1] != self.audio_channels:
            raise ValueError(
                f"Expected a 3D tensor (batch, {self.audio_channels} channels, frames), found {tuple(input.shape)}."
            )
        if not len(input):  # neither padding nor the Fourier transform takes a batch of none
            return input.new_zeros(0, len(self.sources), *input.shape[1:])
        length = input.shape[-1]
        x = self._spectrum(input)
        x, mean, std = _standardized(x, (1, 2, 3))
        xt, mean_t, std_t = _standardized(input, (1, 2))
        x, xt = self._decoded(*self._encoded(x, xt))
        x = x.unflatten(1, (len(self.sources), -1)) * std[:, None] + mean[:, None]
        xt = xt.unflatten(1, (len(self.sources), -1)) * std_t[:, None] + mean_t[:, None]
        return xt + self._waveform(x, length)  # type: ignore[no-any-return]

    def _encoded(self, x: Tensor, xt: Tensor) -> tuple[list[Tensor], list[Tensor], list[int], list[int]]:
        """Outputs of the layers of both branches, and how many frames went into each."""
        saved, saved_t, lengths, lengths_t = [], [], [], []
        for index, encode in enumerate(self.freq_encoder):
            lengths.append(x.shape[-1])
            inject = None
            if index < len(self.time_encoder):
                lengths_t.append(xt.shape[-1])
                xt = self.time_encoder[index](xt)
                if self.time_encoder[index].empty:
                    inject = xt
                else:
                    saved_t.append(xt)
            x = encode(x, inject)
            if index == 0 and self.freq_emb is not None:
                embedding = self.freq_emb(torch.arange(x.shape[-2], device=x.device))
                x = x + self.freq_emb_scale * embedding.T[None, :, :, None]
            saved.append(x)
        return saved, saved_t, lengths, lengths_t

    def _decoded(
        self, saved: list[Tensor], saved_t: list[Tensor], lengths: list[int], lengths_t: list[int]
    ) -> tuple[Tensor, Tensor]:
        x, xt = torch.zeros_like(saved[-1]), torch.zeros_like(saved[-1])
        offset = self.depth - len(self.time_decoder)
        for index, decode in enumerate(self.freq_decoder):
            x, before = decode(x, saved.pop(), lengths.pop())
            if index < offset:
                continue
            decode_time = self.time_decoder[index - offset]
            if decode_time.empty:  # the time branch parts from the other one, which has a single frequency here
                xt, _ = decode_time(before[:, :, 0], None, lengths_t.pop())
            else:
                xt, _ = decode_time(xt, saved_t.pop(), lengths_t.pop())
        return x, xt

    def _spectrum(self, x: Tensor) -> Tensor:
        """(batch, channels, time) -> (batch, channels x 2, nfft / 2, frames): real and imaginary parts."""
        hop, time = self.hop_length, x.shape[-1]
        frames = -(-time // hop)
        pad = hop // 2 * 3
        x = _reflected(x, pad, pad + frames * hop - time)
        window = torch.hann_window(self.nfft, dtype=x.dtype, device=x.device)
        z = torch.stft(x.flatten(0, 1), self.nfft, hop, window=window, normalized=True, return_complex=True)
        z = torch.view_as_real(z[:, :-1, 2 : 2 + frames]).permute(0, 3, 1, 2)
        return z.reshape(-1, 2 * self.audio_channels, *z.shape[2:])

    def _waveform(self, x: Tensor, length: int) -> Tensor:
        """(batch, sources, channels x 2, nfft / 2, frames) -> (batch, sources, channels, length)."""
        hop = self.hop_length
        z = x.unflatten(2, (-1, 2)).permute(0, 1, 2, 4, 5, 3).contiguous()
        z = F.pad(torch.view_as_complex(z), (2, 2, 0, 1))
        pad = hop // 2 * 3
        whole = hop * -(-length // hop) + 2 * pad
        window = torch.hann_window(self.nfft, dtype=x.dtype, device=x.device)
        out = torch.istft(z.flatten(0, 2), self.nfft, hop, window=window, normalized=True, length=whole)
        return out[:, pad : pad + length].unflatten(0, z.shape[:3])  # type: ignore[no-any-return]


def _standardized(x: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    mean, std = x.mean(dims, keepdim=True), x.std(dims, keepdim=True)
    return (x - mean) / (1e-5 + std), mean, std


def _reflected(x: Tensor, left: int, right: int) -> Tensor:
    """Reflect at both ends; what is too short for it gets zeros first."""
    short = max(left, right) - x.shape[-1] + 1
    if short <= 0:
        return F.pad(x, (left, right), mode="reflect")
    zeros = min(short, right)
    return F.pad(F.pad(x, (short - zeros, zeros)), (left - short + zeros, right - zeros), mode="reflect")


@torch.no_grad()
def _rescale(module: nn.Module) -> None:
    """Bring the deviations of the convolutions' weights closer to 0.1, where training begins best."""
    for part in module.modules():
        if isinstance(part, (nn.Conv1d, nn.ConvTranspose1d, nn.Conv2d, nn.ConvTranspose2d)):
            scale = (part.weight.std() / 0.1) ** 0.5
            part.weight.div_(scale)
            if part.bias is not None:
                part.bias.div_(scale)


@register_model(task="source-separation", tags=("music",))
def hdemucs_low(sources: list[str]) -> HDemucs:
    """Hybrid Demucs for low sample rates, around 8 kHz: windows of 1,024 samples, depth 5 (arXiv:2111.03600).

    Args:
        sources: names of the sources.
    """
    return HDemucs(sources=sources, nfft=1024, depth=5)


@register_model(task="source-separation", tags=("music",))
def hdemucs_medium(sources: list[str]) -> HDemucs:
    """Hybrid Demucs for sample rates of 16 to 32 kHz: windows of 2,048 samples, depth 6 (arXiv:2111.03600).

    Args:
        sources: names of the sources.
    """
    return HDemucs(sources=sources, nfft=2048, depth=6)


@register_model(task="source-separation", tags=("music",))
def hdemucs_high(
    sources: list[str] | None = None,
    *,
    weights: HDemucs_High_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> HDemucs:
    """Hybrid Demucs for 44.1 and 48 kHz: windows of 4,096 samples, depth 6 (arXiv:2111.03600).

    Args:
        sources: names of the sources; None for those of the weights.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.

    Raises:
        TypeError: neither `sources` nor `weights` is given.
    """
    member = HDemucs_High_Weights.verify(weights)
    if sources is None:
        if member is None:
            raise TypeError("hdemucs_high() needs `sources`, or `weights`, which have them.")
        sources = list(member.meta["sources"])
    return build_with_weights(HDemucs, member, sources=sources, nfft=4096, depth=6, progress=progress, **kwargs)
