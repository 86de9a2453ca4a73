"""The sox program as a backend, for code that asks for it by name."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

from flambeau.audio.backend import _soundfile
from flambeau.audio.backend.common import AudioMetaData
from flambeau.audio.io._errors import MediaError, MissingFFmpegError

_ENCODINGS = {
    "Signed Integer PCM": "PCM_S", "Unsigned Integer PCM": "PCM_U", "Floating Point PCM": "PCM_F", "FLAC": "FLAC",
    "u-law": "ULAW", "A-law": "ALAW", "MPEG audio (layer I, II or III)": "MP3", "Vorbis": "VORBIS", "Opus": "OPUS",
    "GSM": "GSM", "AMR-NB": "AMR_NB", "AMR-WB": "AMR_WB",
}  # fmt: skip


def sox() -> str:
    """Path of the sox program.

    Raises:
        MissingFFmpegError: it is not on PATH.
    """
    found = shutil.which("sox")
    if found is None:
        raise MissingFFmpegError("The backend 'sox' needs the sox program, which is not on PATH. Install it.")
    return found


def _run(words: list[str], content: bytes | None = None) -> bytes:
    done = subprocess.run([sox(), *words], input=content, capture_output=True, check=False)
    if done.returncode != 0:
        raise MediaError(f"sox: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout


def _input(source: Any, format: str | None, folder: str) -> list[str]:
    """How sox is told what to read; objects go into a file, since sox reads headers twice."""
    if not isinstance(source, str | os.PathLike):
        path = Path(folder, "input")
        path.write_bytes(source.read())
        source = path
    kind = [] if format is None else ["-t", format]
    return [*kind, os.fspath(source)]


def info(source: Any, format: str | None) -> AudioMetaData:
    """What sox tells of a recording.

    Raises:
        MediaError: sox cannot read it.
    """
    with tempfile.TemporaryDirectory(prefix="flambeau-") as folder:
        words = _input(source, format, folder)
        rate, frames, channels, bits, encoding = (
            _run(["--i", option, *words]).decode().strip() for option in ("-r", "-s", "-c", "-b", "-e")
        )
    return AudioMetaData(int(rate), int(frames), int(channels), int(bits), _ENCODINGS.get(encoding, "UNKNOWN"))


def load(
    source: Any, format: str | None, offset: int, count: int, *, normalize: bool, channels_first: bool
) -> tuple[Tensor, int]:
    """A stretch of a recording, decoded by sox.

    Raises:
        MediaError: sox cannot read it.
    """
    with tempfile.TemporaryDirectory(prefix="flambeau-") as folder:
        words = _input(source, format, folder)
        encoding = [] if not normalize else ["-e", "floating-point", "-b", "32"]
        trim = ["trim", f"{offset}s", *([] if count < 0 else [f"{count}s"])] if offset or count >= 0 else []
        out = Path(folder, "output.wav")
        _run(["--no-dither", *words, *encoding, "-t", "wav", str(out), *trim])
        content = io.BytesIO(out.read_bytes())
    return _soundfile.load(content, "sox's output", 0, -1, normalize=normalize, channels_first=channels_first)
