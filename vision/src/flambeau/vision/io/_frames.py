"""Frames of one stream in the order they are shown, from any time on."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flambeau.vision.io._libav import Source, errors, open_video, select_stream, time_base_of

if TYPE_CHECKING:
    from av import AudioFrame, VideoFrame
    from av.container import InputContainer
    from av.stream import Stream

# A time in seconds is a rounded number of ticks; this much of a tick beside it still means the same frame.
TOLERANCE_TICKS = Fraction(1, 100)

# How much earlier than asked, in seconds, a seek starts when the one before landed too late.
_STEPS_BACK = (0, 1, 10)


# FFmpeg tells when a packet is decoded, not when its frame is shown, for these codecs in a container that has no times.
_TIMELESS = "avi"
_NOT_REORDERED = frozenset({"h264", "hevc", "vvc"})

# What a forked process inherited of opened files. Freeing a decoder waits for its threads, and a forked process has
# none of its parent's: so these are kept until it ends.
_inherited: list[Any] = []


class Tick(NamedTuple):
    """When a frame is shown, in ticks of its stream, and whether decoding can start with it."""

    pts: int
    is_keyframe: bool


class FrameSource:
    """One stream of an opened file, with a position in it.

    A process that was forked opens the file anew when it first reads.

    Args:
        source: see `open_video`.
        stream: see `select_stream`.
        num_threads: of the decoder; 0 lets FFmpeg choose.
        device: see `open_video`.
    """

    def __init__(self, source: Source, stream: str, num_threads: int = 0, device: str | torch.device = "cpu") -> None:
        self._arguments = (source, stream, num_threads, device)
        self._open()
        from av.video.reformatter import VideoReformatter

        self._converter = VideoReformatter()  # a frame by itself sets up the same conversion anew

    def _open(self) -> None:
        source, name, threads, device = self._arguments
        self._process = os.getpid()
        self.container: InputContainer = open_video(source, device)
        self.stream: Stream = select_stream(self.container, name)
        self.time_base: Fraction = time_base_of(self.stream)
        # Frames shown before this are passed over; those that no other frame is built on are not even decoded.
        self.passed_over: int | None = None
        context: Any = self.stream.codec_context
        context.thread_count = threads
        # Whether the n-th frame shown is the one of the n-th time, whatever time its packet has.
        self._by_order = False
        if self.stream.type == "video":
            context.thread_type = "AUTO"
            reordered = context.name in _NOT_REORDERED and bool(context.has_b_frames)
            self._by_order = reordered and self.container.format.name == _TIMELESS

    def close(self) -> None:
        """Close the file, and end the decoder's threads as soon as nobody else refers to the stream."""
        opened = [self.__dict__.pop(name, None) for name in ("container", "stream")]
        if self._process != os.getpid():
            _inherited.extend(opened)
        elif opened[0] is not None:
            opened[0].close()

    def __del__(self) -> None:
        # Not left to the garbage collector, which could run in a forked process.
        if "_process" in self.__dict__:
            self.close()

    def reopen(self) -> None:
        """Go back to the very start, where some formats cannot seek to."""
        self.close()
        self._open()

    def frames(self) -> Iterator[Any]:
        """Frames from the current position on; audio and video frames without a time get the one that is due.

        Raises:
            VideoError: a part of the file is damaged. Iteration may not go on after that.
        """
        if self._process != os.getpid():
            self.reopen()
        due = 0
        with errors(f"The {self.stream.type} cannot be decoded"):
            decoded = self._decoded_by_order() if self._by_order else self._decoded()
            while True:
                if self._process != os.getpid():
                    break
                frame = next(decoded, None)
                if frame is None:
                    return
                frame.pts = pts_of(frame, due)
                due = frame.pts + max(int(frame.duration or 0), 1)
                yield frame
        _inherited.append(decoded)
        self.reopen()
        yield from (frame for frame in self.frames_from(due) if frame.pts >= due)

    def _decoded(self) -> Iterator[Any]:
        context: Any = self.stream.codec_context
        skipping = None  # whatever an iterator before this one left
        for packet in self.container.demux(self.stream):
            before = self.passed_over
            skip = before is not None and packet.pts is not None and packet.pts < before
            if skip is not skipping:
                context.skip_frame = "NONREF" if skip else "DEFAULT"
                skipping = skip
            yield from packet.decode()

    def _decoded_by_order(self) -> Iterator[Any]:
        """Frames from the file's start, each with the next one of the packets' times."""
        times: deque[int | None] = deque()
        for packet in self.container.demux(self.stream):
            if packet.size and not packet.is_discard:
                times.append(packet.pts if packet.pts is not None else packet.dts)
            decoded: list[Any] = packet.decode()
            for frame in decoded:
                frame.pts = times.popleft() if times else None
                frame.dts = None
                yield frame

    def frames_from(self, pts: int) -> Iterator[Any]:
        """Frames of which the first is shown at or before `pts`, or is the first of all.

        Seeking in FFmpeg goes by decoding times and by indexes that may be wrong, so where it lands is looked at.
        """
        if self._by_order:  # only counting from the start tells a frame's time
            self.reopen()
            return self.frames()
        for back in _STEPS_BACK:
            start = pts - int(back / self.time_base)
            if not self.seek(start):
                break
            frames = self.frames()
            first = next(frames, None)
            if first is not None and first.pts <= pts:
                return _chained(first, frames)
        self.reopen()
        return self.frames()

    def rgb(self, frame: VideoFrame, size: tuple[int, int] | None = None) -> Tensor:
        """A frame as [H, W, 3], uint8, by the colour matrix that the stream names (BT.601 where it names none).

        Args:
            frame: of any pixel format.
            size: (height, width) to stretch it to, for streams whose frames change in size.
        """
        height, width = size or (frame.height, frame.width)
        with errors("A frame cannot be converted to RGB"):
            # In this thread: FFmpeg would start threads for every frame, which takes longer than the work in most
            # sizes, and a forked process would wait for them when it frees the frame.
            converted = self._converter.reformat(frame, width, height, "rgb24", threads=1)
            pixels = converted.to_ndarray()
        return torch.from_numpy(np.ascontiguousarray(pixels))

    def seek(self, pts: int) -> bool:
        """Go to the last key frame at or before `pts`; False where the file cannot be searched."""
        from flambeau.vision.io._libav import libav

        if self._process != os.getpid():
            self.reopen()
        try:
            self.container.seek(pts, stream=self.stream, backward=True)
        except (libav().FFmpegError, OverflowError, ValueError):
            return False
        return True

    def ticks(self) -> list[Tick]:
        """The time of every frame, in the order shown, read from the packets without decoding them if they tell.

        To be called before anything else is read. The position is at the end then, where decoding has to be led away
        from by `frames_from` or `reopen`: to open a file takes as long as to decode ten frames.

        Raises:
            VideoError: the file is damaged.
        """
        ticks: list[Tick] = []
        told = True
        with errors("The video's packets cannot be read"):
            for packet in self.container.demux(self.stream):
                if packet.size == 0 or packet.is_discard:
                    continue
                if packet.pts is None:
                    told = False
                    break
                ticks.append(Tick(packet.pts, packet.is_keyframe and not self._by_order))
        if not told or len({tick.pts for tick in ticks}) < len(ticks):
            self.reopen()
            ticks = [Tick(frame.pts, False) for frame in self.frames()]  # only decoding tells
        return sorted(ticks)


def rate_of(stream: Any) -> Fraction | int | None:
    """Frames or samples per second, None where the file does not say."""
    if stream.codec_context is None:  # a codec that this build of FFmpeg does not have
        return None
    rate: Fraction | int | None = stream.average_rate if stream.type == "video" else stream.codec_context.sample_rate
    return rate


def pts_of(frame: VideoFrame | AudioFrame, due: int) -> int:
    """When a frame is shown, in ticks; `due` where the file does not say."""
    if frame.pts is not None:
        return int(frame.pts)
    return int(frame.dts) if frame.dts is not None and frame.dts >= due else due


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def samples(frame: AudioFrame) -> Tensor:
    """An audio frame as [K, L], float32; K channels, full scale [-1, 1]."""
    array: NDArray[Any] = frame.to_ndarray()
    channels = frame.layout.nb_channels
    if not frame.format.is_planar:  # [1, L * K], the channels of one time side by side
        array = array.reshape(-1, channels).T
    if array.dtype == np.uint8:
        return torch.from_numpy(array.astype(np.float32) / 128 - 1)
    if array.dtype.kind == "i":
        return torch.from_numpy(array.astype(np.float64) / (np.iinfo(array.dtype).max + 1)).float()
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
