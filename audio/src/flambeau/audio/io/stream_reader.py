"""Reading media chunk by chunk."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import torch

from flambeau.audio.io._av_engine import AvEngine
from flambeau.audio.io._chunks import ChunkBuffer, ChunkTensor
from flambeau.audio.io._errors import MediaError, MediaTimeoutError, MediaValueError
from flambeau.audio.io._filters import audio_shape, basic_audio, basic_video, read_chain, video_shape
from flambeau.audio.io._formats import pixel_format, sample_format
from flambeau.audio.io._interleaving import Block, ReadAhead
from flambeau.audio.io._libav import errors, has_libav, open_container
from flambeau.audio.io._options import check_options
from flambeau.audio.io._pipe_engine import PipeEngine
from flambeau.audio.io._probe import probe_container, probe_program
from flambeau.audio.io._program import find_ffmpeg, has_ffmpeg
from flambeau.audio.io._relay import OFFSET_S, Relay
from flambeau.audio.io._seek import MODES, Mode, Start
from flambeau.audio.io._source import Readable, Source, as_source
from flambeau.audio.io._streams import (
    Output,
    OutputAudioStream,
    OutputVideoStream,
    Probe,
    SourceAudioStream,
    SourceStream,
    SourceVideoStream,
)

if TYPE_CHECKING:
    from av.container import InputContainer

__all__ = ["StreamReader", "StreamingMediaDecoder"]

Engine = Literal["auto", "av", "pipe"]

# Starting the program costs what decoding in process costs for about so much: measured, see the benchmarks.
_SHORT_AUDIO_S = 45.0
_SHORT_VIDEO_S = 1.0
_LAG_S = 1.0
_NO_CODEC = ("unknown", "none")  # as ffprobe and ffmpeg call what they cannot decode


class StreamReader:
    """Reads audio and video of any source that FFmpeg knows, chunk by chunk.

    Args:
        src: a path, an address (`https://`, `rtsp://`, `udp://`, ...), a device's name together with `format`, a filter
            expression with `format="lavfi"`, the bytes of a file (also as array or tensor of uint8), or an object with
            `read(n)` and perhaps `seek(offset, whence)`.
        format: the demuxer, such as `mp3`, or the device: `alsa`, `pulse`, `v4l2`, `avfoundation`, `dshow`, `x11grab`.
        option: options of demuxer, device or protocol.
        buffer_size: bytes read at once from objects.
        engine: "pipe" decodes in a child process, the ffmpeg program, beside Python; "av" in this process through PyAV,
            with the first chunk at once. "auto" takes "av" for what is short or in memory, else "pipe".
        strict: raise at the first error of a decoder. Otherwise damaged stretches are left out and counted in
            `num_decode_errors`.

    Raises:
        MediaError: the source cannot be opened; FFmpeg's reason is in the message (a RuntimeError).
        MediaFileNotFoundError: there is no such file (also a FileNotFoundError).
        MissingFFmpegError: neither PyAV nor the program is there.

    Example:
        >>> reader = StreamReader("talk.mp4")  # doctest: +SKIP
        >>> reader.add_basic_audio_stream(16000, sample_rate=16000, num_channels=1)  # doctest: +SKIP
        >>> for (chunk,) in reader.stream():  # doctest: +SKIP
        ...     print(chunk.pts, chunk.shape)

    Note:
        Times are on the source's own clock, which need not begin at 0. One thread at a time uses a reader; `close` may
        come from another.
    """

    def __init__(
        self,
        src: str | Path | bytes | BinaryIO | Readable,
        format: str | None = None,
        option: dict[str, str] | None = None,
        buffer_size: int = 4096,
        *,
        engine: Engine = "auto",
        strict: bool = False,
    ) -> None:
        if engine not in ("auto", "av", "pipe"):
            raise MediaValueError(f"engine is {engine!r}; expected 'auto', 'av' or 'pipe'.")
        self._source: Source = as_source(src, format, option, buffer_size)
        check_options(self._source.option, program=engine == "pipe")
        self._choice, self._strict = engine, strict
        self._outputs: list[Output] = []
        self._buffers: list[ChunkBuffer] = []
        self._start: Start | None = None
        self._engine: PipeEngine | AvEngine | None = None
        self._ahead: ReadAhead | None = None
        self._ended = False
        self._begun = False
        self._unheard: Iterator[object] | None = None  # packets that no output is there for
        self._errors_before = 0
        self._resources = _Resources()
        self._closer = weakref.finalize(self, self._resources.close)
        try:
            self._probe = self._open()
        except BaseException:
            self.close()
            raise

    # ---------------------------------------------------------------- what the source holds

    @property
    def num_src_streams(self) -> int:
        """Number of the source's streams, those of subtitles and data included."""
        return len(self._probe.streams)

    @property
    def num_out_streams(self) -> int:
        """Number of streams that this reader gives out."""
        return len(self._outputs)

    @property
    def default_audio_stream(self) -> int | None:
        """Number of the audio stream that FFmpeg takes by default, None where there is none."""
        return self._probe.best.get("audio")

    @property
    def default_video_stream(self) -> int | None:
        """Number of the video stream that FFmpeg takes by default, None where there is none."""
        return self._probe.best.get("video")

    @property
    def num_decode_errors(self) -> int:
        """Errors that demuxer and decoders have reported since the reader was made."""
        return self._errors_before + (self._engine.num_errors if self._engine is not None else 0)

    @property
    def decode_error_messages(self) -> list[str]:
        """The last of these errors in FFmpeg's words."""
        return list(self._engine.error_messages) if self._engine is not None else []

    def get_metadata(self) -> dict[str, str]:
        """The container's tags."""
        return dict(self._probe.metadata)

    def get_src_stream_info(self, i: int) -> SourceStream:
        """What stream `i` of the source is.

        Raises:
            MediaError: there is no such stream.
        """
        if not 0 <= i < len(self._probe.streams):
            raise MediaError(f"There is no source stream {i}; the source has {len(self._probe.streams)}.")
        return self._probe.streams[i]

    def get_out_stream_info(self, i: int) -> OutputAudioStream | OutputVideoStream:
        """What output stream `i` gives.

        Raises:
            MediaError: there is no such stream.
        """
        return self._outputs[self._output_number(i)].info

    # ---------------------------------------------------------------- choosing outputs

    def add_basic_audio_stream(
        self,
        frames_per_chunk: int,
        buffer_chunk_size: int = 3,
        *,
        stream_index: int | None = None,
        decoder: str | None = None,
        decoder_option: dict[str, str] | None = None,
        format: str | None = "fltp",
        sample_rate: int | None = None,
        num_channels: int | None = None,
    ) -> None:
        """Give out an audio stream at a rate, sample format and number of channels.

        Args:
            frames_per_chunk: samples per channel of a chunk; -1 for chunks of whatever there is.
            buffer_chunk_size: full chunks kept; the oldest are dropped beyond that. -1 keeps all.
            stream_index: which of the source's streams; FFmpeg's choice by default.
            decoder: FFmpeg's name of a decoder, in place of the default.
            decoder_option: its options; "threads" is "1" unless given.
            format: `u8p, s16p, s32p, s64p, fltp, dblp` or the packed forms, which give the same tensors: uint8, int16,
                int32, int64, float32 in [-1, 1], float64. None keeps the decoder's.
            sample_rate: in Hz; None keeps the source's.
            num_channels: None keeps the source's.

        Raises:
            MediaError: there is no such stream, filter or decoder (a RuntimeError).
        """
        description = basic_audio(format, sample_rate, num_channels)
        self._add_audio(frames_per_chunk, buffer_chunk_size, stream_index, decoder, decoder_option, description)

    def add_basic_video_stream(
        self,
        frames_per_chunk: int,
        buffer_chunk_size: int = 3,
        *,
        stream_index: int | None = None,
        decoder: str | None = None,
        decoder_option: dict[str, str] | None = None,
        format: str | None = "rgb24",
        frame_rate: int | None = None,
        width: int | None = None,
        height: int | None = None,
        hw_accel: str | None = None,
    ) -> None:
        """Give out a video stream at a frame rate, size and pixel format.

        Args:
            frames_per_chunk: frames of a chunk; -1 for chunks of whatever there is.
            buffer_chunk_size: as for audio.
            stream_index: as for audio.
            decoder: as for audio, for example `h264_cuvid`.
            decoder_option: as for audio.
            format: `rgb24, bgr24, gray, yuv420p, yuv444p, nv12, rgba, bgra, argb, abgr` give uint8 (frames, C, H, W),
                with the chroma of YUV at full size; `rgb48le, yuv420p10le` give int16. None keeps the decoder's.
            frame_rate: frames a second; None keeps the source's frames.
            width: in pixels.
            height: in pixels.
            hw_accel: a device such as "cuda:0", which decodes and on which the chunks then lie.

        Raises:
            MediaError: there is no such stream, filter or decoder (a RuntimeError).
        """
        description = basic_video(format, frame_rate, width, height)
        self._add_video(
            frames_per_chunk, buffer_chunk_size, stream_index, decoder, decoder_option, description, hw_accel
        )

    def add_audio_stream(
        self,
        frames_per_chunk: int,
        buffer_chunk_size: int = 3,
        *,
        stream_index: int | None = None,
        decoder: str | None = None,
        decoder_option: dict[str, str] | None = None,
        filter_desc: str | None = None,
    ) -> None:
        """Give out an audio stream behind a chain of FFmpeg's filters.

        Args:
            frames_per_chunk: see `add_basic_audio_stream`, as for what is not named here.
            buffer_chunk_size: see there.
            stream_index: see there.
            decoder: see there.
            decoder_option: see there.
            filter_desc: such as "atempo=1.5,aresample=8000"; branches ("asplit[a][b];[a]...") need the "pipe" engine.

        Raises:
            MediaError: there is no such stream, filter or decoder (a RuntimeError).
        """
        self._add_audio(frames_per_chunk, buffer_chunk_size, stream_index, decoder, decoder_option, filter_desc)

    def add_video_stream(
        self,
        frames_per_chunk: int,
        buffer_chunk_size: int = 3,
        *,
        stream_index: int | None = None,
        decoder: str | None = None,
        decoder_option: dict[str, str] | None = None,
        filter_desc: str | None = None,
        hw_accel: str | None = None,
    ) -> None:
        """Give out a video stream behind a chain of FFmpeg's filters.

        Args:
            frames_per_chunk: see `add_basic_video_stream`, as for what is not named here.
            buffer_chunk_size: see there.
            stream_index: see there.
            decoder: see there.
            decoder_option: see there.
            filter_desc: such as "fps=10,scale=320:-2,format=pix_fmts=rgb24".
            hw_accel: see there.

        Raises:
            MediaError: there is no such stream, filter or decoder (a RuntimeError).
        """
        self._add_video(
            frames_per_chunk, buffer_chunk_size, stream_index, decoder, decoder_option, filter_desc, hw_accel
        )

    def remove_stream(self, i: int) -> None:
        """Give out stream `i` no longer; the numbers of those behind it move down.

        Raises:
            MediaError: there is no such stream, or reading has begun.
        """
        self._must_be_still()
        number = self._output_number(i)
        del self._outputs[number], self._buffers[number]

    # ---------------------------------------------------------------- reading

    def seek(self, timestamp: float, mode: Mode = "precise") -> None:
        """Go on at another time; what is buffered is dropped.

        Args:
            timestamp: seconds on the source's clock, not below 0. Before the source's start means its start.
            mode: "precise" drops frames before the time, so that the first one is the first that begins at it or later;
                "sample" also cuts audio at the very sample; "key" begins at the key frame before; "any" at any packet,
                with pictures that may be broken.

        Raises:
            MediaValueError: the time is negative or no number, or the mode is unknown.
            MediaError: the source can be read only once, and reading has begun.
        """
        if not math.isfinite(timestamp) or timestamp < 0:
            raise MediaValueError(f"timestamp is {timestamp}; expected seconds, not below 0.")
        if mode not in MODES:
            raise MediaValueError(f"mode is {mode!r}; expected one of {', '.join(MODES)}.")
        if not self._source.seekable:
            raise MediaError(f"{self._source.name} can be read only once, from its start; it cannot be sought in.")
        self._stop()
        self._start = Start(float(timestamp), mode)

    def process_packet(self, timeout: float | None = None, backoff: float = 10.0) -> int:
        """Read a little: what one packet, or one chunk where the source is decoded in chunks, brings.

        Without an output, packets are read and dropped.

        Args:
            timeout: milliseconds to wait for a source that gives nothing; None and negative numbers wait without limit.
            backoff: upstream's pause between attempts; nothing is polled here.

        Returns:
            0 when something was read, 1 when the source is at its end and everything is in the buffers.

        Raises:
            MediaTimeoutError: nothing came in time; another call may wait on.
            MediaError: the end was reached before, or the source failed.
        """
        if not self._outputs:
            return self._drop_packet()
        if self._ended:
            raise MediaError("The source is at its end; seek to read again.")
        block = self._read(timeout)
        if block is None:
            return 1
        self._buffers[block.output].trim()
        return 0

    def process_all_packets(self) -> None:
        """Read to the end; buffers keep the last chunks alone unless `buffer_chunk_size` is -1."""
        while not self.process_packet():
            pass

    def is_buffer_ready(self) -> bool:
        """Whether every output has a full chunk."""
        return all(buffer.ready for buffer in self._buffers)

    def pop_chunks(self) -> list[ChunkTensor | None]:
        """One chunk of every output: None for one without a full chunk; at the end also what is left of a chunk."""
        return [
            self._placed(buffer.pop(ended=self._ended), output)
            for buffer, output in zip(self._buffers, self._outputs, strict=True)
        ]

    def fill_buffer(self, timeout: float | None = None, backoff: float = 10.0) -> int:
        """Read until every output has a full chunk.

        Args:
            timeout: as in `process_packet`, for the whole.
            backoff: as there.

        Returns:
            0 when all have one, also when there are none; 1 when the source is at its end.
        """
        end = _deadline(timeout)
        while not self.is_buffer_ready():
            if self._ended or self.process_packet(_left(end), backoff):
                return 1
        return 0

    def stream(self, timeout: float | None = None, backoff: float = 10.0) -> Iterator[list[ChunkTensor | None]]:
        """Iterate over the chunks of all outputs.

        Args:
            timeout: as in `fill_buffer`, for each step.
            backoff: as there.

        Yields:
            One chunk for each output, None for one that has ended. The last chunk of an output may be shorter.

        Raises:
            MediaError: no output is configured, or the source failed.
        """
        self._must_have_outputs()
        return self._stream(timeout)

    def _stream(self, timeout: float | None) -> Iterator[list[ChunkTensor | None]]:
        while not self._ended:
            end = _deadline(timeout)
            while not (ready := self.is_buffer_ready()) and not self._lags() and not self._ended:
                self._read(_left(end))
            if ready:
                for buffer in self._buffers:
                    buffer.trim()
            if not self._ended:
                yield self.pop_chunks()
        while any(buffer for buffer in self._buffers):
            yield self.pop_chunks()

    def close(self) -> None:
        """Stop the child process and close the source; a reader that is dropped does so by itself."""
        self._ended = True
        self._closer()

    def __enter__(self) -> StreamReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---------------------------------------------------------------- inside

    def _open(self) -> Probe:
        source, resources = self._source, self._resources
        one_shot = not source.seekable and source.kind in ("address", "device", "file")
        whole = source.kind != "object" or source.seekable
        if not has_libav() or (self._choice == "pipe" and whole):
            find_ffmpeg()
            return probe_program(source)
        if self._choice != "av" and one_shot and has_ffmpeg():
            relay = resources.relay = Relay(source)
            try:
                container = open_container(source, relay)
            except MediaError as error:
                relay.child.close()
                raise MediaError(f"Failed to open the input {source.name}: {relay.child.why()}") from error
        elif source.kind == "device" and has_ffmpeg():
            return probe_program(source)
        else:
            container = open_container(source)
        resources.container = container
        return probe_container(container, OFFSET_S if resources.relay is not None else 0)

    def _output_number(self, i: int) -> int:
        if not 0 <= i < len(self._outputs):
            raise MediaError(f"There is no output stream {i}; {len(self._outputs)} are configured.")
        return i

    def _must_be_still(self) -> None:
        if self._engine is not None:
            raise MediaError("Reading has begun; streams are added and removed before that, or after a seek.")

    def _must_have_outputs(self) -> None:
        if not self._outputs:
            raise MediaError(
                "Nothing is asked of this reader yet; call add_basic_audio_stream or another add_ method first."
            )

    def _source_index(self, media_type: str, index: int | None) -> int:
        self._must_be_still()
        if index is None:
            found = self._probe.best.get(media_type)
            if found is None:
                raise MediaError(f"There is no {media_type} stream.")
            return found
        if self.get_src_stream_info(index).media_type != media_type:
            kind = self._probe.streams[index].media_type
            raise MediaError(f"Stream {index} is not a {media_type} stream; it is {kind}.")
        return index

    def _add_audio(
        self,
        frames: int,
        most: int,
        index: int | None,
        decoder: str | None,
        option: dict[str, str] | None,
        description: str | None,
    ) -> None:
        index = self._source_index("audio", index)
        source = self._probe.streams[index]
        if not isinstance(source, SourceAudioStream) or not source.sample_rate or source.codec in _NO_CODEC:
            raise MediaError(f"Stream {index} cannot be decoded: its codec {source.codec!r} is unknown or damaged.")
        shape = audio_shape(source, description)
        sample_format(shape.format)
        info = OutputAudioStream(
            index, description or "anull", "audio", shape.format, float(shape.sample_rate), shape.num_channels
        )
        self._add(Output(info, frames, most, decoder, dict(option or {})), float(shape.sample_rate))

    def _add_video(
        self,
        frames: int,
        most: int,
        index: int | None,
        decoder: str | None,
        option: dict[str, str] | None,
        description: str | None,
        hw_accel: str | None,
    ) -> None:
        index = self._source_index("video", index)
        source = self._probe.streams[index]
        if not isinstance(source, SourceVideoStream) or not source.width or source.codec in _NO_CODEC:
            raise MediaError(f"Stream {index} cannot be decoded: its codec {source.codec!r} is unknown or damaged.")
        if hw_accel is not None:
            torch.device(hw_accel)  # a name that is no device shall not wait for the first frame
        shape = video_shape(source, description)
        pixel_format(shape.format)
        info = OutputVideoStream(
            index, description or "null", "video", shape.format, shape.width, shape.height, shape.frame_rate
        )
        self._add(Output(info, frames, most, decoder, dict(option or {}), hw_accel), shape.frame_rate)

    def _add(self, output: Output, rate: float) -> None:
        for name, number in (
            ("frames_per_chunk", output.frames_per_chunk),
            ("buffer_chunk_size", output.buffer_chunk_size),
        ):
            if number == 0 or number < -1:
                raise MediaValueError(f"{name} is {number}; expected a number above 0, or -1.")
        if output.decoder is not None:
            check_decoder(output.decoder, output.info.media_type)
        check_options(output.decoder_option, program=self._choice == "pipe")
        for other in self._outputs:
            same = other.info.source_index == output.info.source_index
            if same and (other.decoder, other.decoder_option) != (output.decoder, output.decoder_option):
                raise MediaError(
                    f"Stream {output.info.source_index} has one decoder for all its outputs; it is already configured "
                    f"with {other.decoder or 'the default'} and {other.decoder_option}."
                )
        self._outputs.append(output)
        self._buffers.append(ChunkBuffer(output.frames_per_chunk, output.buffer_chunk_size, rate))

    def _placed(self, chunk: ChunkTensor | None, output: Output) -> ChunkTensor | None:
        if chunk is None or output.hw_accel is None:
            return chunk
        return ChunkTensor(chunk._elem.to(output.hw_accel), chunk.pts)

    def _lags(self) -> bool:
        """Whether an output without a chunk is so far behind the others that it has ended, or has a gap."""
        spans = [buffer.span_s for buffer in self._buffers if buffer.span_s is not None]
        if len(self._buffers) < 2 or not any(buffer.ready for buffer in self._buffers):
            return False
        first, last = min(begin for begin, _ in spans), max(end for _, end in spans)
        waiting = [buffer for buffer in self._buffers if not buffer.ready]
        return last > _LAG_S + max(
            (first if buffer.span_s is None else buffer.span_s[1]) + buffer.chunk_s for buffer in waiting
        )

    def _drop_packet(self) -> int:
        """Read a packet without decoding it: 0, or 1 at the end and behind it."""
        container = self._resources.container
        if self._ended or container is None:  # the program decodes for outputs alone
            self._ended = True
            return 1
        if self._unheard is None:
            self._unheard = container.demux()
        with errors(f"Failed to read {self._source.name}"):
            # PyAV ends with a packet of no size for each stream.
            packet = next((one for one in self._unheard if getattr(one, "size", 0)), None)
        self._ended = packet is None
        return int(self._ended)

    def _read(self, timeout: float | None) -> Block | None:
        """The next block, put into its buffer; None at the end."""
        self._must_have_outputs()
        if self._engine is None:
            self._begin()
        limit = None if timeout is None or timeout < 0 else timeout / 1e3
        reader = self._ahead or self._engine
        assert reader is not None
        try:
            block = reader.read(limit)
        except MediaTimeoutError:
            raise
        except MediaError:
            self._ended = True
            if self._source.file is not None:
                self._source.file.check()
            raise
        if block is None:
            self._ended = True
            if self._source.file is not None:
                self._source.file.check()
            relay = self._resources.relay
            if relay is not None and (failure := relay.failure()):
                raise MediaError(f"Failed to read {self._source.name}: {failure}")
        else:
            self._buffers[block.output].push(block)
        return block

    def _begin(self) -> None:
        if self._closer.alive is False:
            raise MediaError("The reader is closed.")
        resources = self._resources
        if self._choose() == "pipe":
            resources.drop_container()
            self._engine = resources.engine = PipeEngine(
                self._source, self._probe, self._outputs, self._start, strict=self._strict
            )
        else:
            if self._source.file is not None:
                self._source.file.begin(again=False)
            start = self._start
            # From the start, a container is opened anew: no seek finds what encoders put before the first sample.
            fresh = start is not None and start.seek_s <= self._probe.start_s
            if self._begun and fresh:
                resources.drop_container()
            if resources.container is None:
                if self._source.file is not None:
                    self._source.file.seek(0)
                resources.container = open_container(self._source)
            self._engine = resources.engine = AvEngine(
                resources.container,
                self._source.name,
                self._outputs,
                start,
                strict=self._strict,
                fresh=fresh,
                offset_s=OFFSET_S if resources.relay is not None else 0,
                remote=self._source.kind == "address" and self._source.seekable,
            )
            if resources.relay is not None:
                # The thread waits for the source, so that the caller can stop waiting.
                self._ahead = resources.ahead = ReadAhead(self._engine.blocks())
        self._begun = True

    def _choose(self) -> Literal["av", "pipe"]:
        if self._choice != "auto":
            return self._choice
        if self._resources.relay is not None or self._unheard is not None:
            return "av"  # the one that stands where packets were left off
        simple = all(read_chain(output.info.filter_description) is not None for output in self._outputs)
        plain = all(output.decoder is None and output.hw_accel is None for output in self._outputs)
        if not has_libav() or not (simple and plain):
            return "pipe"
        if self._source.kind in ("memory", "object") or not has_ffmpeg():
            return "av"
        if self._source.kind != "file" or self._probe.duration_s is None:
            return "pipe"
        left = self._probe.duration_s - (self._start.time_s - self._probe.start_s if self._start is not None else 0.0)
        pictures = any(output.info.media_type == "video" for output in self._outputs)
        return "av" if left <= (_SHORT_VIDEO_S if pictures else _SHORT_AUDIO_S) else "pipe"

    def _stop(self) -> None:
        """End the engine; the next read starts one anew."""
        self._errors_before = self.num_decode_errors
        self._resources.stop()
        self._engine = self._ahead = self._unheard = None
        self._ended = False
        for buffer in self._buffers:
            buffer.clear()


class _Resources:
    """All that must be closed, apart from the reader so that dropping the reader closes it."""

    def __init__(self) -> None:
        self.engine: PipeEngine | AvEngine | None = None
        self.ahead: ReadAhead | None = None
        self.relay: Relay | None = None
        self.container: InputContainer | None = None

    def stop(self) -> None:
        if self.relay is not None and self.ahead is not None:
            self.relay.child.close()  # its reading thread comes to an end
        if self.ahead is not None:
            self.ahead.close()
        if self.engine is not None:
            self.engine.close()
        self.engine = self.ahead = None

    def drop_container(self) -> None:
        if self.container is not None:
            self.container.close()
        self.container = None

    def close(self) -> None:
        self.stop()
        self.drop_container()
        if self.relay is not None:
            self.relay.close()


def check_decoder(name: str, media_type: str) -> None:
    """Make sure that FFmpeg has a decoder of this name.

    Raises:
        MediaError: it has not.
    """
    if has_libav():
        import av

        try:
            if av.Codec(name, "r").type == media_type:
                return
        except ValueError:  # PyAV's own build; the program may have more
            pass
    if has_ffmpeg():
        from flambeau.audio.utils import ffmpeg_utils

        known = ffmpeg_utils.get_audio_decoders if media_type == "audio" else ffmpeg_utils.get_video_decoders
        if name in known():
            return
    raise MediaError(f"Unsupported decoder: {name!r}. FFmpeg has no {media_type} decoder of this name.")


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None or timeout < 0 else time.monotonic() + timeout / 1e3


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, (deadline - time.monotonic()) * 1e3)


StreamingMediaDecoder = StreamReader
