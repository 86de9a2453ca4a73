"""Percentiles of what is measured again and again, in the log."""

from __future__ import annotations

import logging
from collections import deque

from flambeau.rec.errors import OptionError

__all__ = ["PercentileLogger"]

_logger = logging.getLogger(__name__)
_PERCENTILES = (50, 75, 90, 95, 99)


class PercentileLogger:
    """The percentiles of the last values, logged (level INFO) each time that so many have come.

    Args:
        metric_name: what is measured.
        window_size: values that are looked at, the last ones.
        log_interval: values from one line to the next.

    Raises:
        OptionError: a size below 1.
    """

    def __init__(self, metric_name: str, window_size: int = 1000, log_interval: int = 100) -> None:
        for name, value in (("window_size", window_size), ("log_interval", log_interval)):
            if value < 1:
                raise OptionError(f"{name} is {value}, expected at least 1.")
        self.metric_name, self.log_interval = metric_name, log_interval
        self._values: deque[float] = deque(maxlen=window_size)
        self._count = 0

    def add(self, value: float) -> None:
        """Note a value; the log may get a line."""
        self._values.append(value)
        self._count += 1
        if self._count % self.log_interval == 0:
            self.log_percentiles()

    def log_percentiles(self) -> None:
        """Log the percentiles of the last values; nothing where there are none."""
        if not self._values:
            return
        ordered = sorted(self._values)
        shown = ", ".join(f"p{one}={_percentile(ordered, one):.4g}" for one in _PERCENTILES)
        _logger.info("%s of the last %d: %s", self.metric_name, len(ordered), shown)


def _percentile(ordered: list[float], percent: int) -> float:
    """Between the two nearest values, in proportion."""
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
