"""FFmpeg's libraries in this process, through PyAV where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from flambeau.audio.io._errors import MediaError, MediaFileNotFoundError, MissingFFmpegError
from flambeau.core.errors import FlambeauError

if TYPE_CHECKING:
    from av.container import InputContainer

    from flambeau.audio.io._source import Source


def libav() -> ModuleType:
    """PyAV's module.

    Raises:
        MissingFFmpegError: it is not installed.
    """
    try:
        import av
    except ImportError as error:
        raise MissingFFmpegError(
            f'This needs FFmpeg in process ({error}). Run: pip install "flambeau-audio[av]"'
        ) from error
    _be_quiet(av)
    return av


def has_libav() -> bool:
    """Whether PyAV is installed."""
    try:
        libav()
    except MissingFFmpegError:
        return False
    return True


def _be_quiet(av: ModuleType) -> None:
    """What FFmpeg has to say of a file comes as an exception and a count, not on the terminal."""
    if not getattr(_be_quiet, "done", False):
        av.logging.set_level(None)
        _be_quiet.done = True  # type: ignore[attr-defined] # once: `utils.ffmpeg_utils.set_log_level` may raise it


@contextmanager
def errors(what: str) -> Iterator[None]:
    """Turn what PyAV raises into a `MediaError` whose message begins with `what`."""
    av = libav()
    try:
        yield
    except av.FileNotFoundError as error:
        raise MediaFileNotFoundError(f"{what} ({error.strerror}).") from error
    except av.FFmpegError as error:
        raise MediaError(f"{what} ({error.strerror or error}).") from error
    except (ValueError, OverflowError, IndexError, MemoryError, AssertionError) as error:
        if isinstance(error, FlambeauError):
            raise
        raise MediaError(f"{what} ({str(error) or type(error).__name__}).") from error


def open_container(source: Source, file: Any = None) -> InputContainer:
    """Open a source for reading in process.

    Args:
        source: where from.
        file: read this object instead.

    Raises:
        MediaError: FFmpeg cannot read it.
        MissingFFmpegError: PyAV is not installed.
    """
    av = libav()
    where = file or source.file or source.url
    try:
        with errors(f"Failed to open the input {source.name}"):
            container: InputContainer = av.open(
                where,
                format=source.format if file is None else None,
                container_options=source.option if file is None else {},
                buffer_size=max(source.buffer_size, 4096),
            )
    except MediaError:
        if source.file is not None:
            source.file.check()
        raise
    return container
