"""From tensors to packets: the frames, filters and encoder of one stream of a writer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from flambeau.audio.io._errors import MediaError, MediaValueError
from flambeau.audio.io._filters import AudioShape, VideoShape, audio_graph, layout_of, pull, video_graph
from flambeau.audio.io._formats import sample_format
from flambeau.audio.io._libav import errors, libav

# Pixel formats of chunks: channels, and FFmpeg's name.
_PIXELS = {"gray8": (1, "gray"), "rgb24": (3, "rgb24"), "bgr24": (3, "bgr24"), "yuv444p": (3, "yuv444p")}


@dataclass
class EncoderWish:
    """What the caller said of an encoder; None leaves it to FFmpeg."""

    name: str | None = None
    option: dict[str, str] = field(default_factory=dict)
    format: str | None = None
    filter_desc: str | None = None


def find_encoder(name: str, media_type: str) -> Any:
    """PyAV's description of an encoder.

    Raises:
        MediaError: there is no encoder of this name.
    """
    av = libav()
    try:
        codec = av.Codec(name, "w")
    except ValueError as error:
        raise MediaError(
            f"Unsupported encoder: {name!r}. FFmpeg has no {media_type} encoder of this name; "
            f"flambeau.audio.utils.ffmpeg_utils.get_{media_type}_encoders() lists those of the program."
        ) from error
    if codec.type != media_type:
        raise MediaError(f"{name!r} is not a {media_type} encoder; it is of {codec.type}.")
    return codec


def choose_format(codec: Any, wanted: str | None, source: str) -> str:
    """The frame format that goes into an encoder: the one wanted, else the source's, else its first.

    Raises:
        MediaError: the encoder does not take the wanted one.
    """
    offered = codec.audio_formats if codec.type == "audio" else codec.video_formats
    names = [item.name for item in offered or ()]
    if wanted is not None:
        if names and wanted not in names:
            raise MediaError(f"{codec.name} does not take the format {wanted!r}; it takes {', '.join(names)}.")
        return wanted
    return source if source in names or not names else names[0]


def choose_rate(codec: Any, wanted: int | None, source: int) -> int:
    """The sample rate that goes into an encoder: the one wanted, else the source's, else the next higher it takes.

    Raises:
        MediaError: the encoder does not take the wanted one.
    """
    offered = sorted(codec.audio_rates or ())
    if wanted is not None:
        if offered and wanted not in offered:
            raise MediaError(f"{codec.name} does not take {wanted} Hz; it takes {', '.join(map(str, offered))}.")
        return wanted
    if not offered or source in offered:
        return source
    return next((rate for rate in offered if rate > source), offered[-1])


class _Encoder:
    """Frames go through filters into an encoder, one after the other."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream = stream
        self._name = name
        self._graph: Any = None
        self._next_pts = 0

    def flush(self) -> Iterator[Any]:
        """Packets of what filters and encoder still hold."""
        with errors(f"Failed to encode into {self._name}"):
            if self._graph is not None:
                self._graph.push(None)
                while (out := pull(self._graph)) is not None:
                    yield from self._stream.encode(out)
            yield from self._stream.encode(None)

    def _push(self, frame: Any, length: int, pts: float | None, rate: Fraction) -> Iterator[Any]:
        frame.time_base = 1 / rate
        frame.pts = self._next_pts if pts is None else round(pts * rate)
        self._next_pts = frame.pts + length
        with errors(f"Failed to encode into {self._name}"):
            self._graph.push(frame)
            while (out := pull(self._graph)) is not None:
                yield from self._stream.encode(out)


class AudioEncoder(_Encoder):
    """An audio stream of a writer.

    Args:
        container: PyAV's output.
        name: how messages call it.
        sample_rate: of the chunks.
        num_channels: of the chunks.
        format: of the chunks, packed.
        wish: encoder, its options and format, filters.
        rate: what the encoder gets; None as `choose_rate` says.
        channels: what the encoder gets; None for the chunks'.
    """

    def __init__(
        self,
        container: Any,
        name: str,
        sample_rate: int,
        num_channels: int,
        format: str,
        wish: EncoderWish,
        rate: int | None,
        channels: int | None,
    ) -> None:
        if sample_rate <= 0 or num_channels <= 0:
            raise MediaValueError(f"sample_rate {sample_rate} and num_channels {num_channels} must be above 0.")
        if format.endswith("p"):
            raise MediaValueError(f"Chunks are packed: expected a format such as 'flt', got {format!r}.")
        self._format, self._rate, self._channels = sample_format(format), sample_rate, num_channels
        codec = find_encoder(_default(container, "audio", wish.name, name), "audio")
        encoder_rate = choose_rate(codec, rate, sample_rate)
        encoder_format = choose_format(codec, wish.format, format)
        layout = layout_of(channels or num_channels)
        with errors(f"Failed to add the encoder {codec.name} to {name}"):
            stream = container.add_stream(codec.name, rate=encoder_rate, options=wish.option, layout=layout)
            stream.codec_context.format = encoder_format
            stream.codec_context.time_base = Fraction(1, encoder_rate)
        super().__init__(stream, name)
        last = (
            ("aresample", str(encoder_rate)),
            ("aformat", f"sample_fmts={encoder_format}:channel_layouts={layout}"),
        )
        self._graph = audio_graph(AudioShape(format, sample_rate, num_channels), wish.filter_desc, last)

    def encode(self, chunk: Tensor, pts: float | None) -> Iterator[Any]:
        """Packets that a chunk completes.

        Raises:
            MediaError: the chunk is not (frames, channels) of the stream's dtype, or the encoder fails.
        """
        if chunk.ndim != 2:
            raise MediaError(f"An audio chunk is 2 dimensional, (frames, channels); got {list(chunk.shape)}.")
        if chunk.dtype != self._format.dtype:
            raise MediaError(
                f"The stream takes {self._format.dtype} ({self._format.name}), the chunk is of {chunk.dtype}."
            )
        if chunk.shape[1] != self._channels:
            raise MediaError(f"The stream has {self._channels} channel(s), the chunk has {chunk.shape[1]}.")
        if not len(chunk):
            return
        yield from self._push(audio_frame(chunk, self._format.name, self._rate), len(chunk), pts, Fraction(self._rate))


def audio_frame(chunk: Tensor, format: str, rate: int) -> Any:
    """PyAV's frame of (frames, channels); the copy is the only one."""
    av = libav()
    frame = av.AudioFrame(format=format, layout=layout_of(chunk.shape[1]), samples=len(chunk))
    frame.sample_rate = rate
    raw = chunk.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    (plane,) = frame.planes
    plane.update(raw if plane.buffer_size == raw.nbytes else bytes(raw).ljust(plane.buffer_size, b"\0"))
    return frame


class VideoEncoder(_Encoder):
    """A video stream of a writer.

    Args:
        container: PyAV's output.
        name: how messages call it.
        frame_rate: frames a second of the chunks.
        size: width and height of the chunks.
        format: of the chunks.
        wish: encoder, its options and format, filters.
        rate: what the encoder gets; None for the chunks'.
        encoder_size: width and height that the encoder gets; None for the chunks'.
        hw_accel: a CUDA device whose chunks are taken too.
    """

    def __init__(
        self,
        container: Any,
        name: str,
        frame_rate: float,
        size: tuple[int, int],
        format: str,
        wish: EncoderWish,
        rate: float | None,
        encoder_size: tuple[int | None, int | None],
        hw_accel: str | None,
    ) -> None:
        if frame_rate <= 0 or min(size) <= 0:
            raise MediaValueError(f"frame_rate {frame_rate} and size {size[0]} x {size[1]} must be above 0.")
        if format not in _PIXELS:
            raise MediaValueError(f"The format is {format!r}; expected one of {', '.join(_PIXELS)}.")
        self._planes, self._pixels = _PIXELS[format]
        self._size, self._hw_accel = size, hw_accel
        self._rate = _fraction(frame_rate)
        codec = find_encoder(_default(container, "video", wish.name, name), "video")
        encoder_format = choose_format(codec, wish.format, self._pixels)
        encoder_rate = self._rate if rate is None else _fraction(rate)
        width, height = (wanted or given for wanted, given in zip(encoder_size, size, strict=True))
        with errors(f"Failed to add the encoder {codec.name} to {name}"):
            stream = container.add_stream(codec.name, rate=encoder_rate, options=wish.option)
            stream.width, stream.height, stream.pix_fmt = width, height, encoder_format
            stream.codec_context.time_base = 1 / encoder_rate
        super().__init__(stream, name)
        last: list[tuple[str, str]] = []
        if encoder_rate != self._rate:
            last.append(("fps", str(encoder_rate)))
        if (width, height) != size or wish.filter_desc:
            last.append(("scale", f"width={width}:height={height}"))
        last.append(("format", f"pix_fmts={encoder_format}"))
        shape = VideoShape(self._pixels, *size, frame_rate)
        self._graph = video_graph(shape, 1 / self._rate, wish.filter_desc, tuple(last))

    def encode(self, chunk: Tensor, pts: float | None) -> Iterator[Any]:
        """Packets that a chunk completes.

        Raises:
            MediaError: the chunk is not uint8 (frames, C, H, W) of the stream's size, or the encoder fails.
        """
        width, height = self._size
        expected = [self._planes, height, width]
        if chunk.ndim != 4 or chunk.dtype != torch.uint8 or list(chunk.shape[1:]) != expected:
            raise MediaError(
                f"The stream takes uint8 (frames, {', '.join(map(str, expected))}); got {chunk.dtype} "
                f"{list(chunk.shape)}."
            )
        if chunk.device.type != "cpu" and self._hw_accel is None:
            raise MediaError(f"The chunk lies on {chunk.device}; add the stream with hw_accel, or move it to the CPU.")
        for number, picture in enumerate(chunk.detach().cpu()):
            at = None if pts is None else pts + number / float(self._rate)
            yield from self._push(self._frame(picture), 1, at, self._rate)

    def _frame(self, picture: Tensor) -> Any:
        av = libav()
        frame = av.VideoFrame(*self._size, self._pixels)
        parts = picture if self._pixels == "yuv444p" else picture.permute(1, 2, 0).flatten(1)[None]
        for plane, rows in zip(frame.planes, parts, strict=True):
            padded = torch.zeros(plane.height, plane.line_size, dtype=torch.uint8)
            padded[:, : rows.shape[1]] = rows
            plane.update(padded.numpy().tobytes()[: plane.buffer_size])
        return frame


def _default(container: Any, media_type: str, name: str | None, where: str) -> str:
    if name is not None:
        return name
    found = container.default_audio_codec if media_type == "audio" else container.default_video_codec
    if not found or found == "none":
        raise MediaError(f"{where}: the container {container.format.name!r} holds no {media_type}.")
    return str(found)


def _fraction(rate: float) -> Fraction:
    """30000/1001 of 29.97002997."""
    return Fraction(rate).limit_denominator(1001)
