"""`load`, `save` and `info`: which backend does what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO, Literal

from torch import Tensor

from flambeau.audio.backend import _ffmpeg, _soundfile, _sox, _wav
from flambeau.audio.backend._formats import Recipe, recipe_of
from flambeau.audio.backend.common import AudioMetaData
from flambeau.audio.io._destination import Destination
from flambeau.audio.io._errors import (
    MediaError,
    MediaFileNotFoundError,
    MediaTypeError,
    MediaValueError,
    MissingFFmpegError,
)
from flambeau.audio.io._libav import has_libav
from flambeau.audio.io._program import has_ffmpeg
from flambeau.audio.io._source import Memory, as_memory
from flambeau.audio.io.codec_config import CodecConfig

__all__ = [
    "get_audio_backend",
    "info",
    "list_audio_backends",
    "load",
    "load_with_torchcodec",
    "save",
    "save_with_torchcodec",
    "set_audio_backend",
]

_NAMES = ("ffmpeg", "sox", "soundfile")
_COMPRESSED = frozenset({".flac", ".mp3", ".oga", ".ogg", ".opus"})
Backend = Literal["ffmpeg", "sox", "soundfile"]
Source = BinaryIO | str | os.PathLike[str]


def list_audio_backends() -> list[str]:
    """Names that `backend=` accepts here: "ffmpeg" (PyAV or the program), "sox" (the program), "soundfile"."""
    there = (has_libav() or has_ffmpeg(), _has_sox(), _soundfile.has_soundfile())
    return [name for name, is_there in zip(_NAMES, there, strict=True) if is_there]


def _has_sox() -> bool:
    try:
        _sox.sox()
    except MissingFFmpegError:
        return False
    return True


def get_audio_backend() -> str | None:
    """None: the backend is chosen for each file. Kept for code written for older versions."""


def set_audio_backend(backend: str | None) -> None:
    """Do nothing: the backend is chosen for each file, or by `backend=`. Kept for code written for older versions."""


def info(uri: Source, format: str | None = None, buffer_size: int = 4096, backend: str | None = None) -> AudioMetaData:
    """Sample rate, length, channels and encoding of a recording.

    Args:
        uri: a path, an address, bytes, or an object with `read` and `seek`; an object is put back to where it stood.
        format: the container, where the content does not tell.
        buffer_size: bytes read at once from objects.
        backend: "soundfile", "ffmpeg" or "sox"; by default whichever reads the format.

    Returns:
        What is known. `num_frames` is the number of samples that `load` gives, for MP3 without encoder delay and
        padding where the file tells them.

    Raises:
        MediaError: it cannot be read (a RuntimeError).
        MediaFileNotFoundError: there is no such file.
        ValueError: no such backend.

    Note:
        WAV, FLAC, OGG and MP3 are told by their headers. What only FFmpeg reads is decoded to count its samples.
    """
    _check_backend(backend)
    source, name = _source(uri)
    if backend is None and (layout := _mappable(source)) is not None:
        return layout.metadata()
    start = _position(source)
    try:
        if backend == "sox":
            return _sox.info(source, format)
        if backend in (None, "soundfile"):
            try:
                return _soundfile.info(source, name)
            except (_soundfile.NotForSoundfileError, MissingFFmpegError) as error:
                if backend is not None:
                    raise MediaError(f"soundfile cannot read {name} ({error}).") from error
                _rewind(source, start)
                with _both(error):
                    return _ffmpeg.info(source, format, buffer_size)
        return _ffmpeg.info(source, format, buffer_size)
    finally:
        _rewind(source, start)


def load(
    uri: Source,
    frame_offset: int = 0,
    num_frames: int = -1,
    normalize: bool = True,
    channels_first: bool = True,
    format: str | None = None,
    buffer_size: int = 4096,
    backend: str | None = None,
) -> tuple[Tensor, int]:
    """Load a recording, or a stretch of it.

    Args:
        uri: a path, an address, bytes, or an object with `read` (and `seek`, but for what FFmpeg reads).
        frame_offset: first frame, not below 0; behind the end gives 0 frames.
        num_frames: frames at most; -1 for all.
        normalize: float32 in [-1, 1]; otherwise WAV keeps its integers (uint8, int16, int32; 24 bits as int32 shifted
            up by 8) and floats. Compressed formats are float32 either way.
        channels_first: (channels, frames), else (frames, channels).
        format: the container, where the content does not tell.
        buffer_size: bytes read at once from objects.
        backend: "soundfile", "ffmpeg" or "sox"; by default the fastest that reads the format. Plain WAV files are
            mapped into memory, so that a stretch costs what the stretch costs.

    Returns:
        The waveform, contiguous, and its sample rate in Hz.

    Raises:
        MediaError: it cannot be read (a RuntimeError).
        MediaFileNotFoundError: there is no such file.
        ValueError: a negative offset, a length of 0, or no such backend.
    """
    if frame_offset < 0:
        raise MediaValueError(f"frame_offset is {frame_offset}, expected 0 or more.")
    if num_frames == 0 or num_frames < -1:
        raise MediaValueError(f"num_frames is {num_frames}, expected 1 or more, or -1 for all.")
    _check_backend(backend)
    source, name = _source(uri)
    how: dict[str, bool] = {"normalize": normalize, "channels_first": channels_first}
    if backend is None and (layout := _mappable(source)) is not None:
        return _wav.load_mapped(source, layout, frame_offset, num_frames, **how), layout.sample_rate
    if backend == "sox":
        return _sox.load(source, format, frame_offset, num_frames, **how)
    if backend in (None, "soundfile"):
        start = _position(source)
        try:
            return _soundfile.load(source, name, frame_offset, num_frames, **how)
        except (_soundfile.NotForSoundfileError, MissingFFmpegError) as error:
            if backend is not None:
                raise MediaError(f"soundfile cannot read {name} ({error}).") from error
            _rewind(source, start)
            with _both(error):
                return _ffmpeg.load(source, format, buffer_size, frame_offset, num_frames, **how)
    return _ffmpeg.load(source, format, buffer_size, frame_offset, num_frames, **how)


def save(
    uri: Source,
    src: Tensor,
    sample_rate: int,
    channels_first: bool = True,
    format: str | None = None,
    encoding: str | None = None,
    bits_per_sample: int | None = None,
    buffer_size: int = 4096,
    backend: str | None = None,
    compression: CodecConfig | float | int | None = None,
) -> None:
    """Save a waveform.

    Args:
        uri: a path, or an object with `write` (and `seek`).
        src: (channels, frames), or (frames, channels) without `channels_first`. Floats in [-1, 1], or uint8, int16,
            int32 in full range.
        sample_rate: in Hz.
        channels_first: see `src`.
        format: the container; by default told by the name. Needed for objects.
        encoding: `PCM_S, PCM_U, PCM_F, ULAW, ALAW`, for WAV and SPHERE alone.
        bits_per_sample: WAV: 16, 24 or 32 of PCM_S, 8 of PCM_U, 32 or 64 of PCM_F. FLAC: 8, 16 or 24. SPHERE: 8 to 32.
        buffer_size: kept for code written for other versions.
        backend: "soundfile", "ffmpeg" or "sox"; by default whichever writes the format.
        compression: MP3: kbit/s, or quality from -9.999 (worst) to 0 below zero; FLAC: 0 to 8; OGG: quality from -1 to
            10; or a `CodecConfig`, which FFmpeg's encoders take.

    Raises:
        MediaError: it cannot be written (a RuntimeError); nothing is left behind.
        ValueError: an encoding that the format does not have, a waveform of other than 2 dimensions, no such backend.

    Note:
        Without `encoding` and `bits_per_sample`, WAV keeps the dtype: float32 is PCM_F of 32 bits, float64 of 64, int16
        PCM_S of 16, int32 of 32, uint8 PCM_U of 8. FLAC has 16 bits. A file gets its name when it is complete.
    """
    _check_backend(backend)
    if src.ndim != 2:
        raise MediaValueError(f"src has the shape {list(src.shape)}, expected two dimensions, channels and time.")
    if sample_rate <= 0:
        raise MediaValueError(f"sample_rate is {sample_rate}; expected a rate above 0 Hz.")
    frames = src.T if channels_first else src
    destination = Destination(uri, None)
    kind = _kind(uri, format)
    recipe = recipe_of(kind, src.dtype, encoding, bits_per_sample, compression)
    try:
        _write(destination, kind, recipe, frames, int(sample_rate), backend)
        destination.finish()
    except BaseException:
        destination.discard()
        raise


def _write(
    destination: Destination, kind: str, recipe: Recipe, frames: Tensor, sample_rate: int, backend: str | None
) -> None:
    target: Any = destination.path if destination.path is not None else destination.target
    if recipe.subtype is not None and backend in (None, "soundfile", "sox") and recipe.config is None:
        assert recipe.container is not None
        try:
            _soundfile.save(
                target,
                destination.name,
                frames,
                sample_rate,
                recipe.container,
                recipe.subtype,
                recipe.level,
                recipe.bitrate_mode,
            )
        except (_soundfile.NotForSoundfileError, MissingFFmpegError):
            # Such as Opus at 44.1 kHz, which FFmpeg resamples.
            if backend is not None or not (has_libav() or has_ffmpeg()):
                raise
        else:
            return
    elif backend in ("soundfile", "sox"):
        raise MediaError(f"{backend} does not write {kind!r} like this; use backend='ffmpeg'.")
    _ffmpeg.save(
        destination,
        frames.to(recipe.dtype) if recipe.dtype is not None else frames,
        sample_rate,
        recipe.muxer,
        recipe.encoder,
        recipe.config,
        encoder_rate=recipe.rate,
        encoder_channels=recipe.channels,
        encoder_format=recipe.sample_format,
    )


def load_with_torchcodec(
    uri: Source,
    frame_offset: int = 0,
    num_frames: int = -1,
    normalize: bool = True,
    channels_first: bool = True,
    format: str | None = None,
    buffer_size: int = 4096,
    backend: str | None = None,
) -> tuple[Tensor, int]:
    """`load` under its newer upstream name; TorchCodec is not needed."""
    return load(uri, frame_offset, num_frames, normalize, channels_first, format, buffer_size, backend)


def save_with_torchcodec(
    uri: str | os.PathLike[str],
    src: Tensor,
    sample_rate: int,
    channels_first: bool = True,
    format: str | None = None,
    encoding: str | None = None,
    bits_per_sample: int | None = None,
    buffer_size: int = 4096,
    backend: str | None = None,
    compression: float | int | None = None,
) -> None:
    """`save` under its newer upstream name; TorchCodec is not needed."""
    save(uri, src, sample_rate, channels_first, format, encoding, bits_per_sample, buffer_size, backend, compression)


def _check_backend(backend: str | None) -> None:
    if backend is not None and backend not in (known := list_audio_backends()):
        raise MediaValueError(f"Unsupported backend {backend!r} specified; please select one of {known} instead.")


def _source(uri: Any) -> tuple[Any, str]:
    """A path where it is one, else what it is; and how to call it."""
    if (content := as_memory(uri)) is not None:
        return Memory(content), f"{content.nbytes} bytes in memory"
    if isinstance(uri, str | os.PathLike):
        path = Path(os.fsdecode(os.fspath(uri)))
        if path.is_file():
            return path, repr(os.fspath(uri))
        if isinstance(uri, str) and ":" in uri:
            return uri, repr(uri)  # an address, which FFmpeg opens
        raise MediaFileNotFoundError(f"Failed to open the input {os.fspath(uri)!r} (No such file or directory).")
    if not callable(getattr(uri, "read", None)):
        raise MediaTypeError(
            f"Cannot read media from {type(uri).__name__}; expected a path, an address, bytes, a uint8 array or "
            "tensor, or an object with read()."
        )
    return uri, f"{type(uri).__name__} object"


def _mappable(source: Any) -> _wav.WavLayout | None:
    """The layout of a file whose samples lie there as they are; not looked for under names of other formats."""
    return _wav.read_layout(source) if isinstance(source, Path) and source.suffix not in _COMPRESSED else None


def _position(source: Any) -> int | None:
    if isinstance(source, str | os.PathLike) or not callable(getattr(source, "tell", None)):
        return None
    return int(source.tell())


def _rewind(source: Any, start: int | None) -> None:
    if start is not None and callable(getattr(source, "seek", None)):
        source.seek(start)


class _both:
    """Adds what soundfile said to what FFmpeg says."""

    def __init__(self, first: Exception) -> None:
        self._first = first

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, MediaError) and not isinstance(error, MediaFileNotFoundError):
            raise MediaError(f"{error} soundfile said: {self._first}") from error


def _kind(uri: Any, format: str | None) -> str:
    """The container by its common name."""
    if format is not None:
        return format.lower()
    if isinstance(uri, str | os.PathLike):
        suffix = Path(os.fsdecode(os.fspath(uri))).suffix
        if suffix:
            return suffix[1:].lower()
    raise MediaValueError("The name does not tell the container; pass `format`, such as 'wav'.")
