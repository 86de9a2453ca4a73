"""Kinds of metrics."""

from __future__ import annotations

import enum

__all__ = ["MetricTypes"]


class MetricTypes(enum.Enum):
    """A sum that only grows, a value that goes up and down, and a distribution."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
