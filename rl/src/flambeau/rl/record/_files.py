"""Files of tensors that appear as a whole."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from flambeau.core.files import write_atomic

__all__ = ["save_tensors"]


def save_tensors(content: Any, path: Path) -> None:
    """Write what `torch.save` takes, so that the file is the old one or the new one.

    Args:
        content: tensors and what holds them.
        path: the file; its folder is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_atomic(path, buffer.getvalue())
