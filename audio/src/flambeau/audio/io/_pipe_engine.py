"""Reading with the ffmpeg program: raw frames come over one pipe, their times over another.

For each output the program's tee muxer writes a line with time and size (`framecrc`), then the frame itself; a thread
reads both and hands blocks to a `Merger`. The line goes first: the thread that waits for it would otherwise keep the
program waiting to write a frame larger than the pipe.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import threading
import weakref
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.audio.io._errors import MediaError
from flambeau.audio.io._formats import pixel_format, sample_format
from flambeau.audio.io._interleaving import Block, Closed, Merger
from flambeau.audio.io._probe import spool
from flambeau.audio.io._process import Child
from flambeau.audio.io._program import find_ffmpeg, version
from flambeau.audio.io._seek import Start, rounded_off_s
from flambeau.audio.io._source import Source
from flambeau.audio.io._streams import Output, OutputAudioStream, OutputVideoStream, Probe, SourceAudioStream

_PIPE_BYTES = 2**20
# Times of pictures in units in which all usual frame rates and container clocks are whole numbers or within a
# nanosecond; the program's own choice, one frame of the nominal rate, would round variable rates.
_VIDEO_CLOCK = 720_720_000


class PipeEngine:
    """A running ffmpeg program that decodes all outputs at once.

    Args:
        source: what to read.
        probe: what is known of it.
        outputs: what to decode, at least one.
        start: where to begin, None for the start.
        strict: whether an error that the program reports ends the reading.

    Raises:
        MediaError: the program cannot be started.
        MissingFFmpegError: there is none.
    """

    def __init__(
        self, source: Source, probe: Probe, outputs: list[Output], start: Start | None, *, strict: bool
    ) -> None:
        if os.name == "nt":
            raise MediaError("On Windows the program cannot be given further pipes; install PyAV and use engine='av'.")
        self._spool: tempfile.TemporaryDirectory[str] | None = None
        url = source.url
        if source.file is not None:
            url = "pipe:0"
            source.file.begin(again=True)
            if source.seekable:
                source.file.seek(0)
                self._spool = tempfile.TemporaryDirectory(prefix="flambeau-")
                spool(source, path := Path(self._spool.name, "media"))
                url = f"file:{path}"
        pipes = _Pipes(len(outputs))
        try:
            command = _command(source, url, probe, outputs, pipes, start, strict)
            self._child = Child(command, pass_fds=pipes.writers(), stdin=url == "pipe:0")
        except BaseException:
            pipes.close()
            raise
        self._merger = Merger(len(outputs))
        self._given = 0
        self._strict = strict
        threads = []
        for number, output in enumerate(outputs):
            side, raw = pipes.readers[number]
            off_s = _off_s(output, probe, start)
            work = (number, output, off_s, side, raw, self._merger, self._child)
            threads.append(threading.Thread(target=_read_output, args=work, name="ffmpeg-frames", daemon=True))
        if url == "pipe:0":
            feed = (source.file, self._child.stdin, self._merger)
            threading.Thread(target=_feed, args=feed, name="ffmpeg-feed", daemon=True).start()
        for thread in threads:
            thread.start()
        self._end = weakref.finalize(self, _end, self._merger, self._child, threads)

    @property
    def num_errors(self) -> int:
        """Lines of errors that the program has printed so far."""
        return self._child.messages.count

    @property
    def error_messages(self) -> list[str]:
        """The last of these lines."""
        return self._child.messages.lines()

    @property
    def pid(self) -> int:
        """The program's process number."""
        return self._child.pid

    def read(self, timeout_s: float | None) -> Block | None:
        """The next block of any output, None at the end.

        Raises:
            MediaTimeoutError: nothing came in time.
            MediaError: the program failed; its words are in the message.
        """
        block = self._merger.get(timeout_s)
        if block is not None:
            self._given += 1
        elif self.num_errors and (self._strict or not self._given):
            raise MediaError(f"Failed to decode the input: {self._child.messages.tail()}")
        return block

    def close(self) -> None:
        """End the program and the threads."""
        self._end()
        if self._spool is not None:
            self._spool.cleanup()


class _Pipes:
    """Two pipes for each output: lines of times, and frames."""

    def __init__(self, count: int) -> None:
        self.readers: list[tuple[int, int]] = []
        self._writers: list[tuple[int, int]] = []
        try:
            for _ in range(count):
                side_reader, side_writer = os.pipe()
                raw_reader, raw_writer = os.pipe()
                self.readers.append((side_reader, raw_reader))
                self._writers.append((side_writer, raw_writer))
                _enlarge(raw_reader)
        except OSError:
            self.close()
            raise

    def writers(self) -> list[int]:
        """All descriptors that the child writes to."""
        return [descriptor for pair in self._writers for descriptor in pair]

    def target(self, output: int) -> str:
        """Where the tee muxer of an output writes."""
        side, raw = self._writers[output]
        return f"[f=framecrc:flush_packets=1]pipe:{side}|[f=data:flush_packets=1]pipe:{raw}"

    def close(self) -> None:
        for descriptor in [descriptor for pair in [*self.readers, *self._writers] for descriptor in pair]:
            with contextlib.suppress(OSError):  # those that the child took over are closed already
                os.close(descriptor)


def _enlarge(descriptor: int) -> None:
    """Room for more than one switch between program and reader; the system may allow less."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _command(
    source: Source,
    url: str,
    probe: Probe,
    outputs: list[Output],
    pipes: _Pipes,
    start: Start | None,
    strict: bool,
) -> list[str]:
    """The whole command line."""
    import ffmpeg  # ffmpeg-python: no more than a builder of commands

    stream = ffmpeg.input(url, **_input_options(source, probe, outputs, start, strict))
    written = [
        ffmpeg.output(
            stream[str(output.info.source_index)],
            pipes.target(number),
            format="tee",
            **_output_options(output, probe, start),
        )
        for number, output in enumerate(outputs)
    ]
    every = ffmpeg.merge_outputs(*written) if len(written) > 1 else written[0]
    fixed = ["-hide_banner", "-nostdin", "-v", "error", "-nostats", "-copyts", "-max_error_rate", "1"]
    command = ffmpeg.compile(every.global_args(*fixed, *(["-xerror"] if strict else [])), cmd=find_ffmpeg())
    return [str(word) for word in command]


def _input_options(
    source: Source, probe: Probe, outputs: list[Output], start: Start | None, strict: bool
) -> dict[str, Any]:
    options: dict[str, Any] = dict(source.option)
    if source.format is not None:
        options["format"] = source.format
    for output in outputs:
        index = output.info.source_index
        if output.decoder is not None:
            options[f"codec:{index}"] = output.decoder
        for key, value in {"threads": "1", **output.decoder_option}.items():
            options[f"{key}:{index}"] = value
        if output.hw_accel is not None:
            kind, _, number = output.hw_accel.partition(":")
            options[f"hwaccel:{index}"] = kind
            options[f"hwaccel_device:{index}"] = number or "0"
    if strict:
        options["err_detect"] = "explode"
    if start is not None:
        options["noaccurate_seek"] = None
        if start.mode == "any":
            options["seek2any"] = "1"
        if (at := start.seek_s - probe.start_s) > 0:  # the program counts from the source's first time
            options["ss"] = f"{at:.6f}"
    return options


def _output_options(output: Output, probe: Probe, start: Start | None) -> dict[str, Any]:
    info = output.info
    chain = [info.filter_description]
    if isinstance(info, OutputAudioStream):
        source = probe.streams[info.source_index]
        assert isinstance(source, SourceAudioStream)
        chain = [*_texts(start, "audio", int(source.sample_rate)), *chain]
        if output.frames_per_chunk > 0:
            chain.append(f"asetnsamples=n={output.frames_per_chunk}:p=0")
        return {"af": ",".join(chain), "c:a": sample_format(info.format).codec}
    chain = [*_texts(start, "video", 0), *chain]
    passing = {"fps_mode": "passthrough"} if version() >= (5, 1) else {"vsync": "passthrough"}
    clock = {"enc_time_base": f"1:{_VIDEO_CLOCK}"}
    return {"vf": ",".join(chain), "c:v": "rawvideo", "pix_fmt": info.format, **passing, **clock}


def _texts(start: Start | None, media_type: str, sample_rate: int) -> list[str]:
    filters = start.filters(media_type, sample_rate) if start is not None else ()
    return [f"{name}='{arguments}'" for name, arguments in filters]


def _feed(file: Any, pipe: Any, merger: Merger) -> None:
    """Write what an object gives to the program."""
    with pipe:
        with contextlib.suppress(BrokenPipeError, ValueError):  # the program has enough, or is gone
            while block := file.read(65536):
                view = memoryview(block)
                while view:
                    view = view[pipe.write(view) :]
        if file.error is not None:
            merger.fail(file.error)  # the consumer raises it


def _off_s(output: Output, probe: Probe, start: Start | None) -> float:
    """What the filters' rounding takes off an output's times, where it is known with which sample it begins."""
    info = output.info
    source, begin_s = probe.streams[info.source_index], probe.starts_s[info.source_index]
    if not isinstance(info, OutputAudioStream) or not isinstance(source, SourceAudioStream):
        return 0.0
    rate = int(source.sample_rate)
    if start is not None and start.mode == "sample":
        first = start.first_sample(rate)
        first = first if begin_s is None else max(first, round(begin_s * rate))
    elif start is None and begin_s is not None:
        first = round(begin_s * rate)
    else:
        return 0.0
    return rounded_off_s(Fraction(first, rate), int(info.sample_rate))


def _read_output(
    number: int, output: Output, off_s: float, side_fd: int, raw_fd: int, merger: Merger, child: Child
) -> None:
    """The work of a thread: all blocks of one output."""
    error: BaseException | None = None
    with open(side_fd, "rb") as side, open(raw_fd, "rb", buffering=0) as raw:
        try:
            frames = _AudioFrames(output) if isinstance(output.info, OutputAudioStream) else _VideoFrames(output)
            _blocks(number, frames, off_s, side, raw, merger)
        except Closed:
            return
        except (MediaError, OSError, ValueError, RuntimeError) as raised:
            error = raised
    if error is None and child.wait() != 0:
        error = MediaError(f"Failed to decode the input: {child.why()}")
    merger.finish(number, error)


def _blocks(
    number: int, frames: _AudioFrames | _VideoFrames, off_s: float, side: Any, raw: io.FileIO, merger: Merger
) -> None:
    above, below = 1, 1
    for line in side:
        if line.startswith(b"#tb 0:"):
            above, below = map(int, line.split(b":")[1].split(b"/"))
        if line.startswith(b"#"):
            continue
        fields = line.split(b",")
        if len(fields) < 6:
            break  # the program died in the middle of a line
        whole = frames.read(int(fields[4]), raw)
        if whole is None:
            break
        for block, at in frames.add(whole, int(fields[2]) * above / below + off_s):
            merger.put(Block(number, block, at))
    for block, at in frames.rest():
        merger.put(Block(number, block, at))


def _fill(raw: io.FileIO, view: memoryview) -> bool:
    """Read exactly as much as fits; false when the program's end comes first."""
    while view:
        got = raw.readinto(view)
        if not got:
            return False
        view = view[got:]
    return True


class _AudioFrames:
    """Raw samples to blocks; the program already cuts them into chunks."""

    def __init__(self, output: Output) -> None:
        assert isinstance(output.info, OutputAudioStream)
        self._dtype = sample_format(output.info.format).dtype
        self._channels = output.info.num_channels

    def read(self, size: int, raw: io.FileIO) -> Tensor | None:
        buffer = bytearray(size)
        if not _fill(raw, memoryview(buffer)):
            return None
        return torch.frombuffer(buffer, dtype=self._dtype).reshape(-1, self._channels)

    def add(self, frames: Tensor, time_s: float) -> list[tuple[Tensor, float]]:
        return [(frames, time_s)]

    def rest(self) -> list[tuple[Tensor, float]]:
        return []


class _VideoFrames:
    """Raw pictures to blocks of a chunk each, read into place."""

    def __init__(self, output: Output) -> None:
        assert isinstance(output.info, OutputVideoStream)
        self._height, self._width = output.info.height, output.info.width
        self._format = pixel_format(output.info.format)
        self._size = self._format.size(self._height, self._width)
        self._count = max(1, output.frames_per_chunk)
        self._buffer = bytearray()
        self._filled = 0
        self._time_s = 0.0

    def read(self, size: int, raw: io.FileIO) -> Tensor | None:
        if size != self._size:
            raise MediaError(
                f"A frame of {size} bytes came where {self._width} x {self._height} make {self._size}: the stream "
                "changes its size. Give `width` and `height`, or a scale filter."
            )
        if not self._filled:
            self._buffer = bytearray(self._count * size)
        place = memoryview(self._buffer)[self._filled * size : (self._filled + 1) * size]
        return torch.empty(0) if _fill(raw, place) else None

    def add(self, _frame: Tensor, time_s: float) -> list[tuple[Tensor, float]]:
        if not self._filled:
            self._time_s = time_s
        self._filled += 1
        return self.rest() if self._filled == self._count else []

    def rest(self) -> list[tuple[Tensor, float]]:
        if not self._filled:
            return []
        raw = torch.frombuffer(self._buffer, dtype=torch.uint8)[: self._filled * self._size]
        self._filled = 0
        return [(self._format.view(raw, self._height, self._width), self._time_s)]


def _end(merger: Merger, child: Child, threads: list[threading.Thread]) -> None:
    merger.close()
    child.close()
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join()
