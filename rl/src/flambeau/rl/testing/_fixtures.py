"""Fixtures of pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

__all__ = ["dtype_fixture"]


@pytest.fixture
def dtype_fixture() -> Iterator[None]:
    """Tensors are of dtype float64 unless they say otherwise, during a test."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
