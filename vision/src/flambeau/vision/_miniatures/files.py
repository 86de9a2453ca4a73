"""Single made-up files: pictures, lists of lines, tables."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["lines", "noise", "picture"]


def noise(seed: object, *shape: int) -> NDArray[np.uint8]:
    """Bytes that are the same for the same seed, in every process."""
    generator = np.random.default_rng(zlib.crc32(repr(seed).encode()))
    return generator.integers(0, 256, shape, dtype=np.uint8)


def picture(path: Path, *, height: int = 8, width: int = 12, channels: int = 3, **options: Any) -> Path:
    """Write a picture of noise, in the format of its suffix (JPEG for .JPEG and .jpg), seeded by its path's end."""
    pixels = noise(path.parts[-3:], height, width, channels)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[..., 0] if channels == 1 else pixels).save(path, **options)
    return path


def lines(path: Path, *content: str) -> Path:
    """Write lines of text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
    return path
