"""CRC-32C, the checksum of TFRecord frames and of shard indexes (Castagnoli, Braeuer and Herrmann 1993).

`crc32c` uses the native kernel where it is installed, numpy for long data otherwise, and plain Python for short data.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from flambeau.data._native import LIBRARY

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
# Shorter data is faster without numpy.
_SHORT = 512
_LANES = 1024


def crc32c(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """The checksum of some bytes.

    Args:
        data: the bytes; contiguous.
        before: the checksum of the bytes that come before them.

    Returns:
        From 0 to 2**32 - 1.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
        >>> crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
        True
    """
    native = _native()
    if native is None:
        return portable(data, before)
    if isinstance(data, bytes):
        return int(native(data, len(data), before))
    import numpy as np

    view = np.frombuffer(data, dtype=np.uint8)
    return int(native(view.ctypes.data_as(ctypes.c_char_p), view.size, before))


def masked_crc32c(data: bytes | bytearray | memoryview) -> int:
    """The checksum as TFRecord files store it: turned right by 15 bits, plus a constant."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


@functools.cache
def _native() -> Callable[..., Any] | None:
    if LIBRARY.load() is None:
        return None
    return LIBRARY.function("fb_crc32c", [ctypes.c_char_p, ctypes.c_int64, ctypes.c_uint32], ctypes.c_uint32)


def portable(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """`crc32c` without the native kernel."""
    state = before ^ 0xFFFFFFFF
    raw = memoryview(data).cast("B")
    if len(raw) >= _SHORT:
        return _by_lanes(raw, state) ^ 0xFFFFFFFF
    table = _table()
    for byte in raw:
        state = (state >> 8) ^ table[(state ^ byte) & 0xFF]
    return state ^ 0xFFFFFFFF


@functools.cache
def _table() -> tuple[int, ...]:
    rows = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        rows.append(byte)
    return tuple(rows)


def _by_lanes(raw: memoryview, state: int) -> int:
    """The register after `raw`: lanes side by side, joined by the linear map "so many zero bytes follow"."""
    import numpy as np

    length = -(-len(raw) // _LANES)
    padded = np.zeros(_LANES * length, dtype=np.uint8)  # zeros in front leave a register of zero as it is
    start = padded.size - len(raw)
    padded[start:] = np.frombuffer(raw, dtype=np.uint8)
    padded[start : start + 4] ^= np.frombuffer(state.to_bytes(4, "little"), dtype=np.uint8)
    table = np.array(_table(), dtype=np.uint32)
    registers = np.zeros(_LANES, dtype=np.uint32)
    for column in padded.reshape(_LANES, length).T:
        registers = (registers >> np.uint32(8)) ^ table[(registers ^ column) & np.uint32(0xFF)]
    shift = _zeros(length)
    joined = 0
    for register in registers.tolist():
        joined = register ^ _applied(shift, joined)
    return joined


def _applied(columns: tuple[int, ...], register: int) -> int:
    result = 0
    for bit, column in enumerate(columns):
        if register >> bit & 1:
            result ^= column
    return result


@functools.lru_cache(maxsize=64)
def _zeros(count: int) -> tuple[int, ...]:
    """What `count` zero bytes make of each single bit of the register."""
    if count == 0:
        return tuple(1 << bit for bit in range(32))
    if count == 1:
        table = _table()
        return tuple((1 << bit >> 8) ^ table[(1 << bit) & 0xFF] for bit in range(32))
    half = _zeros(count // 2)
    whole = tuple(_applied(half, column) for column in half)
    one = _zeros(1)
    return tuple(_applied(one, column) for column in whole) if count % 2 else whole
