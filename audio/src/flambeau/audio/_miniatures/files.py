"""Recordings and lists for miniatures; the same bytes each time."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["lines", "recording", "sound"]

_FORMATS = {".flac": "FLAC", ".mp3": "MP3", ".sph": "NIST", ".wav": "WAV"}


def sound(name: str, frames: int, channels: int = 1) -> NDArray[Any]:
    """(frames, channels) of noise that depends on the name, int16."""
    seed = zlib.crc32(name.encode())
    return np.random.default_rng(seed).integers(-8000, 8000, (frames, channels), dtype=np.int16)


def recording(path: Path, sample_rate: int = 16_000, frames: int = 160, channels: int = 1) -> None:
    """Write a recording in the format that the suffix names; its sound depends on the file's name."""
    import soundfile

    path.parent.mkdir(parents=True, exist_ok=True)
    subtype = None if path.suffix == ".mp3" else "PCM_16"
    soundfile.write(path, sound(path.name, frames, channels), sample_rate, subtype, format=_FORMATS[path.suffix])


def lines(path: Path, *texts: str) -> None:
    """Write a list, one text a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
