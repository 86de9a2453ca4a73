"""What a reader reads from: a file, an address, a device, bytes, or an object with `read`."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from flambeau.audio.io._errors import MediaError, MediaFileNotFoundError, MediaTypeError, MediaValueError

Kind = Literal["file", "address", "device", "memory", "object"]

# Input devices of libavdevice: `format` names them, and the source is then the device's own name.
DEVICES = frozenset(
    [
        "alsa",
        "android_camera",
        "avfoundation",
        "bktr",
        "decklink",
        "dshow",
        "dv1394",
        "fbdev",
        "gdigrab",
        "iec61883",
        "jack",
        "kmsgrab",
        "libcdio",
        "openal",
        "oss",
        "pulse",
        "sndio",
        "v4l2",
        "video4linux2",
        "vfwcap",
        "x11grab",
        "xcbgrab",
    ]
)  # fmt: skip
# Addresses that give what they have once: opened a second time, they have lost it or wait for another sender.
_ONCE = frozenset(
    ["fd", "pipe", "rtp", "rtsp", "rtsps", "sdp", "srt", "srtp", "tcp", "tls", "udp", "udplite", "unix", "zmq"]
)
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):")


class Readable(Protocol):
    """An object with `read(n)`, and perhaps `seek(offset, whence)`."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


@dataclass
class Source:
    """Where media come from.

    Attributes:
        kind: what it is.
        url: how FFmpeg is told; empty for memory and objects.
        name: how messages call it.
        format: the demuxer or device to use; None to guess.
        option: options of the demuxer and the protocol.
        file: what is read where there is no url.
        seekable: whether it can be read again from its start.
    """

    kind: Kind
    url: str
    name: str
    format: str | None = None
    option: dict[str, str] = field(default_factory=dict)
    file: FileObject | None = None
    seekable: bool = True
    buffer_size: int = 4096


class FileObject(io.RawIOBase):
    """A reader of a user's object or of memory, in the form that PyAV and the feeding thread expect."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner = inner
        self._seekable = callable(getattr(inner, "seek", None)) and (
            not callable(getattr(inner, "seekable", None)) or bool(inner.seekable())
        )
        self._position = 0
        self.name = name
        self.error: BaseException | None = None
        # What was read before it was known who would decode, of objects that cannot go back.
        self._seen: list[bytes] | None = None if self._seekable else []
        self._again = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Whether the object can be read again from any place."""
        return bool(self._seekable)

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; none at the end, and behind an error, which is kept in `error`."""
        if self._again:
            got, self._again = self._again[:size], self._again[size:] if size >= 0 else b""
            return got if size >= 0 else got + self.read(size)
        if self.error is not None:
            return b""
        try:
            got = self._inner.read(size)
        except BaseException as error:
            # FFmpeg, which calls this, would try again and forget all errors but one.
            self.error = error
            return b""
        if not isinstance(got, bytes | bytearray | memoryview):
            self.error = MediaError(f"{self.name}: read({size}) returned {type(got).__name__}; expected bytes.")
            return b""
        self._position += len(got)
        if self._seen is not None:
            self._seen.append(bytes(got))
        return bytes(got)

    def begin(self, *, again: bool) -> None:
        """End the time of finding out what there is.

        Args:
            again: give what was read so far once more, to another reader.
        """
        if self._seen is not None and again:
            self._again = b"".join(self._seen)
        self._seen = None

    def check(self) -> None:
        """Raise what the object raised, once it is known that reading has ended."""
        if self.error is not None:
            raise self.error

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move; returns the new position also where the object's own `seek` returns nothing."""
        moved = self._inner.seek(offset, whence)
        if moved is None:
            moved = self._inner.tell()
        self._position = int(moved)
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position


class Memory(io.RawIOBase):
    """Bytes in memory as a file, without a copy of the whole."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As many bytes as fit; `read` is made of this."""
        view = memoryview(buffer).cast("B")
        got = self._content[self._position : self._position + len(view)]
        view[: len(got)] = got
        self._position += len(got)
        return len(got)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move, also behind the end."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._content)}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position


def as_memory(src: Any) -> memoryview | None:
    """The bytes of a buffer, an array or a tensor of uint8; None for anything else.

    Raises:
        MediaValueError: a tensor or array that does not hold bytes.
    """
    if isinstance(src, bytes | bytearray | memoryview):
        return memoryview(src).cast("B")
    if type(src).__module__.partition(".")[0] == "numpy" and hasattr(src, "dtype"):
        if str(src.dtype) != "uint8":
            raise MediaValueError(f"An array of {src.dtype} holds no file; expected the bytes of one, uint8.")
        return memoryview(src.ravel()).cast("B")
    if hasattr(src, "element_size") and hasattr(src, "numpy"):
        if str(src.dtype) != "torch.uint8":
            raise MediaValueError(f"A tensor of {src.dtype} holds no file; expected the bytes of one, torch.uint8.")
        return memoryview(src.detach().cpu().contiguous().flatten().numpy()).cast("B")
    return None


def as_source(src: Any, format: str | None, option: dict[str, str] | None, buffer_size: int) -> Source:
    """Tell what `src` is.

    Raises:
        MediaFileNotFoundError: there is no such file.
        MediaTypeError: it is nothing that can be read from.
    """
    about: dict[str, Any] = {"format": format, "option": {key: str(value) for key, value in (option or {}).items()}}
    if buffer_size <= 0:
        raise MediaValueError(f"buffer_size is {buffer_size}; expected a number of bytes above 0.")
    if (content := as_memory(src)) is not None:
        if not content.nbytes:
            raise MediaError("Expected the bytes of a media file, got none: Invalid data found when processing input.")
        name = f"{content.nbytes} bytes in memory"
        return Source("memory", "", name, file=FileObject(Memory(content), name), buffer_size=buffer_size, **about)
    if isinstance(src, str | os.PathLike):
        return _named(os.fspath(src), isinstance(src, os.PathLike), buffer_size, about)
    if callable(getattr(src, "read", None)):
        file = FileObject(src, f"{type(src).__name__} object")
        return Source("object", "", file.name, file=file, seekable=file.seekable(), buffer_size=buffer_size, **about)
    raise MediaTypeError(
        f"Cannot read media from {type(src).__name__}; expected a path, an address, bytes, a uint8 array or tensor, or "
        "an object with read()."
    )


def _named(name: str | bytes, is_path: bool, buffer_size: int, about: dict[str, Any]) -> Source:
    text = os.fsdecode(name)
    if about["format"] in DEVICES:
        return Source("device", text, f"{about['format']}:{text}", seekable=False, buffer_size=buffer_size, **about)
    if about["format"] == "lavfi":
        return Source("address", text, f"lavfi:{text}", buffer_size=buffer_size, **about)
    address = None if is_path else _ADDRESS.match(text)
    if address is None or Path(text).exists():
        path = Path(os.path.normpath(text))
        if not path.exists():
            raise MediaFileNotFoundError(f"Failed to open the input {text!r} (No such file or directory).")
        if path.is_dir():
            raise MediaError(f"Failed to open the input {text!r} (Is a directory).")
        regular = path.is_file()
        # With the protocol named, a colon in a file's name is no address, nor a dash at its start an option.
        return Source("file", f"file:{path}", repr(text), seekable=regular, buffer_size=buffer_size, **about)
    scheme = address[1].lower()
    if scheme == "file":
        return _named(text.split(":", 1)[1].removeprefix("//"), True, buffer_size, about)
    return Source("address", text, repr(text), seekable=scheme not in _ONCE, buffer_size=buffer_size, **about)
