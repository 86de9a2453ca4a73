"""File formats of flow and disparity: .flo, .pfm, and PNG of 16 bits."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from flambeau.core.errors import FlambeauError

__all__ = ["FlowFileError", "read_disparity_png", "read_flo", "read_flow_png", "read_pfm"]

_PFM = re.compile(rb"(P[Ff])\s+(\d{1,9})\s+(\d{1,9})\s+([-+]?[\d.eE+-]+)\s")


class FlowFileError(FlambeauError, ValueError):
    """A file of flow or disparity that is of another format, or not whole."""


def read_flo(path: str | Path) -> NDArray[np.float32]:
    """Flow in Middlebury's format: "PIEH", width and height as int32, then pairs of float32, little-endian.

    Returns:
        [2, H, W]: x and y in pixels.

    Raises:
        FlowFileError: the file is of another format, or not whole.
    """
    content = Path(path).read_bytes()
    if content[:4] != b"PIEH" or len(content) < 12:
        raise FlowFileError(f"{path} starts with {content[:4]!r}, expected b'PIEH'; it is no .flo file.")
    width, height = struct.unpack("<2i", content[4:12])
    if min(width, height) < 0 or len(content) != 12 + 8 * width * height:
        raise FlowFileError(f"{path} has {len(content):,} bytes, which is not what {height} x {width} pixels take.")
    pairs = np.frombuffer(content, "<f4", offset=12).reshape(height, width, 2)
    return np.ascontiguousarray(pairs.transpose(2, 0, 1), dtype=np.float32)


def read_pfm(path: str | Path) -> NDArray[np.float32]:
    """A portable float map: a head of three lines, then float32 from the lowest row up.

    Returns:
        [3, H, W] for "PF", [1, H, W] for "Pf". A negative scale in the head means little-endian; its size is not used.

    Raises:
        FlowFileError: the file is of another format, or not whole.
    """
    content = Path(path).read_bytes()
    head = _PFM.match(content)
    if head is None:
        raise FlowFileError(f"{path} starts with {content[:16]!r}, which is no head of a .pfm file.")
    channels = 3 if head[1] == b"PF" else 1
    width, height = int(head[2]), int(head[3])
    if len(content) - head.end() != 4 * channels * width * height:
        raise FlowFileError(
            f"{path} has {len(content) - head.end():,} bytes after its head, which is not what {channels} x {height} x "
            f"{width} numbers take."
        )
    order = "<" if head[4].startswith(b"-") else ">"
    rows = np.frombuffer(content, f"{order}f4", offset=head.end()).reshape(height, width, channels)[::-1]
    return np.ascontiguousarray(rows.transpose(2, 0, 1), dtype=np.float32)


def read_flow_png(path: str | Path) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Flow in a PNG of three channels of 16 bits, as KITTI and HD1K have it.

    Returns:
        Flow [2, H, W] = (value - 2^15) / 64 in pixels, and where it is valid, [H, W].

    Raises:
        FlowFileError: it is a picture of another kind.
    """
    from flambeau.vision.io import decode_png, read_file

    pixels = decode_png(read_file(str(path))).numpy()
    if pixels.dtype != np.uint16 or pixels.shape[0] != 3:
        raise FlowFileError(f"{path} has {pixels.shape[0]} channels of {pixels.dtype}, expected 3 of uint16.")
    flow: NDArray[np.float32] = (pixels[:2].astype(np.float32) - np.float32(2**15)) / np.float32(64)
    return flow, pixels[2] > 0


def read_disparity_png(path: str | Path, scale: float) -> NDArray[np.float32]:
    """Disparity in a grey PNG: [1, H, W], the value of each pixel divided by `scale`."""
    with Image.open(path) as picture:
        return np.asarray(picture, dtype=np.float32)[None] / np.float32(scale)
