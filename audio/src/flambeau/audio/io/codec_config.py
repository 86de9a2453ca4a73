"""Settings that encoders have in common."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CodecConfig"]

_LAMBDA = 118  # FFmpeg's FF_QP2LAMBDA: units of `global_quality` in one step of the quality scale


@dataclass
class CodecConfig:
    """Settings of an encoder.

    Attributes:
        bit_rate: bits a second; -1 for the encoder's choice.
        compression_level: how hard to try, where the encoder knows levels (FLAC 0 to 12); -1 for its choice.
        qscale: constant quality in place of a bit rate, in the encoder's own scale; None for off.
        gop_size: most frames from one key frame to the next; -1 for the encoder's choice.
        max_b_frames: most frames predicted from both sides in a row; -1 for the encoder's choice.
    """

    bit_rate: int = -1
    compression_level: int = -1
    qscale: int | None = None
    gop_size: int = -1
    max_b_frames: int = -1

    def options(self) -> dict[str, str]:
        """The settings that were made, in FFmpeg's words."""
        found: dict[str, str] = {}
        if self.bit_rate > 0:
            found["b"] = str(self.bit_rate)
        if self.compression_level >= 0:
            found["compression_level"] = str(self.compression_level)
        if self.qscale is not None:
            found |= {"flags": "+qscale", "global_quality": str(self.qscale * _LAMBDA)}
        if self.gop_size >= 0:
            found["g"] = str(self.gop_size)
        if self.max_b_frames >= 0:
            found["bf"] = str(self.max_b_frames)
        return found
