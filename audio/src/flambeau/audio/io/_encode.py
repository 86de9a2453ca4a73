"""From tensors to packets: the frames, filters and encoder of one stream of a writer."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from flambeau.audio.io._encoders import libav_encoder
from flambeau.audio.io._errors import MediaError
from flambeau.audio.io._filters import AudioShape, VideoShape, audio_graph, layout_of, pull, video_graph
from flambeau.audio.io._libav import errors, libav
from flambeau.audio.io._output_options import AudioWish, VideoWish


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
        wish: what the caller asks.
    """

    def __init__(self, container: Any, name: str, wish: AudioWish) -> None:
        self._wish = wish
        encoder = libav_encoder(_default(container, "audio", wish.encoder, name), "audio")
        rate = encoder.choose_rate(wish.encoder_rate, wish.sample_rate)
        format = encoder.choose_format(wish.encoder_format, wish.format)
        layout = layout_of(wish.encoder_channels or wish.num_channels)
        with errors(f"Failed to add the encoder {encoder.name} to {name}"):
            stream = container.add_stream(encoder.name, rate=rate, options=encoder.options(wish.option), layout=layout)
            stream.codec_context.format = format
            stream.codec_context.time_base = Fraction(1, rate)
        super().__init__(stream, name)
        last = (("aresample", str(rate)), ("aformat", f"sample_fmts={format}:channel_layouts={layout}"))
        shape = AudioShape(wish.format, wish.sample_rate, wish.num_channels)
        self._graph = audio_graph(shape, wish.filter_desc, last)

    def encode(self, chunk: Tensor, pts: float | None) -> Iterator[Any]:
        """Packets that a chunk completes.

        Raises:
            MediaError: the encoder fails.
        """
        if not len(chunk):
            return
        rate = self._wish.sample_rate
        yield from self._push(audio_frame(chunk, self._wish.format, rate), len(chunk), pts, Fraction(rate))


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
        wish: what the caller asks.
    """

    def __init__(self, container: Any, name: str, wish: VideoWish) -> None:
        self._wish = wish
        encoder = libav_encoder(_default(container, "video", wish.encoder, name), "video")
        pixels = encoder.choose_format(wish.encoder_format, wish.pixels)
        with errors(f"Failed to add the encoder {encoder.name} to {name}"):
            stream = container.add_stream(encoder.name, rate=wish.encoded_rate, options=encoder.options(wish.option))
            stream.width, stream.height = wish.encoded_size
            stream.pix_fmt = pixels
            stream.codec_context.time_base = 1 / wish.encoded_rate
        super().__init__(stream, name)
        shape = VideoShape(wish.pixels, wish.width, wish.height, wish.frame_rate)
        self._graph = video_graph(shape, 1 / wish.rate, wish.filter_desc, tuple(wish.filters(pixels)))

    def encode(self, chunk: Tensor, pts: float | None) -> Iterator[Any]:
        """Packets that a chunk completes.

        Raises:
            MediaError: the encoder fails.
        """
        rate = self._wish.rate
        for number, picture in enumerate(chunk.detach().cpu()):
            at = None if pts is None else pts + number / float(rate)
            yield from self._push(self._frame(picture), 1, at, rate)

    def _frame(self, picture: Tensor) -> Any:
        av = libav()
        frame = av.VideoFrame(self._wish.width, self._wish.height, self._wish.pixels)
        parts = picture if self._wish.pixels == "yuv444p" else picture.permute(1, 2, 0).flatten(1)[None]
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
