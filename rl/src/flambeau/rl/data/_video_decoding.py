"""Frames of videos by their numbers, by PyAV."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError
from flambeau.rl.errors import DatasetFormatError

__all__ = ["VideoFile"]

# What a forked process inherited of opened files. Freeing a decoder waits for its threads, and a forked process has
# none of its parent's: so these are kept until it ends.
_inherited: list[Any] = []


class MissingPyav(FlambeauError, ImportError):
    """Videos are read by PyAV, which is not installed."""


class VideoFile:
    """An opened video. Its packets are looked at once, so that any frame is found from the key frame before it.

    A process that was forked opens the file anew when it first reads.

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
        self.path, self._number = path, stream
        self._av = av
        self._converter = av.video.reformatter.VideoReformatter()
        self._open()
        with self._errors("be read as a video"):
            packets: list[Any] = [packet for packet in self._container.demux(self._stream) if packet.pts is not None]
        self._times: list[int] = sorted(packet.pts for packet in packets)
        self._keys: list[int] = sorted(packet.pts for packet in packets if packet.is_keyframe)

    def _open(self) -> None:
        if not Path(self.path).is_file():  # FFmpeg would take other names for addresses
            raise FileNotFoundError(f"there is no video {self.path}.")
        self._process = os.getpid()
        number = self._number
        with self._errors("be read as a video"):
            self._container = self._av.open(str(Path(self.path).resolve()))
            videos = self._container.streams.video
            if not videos or (number is not None and number >= len(self._container.streams)):
                raise DatasetFormatError(f"{self.path} has no video stream{'' if number is None else f' {number}'}.")
            stream: Any = videos[0] if number is None else self._container.streams[number]
            stream.thread_type = "AUTO"
            self._stream = stream
        self._coming: Any = None
        self._next = -1  # number of the frame that comes next

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._av.FFmpegError as error:
            raise DatasetFormatError(f"{self.path} cannot {what}: {error}") from error

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
        if self._process != os.getpid():
            self.close()
            self._open()
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
                    return self._rgb(frame)
        except self._av.FFmpegError as error:
            self._coming = None
            raise DatasetFormatError(f"{self.path}, frame {number} cannot be read: {error}") from error
        self._coming = None
        raise DatasetFormatError(
            f"{self.path} ends before frame {number}, which its packets announce; it was cut short."
        )

    def _rgb(self, frame: Any) -> Tensor:
        # In this thread: a forked process would wait for FFmpeg's own when it frees the frame.
        converted = self._converter.reformat(frame, format="rgb24", threads=1)
        return torch.from_numpy(converted.to_ndarray()).permute(2, 0, 1).contiguous()

    def close(self) -> None:
        """Let go of the file, and end the decoder's threads."""
        opened = [self.__dict__.pop(name, None) for name in ("_coming", "_stream", "_container")]
        if self._process != os.getpid():
            _inherited.extend(opened)
        elif opened[-1] is not None:
            opened[-1].close()

    def __del__(self) -> None:
        # Not left to the garbage collector, which could run in a forked process.
        if "_process" in self.__dict__:
            self.close()
