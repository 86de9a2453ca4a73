"""Where reading begins after a seek, for both engines alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Mode = Literal["key", "any", "precise", "sample"]
MODES: tuple[Mode, ...] = ("key", "any", "precise", "sample")

# Codecs look back: AAC a frame, Opus 80 ms, MP3 up to nine frames. What is decoded from here on is whole at the start.
_PREROLL_S = 0.5
_TOLERANCE_S = 1e-6


@dataclass(frozen=True)
class Start:
    """A time to begin at.

    Attributes:
        time_s: on the source's clock.
        mode: "key": at the key frame before; "any": at any packet; "precise": frames before the time are dropped;
            "sample": as precise, and audio is cut at the sample.
    """

    time_s: float
    mode: Mode

    @property
    def seek_s(self) -> float:
        """Where the demuxer is sent."""
        return self.time_s - _PREROLL_S if self.mode in ("precise", "sample") else self.time_s

    def drops(self, time_s: float) -> bool:
        """Whether a frame of this time comes before the start."""
        return self.mode in ("precise", "sample") and time_s < self.time_s - _TOLERANCE_S

    def filters(self, media_type: str, sample_rate: int) -> tuple[tuple[str, str], ...]:
        """Filters that drop what comes before the start; times of audio are in samples there."""
        if self.mode not in ("precise", "sample"):
            return ()
        if media_type == "video":
            return (("select", f"gte(t,{self.time_s - _TOLERANCE_S:.9f})"),)
        if self.mode == "sample":
            return (self.trim(sample_rate),)
        return (("aselect", f"gte(t,{self.time_s - _TOLERANCE_S:.9f})"),)

    def first_sample(self, sample_rate: int) -> int:
        """Number of the first sample that is not before the start."""
        return math.ceil((self.time_s - _TOLERANCE_S) * sample_rate)

    def trim(self, sample_rate: int) -> tuple[str, str]:
        """The filter that cuts audio there."""
        return ("atrim", f"start_pts={self.first_sample(sample_rate)}")


def rounded_off_s(begin: Fraction, sample_rate: int) -> float:
    """What a filter that resamples takes off the times of all that follows: it begins at the first sample that it gets,
    and tells the time of that in whole samples of its own.

    Args:
        begin: seconds of the first sample.
        sample_rate: behind the filters.
    """
    return float(begin - Fraction(math.floor(begin * sample_rate + Fraction(1, 2)), sample_rate))
