"""A stream of a video file as an iterator that can be moved to any time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from flambeau.vision.io._frames import TOLERANCE_TICKS, FrameSource, rate_of, samples
from flambeau.vision.io._libav import Source

__all__ = ["VideoReader"]


class VideoReader:
    """Reads one stream of a video file frame by frame.

    Args:
        src: a path, a file's bytes, or these as [bytes], uint8.
        stream: "video" or "audio", with a number where there are several: "audio:1".
        num_threads: of the decoder; 0 lets FFmpeg choose.
        device: where the frames shall be. Another one than the CPU decodes where FFmpeg can, else the CPU does, with
            one notice. Layout and colours are the same.

    Raises:
        VideoError: the file is damaged, of an unknown format, or has no such stream.
        VideoFileNotFoundError: there is no such file (a FileNotFoundError).
        MissingVideoLibraryError: PyAV is not installed (an ImportError).

    Example:
        >>> reader = VideoReader("clip.mp4")  # doctest: +SKIP
        >>> for frame in reader.seek(2.0):  # doctest: +SKIP
        ...     frame["data"].shape, frame["pts"]

    Note:
        Frames come as they are stored: a camera's rotation is not applied.
    """

    def __init__(
        self, src: Source, stream: str = "video", num_threads: int = 0, device: str | torch.device = "cpu"
    ) -> None:
        self._arguments = (src, num_threads, device)
        self._device = torch.device(device)
        self._source = FrameSource(src, stream, num_threads, device)
        self._frames: Iterator[Any] = self._source.frames()

    def __iter__(self) -> VideoReader:
        return self

    def __next__(self) -> dict[str, Any]:
        """The next frame.

        Returns:
            "data": uint8 [C, H, W] of a video, float32 [L, K] in [-1, 1] of audio; "pts": its time in seconds.

        Raises:
            VideoError: the file is damaged here.
        """
        frame = next(self._frames)
        source = self._source
        pixels = source.rgb(frame).permute(2, 0, 1) if source.stream.type == "video" else samples(frame).T
        base = source.time_base  # integers divide exactly, in a fraction of a Fraction's time
        seconds = int(frame.pts) * base.numerator / base.denominator
        return {"data": pixels if self._device.type == "cpu" else pixels.to(self._device), "pts": seconds}

    def seek(self, time_s: float, keyframes_only: bool = False) -> VideoReader:
        """Move to a time; what was decoded ahead is dropped.

        Args:
            time_s: seconds from the start, as `pts` counts them.
            keyframes_only: stop at the last key frame at or before that time, which is quick. By default the next
                frame is the first one shown at `time_s` or later.

        Returns:
            This reader.
        """
        if not math.isfinite(time_s):
            raise ValueError(f"time_s is {time_s}; expected seconds from the start.")
        limit = 2**62  # FFmpeg's own counters have 63 bits
        pts = min(max(math.ceil(time_s / self._source.time_base - TOLERANCE_TICKS), -limit), limit)
        # Said before the seek, so that nothing is decoded in vain on the way to its first frame either.
        self._source.passed_over = None if keyframes_only else pts
        frames = self._source.frames_from(pts)
        if not keyframes_only:
            frames = (frame for frame in frames if frame.pts >= pts)
        self._frames = frames
        return self

    def set_current_stream(self, stream: str) -> bool:
        """Read another stream of the file from its start.

        Args:
            stream: see the class.

        Returns:
            True. What upstream tells with False is a VideoError here.
        """
        src, num_threads, device = self._arguments
        source = FrameSource(src, stream, num_threads, device)
        self._source.close()
        self._source = source
        self._frames = source.frames()
        return True

    def get_metadata(self) -> dict[str, dict[str, list[float]]]:
        """What the file says of its streams.

        Returns:
            {"video": {"fps": [...], "duration": [...]}, "audio": {"framerate": [...], "duration": [...]}}, one number
            for each stream of the kind; a kind that is absent is left out. Durations are in seconds, 0 where unknown.
        """
        metadata: dict[str, dict[str, list[float]]] = {}
        container = self._source.container
        whole = container.duration / 1_000_000 if container.duration else 0.0
        for stream in [*container.streams.video, *container.streams.audio]:
            name = "fps" if stream.type == "video" else "framerate"
            kind = metadata.setdefault(stream.type, {name: [], "duration": []})
            kind[name].append(float(rate_of(stream) or 0))
            own = stream.duration * stream.time_base if stream.duration and stream.time_base else whole
            kind["duration"].append(float(own))
        return metadata
