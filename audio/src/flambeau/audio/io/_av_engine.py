"""Reading in process with PyAV: the first frame comes within milliseconds, and objects are read where they are."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flambeau.audio.io._errors import MediaError
from flambeau.audio.io._filters import AudioShape, VideoShape, audio_graph, pull, video_graph
from flambeau.audio.io._formats import pixel_format, sample_format
from flambeau.audio.io._interleaving import Block
from flambeau.audio.io._libav import errors, libav
from flambeau.audio.io._probe import MICROSECONDS
from flambeau.audio.io._seek import Start, rounded_off_s
from flambeau.audio.io._streams import Output, OutputAudioStream

if TYPE_CHECKING:
    from av.container import InputContainer

_KEPT_MESSAGES = 100


class AvEngine:
    """Demuxer, decoders and filters of an open container.

    Args:
        container: stands at its start, or can seek.
        name: how messages call it.
        outputs: what to decode, at least one.
        start: where to begin, None for where the container stands.
        strict: whether a decoder's error ends the reading.
        fresh: whether the container stands before `start` already.
        remote: whether the container is read over the network.
        offset_s: what its times are ahead of the source's.

    Raises:
        MediaError: the container cannot seek, or a decoder does not take its options.
    """

    def __init__(
        self,
        container: InputContainer,
        name: str,
        outputs: list[Output],
        start: Start | None,
        *,
        strict: bool,
        fresh: bool = False,
        remote: bool = False,
        offset_s: int = 0,
    ) -> None:
        self.num_errors = 0
        self.error_messages: list[str] = []
        self._container = container
        self._name = name
        self._strict = strict
        self._given = 0
        self._chains: dict[int, list[_Chain]] = {}
        for number, output in enumerate(outputs):
            chain = _AudioChain if isinstance(output.info, OutputAudioStream) else _VideoChain
            self._chains.setdefault(output.info.source_index, []).append(chain(number, output, start, offset_s))
            _configure(container.streams[output.info.source_index], output)
        if start is not None and not fresh:
            self._seek(start)
        elif start is None and remote and "mp4" in container.format.name:
            # FFmpeg's MP4 reader drops the packets before the first key frame of an address that it has not sought in.
            self._seek(Start((container.start_time or 0) / MICROSECONDS - 1.0, "key"))
        self._blocks: Generator[Block, None, None] = self._run()

    def _seek(self, start: Start) -> None:
        av = libav()
        at = round(start.seek_s * MICROSECONDS)
        with errors(f"Failed to seek to {start.time_s} s in {self._name}"):
            try:
                # Times before the first are meant: encoders put there what the first frame rests on.
                self._send_to(at, any_frame=start.mode == "any")
            except av.FFmpegError:
                self._send_to(max(at, self._container.start_time or 0), any_frame=start.mode == "any")

    def _send_to(self, at: int, *, any_frame: bool) -> None:
        if len(self._chains) == 1:
            # On its own clock: a video's key frames do not matter to who reads the sound alone.
            (index,) = self._chains
            stream = self._container.streams[index]
            assert stream.time_base is not None
            ticks = math.floor(Fraction(at, MICROSECONDS) / stream.time_base)
            self._container.seek(ticks, stream=stream, any_frame=any_frame)
        else:
            self._container.seek(at, any_frame=any_frame)

    def read(self, _timeout_s: float | None) -> Block | None:
        """The next block of any output, None at the end.

        Raises:
            MediaError: the source cannot be read on, or `strict` and it is damaged.
        """
        block = next(self._blocks, None)
        if block is not None:
            self._given += 1
        elif self.num_errors and not self._given:
            raise MediaError(f"Failed to decode {self._name}: {'; '.join(self.error_messages[-5:])}")
        return block

    def blocks(self) -> Iterator[Block]:
        """All blocks, for a thread that reads ahead."""
        while (block := self.read(None)) is not None:
            yield block

    def close(self) -> None:
        """Drop decoders' and filters' state; the container stays open."""
        self._blocks.close()
        self._chains.clear()

    def _run(self) -> Generator[Block, None, None]:
        streams = [self._container.streams[index] for index in sorted(self._chains)]
        for packet in self._packets(streams):
            for frame in self._decode(packet):
                for chain in self._chains[packet.stream.index]:
                    with errors(f"Failed to filter {self._name}"):
                        found = list(chain.push(frame))
                    yield from found
        for chains in self._chains.values():
            for chain in chains:
                yield from chain.flush()

    def _packets(self, streams: list[Any]) -> Iterator[Any]:
        av = libav()
        packets = self._container.demux(*streams)
        while True:
            try:
                packet = next(packets)
            except StopIteration:
                return
            except (av.InvalidDataError, av.ArgumentError) as error:
                self._note(error)
                # Behind a container's damage there is nothing more to find; the decoders still hold frames.
                yield from map(_Flush, streams)
                return
            except av.FFmpegError as error:
                raise MediaError(f"Failed to read {self._name} ({error.strerror or error}).") from error
            yield packet

    def _decode(self, packet: Any) -> list[Any]:
        av = libav()
        try:
            frames = packet.decode()
        except (av.FFmpegError, ValueError, MemoryError) as error:
            self._note(error)
            return []
        if any(frame.is_corrupt for frame in frames):
            self._note(MediaError("a frame is damaged"))
        return list(frames)

    def _note(self, error: BaseException) -> None:
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if self._strict:
            raise MediaError(f"Failed to decode {self._name} ({text}).") from error
        self.num_errors += 1
        self.error_messages = [*self.error_messages[1 - _KEPT_MESSAGES :], text]


class _Flush:
    """The end of a stream whose container could not be read to its own."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def decode(self) -> list[Any]:
        """What the decoder still holds."""
        return list(self.stream.codec_context.decode(None))


def _configure(stream: Any, output: Output) -> None:
    context = stream.codec_context
    if context is None:
        raise MediaError(f"Stream {stream.index} is of a codec that this build of FFmpeg cannot decode.")
    if context.is_open:
        context.flush_buffers()
        return
    options = dict(output.decoder_option)
    # Upstream: one thread unless the options say otherwise.
    context.thread_count = int(options.pop("threads", 1))
    context.options = options


class _Chain(ABC):
    """From decoded frames of one stream to blocks of one output."""

    def __init__(self, number: int, output: Output, start: Start | None, offset_s: int) -> None:
        self._number, self._output, self._start, self._offset_s = number, output, start, offset_s
        self._graph: Any = None
        self._shape: Any = None
        self._full = False

    def push(self, frame: Any) -> Iterator[Block]:
        """Filter a frame. One of another shape than the one before begins a new graph with the same end."""
        if self._full:
            return
        shape = self._shape_of(frame)
        if shape != self._shape:
            yield from self.flush(last=False)
            self._shape, self._graph = shape, self._build(shape, frame)
        if not self._set_time(frame):
            return
        try:
            self._graph.push(frame)
        except libav().EOFError:  # filters that have enough, such as atrim, take no more
            self._full = True
            return
        yield from self._pull()

    def flush(self, *, last: bool = True) -> Iterator[Block]:
        """What filters and chunks still hold."""
        if self._graph is not None:
            if not self._full:
                with errors("Failed to filter the last frames"):
                    self._graph.push(None)
            yield from self._pull()
            self._graph = None
        if last:
            yield from self._rest()

    def _pull(self) -> Iterator[Block]:
        while (out := pull(self._graph)) is not None:
            yield from self._take(out)

    def _rest(self) -> Iterator[Block]:
        return iter(())

    @abstractmethod
    def _shape_of(self, frame: Any) -> Any:
        """What the graph is built for."""

    @abstractmethod
    def _build(self, shape: Any, frame: Any) -> Any:
        """The graph for frames of a shape."""

    @abstractmethod
    def _set_time(self, frame: Any) -> bool:
        """Put the frame's time on the graph's clock; false where the frame comes before the start."""

    @abstractmethod
    def _take(self, out: Any) -> Iterator[Block]:
        """Blocks that a filtered frame completes."""


class _AudioChain(_Chain):
    """The filters cut samples into chunks, so that a chunk comes out whole."""

    def __init__(self, number: int, output: Output, start: Start | None, offset_s: int) -> None:
        super().__init__(number, output, start, offset_s)
        assert isinstance(output.info, OutputAudioStream)
        self._format, self._rate = sample_format(output.info.format), int(output.info.sample_rate)
        self._layout: str | None = None  # of what was given out so far
        self._next_pts: int | None = None
        self._off_s = 0.0  # what the filters' rounding takes off

    def _shape_of(self, frame: Any) -> AudioShape:
        return AudioShape(frame.format.name, frame.sample_rate, frame.layout.nb_channels, frame.layout.name)

    def _build(self, shape: AudioShape, frame: Any) -> Any:
        same = "" if self._layout is None else f":sample_rates={self._rate}:channel_layouts={self._layout}"
        last = [("aformat", f"sample_fmts={self._format.name}{same}")]
        if self._output.frames_per_chunk > 0:
            last.append(("asetnsamples", f"n={self._output.frames_per_chunk}:p=0"))
        first: tuple[tuple[str, str], ...] = ()
        if self._start is not None and self._start.mode == "sample":
            first = (self._start.trim(shape.sample_rate),)
        return audio_graph(shape, self._output.info.filter_description, tuple(last), first)

    def _set_time(self, frame: Any) -> bool:
        rate = frame.sample_rate
        if frame.pts is None:
            frame.pts = self._next_pts or 0
        else:
            frame.pts = round(frame.pts * frame.time_base * rate) - self._offset_s * rate
        frame.time_base = Fraction(1, rate)
        begin = frame.pts
        if self._start is not None:
            if self._start.mode == "sample":
                begin = max(begin, self._start.first_sample(rate))
            elif self._start.drops(begin / rate):
                return False
        if frame.pts != self._next_pts:
            self._off_s = rounded_off_s(Fraction(begin, rate), self._rate)
        self._next_pts = frame.pts + frame.samples
        return True

    def _take(self, out: Any) -> Iterator[Block]:
        channels = out.layout.nb_channels
        self._layout = self._layout or out.layout.name
        size = out.samples * channels * self._format.dtype.itemsize
        raw = bytearray(memoryview(out.planes[0])[:size])
        frames = torch.frombuffer(raw, dtype=self._format.dtype).reshape(-1, channels)
        time_s = out.pts * out.time_base.numerator / out.time_base.denominator
        yield Block(self._number, frames, time_s + self._off_s)


class _VideoChain(_Chain):
    """Pictures are gathered into chunks here; no filter does that."""

    def __init__(self, number: int, output: Output, start: Start | None, offset_s: int) -> None:
        super().__init__(number, output, start, offset_s)
        self._format = pixel_format(output.info.format)
        self._gathered: list[Tensor] = []
        self._size: tuple[int, int] | None = None  # of what was given out so far
        self._time_s = 0.0

    def _shape_of(self, frame: Any) -> VideoShape:
        return VideoShape(frame.format.name, frame.width, frame.height, 0.0)

    def _build(self, shape: VideoShape, frame: Any) -> Any:
        last: tuple[tuple[str, str], ...] = ()
        if self._size is not None:
            last = (("scale", "{}:{}".format(*self._size)), ("format", f"pix_fmts={self._output.info.format}"))
        return video_graph(shape, frame.time_base, self._output.info.filter_description, last)

    def _set_time(self, frame: Any) -> bool:
        if frame.pts is None:
            return False  # without a time it has no place among the others
        frame.pts -= int(self._offset_s / frame.time_base)
        return self._start is None or not self._start.drops(float(frame.pts * frame.time_base))

    def _take(self, out: Any) -> Iterator[Block]:
        time_s = out.pts * out.time_base.numerator / out.time_base.denominator
        if not self._gathered:
            self._time_s = time_s
        self._size = self._size or (out.width, out.height)
        self._gathered.append(self._format.view(_raw(out), out.height, out.width))
        if len(self._gathered) >= max(1, self._output.frames_per_chunk):
            yield from self._rest()

    def _rest(self) -> Iterator[Block]:
        if self._gathered:
            frames = torch.cat(self._gathered) if len(self._gathered) > 1 else self._gathered[0]
            self._gathered = []
            yield Block(self._number, frames, self._time_s)


def _raw(frame: Any) -> Tensor:
    """A picture's bytes without the padding of its rows, as the program writes them."""
    name, planes = frame.format.name, frame.planes
    rows = []
    for index, plane in enumerate(planes):
        wide = 2 if name.endswith("10le") or (name == "nv12" and index) else 1
        length = pixel_format(name).size(frame.height, frame.width) // frame.height if len(planes) == 1 else 0
        length = length or wide * plane.width
        padded = torch.frombuffer(bytearray(plane), dtype=torch.uint8)
        padded = padded[: plane.line_size * plane.height].reshape(plane.height, plane.line_size)
        rows.append(padded[:, :length].reshape(-1))
    return torch.cat(rows) if len(rows) > 1 else rows[0].contiguous()
