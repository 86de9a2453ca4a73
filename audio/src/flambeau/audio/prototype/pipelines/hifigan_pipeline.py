"""The bundle of HiFi-GAN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flambeau.audio.pipelines._files import checkpoint
from flambeau.audio.weights._records import MODELS
from flambeau.audio.weights.synthesis import HiFiGAN_V3_Weights

if TYPE_CHECKING:
    from torch import nn

    from flambeau.audio.prototype.models import HiFiGANVocoder

__all__ = ["HIFIGAN_VOCODER_V3_LJSPEECH", "HiFiGANVocoderBundle"]


@dataclass
class HiFiGANVocoderBundle:
    """A generator of waveforms and the spectrograms it was trained on."""

    _path: str
    _vocoder_params: dict[str, Any]
    _mel_params: dict[str, Any]
    _sample_rate: float

    @property
    def sample_rate(self) -> float:
        """Hz, of the waveforms."""
        return self._sample_rate

    def get_vocoder(self, *, dl_kwargs: dict[str, Any] | None = None) -> HiFiGANVocoder:
        """Build the generator with its weights, in eval mode.

        Args:
            dl_kwargs: how to fetch the file, as for `torch.hub.load_state_dict_from_url`.

        Raises:
            DownloadError: the file could not be fetched.
            CheckpointError: it does not fit.
        """
        from flambeau.audio.prototype.models import hifigan_vocoder
        from flambeau.core.weights import build_with_weights

        path, options = checkpoint(self._path, dl_kwargs)
        return build_with_weights(hifigan_vocoder, path, **options, **self._vocoder_params).eval()

    def get_mel_transform(self) -> nn.Module:
        """A module that makes spectrograms (batch, bands, frames) of waveforms (batch, time)."""
        from flambeau.audio.prototype.pipelines.hifigan_features import MelTransform

        parameters = self._mel_params | {"n_mels": self._vocoder_params["in_channels"]}
        return MelTransform(sample_rate=int(self._sample_rate), **parameters)


_V3 = HiFiGAN_V3_Weights.HIFIGAN_VOCODER_V3_LJSPEECH
HIFIGAN_VOCODER_V3_LJSPEECH = HiFiGANVocoderBundle(
    _V3.url.removeprefix(MODELS),
    _vocoder_params={
        "upsample_rates": (8, 8, 4),
        "upsample_kernel_sizes": (16, 16, 8),
        "upsample_initial_channel": 256,
        "resblock_kernel_sizes": (3, 5, 7),
        "resblock_dilation_sizes": ((1, 2), (2, 6), (3, 12)),
        "resblock_type": 2,
        "in_channels": 80,
        "lrelu_slope": 0.1,
    },
    _mel_params={"hop_size": 256, "n_fft": 1024, "win_length": 1024, "f_min": 0, "f_max": 8000},
    _sample_rate=_V3.meta["sample_rate"],
)
