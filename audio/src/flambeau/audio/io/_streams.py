"""What a source holds and what a reader gives out: plain records."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class SourceStream:
    """A stream of a source.

    Attributes:
        media_type: "audio", "video", "subtitle", "data" or "attachment".
        codec: short name such as `aac`.
        codec_long_name: the codec's full name.
        format: sample format (`fltp`) or pixel format (`yuv420p`); None where there is none.
        bit_rate: bits a second; 0 where the source does not tell.
        num_frames: frames of the stream as the container counts them; 0 where it does not.
        bits_per_sample: of audio as it was before coding; 0 where that means nothing.
        metadata: its tags.
    """

    media_type: str
    codec: str
    codec_long_name: str
    format: str | None
    bit_rate: int
    num_frames: int
    bits_per_sample: int
    metadata: dict[str, str]


@dataclass
class SourceAudioStream(SourceStream):
    """An audio stream of a source.

    Attributes:
        sample_rate: in Hz.
        num_channels: how many.
    """

    sample_rate: float
    num_channels: int


@dataclass
class SourceVideoStream(SourceStream):
    """A video stream of a source.

    Attributes:
        width: in pixels.
        height: in pixels.
        frame_rate: frames a second; 0 where the source does not tell.
    """

    width: int
    height: int
    frame_rate: float


@dataclass
class OutputStream:
    """A stream that a reader gives out.

    Attributes:
        source_index: number of the source's stream it comes from.
        filter_description: the chain of filters between.
        media_type: "audio" or "video".
        format: of the frames behind the filters, such as `fltp` or `rgb24`.
    """

    source_index: int
    filter_description: str
    media_type: str
    format: str


@dataclass
class OutputAudioStream(OutputStream):
    """An audio stream that a reader gives out.

    Attributes:
        sample_rate: in Hz, behind the filters.
        num_channels: behind the filters.
    """

    sample_rate: float
    num_channels: int


@dataclass
class OutputVideoStream(OutputStream):
    """A video stream that a reader gives out.

    Attributes:
        width: in pixels, behind the filters.
        height: in pixels, behind the filters.
        frame_rate: frames a second, behind the filters; 0 where that cannot be told beforehand.
    """

    width: int
    height: int
    frame_rate: float


@dataclass
class Probe:
    """What is known of a source before anything of it is decoded.

    Attributes:
        streams: all of them, by number.
        metadata: the container's tags.
        best: "audio" and "video" to the number of the stream that FFmpeg takes by default.
        start_s: the source's first time in seconds.
        duration_s: None where unknown.
        starts_s: each stream's own first time; None where unknown.
    """

    streams: list[SourceStream]
    metadata: dict[str, str]
    best: dict[str, int]
    start_s: float = 0.0
    duration_s: float | None = None
    starts_s: list[float | None] = field(default_factory=list)


@dataclass
class Output:
    """An output as it was asked for, and what it will look like.

    Attributes:
        info: the public record.
        frames_per_chunk: frames of one chunk; -1 for no chunking.
        buffer_chunk_size: chunks kept; -1 without limit.
        decoder: FFmpeg's name of the decoder; None for the default.
        decoder_option: the decoder's options.
        hw_accel: a device such as "cuda:0", None for the CPU.
        layout: channel layout behind the filters, where it is known.
    """

    info: OutputAudioStream | OutputVideoStream
    frames_per_chunk: int
    buffer_chunk_size: int
    decoder: str | None = None
    decoder_option: dict[str, str] = field(default_factory=dict)
    hw_accel: str | None = None
