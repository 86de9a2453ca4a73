"""Where a writer writes: a file that appears when it is finished, an address, or an object."""

from __future__ import annotations

import io
import os
import re
import secrets
from pathlib import Path
from typing import Any, Protocol

from flambeau.audio.io._errors import MediaError, MediaFileNotFoundError, MediaValueError
from flambeau.core.files import replace

# Muxers that write several files, or none of the name they are given.
_SEVERAL = frozenset(["dash", "hls", "image2", "segment", "smoothstreaming", "stream_segment", "tee"])
# Output devices of libavdevice: their name is no file.
_DEVICES = frozenset(
    [
        "alsa",
        "audiotoolbox",
        "caca",
        "decklink",
        "fbdev",
        "opengl",
        "oss",
        "pulse",
        "sdl",
        "sdl2",
        "sndio",
        "v4l2",
        "xv",
    ]
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:")


class Writable(Protocol):
    """An object with `write(bytes)`, and `seek(offset, whence)` for containers that patch their headers."""

    def write(self, content: bytes, /) -> Any:
        """Take bytes."""


class Sink(io.RawIOBase):
    """A user's object in the form that PyAV expects."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._position = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def readable(self) -> bool:
        """Never."""
        return False

    def seekable(self) -> bool:
        """Whether written bytes can be written again."""
        if not callable(getattr(self._inner, "seek", None)):
            return False
        return not callable(getattr(self._inner, "seekable", None)) or bool(self._inner.seekable())

    def write(self, content: Any, /) -> int:
        """Write everything, also into objects that take less at once."""
        block = bytes(content)
        view = memoryview(block)
        while view:
            taken = self._inner.write(bytes(view))
            view = view[len(view) if taken is None else taken :]
        self._position += len(block)
        return len(block)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move; returns the new position also where the object's own `seek` returns nothing."""
        moved = self._inner.seek(offset, whence)
        self._position = int(self._inner.tell() if moved is None else moved)
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position


class Destination:
    """Where media go.

    Attributes:
        target: what FFmpeg opens: an address, the temporary file, or an object.
        name: how messages call it.

    Args:
        dst: a path, an address, a device's name, or an object with `write`.
        format: the muxer, None to tell it by the name.

    Raises:
        MediaFileNotFoundError: the folder does not exist.
        MediaValueError: it is nothing that can be written to.
    """

    def __init__(self, dst: Any, format: str | None) -> None:
        self._final: Path | None = None
        self._temporary: Path | None = None
        self.target: str | Sink
        if not isinstance(dst, str | os.PathLike):
            if not callable(getattr(dst, "write", None)):
                raise MediaValueError(
                    f"Cannot write media to {type(dst).__name__}; expected a path, an address or one with write()."
                )
            self.target, self.name = Sink(dst), f"{type(dst).__name__} object"
            return
        text = os.fsdecode(os.fspath(dst))
        self.target, self.name = text, repr(text)
        address = isinstance(dst, str) and _ADDRESS.match(text) and not text.lower().startswith("file:")
        path = Path(text.removeprefix("file:"))
        if address or format in _SEVERAL | _DEVICES or "%" in text or path.suffix in (".m3u8", ".mpd"):
            return
        if path.exists() and not path.is_file():
            if path.is_dir():
                raise MediaError(f"{text!r} is a directory; expected the name of a file.")
            return  # a device or a named pipe: nothing to rename
        if not path.parent.is_dir():
            raise MediaFileNotFoundError(f"Failed to open the output {text!r} (No such file or directory).")
        self._final = path
        # The suffix stays, since the container is told by it; the name says that the file is not finished.
        self._temporary = path.with_name(f".{path.stem}.{os.getpid()}.{secrets.token_hex(4)}.partial{path.suffix}")
        self.target = f"file:{self._temporary}"

    @property
    def path(self) -> Path | None:
        """The temporary file, None where there is none."""
        return self._temporary

    def finish(self) -> None:
        """Give the finished file its name."""
        if self._temporary is not None and self._final is not None:
            with self._temporary.open("rb") as file:
                os.fsync(file.fileno())
            replace(self._temporary, self._final)
            self._temporary = None

    def discard(self) -> None:
        """Leave nothing of an unfinished file."""
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None
