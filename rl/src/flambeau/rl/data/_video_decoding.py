"""Frames of videos by their numbers, by PyAV."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError
from flambeau.rl.errors import DatasetFormatError

__all__ = ["VideoFile"]


class MissingPyav(FlambeauError, ImportError):
    """Videos are read by PyAV, which is not installed."""


class VideoFile:
    """An opened video. Its packets are looked at once, so that any frame is found from the key frame before it.

    Args:
        path: the video.
        stream: which of its video streams; the best by default.

    Raises:
        ImportError: PyAV is not installed.
        FileNotFoundError: there is no such file.
        DatasetFormatError: no video, or a damaged one.
    """

    def __init__(self, path: str, stream: int | None = None) -> None:
        try:
            import av
        except ImportError as error:
            raise MissingPyav(
                f"{path} is a video, and PyAV is not installed. Run: pip install 'flambeau-rl[video]'"
            ) from error
        self.path = path
        self._errors = av.FFmpegError
        if not Path(path).is_file():  # FFmpeg would take other names for addresses
            raise FileNotFoundError(f"there is no video {path}.")
        try:
            self._container = av.open(str(Path(path).resolve()))
            videos = self._container.streams.video
            if not videos or (stream is not None and stream >= len(self._container.streams)):
                raise DatasetFormatError(f"{path} has no video stream{'' if stream is None else f' {stream}'}.")
            found: Any = videos[0] if stream is None else self._container.streams[stream]
            found.thread_type = "AUTO"
            self._stream = found
            packets: list[Any] = [packet for packet in self._container.demux(self._stream) if packet.pts is not None]
        except self._errors as error:
            raise DatasetFormatError(f"{path} cannot be read as a video: {error}") from error
        self._times: list[int] = sorted(packet.pts for packet in packets)
        self._keys: list[int] = sorted(packet.pts for packet in packets if packet.is_keyframe)
        self._coming: Any = None
        self._next = -1  # number of the frame that comes next

    def __len__(self) -> int:
        """How many frames there are."""
        return len(self._times)

    @property
    def fps(self) -> float:
        """Frames in a second, on average."""
        return float(self._stream.average_rate or self._stream.guessed_rate)

    def frames(self, numbers: Iterable[int]) -> list[Tensor]:
        """Frames (3, height, width), uint8, in the order they are asked for.

        Raises:
            IndexError: there is no such frame.
            DatasetFormatError: the video is damaged there.
        """
        wanted = list(numbers)
        found: dict[int, Tensor] = {}
        for number in sorted(set(wanted)):
            if not 0 <= number < len(self):
                raise IndexError(f"{self.path} has no frame {number}: it has {len(self)}.")
            found[number] = self._frame(number)
        return [found[number] for number in wanted]

    def _frame(self, number: int) -> Tensor:
        time = self._times[number]
        key = self._keys[max(bisect_right(self._keys, time) - 1, 0)] if self._keys else time
        try:
            if self._coming is None or not self._next <= number or key > self._times[max(self._next, 0)]:
                self._container.seek(key, stream=self._stream)
                self._coming = self._container.decode(self._stream)
            for frame in self._coming:
                if frame.pts is not None and frame.pts >= time:
                    self._next = number + 1 if number + 1 < len(self) else -1
                    if self._next < 0:
                        self._coming = None
                    return torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1).contiguous()
        except self._errors as error:
            self._coming = None
            raise DatasetFormatError(f"{self.path}, frame {number} cannot be read: {error}") from error
        self._coming = None
        raise DatasetFormatError(
            f"{self.path} ends before frame {number}, which its packets announce; it was cut short."
        )

    def close(self) -> None:
        """Let go of the file."""
        self._container.close()
