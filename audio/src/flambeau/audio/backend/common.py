"""What is known of a recording."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AudioMetaData"]


@dataclass
class AudioMetaData:
    """What `flambeau.audio.info` tells.

    Attributes:
        sample_rate: in Hz.
        num_frames: samples per channel, as many as `load` gives.
        num_channels: how many.
        bits_per_sample: as stored; 0 for codecs that keep no samples, such as MP3.
        encoding: `PCM_S, PCM_U, PCM_F, FLAC, ULAW, ALAW, MP3, VORBIS, OPUS, AAC, AMR_NB, AMR_WB, GSM` or `UNKNOWN`.
    """

    sample_rate: int
    num_frames: int
    num_channels: int
    bits_per_sample: int
    encoding: str
