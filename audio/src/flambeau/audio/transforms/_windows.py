"""The window that a transform keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


def make_window(window_fn: Callable[..., Tensor], win_length: int, wkwargs: dict[str, Any] | None) -> Tensor:
    """`window_fn(win_length, **wkwargs)`."""
    return window_fn(win_length, **(wkwargs or {}))
