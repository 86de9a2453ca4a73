"""Writing media chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Literal

from torch import Tensor

from flambeau.audio.io._av_muxer import AvMuxer
from flambeau.audio.io._destination import Destination, Sink, Writable
from flambeau.audio.io._encoders import libav_encoder, program_encoder, program_muxer
from flambeau.audio.io._errors import MediaError, MediaValueError, MissingFFmpegError
from flambeau.audio.io._filters import read_chain
from flambeau.audio.io._libav import has_libav, libav
from flambeau.audio.io._options import check_options
from flambeau.audio.io._output_options import AudioWish, VideoWish, Wish
from flambeau.audio.io._pipe_muxer import PipeMuxer
from flambeau.audio.io._program import has_ffmpeg
from flambeau.audio.io.codec_config import CodecConfig

__all__ = ["StreamWriter", "StreamingMediaEncoder"]

Engine = Literal["auto", "av", "pipe"]


class StreamWriter:
    """Encodes audio and video and writes them into any container that FFmpeg knows.

    Args:
        dst: a path, an address such as `rtmp://...` or `udp://...`, a device's name together with `format`, or an
            object with `write`; containers that patch their headers need `seek` as well.
        format: the container or device; by default told by the name. Needed for objects.
        buffer_size: bytes written at once.
        engine: "av" encodes in this process through PyAV; "pipe" in a child process, the ffmpeg program, beside Python.
            "auto" takes "av", and "pipe" for containers, devices, encoders and branching filters that the program alone
            has, or where PyAV is not installed.

    Raises:
        MediaError: the container is unknown, or cannot be told (a RuntimeError).
        MediaFileNotFoundError: the folder does not exist.
        MissingFFmpegError: there is neither PyAV nor the program.

    Example:
        >>> writer = StreamWriter("tone.mp3")  # doctest: +SKIP
        >>> writer.add_audio_stream(16000, num_channels=1)  # doctest: +SKIP
        >>> with writer.open():  # doctest: +SKIP
        ...     writer.write_audio_chunk(0, torch.zeros(16000, 1))

    Note:
        A file has a name of its own (`.<name>.<...>.partial<suffix>`) until it is closed, so that nothing that looks
        finished is left behind by a program that dies. When the `with` block raises, the file is removed; after
        KeyboardInterrupt, which is how recordings end, it is finished and kept. What the program refuses, such as an
        option of an encoder, is raised with a later chunk or at the end, in its words.
    """

    def __init__(
        self,
        dst: str | Path | BinaryIO | Writable | Destination,
        format: str | None = None,
        buffer_size: int = 4096,
        *,
        engine: Engine = "auto",
    ) -> None:
        if engine not in ("auto", "av", "pipe"):
            raise MediaValueError(f"engine is {engine!r}; expected 'auto', 'av' or 'pipe'.")
        self._destination = dst if isinstance(dst, Destination) else Destination(dst, format)
        if isinstance(self._destination.target, Sink) and format is None:
            raise MediaError("An object has no name that would tell the container; pass `format`, such as 'wav'.")
        self._format, self._choice = format, engine
        self._wishes: list[Wish] = []
        self._metadata: dict[str, str] = {}
        self._is_open = self._is_flushed = False
        self._muxer = self._first_muxer(buffer_size)
        self._is_closed = False  # from here on there is something to close

    def add_audio_stream(
        self,
        sample_rate: int,
        num_channels: int,
        format: str = "flt",
        *,
        encoder: str | None = None,
        encoder_option: dict[str, str] | None = None,
        encoder_sample_rate: int | None = None,
        encoder_num_channels: int | None = None,
        encoder_format: str | None = None,
        codec_config: CodecConfig | None = None,
        filter_desc: str | None = None,
    ) -> None:
        """Add an audio stream; before `open`.

        Args:
            sample_rate: of the chunks, in Hz.
            num_channels: of the chunks.
            format: of the chunks: `u8, s16, s32, s64, flt, dbl` for uint8, int16, int32, int64, float32, float64.
            encoder: FFmpeg's name of an encoder; the container's default otherwise.
            encoder_option: its options.
            encoder_sample_rate: what is encoded; by default the chunks' rate, or the next that the encoder takes.
            encoder_num_channels: what is encoded; by default the chunks'.
            encoder_format: sample format that is encoded; by default the chunks', or the first that the encoder takes.
            codec_config: settings that encoders have in common.
            filter_desc: filters before the encoder.

        Raises:
            MediaError: no such encoder, or it does not take what is asked (a RuntimeError).
        """
        self._add(
            AudioWish(
                int(sample_rate),
                num_channels,
                format,
                encoder,
                _options(encoder_option, codec_config),
                encoder_format,
                filter_desc,
                encoder_sample_rate,
                encoder_num_channels,
            )
        )

    def add_video_stream(
        self,
        frame_rate: float,
        width: int,
        height: int,
        format: str = "rgb24",
        *,
        encoder: str | None = None,
        encoder_option: dict[str, str] | None = None,
        encoder_frame_rate: float | None = None,
        encoder_width: int | None = None,
        encoder_height: int | None = None,
        encoder_format: str | None = None,
        codec_config: CodecConfig | None = None,
        filter_desc: str | None = None,
        hw_accel: str | None = None,
    ) -> None:
        """Add a video stream; before `open`.

        Args:
            frame_rate: frames a second of the chunks.
            width: in pixels.
            height: in pixels.
            format: of the chunks: `gray8, rgb24, bgr24, yuv444p`.
            encoder: as for audio, for example `h264_nvenc`.
            encoder_option: as for audio.
            encoder_frame_rate: what is encoded; by default the chunks' rate.
            encoder_width: what is encoded; by default the chunks'.
            encoder_height: what is encoded; by default the chunks'.
            encoder_format: pixel format that is encoded; by default the chunks', or the first that the encoder takes.
            codec_config: as for audio.
            filter_desc: as for audio.
            hw_accel: a device such as "cuda:0"; chunks on it are then taken as well.

        Raises:
            MediaError: no such encoder, or it does not take what is asked (a RuntimeError).
        """
        self._add(
            VideoWish(
                frame_rate,
                width,
                height,
                format,
                encoder,
                _options(encoder_option, codec_config),
                encoder_format,
                filter_desc,
                encoder_frame_rate,
                (encoder_width, encoder_height),
                hw_accel,
            )
        )

    def set_metadata(self, metadata: dict[str, str]) -> None:
        """Set the container's tags; before `open`."""
        self._must_be_new()
        self._metadata = dict(metadata)

    def open(self, option: dict[str, str] | None = None) -> StreamWriter:
        """Write the header; the streams can then be written to.

        Args:
            option: options of the muxer and the protocol.

        Returns:
            This writer, to be used in a `with` statement.

        Raises:
            MediaError: there is no stream, or muxer or encoder refuse what they were given (a RuntimeError).
        """
        self._must_be_new()
        if not self._wishes:
            raise MediaError("Add a stream before opening the output.")
        try:
            check_options(option or (), writing=True, program=self._choice == "pipe")
            self._muxer.start(self._metadata, {key: str(value) for key, value in (option or {}).items()})
        except BaseException:
            self._abandon()
            raise
        self._is_open = True
        return self

    def write_audio_chunk(self, i: int, chunk: Tensor, pts: float | None = None) -> None:
        """Write samples to an audio stream.

        Args:
            i: number of the stream, in the order of adding.
            chunk: (frames, channels) of the stream's dtype and channels; nothing is converted here.
            pts: seconds of the first sample; by default right behind the samples before.

        Raises:
            MediaError: the output is not open, or stream and chunk do not fit (a RuntimeError).
        """
        self._write(i, AudioWish, chunk, pts)

    def write_video_chunk(self, i: int, chunk: Tensor, pts: float | None = None) -> None:
        """Write frames to a video stream.

        Args:
            i: number of the stream, in the order of adding.
            chunk: uint8 (frames, C, H, W).
            pts: seconds of the first frame; by default right behind the frames before.

        Raises:
            MediaError: the output is not open, or stream and chunk do not fit (a RuntimeError).
        """
        self._write(i, VideoWish, chunk, pts)

    def flush(self) -> None:
        """Write what the encoders still hold; nothing can be written behind it.

        Raises:
            MediaError: the output is not open, or cannot be written.
        """
        self._must_be_open()
        if not self._is_flushed:
            self._is_flushed = True
            self._muxer.flush()

    def close(self) -> None:
        """Finish the file and give it its name; harmless when repeated.

        Raises:
            MediaError: it cannot be written; nothing is left of it.
        """
        if self._is_closed:
            return
        if not self._is_open:
            self._abandon()
            return
        try:
            self.flush()
            self._is_closed = True
            self._muxer.finish()
            self._destination.finish()
        except BaseException:
            self._abandon()
            raise

    def __enter__(self) -> StreamWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or kind is KeyboardInterrupt:
            self.close()
        else:
            self._abandon()

    def __del__(self) -> None:
        # An object that was never closed, also one whose constructor failed, leaves no file behind.
        if not getattr(self, "_is_closed", True):
            self._abandon()

    def _first_muxer(self, buffer_size: int) -> AvMuxer | PipeMuxer:
        if self._choice == "av" or (self._choice == "auto" and has_libav()):
            try:
                return AvMuxer(self._destination, self._format, buffer_size)
            except MediaError:
                if self._choice == "av" or not _is_programs_container(self._destination, self._format):
                    raise
        try:
            return PipeMuxer(self._destination, self._format)
        except MissingFFmpegError as error:
            raise MissingFFmpegError(f'{error} In process PyAV writes: pip install "flambeau-audio[av]"') from error

    def _add(self, wish: Wish) -> None:
        self._must_be_new()
        if self._choice == "auto" and isinstance(self._muxer, AvMuxer) and _is_programs(wish):
            program = PipeMuxer(self._destination, self._format)
            for earlier in self._wishes:
                program.add(earlier)
            self._muxer.abandon()
            self._muxer = program
        self._muxer.add(wish)
        self._wishes.append(wish)

    def _write(self, i: int, kind: type[Wish], chunk: Tensor, pts: float | None) -> None:
        self._must_be_open()
        if self._is_flushed:
            raise MediaError("The output is flushed; nothing can be written behind that.")
        if not 0 <= i < len(self._wishes) or not isinstance(self._wishes[i], kind):
            raise MediaError(f"Stream {i} is not one of the {kind.media_type} streams; {len(self._wishes)} were added.")
        self._wishes[i].check(chunk)
        self._muxer.write(i, chunk, pts)

    def _must_be_new(self) -> None:
        if self._is_open or self._is_closed:
            raise MediaError("The output is already opened; streams, tags and options are set before that.")

    def _must_be_open(self) -> None:
        if not self._is_open or self._is_closed:
            raise MediaError("Output is not opened. Call open() before writing, and close() after.")

    def _abandon(self) -> None:
        """Close without finishing, and leave no file."""
        self._is_closed = True
        try:
            self._muxer.abandon()
        finally:
            self._destination.discard()


def _is_programs_container(destination: Destination, format: str | None) -> bool:
    """Whether the program can write a container, or to a device, that PyAV does not know."""
    if not has_ffmpeg():
        return False
    target = destination.target
    try:
        found = program_muxer(format, "" if isinstance(target, Sink) else target, destination.name)
    except MediaError:
        return False
    return found.name not in libav().formats_available


def _is_programs(wish: Wish) -> bool:
    """Whether the program can do what is asked of a stream, and PyAV cannot."""
    if not has_ffmpeg():
        return False
    if wish.filter_desc and read_chain(wish.filter_desc) is None:
        return True
    return wish.encoder is not None and not _has(libav_encoder, wish) and _has(program_encoder, wish)


def _has(find: Callable[[str, str], object], wish: Wish) -> bool:
    try:
        find(wish.encoder or "", wish.media_type)
    except MediaError:
        return False
    return True


def _options(option: dict[str, str] | None, config: CodecConfig | None) -> dict[str, str]:
    check_options(option or (), writing=True)
    return {**(config.options() if config is not None else {}), **(option or {})}


StreamingMediaEncoder = StreamWriter
