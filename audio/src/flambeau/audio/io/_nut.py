"""Raw samples and pictures in the NUT container, by which they reach the program over one pipe with their times.

Only what that needs is written: one kind of frame, each with its own time in full, and no index.

References:
    Niedermayer et al. 2013, NUT Open Container Format, draft 20130327.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

_MAIN, _STREAM = 0x4E4D7A561F5F04AD, 0x4E5311405BF2F9DB
_SYNCPOINT, _INFO = 0x4E4BE4ADEECA4569, 0x4E49AB68B596BA78
_VERSION, _MINOR, _PIPE = 4, 0, 2  # "pipe": there is nothing to seek in, and one syncpoint is enough
_MAX_DISTANCE = 65536
# Flags of a frame's code: a key frame that tells its time, stream, size and checksum.
_CODED, _INVALID = 1 | 8 | 16 | 32 | 64, 8192
_CODE = 1
_FIXED_RATE = 1


@dataclass(frozen=True)
class RawAudio:
    """A stream of packed samples, whose times are counted in samples.

    Attributes:
        tag: four characters that name the sample format.
        sample_rate: in Hz.
        num_channels: how many.
    """

    tag: bytes
    sample_rate: int
    num_channels: int

    @property
    def time_base(self) -> Fraction:
        """Seconds of one unit of time."""
        return Fraction(1, self.sample_rate)


@dataclass(frozen=True)
class RawVideo:
    """A stream of pictures, whose times are counted in pictures.

    Attributes:
        tag: four characters that name the pixel format.
        frame_rate: pictures a second.
        width: in pixels.
        height: in pixels.
    """

    tag: bytes
    frame_rate: Fraction
    width: int
    height: int

    @property
    def time_base(self) -> Fraction:
        """Seconds of one unit of time."""
        return 1 / self.frame_rate


def header(streams: list[RawAudio | RawVideo]) -> bytes:
    """What comes before the first frame."""
    parts = [b"nut/multimedia container\0", _packet(_MAIN, _main(streams))]
    parts += [_packet(_STREAM, _stream(number, stream)) for number, stream in enumerate(streams)]
    for number, stream in enumerate(streams):
        if isinstance(stream, RawVideo):
            parts.append(_packet(_INFO, _rate(number, stream.frame_rate)))
    parts.append(_packet(_SYNCPOINT, _number(0) + _number(0)))
    return b"".join(parts)


def frame(stream: int, pts: int, size: int) -> bytes:
    """What comes before a frame's bytes.

    Args:
        stream: its number.
        pts: in units of the stream's time, >= 0.
        size: bytes that follow.
    """
    head = bytes([_CODE]) + _number(stream) + _number(pts + 1) + _number(size)
    return head + _crc(head).to_bytes(4, "big")


def _main(streams: list[RawAudio | RawVideo]) -> bytes:
    out = b"".join(map(_number, (_VERSION, _MINOR, len(streams), _MAX_DISTANCE, len(streams))))
    for stream in streams:
        out += _number(stream.time_base.numerator) + _number(stream.time_base.denominator)
    # The table of codes: flags, then six fields, of which the last counts codes alike. "N" begins a packet and is none.
    for flags, count in ((_INVALID, _CODE), (_CODED, 1), (_INVALID, 256 - _CODE - 2)):
        out += b"".join(map(_number, (flags, 6, 0, 1, 0, 0, 0, count)))
    return out + _number(0) + _number(_PIPE)


def _stream(number: int, stream: RawAudio | RawVideo) -> bytes:
    is_audio = isinstance(stream, RawAudio)
    out = _number(number) + _number(int(is_audio)) + _bytes(stream.tag)
    # Its own unit of time; times are never cut short; no reordering.
    out += b"".join(map(_number, (number, 0, 0, 0, 0 if is_audio else _FIXED_RATE))) + _bytes(b"")
    if isinstance(stream, RawAudio):
        return out + _number(stream.sample_rate) + _number(1) + _number(stream.num_channels)
    return out + b"".join(map(_number, (stream.width, stream.height, 1, 1, 0)))


def _rate(number: int, rate: Fraction) -> bytes:
    """The information that pictures come at a rate: the header itself has no place for it."""
    about = _number(number + 1) + b"".join(map(_number, (0, 0, 0, 1)))
    text = 2  # the signed number -1, which says that a text follows
    return about + _bytes(b"r_frame_rate") + _number(text) + _bytes(f"{rate.numerator}/{rate.denominator}".encode())


def _packet(startcode: int, content: bytes) -> bytes:
    start = startcode.to_bytes(8, "big") + _number(len(content) + 4)
    if len(content) + 4 > 4096:
        start += _crc(start).to_bytes(4, "big")
    return start + content + _crc(content).to_bytes(4, "big")


def _bytes(content: bytes) -> bytes:
    return _number(len(content)) + content


def _number(value: int) -> bytes:
    """Seven bits in a byte, highest first; the top bit says that more follow."""
    out = [value & 0x7F]
    while value := value >> 7:
        out.append(0x80 | value & 0x7F)
    return bytes(reversed(out))


def _table() -> tuple[int, ...]:
    rows = []
    for byte in range(256):
        row = byte << 24
        for _ in range(8):
            row = (row << 1 ^ (0x04C11DB7 if row & 0x80000000 else 0)) & 0xFFFFFFFF
        rows.append(row)
    return tuple(rows)


_TABLE = _table()


def _crc(content: bytes) -> int:
    crc = 0
    for byte in content:
        crc = (crc << 8 & 0xFFFFFFFF) ^ _TABLE[crc >> 24 ^ byte]
    return crc
