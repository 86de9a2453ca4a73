"""Writing with the ffmpeg program: chunks go to it through one pipe, raw, each with its stream and its time."""

from __future__ import annotations

import shutil
import tempfile
import threading
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from flambeau.audio.io import _nut
from flambeau.audio.io._destination import Destination, Sink
from flambeau.audio.io._encoders import Encoder, encoder_of_codec, program_encoder, program_muxer
from flambeau.audio.io._errors import MediaError, MediaValueError
from flambeau.audio.io._filters import AudioShape, VideoShape, audio_behind, layout_of, video_behind
from flambeau.audio.io._output_options import AudioWish, Wish
from flambeau.audio.io._process import Child
from flambeau.audio.io._program import find_ffmpeg, version

_SAMPLES = {
    "u8": b"PUD\x08", "s16": b"PSD\x10", "s32": b"PSD\x20", "s64": b"PSD\x40", "flt": b"PFD\x20", "dbl": b"PFD\x40",
}  # fmt: skip
_PIXELS = {"gray": b"Y800", "rgb24": b"RGB\x18", "bgr24": b"BGR\x18", "yuv444p": b"444P"}
_PIECE = 4096  # samples of a frame: some encoders take the first frame's length for their blocks'
_END_S = 5.0  # for a program that has closed its input to come to its end


class PipeMuxer:
    """A running ffmpeg program that encodes and writes what it is fed.

    What it refuses may come to light with a later chunk, or at the end: it works beside Python.

    Args:
        destination: where it goes.
        format: the container, None to tell it by the name.

    Raises:
        MediaError: the container is unknown.
        MissingFFmpegError: there is no program.
    """

    def __init__(self, destination: Destination, format: str | None) -> None:
        self._name, self._target = destination.name, destination.target
        self._muxer = program_muxer(format, "" if isinstance(self._target, Sink) else self._target, self._name)
        self._wishes: list[Wish] = []
        self._encoders: list[Encoder] = []
        self._next: list[int] = []
        self._child: Child | None = None
        self._outlet: _Outlet | None = None

    def add(self, wish: Wish) -> None:
        """Add a stream.

        Raises:
            MediaError: no such encoder or filter, or it does not take what is asked.
        """
        name = wish.encoder or encoder_of_codec(self._muxer.codec(wish.media_type, self._name))
        encoder = program_encoder(name, wish.media_type)
        if isinstance(wish, AudioWish):
            encoder.choose_rate(wish.encoder_rate, wish.sample_rate)
            encoder.choose_format(wish.encoder_format, wish.format)
            audio_behind(AudioShape(wish.format, wish.sample_rate, wish.num_channels), wish.filter_desc)
        else:
            encoder.choose_format(wish.encoder_format, wish.pixels)
            video_behind(VideoShape(wish.pixels, wish.width, wish.height, wish.frame_rate), wish.filter_desc)
        self._wishes.append(wish)
        self._encoders.append(encoder)
        self._next.append(0)

    def start(self, metadata: dict[str, str], option: dict[str, str]) -> None:
        """Start the program.

        Raises:
            MediaError: it cannot be started.
        """
        target = self._target
        if isinstance(target, Sink):
            self._outlet = _Outlet(target)
            target = self._outlet.target
        command = self._command(target, metadata, option)
        self._child = Child(command, stdin=True, stdout=target == "pipe:1")
        if self._outlet is not None:
            self._outlet.begin(self._child)
        self._send(_nut.header([_raw_stream(wish) for wish in self._wishes]))

    def write(self, i: int, chunk: Tensor, pts: float | None) -> None:
        """Feed a chunk of stream `i`.

        Raises:
            MediaError: the program has ended; its words are in the message.
            MediaValueError: `pts` is negative.
        """
        wish = self._wishes[i]
        rate = wish.sample_rate if isinstance(wish, AudioWish) else wish.rate
        if pts is not None:
            if pts < 0:
                raise MediaValueError(f"pts is {pts}; the program takes times from 0 on. Use engine='av' for others.")
            self._next[i] = round(pts * Fraction(rate))
        chunk = chunk.detach().cpu()
        for piece in chunk.split(_PIECE) if isinstance(wish, AudioWish) else _pictures(chunk, wish.format):
            raw: Any = piece.contiguous().flatten().view(torch.uint8).numpy()
            content = memoryview(raw)
            if content.nbytes:
                self._send(_nut.frame(i, self._next[i], content.nbytes), content)
            self._next[i] += len(piece) if isinstance(wish, AudioWish) else 1

    def flush(self) -> None:
        """End the input and wait until the program has written everything.

        Raises:
            MediaError: it failed; its words are in the message.
        """
        assert self._child is not None and self._child.stdin is not None
        self._child.stdin.close()
        if self._child.wait() != 0:
            raise self._failure()

    def finish(self) -> None:
        """Hand an object what belongs to it."""
        assert self._child is not None
        if self._outlet is not None:
            self._outlet.finish()
        self._child.close()

    def abandon(self) -> None:
        """End the program, and leave nothing behind."""
        if self._child is not None:
            self._child.close()
        if self._outlet is not None:
            self._outlet.close()

    def _send(self, *parts: bytes | memoryview) -> None:
        assert self._child is not None
        pipe: Any = self._child.stdin
        try:
            for part in parts:
                view = memoryview(part)
                while view:
                    view = view[pipe.write(view) :]
        except BrokenPipeError as error:
            raise self._failure() from error

    def _failure(self) -> BaseException:
        assert self._child is not None
        self._child.wait(_END_S)
        if self._outlet is not None and self._outlet.error is not None:
            return self._outlet.error
        return MediaError(f"Failed to write {self._name}: {self._child.why()}")

    def _command(self, target: str, metadata: dict[str, str], option: dict[str, str]) -> list[str]:
        import ffmpeg  # ffmpeg-python: no more than a builder of commands

        # The header says all that there is to know: nothing is read ahead to find out.
        source = ffmpeg.input("pipe:0", format="nut", analyzeduration="0", fpsprobesize="0")
        options: dict[str, Any] = {"format": self._muxer.name, "max_muxing_queue_size": "1000000"}
        for number, (wish, encoder) in enumerate(zip(self._wishes, self._encoders, strict=True)):
            options |= {f"c:{number}": encoder.name, f"filter:{number}": _chain(wish, encoder)}
            options |= {f"{key}:{number}": value for key, value in encoder.options(wish.option).items()}
        if any(wish.media_type == "video" for wish in self._wishes):
            options |= {"fps_mode": "passthrough"} if version() >= (5, 1) else {"vsync": "passthrough"}
        # Numbers behind "g", the container, tell the builder's keys apart; the program does not look at them.
        options |= {f"metadata:g:{number}": f"{key}={value}" for number, (key, value) in enumerate(metadata.items())}
        written = ffmpeg.output(*(source[str(n)] for n in range(len(self._wishes))), target, **(options | option))
        fixed = ["-hide_banner", "-nostdin", "-v", "error", "-nostats", "-copyts", "-xerror", "-y"]
        return [str(word) for word in ffmpeg.compile(written.global_args(*fixed), cmd=find_ffmpeg())]


class _Outlet:
    """What the program prints goes into an object; by way of a file where the container may patch its header.

    Attributes:
        target: what the program is told.
        error: what the object raised.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.error: BaseException | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._thread: threading.Thread | None = None
        self.target = "pipe:1"
        if sink.seekable():
            self._folder = tempfile.TemporaryDirectory(prefix="flambeau-")
            self._path = Path(self._folder.name, "media")
            self.target = f"file:{self._path}"

    def begin(self, child: Child) -> None:
        """Begin to pass on what the program prints."""
        if child.stdout is not None:
            work = (child.stdout, child)
            self._thread = threading.Thread(target=self._pass_on, args=work, name="ffmpeg-output", daemon=True)
            self._thread.start()

    def _pass_on(self, pipe: IO[bytes], child: Child) -> None:
        try:
            while block := pipe.read(65536):
                self._sink.write(block)
        except BaseException as error:
            self.error = error  # raised where the caller writes or closes
            child.process.kill()  # which nobody would listen to any more

    def finish(self) -> None:
        """See to it that the object has everything.

        Raises:
            Exception: what the object raises.
        """
        if self._thread is not None:
            self._thread.join()
        if self.error is not None:
            raise self.error
        if self._folder is not None:
            with self._path.open("rb") as file:
                shutil.copyfileobj(file, self._sink, 2**20)
        self.close()

    def close(self) -> None:
        """Leave nothing behind; the program has ended before."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._folder is not None:
            self._folder.cleanup()


def _raw_stream(wish: Wish) -> _nut.RawAudio | _nut.RawVideo:
    if isinstance(wish, AudioWish):
        return _nut.RawAudio(_SAMPLES[wish.format], wish.sample_rate, wish.num_channels)
    return _nut.RawVideo(_PIXELS[wish.pixels], wish.rate, wish.width, wish.height)


def _pictures(chunk: Tensor, format: str) -> list[Tensor]:
    """The pictures of a chunk as FFmpeg lays them out."""
    return [picture if format == "yuv444p" else picture.permute(1, 2, 0) for picture in chunk]


def _chain(wish: Wish, encoder: Encoder) -> str:
    """From the chunks to what goes into the encoder."""
    if isinstance(wish, AudioWish):
        rate = encoder.choose_rate(wish.encoder_rate, wish.sample_rate)
        format = encoder.choose_format(wish.encoder_format, wish.format)
        layout = layout_of(wish.encoder_channels or wish.num_channels)
        last = [("aresample", str(rate)), ("aformat", f"sample_fmts={format}:channel_layouts={layout}")]
        if encoder.name == "flac":  # FFmpeg 9 takes the first frame's length for that of its blocks
            last.append(("asetnsamples", f"n={_PIECE}:p=0"))
    else:
        last = wish.filters(encoder.choose_format(wish.encoder_format, wish.pixels))
    first = [wish.filter_desc] if wish.filter_desc else []
    return ",".join([*first, *(f"{name}={arguments}" for name, arguments in last)])
