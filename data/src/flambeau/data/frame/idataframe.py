"""Frames, under upstream's module path."""

from __future__ import annotations

from flambeau.data.frame.construction import dataframe
from flambeau.data.frame.dataframe import DataFrame
from flambeau.data.frame.expression import me

__all__ = ["DataFrame", "dataframe", "me"]
