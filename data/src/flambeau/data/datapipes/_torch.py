"""What torch knows of pipes, where it still does: its classes accept ours, and its graph tools can look into them.

torch's `DataLoader` asks `isinstance(dataset, torch.utils.data.IterDataPipe)` before it shares seeds and shards.
Ours are registered with its classes, so that it treats them alike, and nothing here needs torch to keep the classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.utils.data as torch_data

TORCH_ITER: type | None = getattr(torch_data, "IterDataPipe", None)
TORCH_MAP: type | None = getattr(torch_data, "MapDataPipe", None)
FOREIGN: tuple[type, ...] = tuple(kind for kind in (TORCH_ITER, TORCH_MAP) if kind is not None)


def register(cls: type, kind: type | None) -> None:
    """Let `isinstance(pipe, kind)` hold for the pipes of `cls`."""
    if kind is not None:
        kind.register(cls)  # type: ignore[attr-defined]  # an abstract base class


def hook(name: str, ours: Callable[..., Any] | None, kind: type | None) -> Callable[..., Any] | None:
    """The pickling hook that is set at the moment, by our graph tools or by torch's."""
    return ours if ours is not None else getattr(kind, name, None)
