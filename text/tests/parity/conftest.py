"""Comparing a call's outcome with a stored one."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import pytest
import torch


@pytest.fixture(scope="session")
def check() -> Callable[..., None]:
    """`check(compute, wanted, about)`: see `compared`."""
    return compared


def compared(compute: Callable[[], Any], wanted: Any, about: str = "") -> None:
    """Fail unless a call gives the stored value or tensor, or raises the stored exception."""
    if isinstance(wanted, dict) and "raises" in wanted:
        with pytest.raises(getattr(builtins, wanted["raises"])):
            compute()
        return
    result = compute()
    if isinstance(wanted, dict) and "tensor" in wanted:
        assert str(result.dtype) == f"torch.{wanted['dtype']}", about
        assert list(result.shape) == wanted["shape"], about
        expected = torch.tensor(wanted["tensor"], dtype=result.dtype).view(result.shape)
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=0)
        return
    result = result.tolist() if isinstance(result, torch.Tensor) else result
    assert (list(result) if isinstance(result, tuple) else result) == wanted, about
