"""Size, device, dtype and layout of a tensordict as a whole."""

from __future__ import annotations

import math
from typing import Any

import torch

from flambeau.data.tensordict._repr import describe


class PropertyMethods:
    """What a tensordict says about itself."""

    @property
    def shape(self) -> torch.Size:
        """The batch size."""
        return self.batch_size

    @shape.setter
    def shape(self, size: Any) -> None:
        self.batch_size = size

    @property
    def batch_dims(self) -> int:
        """The number of batch dimensions."""
        return len(self.batch_size)

    @property
    def ndim(self) -> int:
        """The number of batch dimensions."""
        return len(self.batch_size)

    def dim(self) -> int:
        """The number of batch dimensions."""
        return len(self.batch_size)

    def ndimension(self) -> int:
        """The number of batch dimensions."""
        return len(self.batch_size)

    def size(self, dim: int | None = None) -> torch.Size | int:
        """The batch size, or one of its dimensions."""
        return self.batch_size if dim is None else self.batch_size[dim]

    def numel(self) -> int:
        """The number of elements of the batch: the product of its size, 1 without batch dimensions."""
        return max(1, math.prod(self.batch_size))

    @property
    def depth(self) -> int:
        """How deep collections are nested, 0 where none is."""
        below = [value.depth for value in self._collections() if not value._is_non_tensor]
        return 1 + max(below) if below else 0

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of all tensors, None where there are several or none."""
        found = {leaf.dtype for leaf in self._leaves()}
        return found.pop() if len(found) == 1 else None

    def __repr__(self) -> str:
        return describe(self)

    def _repr_extras(self) -> list[tuple[str, Any]]:
        """Further lines of the text: name and value."""
        return []

    _is_shared: bool = False
    _is_memmap: bool = False

    def is_shared(self) -> bool:
        """Whether all tensors lie in memory that other processes can map."""
        return self._is_shared

    def is_memmap(self) -> bool:
        """Whether all tensors are memory-mapped files."""
        return self._is_memmap
