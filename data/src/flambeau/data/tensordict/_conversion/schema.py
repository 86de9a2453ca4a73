"""Room for data that come later: tensordicts of zeros by a table of shapes and dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.sizes import as_size

STORAGES = ("memmap", "shared", "h5", "zarr", "redis", "dragonfly", "keydb")


def from_schema(
    schema: Mapping[Any, tuple[Sequence[int], torch.dtype]],
    batch_size: Any,
    storage: str | None,
    device: Any,
    **kwargs: Any,
) -> Any:
    """See `TensorDict.from_schema`."""
    size = as_size(batch_size)
    if storage in ("redis", "dragonfly", "keydb"):
        return classes.TensorDictStore.from_schema(schema, batch_size=size, backend=storage, device=device, **kwargs)
    if storage in ("h5", "zarr"):
        return classes.PersistentTensorDict.from_schema(
            schema, batch_size=size, backend=storage, device=device, **kwargs
        )
    if storage not in (None, "memmap", "shared"):
        raise ValueError(f"storage is {storage!r}; use None or one of {', '.join(map(repr, STORAGES))}.")
    # Zeros without memory of their own, where the memory comes with the storage.
    make = torch.zeros if storage is None else _expanded
    td = classes.TensorDict({}, batch_size=size, device=device)
    for key, (shape, dtype) in schema.items():
        td.set(key, make((*size, *shape), dtype=dtype, device=device))
    if storage == "memmap":
        return td.memmap_like(kwargs.pop("prefix", None), **kwargs)
    if kwargs:
        raise TypeError(f"storage {storage!r} takes no {', '.join(map(repr, kwargs))}.")
    return td.clone().share_memory_() if storage == "shared" else td


def _expanded(shape: Sequence[int], dtype: torch.dtype, device: Any) -> torch.Tensor:
    return torch.zeros((), dtype=dtype, device=device).expand(tuple(shape))
