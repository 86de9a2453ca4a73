"""FFmpeg's libraries, through PyAV: opening files without trusting them, and errors with a name."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError
from flambeau.vision.io._devices import notice_cpu_decoding

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream

Source = str | Path | bytes | Tensor

MAX_FRAME_PIXELS = 67_108_864
"""Largest height x width of a frame that is decoded: 8192 x 8192, twice 8K video.

A damaged header can announce frames that fill the memory. Assign a larger number for sources you trust.
"""

# Containers of pictures and sound alone. FFmpeg's playlists and device inputs open further files and addresses, which
# a file from outside must not choose.
_CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,h264,hevc,flv,gif,ogg,asf,wav,mp3,aac,flac,"
    "nut,mxf,rm,ivf,dv,yuv4mpegpipe"
)


class VideoError(FlambeauError, RuntimeError):
    """A video that cannot be read or written: damaged, of an unknown format, without the stream asked for."""


class VideoFileNotFoundError(VideoError, FileNotFoundError):
    """There is no file of this name."""


class MissingVideoLibraryError(VideoError, ImportError):
    """PyAV is not installed; the message says how to install it."""


def libav() -> ModuleType:
    """PyAV's module.

    Raises:
        MissingVideoLibraryError: it is not installed.
    """
    try:
        import av
    except ImportError as error:
        raise MissingVideoLibraryError(
            f'Reading and writing videos needs PyAV ({error}). Run: pip install "flambeau-vision[video]"'
        ) from error
    av.logging.set_level(None)  # what FFmpeg has to say of a file comes as an exception, not on the terminal
    return av


@contextmanager
def errors(what: str) -> Iterator[None]:
    """Turn what PyAV raises into a `VideoError` whose message begins with `what`."""
    av = libav()
    try:
        yield
    except av.FFmpegError as error:
        raise VideoError(
            f"{what}: {error.strerror or error}. The file is damaged, incomplete or not supported."
        ) from error
    except (ValueError, OverflowError, IndexError, MemoryError, AssertionError) as error:
        if isinstance(error, FlambeauError):
            raise
        raise VideoError(f"{what}: {str(error) or type(error).__name__}.") from error


def open_video(source: Source, device: str | torch.device = "cpu") -> InputContainer:
    """Open a video for reading.

    Args:
        source: a path, a file's bytes, or these as [bytes], uint8.
        device: where frames are decoded if FFmpeg can; the CPU otherwise, with one notice.

    Raises:
        MissingVideoLibraryError: PyAV is not installed.
        VideoFileNotFoundError: there is no such file.
        VideoError: it is no video file.
    """
    av = libav()
    where, name = _readable(source)
    hardware: dict[str, Any] = {"hwaccel": accelerator} if (accelerator := _accelerator(torch.device(device))) else {}
    with errors(f"{name} cannot be opened"):
        container: InputContainer = av.open(
            where, container_options={"format_whitelist": _CONTAINERS, "protocol_whitelist": "file"}, **hardware
        )
    if not container.streams.video and not container.streams.audio:
        container.close()
        raise VideoError(f"{name} holds neither pictures nor sound; it is damaged, incomplete or not supported.")
    for stream in container.streams.video:
        context = stream.codec_context
        if context is not None:
            context.options = {"max_pixels": str(MAX_FRAME_PIXELS)}
            if context.width * context.height > MAX_FRAME_PIXELS:
                container.close()
                raise VideoError(
                    f"{name} has frames of {context.height} x {context.width} pixels; the limit is "
                    f"{MAX_FRAME_PIXELS:,}. For a source you trust, raise flambeau.vision.io._libav.MAX_FRAME_PIXELS."
                )
    return container


def select_stream(container: InputContainer, name: str) -> Stream:
    """The stream called `name`: "video", "audio", or "audio:1" for the second of its kind.

    Raises:
        ValueError: `name` has another form.
        VideoError: the file has no such stream.
    """
    kind, _, number = name.partition(":")
    if kind not in ("video", "audio") or (number and not number.isdecimal()):
        raise ValueError(
            f"The stream is {name!r}; expected 'video' or 'audio', or one with a number such as 'audio:1'."
        )
    streams = list(getattr(container.streams, kind))
    if int(number or 0) >= len(streams):
        raise VideoError(f"There is no stream {name!r}: the file has {len(streams)} {kind} stream(s).")
    stream: Stream = streams[int(number or 0)]
    if stream.codec_context is None:
        raise VideoError(f"The stream {name!r} is of a codec that this build of FFmpeg cannot decode.")
    return stream


def time_base_of(stream: Stream) -> Fraction:
    """Seconds of one tick of the stream's clock.

    Raises:
        VideoError: the file does not tell.
    """
    base = stream.time_base
    if not base:
        raise VideoError("The stream has no clock; the file is damaged or not supported.")
    return Fraction(base)


def _readable(source: Source) -> tuple[str | io.BytesIO, str]:
    """What FFmpeg reads from, and how to call it in messages."""
    if isinstance(source, Tensor):
        if source.dtype != torch.uint8 or source.ndim != 1:
            raise VideoError(
                f"Expected a 1-dimensional uint8 tensor of a file's bytes, got {source.dtype} {list(source.shape)}."
            )
        source = source.cpu().numpy().tobytes()
    if isinstance(source, bytes | bytearray):
        if not source:
            raise VideoError("Expected the bytes of a video file, got none.")
        return io.BytesIO(source), "The video"
    path = Path(source)
    if not path.is_file():
        if path.exists():
            raise VideoError(f"{os.fspath(source)!r} is no file; expected a video.")
        raise VideoFileNotFoundError(f"File not found: {os.fspath(source)!r}; check the path.")
    # With the protocol named, a colon in a file's name is no address.
    return f"file:{path}", f"{os.fspath(source)!r}"


def _accelerator(device: torch.device) -> Any:
    """PyAV's description of the hardware decoder of a device, None for the CPU and where there is none."""
    if device.type == "cpu":
        return None
    from av.codec.hwaccel import HWAccel, hwdevices_available

    if device.type not in hwdevices_available() or not torch.cuda.is_available():
        notice_cpu_decoding(device, "Videos")
        return None
    return HWAccel(device_type=device.type, device=str(device.index or 0), allow_software_fallback=True)
