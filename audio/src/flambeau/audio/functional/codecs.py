"""Codecs as augmentation."""

from __future__ import annotations

import io

from torch import Tensor

__all__ = ["apply_codec"]


def apply_codec(
    waveform: Tensor,
    sample_rate: int,
    format: str,
    channels_first: bool = True,
    compression: float | None = None,
    encoding: str | None = None,
    bits_per_sample: int | None = None,
) -> Tensor:
    """Encode a waveform and decode it again, which leaves the codec's traces on it.

    Args:
        waveform: (channels, frames), or (frames, channels) without `channels_first`; floats in [-1, 1].
        sample_rate: in Hz.
        format: the container, such as `wav`, `mp3`, `ogg`, `amr-nb`.
        channels_first: see `waveform`.
        compression: as in `flambeau.audio.save`.
        encoding: as there.
        bits_per_sample: as there.

    Returns:
        float32 of the same layout and sample rate; the number of frames may differ by the codec's padding.

    Raises:
        MediaError: the codec refuses, or is not there (a RuntimeError).
        ValueError: settings that the format does not have.
    """
    from flambeau.audio.backend.dispatch import load, save
    from flambeau.audio.functional.resampling import resample

    file = io.BytesIO()
    save(file, waveform, sample_rate, channels_first, format, encoding, bits_per_sample, compression=compression)
    file.seek(0)
    coded, rate = load(file, channels_first=channels_first)
    if rate == sample_rate:
        return coded
    coded = coded if channels_first else coded.T
    coded = resample(coded, rate, sample_rate)
    return coded if channels_first else coded.T
