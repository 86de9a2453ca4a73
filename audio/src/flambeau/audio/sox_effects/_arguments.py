"""How SoX writes numbers: frequencies, widths of bands, positions in time."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from flambeau.core.errors import FlambeauError


class SoxEffectError(FlambeauError, RuntimeError):
    """An effect that does not exist, arguments that it does not take, or a program that failed."""


class NotOursError(Exception):
    """An effect is asked for in a form that only the program understands; never leaves this package."""


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


def number(text: str) -> float:
    """A plain number."""
    if not re.fullmatch(_NUMBER, text):
        raise NotOursError(f"{text!r} is no number")
    return float(text)


def frequency(text: str) -> float:
    """Hz, or kHz with a `k` behind it."""
    return 1000 * number(text[:-1]) if text.endswith("k") else number(text)


def corner(text: str, sample_rate: float) -> float:
    """A frequency for a filter.

    Raises:
        SoxEffectError: it is half the sample rate or more.
    """
    value = frequency(text)
    if not value < sample_rate / 2:
        raise SoxEffectError(f"a filter's frequency is {text} Hz; it must be less than half of {sample_rate:g} Hz.")
    return value


def within(text: str, name: str, least: float, most: float) -> float:
    """A number in a range.

    Raises:
        SoxEffectError: it is not in it.
    """
    value = number(text)
    if not least <= value <= most:
        raise SoxEffectError(f"{name} is {text}; it must be between {least:g} and {most:g}.")
    return value


@dataclass(frozen=True)
class Width:
    """The width of a band: of h Hz, o octaves, q quality, or s slope of a shelf."""

    value: float
    kind: str

    @classmethod
    def read(cls, text: str, default: str = "h") -> Width:
        """`0.7q`, `100`, `1k`, `2o`, `0.5s`."""
        kind = text[-1] if text[-1:] in "hkoqs" else ""
        value = number(text[:-1] if kind else text)
        if value <= 0:
            raise NotOursError(f"a width of {text}")
        if (kind or default) == "s" and value > 1:
            raise SoxEffectError(f"the slope of a shelf is {text}; it must be at most 1.")
        return cls(1000 * value, "h") if kind == "k" else cls(value, kind or default)

    def quality(self, centre: float, sample_rate: float, amplitude: float = 1.0) -> float:
        """The same width as quality of the cookbook's filters, sin(w) / (2 alpha)."""
        angle = 2 * math.pi * centre / sample_rate
        if self.kind == "q":
            return self.value
        if self.kind == "h":
            return centre / self.value
        if self.kind == "o":
            return 1 / (2 * math.sinh(math.log(2) / 2 * self.value * angle / math.sin(angle)))
        return 1 / math.sqrt((amplitude + 1 / amplitude) * (1 / self.value - 1) + 2)

    def band_quality(self, centre: float) -> float:
        """The same width as centre over Hz."""
        if self.kind == "o":
            return 1 / (2 ** (self.value / 2) - 2 ** (-self.value / 2))
        if self.kind == "s":
            raise NotOursError("a band with a slope")
        return self.value if self.kind == "q" else centre / self.value


def duration(text: str, sample_rate: float) -> int:
    """Samples of `1.5`, `1:02.5`, `1:00:00` (time) or `800s` (samples)."""
    if re.fullmatch(r"\d+s", text):
        return int(text[:-1])
    if not re.fullmatch(r"(?:(?:\d+:)?\d+:)?(?:\d+\.?\d*|\.\d+)", text):
        raise NotOursError(f"{text!r} is no time")
    seconds = 0.0
    for part in text.split(":"):
        seconds = 60 * seconds + float(part)
    return int(seconds * sample_rate + 0.5)


def only(arguments: list[str], least: int, most: int) -> list[str]:
    """The arguments, if their number fits and none is an option."""
    options = [word for word in arguments if re.match(r"-[A-Za-z]", word)]
    if options or not least <= len(arguments) <= most:
        raise NotOursError(f"arguments {arguments}")
    return arguments
