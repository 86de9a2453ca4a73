"""Wav2Letter (Collobert et al. 2016, arXiv:1609.03193)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Wav2Letter"]

_INPUTS = ("waveform", "power_spectrum", "mfcc")


class Wav2Letter(nn.Module):
    """A stack of convolutions from audio to letters.

    Args:
        num_classes: classes.
        input_type: "waveform", "power_spectrum" or "mfcc"; a waveform goes through one convolution more.
        num_features: channels of the input, 1 for a waveform.

    Raises:
        ValueError: another `input_type`.
    """

    def __init__(self, num_classes: int = 40, input_type: str = "waveform", num_features: int = 1) -> None:
        super().__init__()
        if input_type not in _INPUTS:
            raise ValueError(f"input_type is {input_type!r}, expected one of {', '.join(_INPUTS)}.")
        waveform = input_type == "waveform"
        layers: list[nn.Module] = []
        shapes = [(48, 2, 23, 250), *[(7, 1, 3, 250)] * 7, (32, 1, 16, 2000), (1, 1, 0, 2000), (1, 1, 0, num_classes)]
        channels = 250 if waveform else num_features
        for kernel_size, stride, padding, outputs in shapes:
            layers += [nn.Conv1d(channels, outputs, kernel_size, stride, padding), nn.ReLU()]
            channels = outputs
        self.acoustic_model = nn.Sequential(*layers)
        if waveform:
            frames = nn.Sequential(nn.Conv1d(num_features, 250, 250, stride=160, padding=45), nn.ReLU())
            self.acoustic_model = nn.Sequential(frames, self.acoustic_model)

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities of the classes.

        Args:
            x: (batch, num_features, time).

        Returns:
            (batch, num_classes, frames).
        """
        return F.log_softmax(self.acoustic_model(x), dim=1)
