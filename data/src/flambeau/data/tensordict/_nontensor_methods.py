"""Entries that are no tensors: set_non_tensor, get_non_tensor and their relatives."""

from __future__ import annotations


class NonTensorMethods:
    """Entries that are no tensors: set_non_tensor, get_non_tensor and their relatives."""
