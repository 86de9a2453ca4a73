"""A small recogniser of spoken digits: small enough to ship with its weights inside the package, and made for streams.

A transducer (Graves 2012, arXiv:1211.3711) whose transcriber is five blocks of causal convolutions; its symbols are the
ten digits and the blank. It hears 160 ms at a time and 40 ms ahead, and remembers 1.6 s.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.models._api import register_model
from flambeau.audio.models._causal_convolutions import CausalConvolutions
from flambeau.audio.models.rnnt import RNNT, _Joiner, _Predictor
from flambeau.audio.weights.digit_recognizer import Digit_Recognizer_Weights
from flambeau.core.weights import build_with_weights

__all__ = ["Digit_Recognizer_Weights", "LogMelFrames", "digit_recognizer"]

SEGMENT, RIGHT_CONTEXT = 16, 4  # frames of 10 ms


class LogMelFrames(nn.Module):
    """Logarithms of mel energies, frame by frame, nothing of which depends on what comes later.

    Frames do not reach beyond the recording's ends, so a stream gives the same ones as the whole.

    Args:
        sample_rate: in Hz.
        n_fft: samples of a frame.
        hop_length: samples between the beginnings of two frames.
        n_mels: channels.

    Shape:
        (..., time), float -> (..., frames, n_mels); frames = (time - n_fft) // hop_length + 1, none below `n_fft`.
    """

    def __init__(self, sample_rate: int = 16_000, n_fft: int = 400, hop_length: int = 160, n_mels: int = 40) -> None:
        super().__init__()
        from flambeau.audio.transforms import MelSpectrogram

        self.sample_rate, self.n_fft, self.hop_length, self.n_mels = sample_rate, n_fft, hop_length, n_mels
        self.mel = MelSpectrogram(
            sample_rate, n_fft=n_fft, hop_length=hop_length, f_min=60.0, f_max=7600.0, n_mels=n_mels, center=False
        )

    def forward(self, waveform: Tensor) -> Tensor:
        """Map (..., time) to (..., frames, n_mels), around 0 and of about unit size for speech."""
        if waveform.shape[-1] < self.n_fft:
            return waveform.new_zeros(*waveform.shape[:-1], 0, self.n_mels)
        mel: Tensor = self.mel(waveform)
        return (torch.log(mel.clamp(min=1e-5)) + 2.0).transpose(-1, -2) / 4.0


@register_model(task="speech-recognition", tags=("embedded", "digits", "english", "streaming"))
def digit_recognizer(*, weights: Digit_Recognizer_Weights | None = None, progress: bool = True, **kwargs: Any) -> RNNT:
    """Recogniser of spoken digits, for `flambeau.audio.recognition.Recognizer` or a search of one's own.

    Args:
        weights: pretrained weights, which are part of the package, their name, or None for random initialization.
        progress: accepted as every builder does; there is nothing to download.
        **kwargs: `num_symbols`, the blank counted, 11; `device` and `dtype` place the weights.

    Shape:
        see `RNNT`; features (N, frames, 40) of `LogMelFrames`, segments of 16 frames and 4 ahead.
    """
    weights = Digit_Recognizer_Weights.verify(weights)
    return build_with_weights(_network, weights, progress=progress, **kwargs)


def _network(num_symbols: int = 11) -> RNNT:
    transcriber = CausalConvolutions(
        input_dim=40,
        output_dim=128,
        stride=4,
        right_context=RIGHT_CONTEXT,
        width=128,
        kernel_size=5,
        dilations=(1, 2, 4, 1, 2),
        dropout=0.1,
    )
    predictor = _Predictor(
        num_symbols,
        128,
        symbol_embedding_dim=48,
        num_lstm_layers=1,
        lstm_hidden_dim=48,
        lstm_layer_norm=True,
        lstm_layer_norm_epsilon=1e-3,
    )
    return RNNT(transcriber, predictor, _Joiner(128, num_symbols))
