"""What a caller asks of a stream that is written, and which chunks it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import torch
from torch import Tensor

from flambeau.audio.io._errors import MediaError, MediaValueError
from flambeau.audio.io._formats import sample_format

# Pixel formats of chunks: channels, and FFmpeg's name.
PIXELS = {"gray8": (1, "gray"), "rgb24": (3, "rgb24"), "bgr24": (3, "bgr24"), "yuv444p": (3, "yuv444p")}


@dataclass(frozen=True)
class AudioWish:
    """An audio stream as it was asked for; None leaves a thing to FFmpeg.

    Attributes:
        sample_rate: of the chunks, in Hz.
        num_channels: of the chunks.
        format: of the chunks, packed.
        encoder: FFmpeg's name.
        option: the encoder's options.
        encoder_format: sample format that is encoded.
        filter_desc: filters before the encoder.
        encoder_rate: sample rate that is encoded.
        encoder_channels: channels that are encoded.

    Raises:
        MediaValueError: no chunks could be like this.
    """

    media_type: ClassVar[str] = "audio"

    sample_rate: int
    num_channels: int
    format: str
    encoder: str | None = None
    option: dict[str, str] = field(default_factory=dict)
    encoder_format: str | None = None
    filter_desc: str | None = None
    encoder_rate: int | None = None
    encoder_channels: int | None = None

    def __post_init__(self) -> None:
        if self.sample_rate <= 0 or self.num_channels <= 0:
            raise MediaValueError(
                f"sample_rate {self.sample_rate} and num_channels {self.num_channels} must be above 0."
            )
        if self.format.endswith("p"):
            raise MediaValueError(f"Chunks are packed: expected a format such as 'flt', got {self.format!r}.")
        sample_format(self.format)

    def check(self, chunk: Tensor) -> None:
        """Refuse a chunk that is not (frames, channels) of the stream's dtype.

        Raises:
            MediaError: it is not.
        """
        expected = sample_format(self.format)
        if chunk.ndim != 2:
            raise MediaError(f"An audio chunk is 2 dimensional, (frames, channels); got {list(chunk.shape)}.")
        if chunk.dtype != expected.dtype:
            raise MediaError(f"The stream takes {expected.dtype} ({expected.name}), the chunk is of {chunk.dtype}.")
        if chunk.shape[1] != self.num_channels:
            raise MediaError(f"The stream has {self.num_channels} channel(s), the chunk has {chunk.shape[1]}.")


@dataclass(frozen=True)
class VideoWish:
    """A video stream as it was asked for; None leaves a thing to FFmpeg.

    Attributes:
        frame_rate: frames a second of the chunks.
        width: of the chunks, in pixels.
        height: of the chunks, in pixels.
        format: of the chunks.
        encoder: FFmpeg's name.
        option: the encoder's options.
        encoder_format: pixel format that is encoded.
        filter_desc: filters before the encoder.
        encoder_rate: frames a second that are encoded.
        encoder_size: width and height that are encoded.
        hw_accel: a CUDA device whose chunks are taken too.

    Raises:
        MediaValueError: no chunks could be like this.
    """

    media_type: ClassVar[str] = "video"

    frame_rate: float
    width: int
    height: int
    format: str
    encoder: str | None = None
    option: dict[str, str] = field(default_factory=dict)
    encoder_format: str | None = None
    filter_desc: str | None = None
    encoder_rate: float | None = None
    encoder_size: tuple[int | None, int | None] = (None, None)
    hw_accel: str | None = None

    def __post_init__(self) -> None:
        if self.frame_rate <= 0 or min(self.width, self.height) <= 0:
            raise MediaValueError(
                f"frame_rate {self.frame_rate} and size {self.width} x {self.height} must be above 0."
            )
        if self.format not in PIXELS:
            raise MediaValueError(f"The format is {self.format!r}; expected one of {', '.join(PIXELS)}.")

    @property
    def pixels(self) -> str:
        """FFmpeg's name of the chunks' format."""
        return PIXELS[self.format][1]

    @property
    def rate(self) -> Fraction:
        """The chunks' frame rate: 30000/1001 of 29.97002997."""
        return _fraction(self.frame_rate)

    @property
    def encoded_rate(self) -> Fraction:
        """The frame rate that is encoded."""
        return self.rate if self.encoder_rate is None else _fraction(self.encoder_rate)

    @property
    def encoded_size(self) -> tuple[int, int]:
        """Width and height that are encoded."""
        width, height = self.encoder_size
        return width or self.width, height or self.height

    def check(self, chunk: Tensor) -> None:
        """Refuse a chunk that is not uint8 (frames, C, H, W) of the stream's size.

        Raises:
            MediaError: it is not.
        """
        expected = [PIXELS[self.format][0], self.height, self.width]
        if chunk.ndim != 4 or chunk.dtype != torch.uint8 or list(chunk.shape[1:]) != expected:
            raise MediaError(
                f"The stream takes uint8 (frames, {', '.join(map(str, expected))}); got {chunk.dtype} "
                f"{list(chunk.shape)}."
            )
        if chunk.device.type != "cpu" and self.hw_accel is None:
            raise MediaError(f"The chunk lies on {chunk.device}; add the stream with hw_accel, or move it to the CPU.")

    def filters(self, pixels: str) -> list[tuple[str, str]]:
        """The filters behind the caller's: to the encoder's rate, size and pixel format."""
        found = [("fps", str(self.encoded_rate))] if self.encoded_rate != self.rate else []
        if self.encoded_size != (self.width, self.height) or self.filter_desc:
            width, height = self.encoded_size
            found.append(("scale", f"width={width}:height={height}"))
        return [*found, ("format", f"pix_fmts={pixels}")]


Wish = AudioWish | VideoWish


def _fraction(rate: float) -> Fraction:
    return Fraction(rate).limit_denominator(1001)
