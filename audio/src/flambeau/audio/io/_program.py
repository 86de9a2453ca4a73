"""The ffmpeg program: where it is, which version, and short runs of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from flambeau.audio.io._errors import MediaError, MissingFFmpegError

_SHORT_RUN_S = 60.0


class _Log:
    """How much of FFmpeg's messages is repeated on stderr; upstream's default shows none but crashes."""

    level = 8


LOG = _Log()


def find_ffmpeg() -> str:
    """Path of the ffmpeg program: `FLAMBEAU_FFMPEG`, else the one on PATH, else the one that imageio-ffmpeg bundles.

    Raises:
        MissingFFmpegError: there is none.
    """
    if chosen := os.environ.get("FLAMBEAU_FFMPEG"):
        if found := shutil.which(chosen):
            return found
        raise MissingFFmpegError(
            f"FLAMBEAU_FFMPEG is {chosen!r}, which is no program; give the path of an ffmpeg, or unset the variable."
        )
    if found := shutil.which("ffmpeg"):
        return found
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError) as error:
        raise MissingFFmpegError(
            "This needs the ffmpeg program, and there is none: not named by FLAMBEAU_FFMPEG, not on PATH, and "
            f'imageio-ffmpeg does not bring one ({error}). Install ffmpeg, or run: pip install "flambeau-audio[ffmpeg]"'
        ) from error


def has_ffmpeg() -> bool:
    """Whether there is an ffmpeg program."""
    try:
        find_ffmpeg()
    except MissingFFmpegError:
        return False
    return True


def find_ffprobe() -> str | None:
    """Path of ffprobe: beside ffmpeg, else on PATH; None where there is none (imageio-ffmpeg brings ffmpeg alone)."""
    program = Path(find_ffmpeg())
    beside = program.with_name("ffprobe" + program.suffix)
    return str(beside) if beside.is_file() else shutil.which("ffprobe")


def ask(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program that answers at once.

    Raises:
        MediaError: it cannot be started, or is not done within a minute.
    """
    try:
        return subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SHORT_RUN_S,
            check=False,
        )
    except OSError as error:
        raise MediaError(f"{program} cannot be started: {error}. Check the file, or set FLAMBEAU_FFMPEG.") from error
    except subprocess.TimeoutExpired as error:
        raise MediaError(f"{program} {' '.join(words)}: no answer within {_SHORT_RUN_S:.0f} s.") from error


def answer(option: str) -> str:
    """What ffmpeg prints for an option such as `-decoders`; asked once for each binary."""
    program = find_ffmpeg()
    return _answer(program, Path(program).stat().st_mtime_ns, option)


@lru_cache(maxsize=64)
def _answer(program: str, _changed: int, option: str) -> str:
    done = ask(program, "-hide_banner", *option.split())
    if done.returncode != 0:
        raise MediaError(f"{program} {option} ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def version() -> tuple[int, int]:
    """Major and minor version of ffmpeg; a build from its repository, which has no number, counts as the newest."""
    found = re.match(r"ffmpeg version n?(\d+)\.(\d+)", answer("-version"))
    return (int(found[1]), int(found[2])) if found else (999, 0)
