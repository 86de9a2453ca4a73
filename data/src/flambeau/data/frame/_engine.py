"""The one place where Polars and PyArrow are imported."""

from __future__ import annotations

from flambeau.data.frame.errors import missing

try:
    import polars as pl
except ImportError as error:
    raise missing("polars", "frame") from error
try:
    import pyarrow as pa
except ImportError as error:
    raise missing("pyarrow", "frame") from error

__all__ = ["pa", "pl"]
