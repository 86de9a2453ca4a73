"""Plain WAV files, mapped into memory: what is loaded is what is read."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.audio.backend.common import AudioMetaData

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_UNKNOWN_SIZE = 0xFFFFFFFF  # what writers into pipes leave in the header
_MOST_CHUNKS = 1000
_FORMAT_BYTES = 40  # all that is looked at of a format, which a damaged header may make very long


@dataclass(frozen=True)
class WavLayout:
    """Where the samples of a WAV file are, and how they are stored.

    Attributes:
        float: floating point, else integers.
        bits: 8, 16, 24, 32 or 64.
        num_channels: how many.
        sample_rate: in Hz.
        start: offset of the first sample, in bytes.
        num_frames: samples per channel.
    """

    float: bool
    bits: int
    num_channels: int
    sample_rate: int
    start: int
    num_frames: int

    def metadata(self) -> AudioMetaData:
        """What `info` tells of it."""
        encoding = "PCM_F" if self.float else "PCM_U" if self.bits == 8 else "PCM_S"
        return AudioMetaData(self.sample_rate, self.num_frames, self.num_channels, self.bits, encoding)


def read_layout(path: Path) -> WavLayout | None:
    """Read the header; None for anything but little-endian RIFF with samples as they are."""
    size = path.stat().st_size
    with path.open("rb") as file:
        riff = file.read(12)
        if riff[:4] != b"RIFF" or riff[8:] != b"WAVE":
            return None
        form: tuple[bool, int, int, int] | None = None
        for _ in range(_MOST_CHUNKS):
            head = file.read(8)
            if len(head) < 8:
                return None
            name, length = head[:4], struct.unpack("<I", head[4:])[0]
            if name == b"fmt ":
                body = file.read(min(length, _FORMAT_BYTES))
                form = _read_format(body)
                file.seek(length - len(body) + (length & 1), 1)
                if form is None:
                    return None
            elif name == b"data":
                return _layout(form, file.tell(), length, size)
            else:
                file.seek(length + (length & 1), 1)
    return None


def _read_format(body: bytes) -> tuple[bool, int, int, int] | None:
    """Floating point, bits, channels and rate; None for what is not plain samples."""
    if len(body) < 16:
        return None
    tag, channels, rate, _, align, bits = struct.unpack_from("<HHIIHH", body)
    if tag == _EXTENSIBLE and len(body) >= 26:
        if struct.unpack_from("<H", body, 18)[0] not in (0, bits):
            return None  # fewer valid bits than stored ones: libsndfile knows what is meant
        tag = struct.unpack_from("<H", body, 24)[0]
    known = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}.get(tag, ())
    if bits not in known or not channels or not rate or align != channels * bits // 8:
        return None
    return tag == _FLOAT, bits, channels, rate


def _layout(form: tuple[bool, int, int, int] | None, start: int, length: int, size: int) -> WavLayout | None:
    if form is None:
        return None
    is_float, bits, channels, rate = form
    there = max(0, size - start)  # a file that was cut off has what it has
    length = there if length in (0, _UNKNOWN_SIZE) else min(length, there)
    return WavLayout(is_float, bits, channels, rate, start, length // (channels * bits // 8))


def load_mapped(
    path: Path, layout: WavLayout, offset: int, count: int, *, normalize: bool, channels_first: bool
) -> Tensor:
    """Convert a stretch of a mapped file.

    Args:
        path: the file.
        layout: its header.
        offset: first frame, >= 0.
        count: frames, -1 for all behind it.
        normalize: to float32 in [-1, 1); else as stored, 24 bits as int32 shifted up by 8.
        channels_first: (channels, frames), else (frames, channels).
    """
    offset = min(offset, layout.num_frames)
    count = layout.num_frames - offset if count < 0 else min(count, layout.num_frames - offset)
    shape = (layout.num_channels, count) if channels_first else (count, layout.num_channels)
    if not count:
        return torch.empty(shape, dtype=torch.float32 if normalize else _stored(layout))
    frames = _mapped(path, layout, offset, count)
    frames = frames.T if channels_first else frames
    if not normalize:
        out = torch.empty(shape, dtype=frames.dtype)
        return out.copy_(frames)  # the mapping ends here: the file may change later
    out = torch.empty(shape, dtype=torch.float32)
    out.copy_(frames)
    if layout.float:
        return out
    if layout.bits == 8:
        return out.sub_(128).mul_(1 / 128)
    return out.mul_(2.0 ** -(16 - 1) if layout.bits == 16 else 2.0**-31)


def _stored(layout: WavLayout) -> torch.dtype:
    if layout.float:
        return torch.float32 if layout.bits == 32 else torch.float64
    return {8: torch.uint8, 16: torch.int16, 24: torch.int32, 32: torch.int32}[layout.bits]


def _mapped(path: Path, layout: WavLayout, offset: int, count: int) -> Tensor:
    """(count, channels) as stored; views of the file but for 24 bits."""
    import numpy as np

    kind = ("<f" if layout.float else "u" if layout.bits == 8 else "<i") + str(layout.bits // 8)
    width = layout.num_channels * layout.bits // 8
    start = layout.start + offset * width
    # "c": pages are private, so that torch takes the array for writable and does not warn.
    if layout.bits == 24:
        raw: Any = np.memmap(path, np.uint8, "c", start, (count * layout.num_channels, 3))
        wide = np.zeros((count * layout.num_channels, 4), np.uint8)
        wide[:, 1:] = raw
        return torch.from_numpy(wide.view("<i4").reshape(count, layout.num_channels))
    array: Any = np.memmap(path, np.dtype(kind), "c", start, (count, layout.num_channels))
    return torch.from_numpy(np.asarray(array))
