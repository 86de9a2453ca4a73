"""One way to show that long work goes on, and one switch to silence it.

Progress goes to stderr: a bar where `tqdm` is installed and stderr is a terminal, a line for every tenth otherwise.
`FLAMBEAU_PROGRESS=0` hides it; `FLAMBEAU_PROGRESS=1` shows it even where stderr is no terminal.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def wanted(show: bool = True) -> bool:
    """Whether progress would be visible, given the caller's wish and the environment."""
    setting = os.environ.get("FLAMBEAU_PROGRESS", "").strip()
    if not show or setting == "0":
        return False
    return bool(setting) or sys.stderr.isatty()


@contextmanager
def progress(
    description: str, total: int | None = None, *, done: int = 0, unit: str = "it", show: bool = True
) -> Iterator[Callable[[int], object]]:
    """Yield a function to be called with the amount of work just done.

    Args:
        description: what goes on, a few words.
        total: the whole amount, None where it is unknown.
        done: what is finished before the start, for example the resumed part of a file.
        unit: "it" for items, "B" for bytes (shown with binary prefixes).
        show: False keeps quiet whatever the environment says.
    """
    if not wanted(show):
        yield lambda amount: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield _Lines(description, total, done, unit)
        return
    scale = unit == "B"
    with tqdm(
        desc=description, total=total, initial=done, unit=unit, unit_scale=scale, unit_divisor=1024 if scale else 1000
    ) as bar:
        yield bar.update


class _Lines:
    """A line on stderr for every tenth of the work, with rate and remaining time."""

    def __init__(self, description: str, total: int | None, done: int, unit: str) -> None:
        self.description, self.total, self.done, self.unit = description, total, done, unit
        self.first, self.start = done, time.monotonic()
        self.shown = -1

    def __call__(self, amount: int) -> None:
        self.done += amount
        tenth = 10 * self.done // self.total if self.total else self.done.bit_length()
        if tenth == self.shown:
            return
        self.shown = tenth
        rate = (self.done - self.first) / max(time.monotonic() - self.start, 1e-9)
        if self.total:
            left = (self.total - self.done) / rate if rate else float("inf")
            state = f"{100 * self.done / self.total:3.0f} %, {rate:,.0f} {self.unit}/s, {left:.0f} s left"
        else:
            state = f"{self.done:,} {self.unit}, {rate:,.0f} {self.unit}/s"
        sys.stderr.write(f"{self.description}: {state}\n")
