"""VGGish: embeddings of sounds (Hershey et al. 2016, arXiv:1609.09430)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from flambeau.audio.models._api import register_model
from flambeau.audio.pipelines._files import asset
from flambeau.audio.weights.embedding import VGGish_Weights
from flambeau.core.weights import build_with_weights, load_into, load_state_dict

__all__ = ["VGGISH", "VGGish", "VGGishBundle", "VGGishInputProcessor", "vggish"]

_SAMPLE_RATE = 16000
_WINDOW, _HOP, _FFT = 400, 160, 512  # 25 ms every 10 ms
_BANDS, _LOWEST_HZ, _HIGHEST_HZ = 64, 125.0, 7500.0
_OFFSET = 0.01
_FRAMES = 96  # 0.96 s, without overlap


class VGGish(nn.Module):
    """Six convolutions with pooling between, and three linear layers."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 1
        for widths in ((64,), (128,), (256, 256), (512, 512)):
            for width in widths:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features_network = nn.Sequential(*layers)
        self.embedding_network = nn.Sequential(
            nn.Linear(channels * (_FRAMES // 16) * (_BANDS // 16), 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, 128),
            nn.ReLU(inplace=True),
        )

    def forward(self, input: Tensor) -> Tensor:
        """Embed.

        Args:
            input: (examples, 1, 96, 64), log-mel frames.

        Returns:
            (examples, 128).
        """
        x = self.features_network(input).permute(0, 2, 3, 1)
        return self.embedding_network(x.flatten(1))  # type: ignore[no-any-return]


class VGGishInputProcessor:
    """A waveform -> examples of 0.96 s of log-mel frames; a rest that does not fill one is left out."""

    def __call__(self, input: Tensor) -> Tensor:
        """Cut and transform.

        Args:
            input: (time,) at 16 kHz.

        Returns:
            (examples, 1, 96, 64).

        Raises:
            ValueError: the waveform has not one dimension, or is shorter than an example.
        """
        if input.ndim != 1:
            raise ValueError(f"input has the shape {tuple(input.shape)}, expected (time,).")
        shortest = _WINDOW + (_FRAMES - 1) * _HOP
        if len(input) < shortest:
            raise ValueError(f"The waveform has {len(input)} samples, expected at least {shortest}; pad it with zeros.")
        windows = input.unfold(0, _WINDOW, _HOP) * torch.hann_window(_WINDOW, device=input.device, dtype=input.dtype)
        amplitudes = torch.fft.rfft(windows, _FFT).abs()
        log_mel: Tensor = (amplitudes @ _mel_bands().to(amplitudes) + _OFFSET).log()
        return log_mel.unfold(0, _FRAMES, _FRAMES).transpose(1, 2).unsqueeze(1)


def _mel_bands() -> Tensor:
    """(bins, bands): triangles that are straight in mel, as in HTK, without the lowest bin."""

    def mel(hertz: Tensor) -> Tensor:
        return 1127.0 * torch.log1p(hertz / 700.0)

    bins = mel(torch.linspace(0.0, _SAMPLE_RATE / 2, _FFT // 2 + 1))[:, None]
    low, high = mel(torch.tensor([_LOWEST_HZ, _HIGHEST_HZ])).tolist()
    edges = torch.linspace(low, high, _BANDS + 2)
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    bands = torch.minimum(rising, falling).clamp(min=0.0)
    bands[0] = 0.0
    return bands


@register_model(task="audio-representation", tags=("sound", "prototype"))
def vggish(*, weights: VGGish_Weights | None = None, progress: bool = True, **kwargs: Any) -> VGGish:
    """VGGish of 72 million parameters (arXiv:1609.09430).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    return build_with_weights(VGGish, VGGish_Weights.verify(weights), progress=progress, **kwargs)


# Inside the class these names are its attributes, which type checkers do not take for types.
_VGGish: TypeAlias = VGGish
_VGGishInputProcessor: TypeAlias = VGGishInputProcessor


@dataclass
class VGGishBundle:
    """VGGish with its input processing."""

    VGGish = VGGish
    VGGishInputProcessor = VGGishInputProcessor

    _state_dict_func: Callable[[], Mapping[str, Tensor]]

    @property
    def sample_rate(self) -> int:
        """Hz, of the waveforms that the input processor takes."""
        return _SAMPLE_RATE

    def get_model(self) -> _VGGish:
        """Build the network with its weights, in eval mode.

        Raises:
            DownloadError: the file could not be fetched.
            CheckpointError: it does not fit.
        """
        model = VGGish()
        load_into(model, self._state_dict_func(), assign=True)
        return model.eval()

    def get_input_processor(self) -> _VGGishInputProcessor:
        """Makes examples of a waveform."""
        return VGGishInputProcessor()


def _state() -> Mapping[str, Any]:
    return load_state_dict(asset("models/vggish.pt"))


VGGISH = VGGishBundle(_state)
