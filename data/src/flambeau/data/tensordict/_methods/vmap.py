"""What `torch.vmap` asks of a tensordict, see `_layout/vmap.py`."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.vmap import add_dim, remove_dim
from flambeau.data.tensordict._tensorcollection import CollectionMethods


class VmapMethods(CollectionMethods):
    """Taking a batch dimension out of sight, and bringing it back."""

    def _add_batch_dim(self, *, in_dim: int, vmap_level: int) -> Any:
        """The tensordict that the mapped function sees: without a batch dimension, its tensors batched."""
        size = torch.Size([length for dim, length in enumerate(self.batch_size) if dim != in_dim])
        data = {key: add_dim(value, in_dim, vmap_level, size) for key, value in self._items()}
        names = self._names_or_none()
        made = classes.make_td(data, size, None, names and [name for dim, name in enumerate(names) if dim != in_dim])
        return made.lock_() if self.is_locked else made

    def _remove_batch_dim(self, *, vmap_level: int, batch_size: int, out_dim: int) -> Any:
        """A result of the mapped function with the dimension at `out_dim`."""
        before = self.batch_size
        size = torch.Size((*before[:out_dim], batch_size, *before[out_dim:]))
        data = {key: remove_dim(value, vmap_level, batch_size, out_dim, size) for key, value in self._items()}
        names = self._names_or_none()
        made = classes.make_td(data, size, None, names and [*names[:out_dim], None, *names[out_dim:]])
        return made.lock_() if self.is_locked else made

    def _maybe_remove_batch_dim(self, funcname: str, vmap_level: int, batch_size: int, out_dim: int | None) -> Any:
        """As upstream's hooks of `torch.vmap` call it, where upstream is imported beside this package."""
        if out_dim is None:
            return self
        return self._remove_batch_dim(vmap_level=vmap_level, batch_size=batch_size, out_dim=out_dim)
