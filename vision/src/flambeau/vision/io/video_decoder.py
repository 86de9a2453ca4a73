"""Any frame of a video by its number or time, exactly."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, overload

import torch
from torch import Tensor

from flambeau.vision.io._frames import FrameSource, Tick
from flambeau.vision.io._libav import Source, VideoError

__all__ = ["VideoDecoder"]


class VideoDecoder:
    """The frames of a video as a sequence.

    The packets' times are read once, without decoding; then a frame costs the way from the key frame before it. Frames
    of increasing number are decoded in one go.

    Args:
        source: a path, a file's bytes, or these as [bytes], uint8.
        stream: "video", or "video:1" for the second one of the file.
        num_threads: of the decoder; 0 lets FFmpeg choose.
        device: where the frames shall be; see `VideoReader`.

    Attributes:
        pts_seconds: when each frame is shown, seconds from the file's start, increasing.

    Raises:
        VideoError: the file is damaged, of an unknown format, or has no such stream.
        VideoFileNotFoundError: there is no such file (a FileNotFoundError).
        MissingVideoLibraryError: PyAV is not installed (an ImportError).

    Example:
        >>> video = VideoDecoder("clip.mp4")  # doctest: +SKIP
        >>> len(video), video[-1].shape, video[10:20:2].shape  # doctest: +SKIP
        (250, torch.Size([3, 360, 640]), torch.Size([5, 3, 360, 640]))
    """

    def __init__(
        self, source: Source, stream: str = "video", num_threads: int = 0, device: str | torch.device = "cpu"
    ) -> None:
        if not stream.startswith("video"):
            raise ValueError(f"The stream is {stream!r}; expected 'video', or one with a number such as 'video:1'.")
        self._source = FrameSource(source, stream, num_threads, device)
        self._device = torch.device(device)
        ticks = self._source.ticks()
        self._pts = [tick.pts for tick in ticks]
        self._keys = _keyframes(ticks)
        self._frames: Iterator[Any] = iter(())
        self._next = -1  # number of the frame that `_frames` gives next; -1 where there is no telling
        self.pts_seconds = [float(pts * self._source.time_base) for pts in self._pts]

    def __len__(self) -> int:
        return len(self._pts)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Tensor: ...
    def __getitem__(self, index: int | slice) -> Tensor:
        """One frame as [C, H, W], or those of a slice as [N, C, H, W]; uint8.

        Raises:
            IndexError: there is no such frame.
            VideoError: it cannot be decoded.
        """
        if isinstance(index, slice):
            return self.get_frames_at(range(len(self))[index])
        pixels = self._source.rgb(self._decode(self._number(index)))
        return pixels.permute(2, 0, 1).to(self._device)

    def _number(self, index: int) -> int:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"There is no frame {index}: the video has {count}.")
        return index % count

    def get_frames_at(self, indices: Sequence[int]) -> Tensor:
        """Frames by number, in any order and as often as asked.

        Args:
            indices: each from -len to len - 1.

        Returns:
            [N, C, H, W], uint8. Frames of another size than the first of them are stretched to it.

        Raises:
            IndexError: there is no such frame.
            VideoError: one cannot be decoded.
        """
        numbers = [self._number(index) for index in indices]
        if not numbers:
            return torch.empty(0, 3, 0, 0, dtype=torch.uint8, device=self._device)
        places: dict[int, list[int]] = {}
        for place, number in enumerate(numbers):
            places.setdefault(number, []).append(place)
        batch: Tensor | None = None
        for number in sorted(places):
            frame = self._decode(number)
            if batch is None:
                batch = torch.empty(len(numbers), frame.height, frame.width, 3, dtype=torch.uint8)
            pixels = self._source.rgb(frame, (batch.shape[1], batch.shape[2]))
            for place in places[number]:  # a list for an index would be gathered pixel by pixel
                batch[place] = pixels
        assert batch is not None  # there is at least one number
        return batch.permute(0, 3, 1, 2).to(self._device)

    def time_of(self, index: int) -> Fraction:
        """When a frame is shown, in seconds, without the rounding of `pts_seconds`."""
        return self._pts[index] * self._source.time_base

    def get_frames_played_at(self, seconds: Sequence[float]) -> Tensor:
        """The frames on the screen at given times.

        Args:
            seconds: each from the first frame's time on; after the last one's, the last one is meant.

        Returns:
            [N, C, H, W], uint8.

        Raises:
            IndexError: a time is before the first frame, or no number.
        """
        half_tick = float(self._source.time_base) / 2
        indices = []
        for second in seconds:
            index = bisect.bisect_right(self.pts_seconds, second + half_tick) - 1
            if index < 0 or math.isnan(second):
                raise IndexError(f"No frame is shown at {second} s; the first comes at {self.pts_seconds[:1]}.")
            indices.append(index)
        return self.get_frames_at(indices)

    def _decode(self, number: int) -> Any:
        key = bisect.bisect_right(self._keys, number) - 1
        start = self._keys[key] if key >= 0 else 0
        if not start <= self._next <= number:
            self._go_to(start)
        frame = self._until(number)
        if frame is None:  # damage, or a seek that led astray: from the start on, nothing can be missed
            self._source.reopen()
            self._frames, self._next = self._source.frames(), 0
            frame = self._until(number)
        if frame is None:
            raise VideoError(
                f"Frame {number} cannot be decoded; the file is damaged at {self.pts_seconds[number]:.3f} s."
            )
        return frame

    def _go_to(self, number: int) -> None:
        if number == 0 and not self._keys:
            self._source.reopen()
            self._frames = self._source.frames()
        else:
            self._frames = self._source.frames_from(self._pts[number])
        self._next = number

    def _until(self, number: int) -> Any:
        if not self._keys:  # times that repeat or are not told: counting from the start is sure
            skipped = number - self._next
            self._next = number + 1
            return next(itertools.islice(self._frames, skipped, None), None)
        self._source.passed_over = wanted = self._pts[number]
        for frame in self._frames:
            if frame.pts >= wanted:
                self._next = number + 1
                if frame.pts == wanted:
                    return frame
                break
        self._next = -1
        return None


def _keyframes(ticks: list[Tick]) -> list[int]:
    """Numbers of the frames that decoding can start with; none where the packets did not tell."""
    return [number for number, tick in enumerate(ticks) if tick.is_keyframe]
