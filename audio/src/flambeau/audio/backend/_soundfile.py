"""WAV, FLAC, OGG, Opus, MP3 and NIST SPHERE through libsndfile."""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from flambeau.audio.backend.common import AudioMetaData
from flambeau.audio.io._errors import MediaError, MissingFFmpegError

_BITS = {
    "PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32, "FLOAT": 32, "DOUBLE": 64, "ULAW": 8, "ALAW": 8,
}  # fmt: skip
_ENCODINGS = {
    "PCM_S8": "PCM_S", "PCM_U8": "PCM_U", "PCM_16": "PCM_S", "PCM_24": "PCM_S", "PCM_32": "PCM_S", "FLOAT": "PCM_F",
    "DOUBLE": "PCM_F", "ULAW": "ULAW", "ALAW": "ALAW", "VORBIS": "VORBIS", "OPUS": "OPUS", "MPEG_LAYER_III": "MP3",
    "GSM610": "GSM",
}  # fmt: skip
# A FLAC of silence has at most 65,535 frames in 14 bytes. Written into a pipe, it has no length in its header at all.
_MOST_PER_BYTE = 5000
_MOST_IN_OGG = 255  # channels; libsndfile's encoders crash with more
_FIRST = 2**24  # frames that are believed without having been seen
_BLOCK = 2**16  # samples that are put channel by channel while the processor's cache still holds them
_C_TYPES = {"float32": "float", "float64": "double", "int16": "short", "int32": "int"}
_STORED = {"PCM_S8": "int16", "PCM_U8": "int16", "PCM_16": "int16", "PCM_24": "int32", "PCM_32": "int32"}


class NotForSoundfileError(MediaError):
    """libsndfile does not read or write this; another backend may."""


def soundfile() -> ModuleType:
    """The module.

    Raises:
        MissingFFmpegError: it, or the libsndfile that it needs, is not installed.
    """
    try:
        module: ModuleType = importlib.import_module("soundfile")
    except (ImportError, OSError) as error:
        raise MissingFFmpegError(f"soundfile cannot be used ({error}). Run: pip install soundfile") from error
    return module


def has_soundfile() -> bool:
    """Whether soundfile is there."""
    try:
        soundfile()
    except MissingFFmpegError:
        return False
    return True


@contextmanager
def _opened(source: Any, name: str) -> Iterator[Any]:
    module = soundfile()
    try:
        file = module.SoundFile(source)
    except (module.LibsndfileError, TypeError) as error:
        raise NotForSoundfileError(f"{name}: {getattr(error, 'error_string', error)}") from error
    with file:
        if file.frames > _MOST_PER_BYTE * _size(source):
            raise NotForSoundfileError(f"{name}: its header tells no length that so many bytes could have")
        try:
            yield file
        except module.LibsndfileError as error:
            raise MediaError(f"Failed to read {name} ({error.error_string}).") from error


def _size(source: Any) -> int:
    """Bytes of a file or an object."""
    if isinstance(source, str | os.PathLike):
        return Path(source).stat().st_size
    here = source.tell()
    end = source.seek(0, io.SEEK_END)
    end = source.tell() if end is None else end
    source.seek(here)
    return int(end)


def info(source: Any, name: str) -> AudioMetaData:
    """What libsndfile tells of a file.

    Raises:
        NotForSoundfileError: it is of another format.
    """
    with _opened(source, name) as file:
        flac = file.format == "FLAC"
        return AudioMetaData(
            file.samplerate,
            file.frames,
            file.channels,
            _BITS.get(file.subtype, 0),
            "FLAC" if flac else _ENCODINGS.get(file.subtype, "UNKNOWN"),
        )


def load(
    source: Any, name: str, offset: int, count: int, *, normalize: bool, channels_first: bool
) -> tuple[Tensor, int]:
    """A stretch of a file; see `flambeau.audio.load`.

    Raises:
        NotForSoundfileError: it is of another format.
        MediaError: it is damaged.
    """
    with _opened(source, name) as file:
        dtype = "float32"
        if not normalize and file.format in ("WAV", "WAVEX", "RF64", "W64"):
            dtype = _STORED.get(file.subtype, "float64" if file.subtype == "DOUBLE" else "float32")
        if offset >= file.frames:
            shape = (file.channels, 0) if channels_first else (0, file.channels)
            frames = torch.empty(shape, dtype=getattr(torch, dtype))
        else:
            if offset and (position := file.seek(offset)) != offset:
                raise MediaError(f"Failed to read {name} (frame {offset} was sought, {position} found: it is damaged).")
            left = file.frames - offset
            read = _read_planar if channels_first and file.channels > 1 else _read
            frames = torch.from_numpy(read(file, left if count < 0 else min(count, left), dtype))
            if channels_first and read is _read:
                frames = frames.reshape(1, -1)
        if not normalize and file.subtype == "PCM_U8":
            frames = (frames // 256 + 128).to(torch.uint8)
        return frames, file.samplerate


def _read(file: Any, count: int, dtype: str) -> Any:
    """Up to `count` frames of an open file, in memory for what it holds and not for what its header claims."""
    import numpy as np

    read = _reader(file, dtype)
    frames = np.empty((min(count, _FIRST), file.channels), dtype)
    done = 0
    while True:
        done += read(frames[done:])
        if done < len(frames) or done == count:
            return frames[:done]
        frames.resize((min(count, 2 * done), file.channels), refcheck=False)  # nothing else looks at it yet


def _read_planar(file: Any, count: int, dtype: str) -> Any:
    """`_read`, channel by channel."""
    import numpy as np

    read = _reader(file, dtype)
    block = np.empty((min(count, max(_BLOCK // file.channels, 1)), file.channels), dtype)
    frames = np.empty((file.channels, min(count, _FIRST)), dtype)
    done = 0
    while done < count:
        if done == frames.shape[1]:
            larger = np.empty((file.channels, min(count, 2 * done)), dtype)
            larger[:, :done] = frames
            frames = larger
        wanted = min(len(block), frames.shape[1] - done)
        found = read(block[:wanted])
        frames[:, done : done + found] = block[:found].T
        done += found
        if found < wanted:
            break
    return frames if done == frames.shape[1] else frames[:, :done].copy()


def _reader(file: Any, dtype: str) -> Callable[[Any], int]:
    """What fills a contiguous array with the frames that come next, and tells how many there were.

    `SoundFile.read` seeks to where it stands after every read, for which MP3 is decoded anew.
    """
    module = soundfile()
    library, ffi, handle = getattr(module, "_snd", None), getattr(module, "_ffi", None), getattr(file, "_file", None)
    kind = _C_TYPES[dtype]
    function = getattr(library, f"sf_readf_{kind}", None)
    if library is None or ffi is None or handle is None or function is None:
        return lambda frames: len(file.read(out=frames))

    def read(frames: Any) -> int:
        found = int(function(handle, ffi.from_buffer(f"{kind}[]", frames), len(frames)))
        if error := library.sf_error(handle):
            raise module.LibsndfileError(error)
        return found

    return read


def save(
    target: Any,
    name: str,
    frames: Tensor,
    sample_rate: int,
    format: str,
    subtype: str,
    compression_level: float | None = None,
    bitrate_mode: str | None = None,
) -> None:
    """Write (frames, channels).

    Raises:
        NotForSoundfileError: libsndfile does not write this.
    """
    if subtype in ("VORBIS", "OPUS") and frames.shape[1] > _MOST_IN_OGG:
        raise NotForSoundfileError(
            f"Failed to save {name} (it has {frames.shape[1]} channels; {subtype.title()} has {_MOST_IN_OGG} at most)."
        )
    module = soundfile()
    array = _array(frames, subtype)
    try:
        with module.SoundFile(
            target,
            "w",
            sample_rate,
            frames.shape[1],
            subtype,
            format=format,
            **({} if compression_level is None else {"compression_level": compression_level}),
            **({} if bitrate_mode is None else {"bitrate_mode": bitrate_mode}),
        ) as file:
            # In pieces: libsndfile's Vorbis encoder keeps a block of any size on the stack.
            for at in range(0, len(array), 65536):
                file.write(array[at : at + 65536])
    except (module.LibsndfileError, ValueError) as error:
        raise NotForSoundfileError(f"Failed to save {name} ({getattr(error, 'error_string', error)}).") from error


def _array(frames: Tensor, subtype: str) -> Any:
    """In a dtype that libsndfile scales to the file's: integers in full range, floats in [-1, 1]."""
    frames = frames.detach().cpu()
    if frames.dtype == torch.uint8:
        frames = (frames.to(torch.int16) - 128) * 256
    if frames.dtype in (torch.float16, torch.bfloat16):
        frames = frames.float()
    if not frames.is_floating_point() and subtype in ("FLOAT", "DOUBLE"):
        # libsndfile would write integers as they are, without bringing them into [-1, 1].
        frames = frames.double() / float(-torch.iinfo(frames.dtype).min)
    return frames.contiguous().numpy()
