"""Whole videos: read into tensors, and written."""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from flambeau.vision.io._frames import TOLERANCE_TICKS, FrameSource, rate_of, samples
from flambeau.vision.io._libav import (
    MissingVideoLibraryError,
    VideoError,
    VideoFileNotFoundError,
    errors,
    libav,
    open_video,
)
from flambeau.vision.io.video_decoder import VideoDecoder
from flambeau.vision.io.video_reader import VideoReader

if TYPE_CHECKING:
    from av.container import OutputContainer

__all__ = [
    "MissingVideoLibraryError",
    "VideoDecoder",
    "VideoError",
    "VideoFileNotFoundError",
    "VideoReader",
    "read_video",
    "read_video_timestamps",
    "write_video",
]

MAX_VIDEO_BYTES = 2**35
"""Largest size of all frames of a video that `read_video` gives, 32 GiB.

Some kilobytes of black frames can unpack to more than any memory. Assign a larger number for sources you trust.
"""

_LAYOUTS = {1: "mono", 2: "stereo", 3: "2.1", 4: "4.0", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}
_PTS_WARNING = "The pts_unit 'pts' gives wrong results. Please use pts_unit 'sec'."


def read_video(
    filename: str | Path,
    start_pts: float | Fraction = 0,
    end_pts: float | Fraction | None = None,
    pts_unit: Literal["pts", "sec"] = "pts",
    output_format: str = "THWC",
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Read a video's frames and sound into memory.

    Args:
        filename: the file.
        start_pts: time of the first frame. A frame that is on the screen then, though it came earlier, counts.
        end_pts: time of the last frame, which is included; by default the end.
        pts_unit: "sec" for seconds, "pts" for ticks of the video stream (warns: other files have other ticks).
        output_format: "THWC" or "TCHW".

    Returns:
        The frames, uint8 [T, H, W, C] or [T, C, H, W] (T = 0, and 1 x 1 pixels of 3 channels, where there are none);
        the sound from `start_pts` to `end_pts`, float32 [K, L] in [-1, 1] (1 channel of no sample where there is
        none); and "video_fps" (float) and "audio_fps" (int, samples per second) of the streams there are.

    Raises:
        VideoError: the file is damaged, of an unknown format, or its frames exceed `MAX_VIDEO_BYTES`.
        VideoFileNotFoundError: there is no such file (a FileNotFoundError and a RuntimeError).
        MissingVideoLibraryError: PyAV is not installed (an ImportError).
        ValueError: a unit, a format or an order of times that does not exist.
    """
    layout = output_format.upper()
    if layout not in ("THWC", "TCHW"):
        raise ValueError(f"output_format is {output_format!r}; choose 'THWC', channels last, or 'TCHW'.")
    _check_unit(pts_unit)
    end = math.inf if end_pts is None else end_pts
    if end < start_pts:
        raise ValueError(f"start_pts is {start_pts} and end_pts {end_pts}; expected a start before the end.")
    info: dict[str, Any] = {}
    frames, sound = torch.empty(0, 1, 1, 3, dtype=torch.uint8), torch.empty(1, 0)
    with open_video(filename) as container:
        has_video, has_audio = bool(container.streams.video), bool(container.streams.audio)
        if has_video and (rate := rate_of(container.streams.video[0])):
            info["video_fps"] = float(rate)
        if has_audio and (rate := rate_of(container.streams.audio[0])):
            info["audio_fps"] = int(rate)
    tick = Fraction(1)
    if has_video:
        video = FrameSource(filename, "video")
        tick = video.time_base if pts_unit == "pts" else tick
        frames = _read_frames(video, _times(start_pts, end, tick))
    if has_audio:
        audio = FrameSource(filename, "audio")
        tick = tick if has_video or pts_unit == "sec" else audio.time_base
        sound = _read_sound(audio, _times(start_pts, end, tick))
    return frames.permute(0, 3, 1, 2) if layout == "TCHW" else frames, sound, info


def read_sound(
    filename: str | Path, start: Fraction = Fraction(0), end: Fraction | None = None
) -> tuple[Tensor, int | None]:
    """The first stream of sound from one second to another: [K, L] and samples per second; [1, 0] and None without."""
    with open_video(filename) as container:
        if not container.streams.audio:
            return torch.empty(1, 0), None
        rate = rate_of(container.streams.audio[0])
    return _read_sound(FrameSource(filename, "audio"), (start, end)), int(rate or 0) or None


def read_video_timestamps(
    filename: str | Path, pts_unit: Literal["pts", "sec"] = "pts"
) -> tuple[list[int] | list[Fraction], float | None]:
    """The times of a video's frames, in the order shown, without decoding where the file tells them.

    Args:
        filename: the file.
        pts_unit: "sec" for seconds as fractions, "pts" for ticks of the video stream (warns).

    Returns:
        The times, and frames per second; an empty list and None where there is no video.

    Raises:
        As `read_video`.
    """
    _check_unit(pts_unit)
    with open_video(filename) as container:
        if not container.streams.video:
            return [], None
        rate = rate_of(container.streams.video[0])
    source = FrameSource(filename, "video")
    ticks = [tick.pts for tick in source.ticks()]
    source.close()
    fps = float(rate) if rate else None
    return ([pts * source.time_base for pts in ticks], fps) if pts_unit == "sec" else (ticks, fps)


def write_video(
    filename: str | Path,
    video_array: Tensor,
    fps: float,
    video_codec: str = "libx264",
    options: dict[str, Any] | None = None,
    audio_array: Tensor | None = None,
    audio_fps: float | None = None,
    audio_codec: str | None = None,
    audio_options: dict[str, Any] | None = None,
) -> None:
    """Write frames, and sound if there is any, to a video file; its suffix names the container.

    Args:
        filename: the file, which is replaced.
        video_array: [T, H, W, C], uint8, RGB. Most codecs want even H and W; "libx264rgb" takes any.
        fps: frames per second, > 0.
        video_codec: FFmpeg's name of an encoder. Pixels are stored as yuv420p, by "libx264rgb" as rgb24.
        options: of the encoder, for example {"crf": "17"}.
        audio_array: [K, L], K channels, floating point in [-1, 1] or integers over their dtype's range.
        audio_fps: samples per second, needed with `audio_array`.
        audio_codec: FFmpeg's name of an encoder, "aac" for example, needed with `audio_array`.
        audio_options: of that encoder.

    Raises:
        VideoError: codec, container or sizes do not fit together, or the file cannot be written.
        MissingVideoLibraryError: PyAV is not installed (an ImportError).
        ValueError: a tensor has another shape or dtype, or something is missing beside `audio_array`.
    """
    if video_array.ndim != 4 or video_array.shape[-1] != 3 or video_array.dtype != torch.uint8:
        raise ValueError(
            f"video_array is {video_array.dtype} {list(video_array.shape)}; expected torch.uint8 [T, H, W, 3]."
        )
    if not (math.isfinite(fps) and fps > 0):
        raise ValueError(f"fps is {fps}; expected frames per second above 0.")
    if audio_array is not None:
        _check_audio(audio_array, audio_fps, audio_codec)
    height, width = video_array.shape[1:3]
    with (
        errors(
            f"{os.fspath(filename)!r} of {height} x {width} pixels cannot be written by {video_codec} (most codecs "
            "need an even height and width)"
        ),
        libav().open(f"file:{Path(filename)}", "w") as container,
    ):
        video = container.add_stream(video_codec, rate=Fraction(fps).limit_denominator(65_535))
        video.width, video.height = width, height
        video.pix_fmt = "yuv420p" if video_codec != "libx264rgb" else "rgb24"
        video.options = {name: str(value) for name, value in (options or {}).items()}
        sound = None
        if audio_array is not None:  # streams are all declared before the first packet
            sound = container.add_stream(audio_codec, rate=round(audio_fps or 0))
            sound.options = {name: str(value) for name, value in (audio_options or {}).items()}
            sound.layout = _LAYOUTS[len(audio_array)]
        _encode(container, video, _video_frames(video_array))
        if sound is not None and audio_array is not None:
            _encode(container, sound, _audio_frames(audio_array, round(audio_fps or 0)))


def _check_unit(pts_unit: str) -> None:
    if pts_unit not in ("pts", "sec"):
        raise ValueError(f"pts_unit is {pts_unit!r}; expected 'sec' or 'pts'.")
    if pts_unit == "pts":
        warnings.warn(_PTS_WARNING, stacklevel=3)


def _times(start: float | Fraction, end: float | Fraction, tick: Fraction) -> tuple[Fraction, Fraction | None]:
    """Seconds of the first and the last frame; None is the end."""
    return Fraction(start) * tick, None if end == math.inf else Fraction(end) * tick


def _read_frames(source: FrameSource, times: tuple[Fraction, Fraction | None]) -> Tensor:
    """[T, H, W, C]; upstream: the frame on the screen at the start is the first, however long it has been there."""
    start = times[0] / source.time_base
    end = None if times[1] is None else times[1] / source.time_base + TOLERANCE_TICKS
    before: Any = None
    frames: list[Tensor] = []
    size: tuple[int, int] | None = None
    for frame in source.frames_from(math.floor(start)) if start > 0 else source.frames():
        if end is not None and frame.pts > end:
            break
        if frame.pts < start - TOLERANCE_TICKS:
            before = frame
            continue
        shown = [before, frame] if before is not None and frame.pts > start + TOLERANCE_TICKS else [frame]
        before = None
        size = size or (shown[0].height, shown[0].width)
        if (len(frames) + 2) * size[0] * size[1] * 3 > MAX_VIDEO_BYTES:
            raise VideoError(
                f"The frames of {size[0]} x {size[1]} pixels need more than {MAX_VIDEO_BYTES:,} bytes. Read a part "
                "with start_pts and end_pts, use VideoReader, or raise flambeau.vision.io.video.MAX_VIDEO_BYTES."
            )
        frames += [source.rgb(item, size) for item in shown]
    if before is not None:
        frames.append(source.rgb(before))
    source.close()
    return torch.stack(frames) if frames else torch.empty(0, 1, 1, 3, dtype=torch.uint8)


def _read_sound(source: FrameSource, times: tuple[Fraction, Fraction | None]) -> Tensor:
    """[K, L]: the samples from the first time to the last."""
    start, end = times
    chunks: list[Tensor] = []
    pts = math.floor(start / source.time_base)
    for frame in source.frames_from(pts) if start > 0 else source.frames():
        chunk = samples(frame)
        begins = frame.pts * source.time_base
        skip = max(math.ceil((start - begins) * frame.sample_rate), 0)
        stop = chunk.shape[1] if end is None else math.floor((end - begins) * frame.sample_rate) + 1
        if stop <= 0:
            break
        if chunk[:, skip:stop].numel() and (not chunks or len(chunk) == len(chunks[0])):
            chunks.append(chunk[:, skip:stop])
    source.close()
    return torch.cat(chunks, 1) if chunks else torch.empty(1, 0)


def _check_audio(audio: Tensor, rate: float | None, codec: str | None) -> None:
    if audio.ndim != 2 or len(audio) not in _LAYOUTS:
        raise ValueError(f"audio_array has the shape {list(audio.shape)}; expected [K, L] with 1 to 8 channels.")
    if rate is None or codec is None or not rate > 0:
        raise ValueError(f"audio_fps is {rate} and audio_codec {codec!r}; both are needed with audio_array.")


def _video_frames(video: Tensor) -> Iterator[Any]:
    for picture in video.cpu():
        yield libav().VideoFrame.from_ndarray(np.ascontiguousarray(picture.numpy()), format="rgb24")


def _audio_frames(audio: Tensor, rate: int) -> Iterator[Any]:
    scaled = audio.detach().cpu()
    if not scaled.is_floating_point():
        scaled = scaled.double() / (torch.iinfo(scaled.dtype).max + 1)
    frame = libav().AudioFrame.from_ndarray(
        np.ascontiguousarray(scaled.float().numpy()), format="fltp", layout=_LAYOUTS[len(audio)]
    )
    frame.sample_rate = rate
    yield frame


def _encode(container: OutputContainer, stream: Any, frames: Iterator[Any]) -> None:
    for frame in itertools.chain(frames, [None]):
        # A last packet without content corrects a header that is written already, which muxers refuse.
        container.mux([packet for packet in stream.encode(frame) if packet.size])
