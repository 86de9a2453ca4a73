"""To and from dicts, sequences, arrays, tables and files."""

from __future__ import annotations


class ConversionMethods:
    """To and from dicts, sequences, arrays, tables and files."""
