"""WaveRNN: waveforms one sample after another (Kalchbrenner et al. 2018, arXiv:1802.08435).

The variant with an upsampling network in front and two GRU layers, whose logits are of mu-law levels.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models._api import register_model
from flambeau.audio.models._recurrent import Recurrent
from flambeau.audio.weights.synthesis import WaveRNN_Weights
from flambeau.core.weights import build_with_weights

__all__ = ["MelResNet", "ResBlock", "Stretch2d", "UpsampleNetwork", "WaveRNN", "wavernn"]


class ResBlock(nn.Module):
    """Two pointwise convolutions with batch norms and a shortcut.

    Args:
        n_freq: channels.
    """

    def __init__(self, n_freq: int = 128) -> None:
        super().__init__()
        self.resblock_model = nn.Sequential(
            nn.Conv1d(n_freq, n_freq, 1, bias=False),
            nn.BatchNorm1d(n_freq),
            nn.ReLU(inplace=True),
            nn.Conv1d(n_freq, n_freq, 1, bias=False),
            nn.BatchNorm1d(n_freq),
        )

    def forward(self, specgram: Tensor) -> Tensor:
        """(batch, n_freq, frames) -> the same shape."""
        return self.resblock_model(specgram) + specgram  # type: ignore[no-any-return]


class MelResNet(nn.Module):
    """A residual network over frames.

    Args:
        n_res_block: blocks.
        n_freq: channels of the input.
        n_hidden: channels between.
        n_output: channels of the output.
        kernel_size: taps of the first convolution, which is not padded.
    """

    def __init__(
        self, n_res_block: int = 10, n_freq: int = 128, n_hidden: int = 128, n_output: int = 128, kernel_size: int = 5
    ) -> None:
        super().__init__()
        self.melresnet_model = nn.Sequential(
            nn.Conv1d(n_freq, n_hidden, kernel_size, bias=False),
            nn.BatchNorm1d(n_hidden),
            nn.ReLU(inplace=True),
            *(ResBlock(n_hidden) for _ in range(n_res_block)),
            nn.Conv1d(n_hidden, n_output, 1),
        )

    def forward(self, specgram: Tensor) -> Tensor:
        """(batch, n_freq, frames) -> (batch, n_output, frames - kernel_size + 1)."""
        return self.melresnet_model(specgram)  # type: ignore[no-any-return]


class Stretch2d(nn.Module):
    """Repeat each value in time and in frequency.

    Args:
        time_scale: how often in time.
        freq_scale: how often in frequency.
    """

    def __init__(self, time_scale: int, freq_scale: int) -> None:
        super().__init__()
        self.freq_scale, self.time_scale = freq_scale, time_scale

    def forward(self, specgram: Tensor) -> Tensor:
        """(..., n_freq, frames) -> (..., n_freq x freq_scale, frames x time_scale)."""
        return specgram.repeat_interleave(self.freq_scale, -2).repeat_interleave(self.time_scale, -1)


class UpsampleNetwork(nn.Module):
    """A spectrogram, and features of it, at the rate of the waveform.

    Args:
        upsample_scales: factors, whose product is the number of samples per frame.
        n_res_block: blocks of the residual network.
        n_freq: mel bands.
        n_hidden: channels of the residual network.
        n_output: channels of its output.
        kernel_size: taps of its first convolution.
    """

    def __init__(
        self,
        upsample_scales: list[int],
        n_res_block: int = 10,
        n_freq: int = 128,
        n_hidden: int = 128,
        n_output: int = 128,
        kernel_size: int = 5,
    ) -> None:
        super().__init__()
        self.total_scale = math.prod(upsample_scales)
        self.indent = (kernel_size - 1) // 2 * self.total_scale
        self.resnet = MelResNet(n_res_block, n_freq, n_hidden, n_output, kernel_size)
        self.resnet_stretch = Stretch2d(self.total_scale, 1)
        layers: list[nn.Module] = []
        for scale in upsample_scales:
            smooth = nn.Conv2d(1, 1, (1, scale * 2 + 1), padding=(0, scale), bias=False)
            nn.init.constant_(smooth.weight, 1.0 / (scale * 2 + 1))
            layers += [Stretch2d(scale, 1), smooth]
        self.upsample_layers = nn.Sequential(*layers)

    def forward(self, specgram: Tensor) -> tuple[Tensor, Tensor]:
        """Upsample.

        Args:
            specgram: (batch, n_freq, frames).

        Returns:
            The spectrogram (batch, n_freq, samples) and the features (batch, n_output, samples), with
            samples = (frames - kernel_size + 1) x the product of the scales.
        """
        features = self.resnet_stretch(self.resnet(specgram))
        stretched = self.upsample_layers(specgram.unsqueeze(1)).squeeze(1)
        return stretched[:, :, self.indent : stretched.shape[2] - self.indent], features


class WaveRNN(nn.Module):
    """The network.

    Args:
        upsample_scales: factors, whose product is `hop_length`.
        n_classes: levels of a sample, a power of two.
        hop_length: samples per frame.
        n_res_block: blocks of the residual network.
        n_rnn: channels of the GRU layers.
        n_fc: channels of the linear layers.
        kernel_size: taps of the residual network's first convolution.
        n_freq: mel bands.
        n_hidden: channels of the residual network.
        n_output: channels of its output, a multiple of four.

    Raises:
        ValueError: the product of the scales is not `hop_length`.
    """

    def __init__(
        self,
        upsample_scales: list[int],
        n_classes: int,
        hop_length: int,
        n_res_block: int = 10,
        n_rnn: int = 512,
        n_fc: int = 512,
        kernel_size: int = 5,
        n_freq: int = 128,
        n_hidden: int = 128,
        n_output: int = 128,
    ) -> None:
        super().__init__()
        if math.prod(upsample_scales) != hop_length:
            raise ValueError(
                f"Expected the product of upsample_scales to be hop_length, {hop_length}; "
                f"found {upsample_scales}, whose product is {math.prod(upsample_scales)}."
            )
        self.kernel_size = kernel_size
        self._pad = kernel_size // 2
        self.n_rnn, self.n_aux = n_rnn, n_output // 4
        self.hop_length, self.n_classes = hop_length, n_classes
        self.n_bits = int(math.log2(n_classes))
        self.upsample = UpsampleNetwork(upsample_scales, n_res_block, n_freq, n_hidden, n_output, kernel_size)
        self.fc = nn.Linear(n_freq + self.n_aux + 1, n_rnn)
        self.rnn1 = Recurrent("GRU", n_rnn, n_rnn, batch_first=True)
        self.rnn2 = Recurrent("GRU", n_rnn + self.n_aux, n_rnn, batch_first=True)
        self.fc1 = nn.Linear(n_rnn + self.n_aux, n_fc)
        self.fc2 = nn.Linear(n_fc + self.n_aux, n_fc)
        self.fc3 = nn.Linear(n_fc, n_classes)

    def forward(self, waveform: Tensor, specgram: Tensor) -> Tensor:
        """Logits of each sample, given the true ones before it.

        Args:
            waveform: (batch, 1, time) with time = (frames - kernel_size + 1) x hop_length.
            specgram: (batch, 1, n_freq, frames).

        Returns:
            (batch, 1, time, n_classes).

        Raises:
            ValueError: more than one channel.
        """
        if waveform.shape[1] != 1 or specgram.shape[1] != 1:
            raise ValueError(
                f"waveform is {tuple(waveform.shape)} and specgram {tuple(specgram.shape)}; expected one channel of "
                "each, dimension 1 of size 1."
            )
        stretched, features = (value.transpose(1, 2) for value in self.upsample(specgram.squeeze(1)))
        a1, a2, a3, a4 = features.split(self.n_aux, dim=-1)[:4]
        x = self.fc(torch.cat([waveform.squeeze(1).unsqueeze(-1), stretched, a1], dim=-1))
        x = x + self.rnn1(x)[0]
        x = x + self.rnn2(torch.cat([x, a2], dim=-1))[0]
        x = F.relu(self.fc1(torch.cat([x, a3], dim=-1)))
        x = F.relu(self.fc2(torch.cat([x, a4], dim=-1)))
        return self.fc3(x).unsqueeze(1)  # type: ignore[no-any-return]

    @torch.no_grad()
    def infer(self, specgram: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Draw a waveform.

        Args:
            specgram: (batch, n_freq, frames).
            lengths: (batch,) valid frames, or None.

        Returns:
            (batch, 1, frames x hop_length) in [-1, 1], mu-law levels, and (batch,) valid samples.
        """
        stretched, features = self.upsample(F.pad(specgram, (self._pad, self._pad)))
        conditions = self._conditions(stretched, features)
        h1 = h2 = specgram.new_zeros(len(specgram), self.n_rnn)
        sample = specgram.new_zeros(len(specgram), 1)
        samples = []
        for condition, c2, c3, c4 in zip(*conditions, strict=True):
            x = torch.addmm(condition, sample, self.fc.weight[:, :1].T)
            h1 = _gru_step(self.rnn1, F.linear(x, self.rnn1.weight_ih_l0, self.rnn1.bias_ih_l0), h1)  # type: ignore[arg-type]
            x = x + h1
            h2 = _gru_step(self.rnn2, torch.addmm(c2, x, self.rnn2.weight_ih_l0[:, : self.n_rnn].T), h2)  # type: ignore[index]
            x = x + h2
            x = F.relu(torch.addmm(c3, x, self.fc1.weight[:, : self.n_rnn].T))
            x = F.relu(torch.addmm(c4, x, self.fc2.weight[:, : -self.n_aux].T))
            level = torch.multinomial(self.fc3(x).softmax(dim=1), 1).to(x.dtype)
            sample = 2 * level / (2**self.n_bits - 1.0) - 1.0
            samples.append(sample)
        waveform = torch.stack(samples, dim=-1)
        return waveform, None if lengths is None else lengths * self.upsample.total_scale

    def _conditions(self, stretched: Tensor, features: Tensor) -> tuple[Tensor, ...]:
        """What the spectrogram adds in each layer, (time, batch, channels) each: computed at once for all samples."""
        stretched, features = stretched.permute(2, 0, 1), features.permute(2, 0, 1)
        a1, a2, a3, a4 = features.split(self.n_aux, dim=-1)[:4]
        first = F.linear(torch.cat([stretched, a1], dim=-1), self.fc.weight[:, 1:], self.fc.bias)
        second = F.linear(a2, self.rnn2.weight_ih_l0[:, self.n_rnn :], self.rnn2.bias_ih_l0)  # type: ignore[index, arg-type]
        third = F.linear(a3, self.fc1.weight[:, self.n_rnn :], self.fc1.bias)
        return first, second, third, F.linear(a4, self.fc2.weight[:, -self.n_aux :], self.fc2.bias)


def _gru_step(layer: Recurrent, gates: Tensor, h: Tensor) -> Tensor:
    """One step of a GRU whose input is projected already."""
    reset, update, new = gates.chunk(3, dim=1)
    h_reset, h_update, h_new = F.linear(h, layer.weight_hh_l0, layer.bias_hh_l0).chunk(3, dim=1)  # type: ignore[arg-type]
    update = torch.sigmoid(update + h_update)
    new = torch.tanh(new + torch.sigmoid(reset + h_reset) * h_new)
    return new + update * (h - new)


@register_model(task="vocoder", tags=("speech",))
def wavernn(
    *,
    weights: WaveRNN_Weights | None = None,
    progress: bool = True,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    **kwargs: Any,
) -> WaveRNN:
    """WaveRNN for 80 mel bands, 275 samples per frame and 8-bit samples (arXiv:1802.08435).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        device: where the network goes.
        dtype: of its parameters.
        kwargs: for `WaveRNN`.
    """
    sizes = {"upsample_scales": [5, 5, 11], "n_classes": 256, "hop_length": 275, "n_freq": 80, **kwargs}
    member = WaveRNN_Weights.verify(weights)
    return build_with_weights(WaveRNN, member, progress=progress, device=device, dtype=dtype, **sizes)
