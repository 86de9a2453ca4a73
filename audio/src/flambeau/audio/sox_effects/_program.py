"""The program `sox`: finding it, asking it what it can do, and sending sound through it by pipes."""

from __future__ import annotations

import functools
import logging
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from flambeau.audio.sox_effects._arguments import SoxEffectError

logger = logging.getLogger("flambeau.sox")


@dataclass
class Settings:
    """What `utils.sox_utils` sets."""

    verbosity: int = 1
    buffer_size: int = 8192
    threads: bool = False
    repeatable: bool = False


settings = Settings()


def program() -> str | None:
    """Path of the program, None where there is none."""
    return shutil.which("sox")


def required(purpose: str) -> str:
    """Path of the program.

    Raises:
        SoxEffectError: there is none.
    """
    found = program()
    if found is None:
        raise SoxEffectError(f"{purpose} needs the program `sox`, which is not on PATH; install it (package `sox`).")
    return found


@functools.lru_cache(maxsize=64)
def answer(path: str, *words: str) -> str:
    """What the program prints; asked once."""
    done = subprocess.run([path, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def known_effects() -> list[str]:
    """Effects of the program that take one sound and give one; none where there is no program."""
    path = program()
    found = re.search(r"^EFFECTS: (.*)$", answer(path, "--help"), re.MULTILINE) if path else None
    # The marks are for effects that are experimental, deprecated, or not for users.
    names = re.findall(r"(\w+)([+*#]?)(?:\s|$)", found[1]) if found else []
    left_out = {"noiseprof", "noisered", "spectrogram", "splice"}  # they need files, or draw
    return sorted(name for name, mark in names if mark != "#" and name not in left_out)


def run(waveform: Tensor, rate: float, effects: list[list[str]]) -> tuple[Tensor, float]:
    """Send (channel, time) float64 in [-1, 1] through effects; the program brings the rate back to what it was."""
    path = required(f"effect {effects[0][0]!r}")
    channels = waveform.shape[0]
    command = [path, f"-V{settings.verbosity}", "-D", "--buffer", str(settings.buffer_size)]
    command += ["--multi-threaded"] if settings.threads else ["--single-threaded"]
    command += ["-R"] if settings.repeatable else []
    command += ["-t", "raw", "-e", "floating-point", "-b", "64", "-L", "-c", str(channels), "-r", repr(rate), "-"]
    command += ["-t", "sox", "-", *(word for effect in effects for word in effect)]
    sent = np.ascontiguousarray(waveform.t().numpy(), dtype="<f8").tobytes()
    done = subprocess.run(command, input=sent, capture_output=True, check=False)
    said = done.stderr.decode(errors="replace").strip()
    if said:
        logger.warning("%s", said)
    if done.returncode != 0:
        chain = " ".join(word for effect in effects for word in effect)
        raise SoxEffectError(f"sox ended with status {done.returncode} at {chain!r}: {said[-2000:]}")
    return _received(done.stdout)


# Magic, bytes of the header, samples, rate, channels, bytes of comments.
_HEADER = struct.Struct("<4sIQdII")


def _received(content: bytes) -> tuple[Tensor, float]:
    """Decode SoX's own format: a header, and integers of 32 bits."""
    if len(content) < _HEADER.size:
        raise SoxEffectError(f"sox sent {len(content)} bytes, less than a header.")
    magic, size, _, rate, channels, _ = _HEADER.unpack_from(content)
    if magic != b".SoX" or channels < 1:
        raise SoxEffectError(f"sox sent {content[:8]!r}, which is not its own format.")
    samples = np.frombuffer(content, dtype="<i4", offset=4 + size)
    rows = samples[: len(samples) // channels * channels].reshape(-1, channels).T
    return torch.from_numpy(rows.astype(np.float64) / 2**31), rate
