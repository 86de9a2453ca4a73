"""A pool of rows of numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.object_pool import ObjectPool
from flambeau.rec.modules.object_pool_lookups import TensorLookup
from flambeau.rec.modules.utils import deterministic_dedup

__all__ = ["TensorPool"]


class PoolIndexError(FlambeauError, IndexError, AssertionError):
    """A number outside of the pool; an AssertionError as well, which is what upstream raises."""


class TensorPool(ObjectPool[Tensor]):
    """Rows by number, such as embeddings that were computed before.

    Args:
        pool_size: rows.
        dim: columns.
        dtype: of the rows.
        device: where they are kept; the CPU where not given.
        loaded_values: (pool_size, dim) to begin with, instead of 0.
        enable_uvm: whether they are kept on the host, for pools that are larger than an accelerator's memory.

    Raises:
        OptionError: `loaded_values` of another shape.

    Example:
        >>> pool = TensorPool(pool_size=4, dim=2, dtype=torch.float32)
        >>> pool.update(torch.tensor([3]), torch.tensor([[1.0, 2.0]]))
        >>> pool.lookup(torch.tensor([3, 0]))
        tensor([[1., 2.],
                [0., 0.]])
    """

    _pool: Tensor

    def __init__(
        self,
        pool_size: int,
        dim: int,
        dtype: torch.dtype,
        device: torch.device | None = None,
        loaded_values: Tensor | None = None,
        enable_uvm: bool = False,
    ) -> None:
        super().__init__()
        self._pool_size, self._dim, self._dtype = pool_size, dim, dtype
        self._device = torch.device("cpu") if device is None else torch.device(device)
        self._enable_uvm = enable_uvm
        storage = TensorLookup(pool_size, dim, dtype, self._device, enable_uvm)
        if loaded_values is not None:
            storage.set_state(loaded_values)
        self.register_buffer("_pool", storage._pool)

    @property
    def pool_size(self) -> int:
        """Rows."""
        return self._pool_size

    @property
    def dim(self) -> int:
        """Columns."""
        return self._dim

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows."""
        return self._dtype

    @property
    def device(self) -> torch.device:
        """Where results are."""
        return self._device

    @property
    def pool(self) -> Tensor:
        """(pool_size, dim): all rows."""
        return self._pool

    def lookup(self, ids: Tensor) -> Tensor:
        """(n, dim): the rows of (n,) numbers.

        Raises:
            IndexError: a number outside of the pool.
        """
        self._check(ids)
        return self._pool[ids.to(self._pool.device)].to(ids.device)

    def _check(self, ids: Tensor) -> None:
        # An accelerator looks for itself, without being waited for.
        if ids.device.type != "cpu" or not ids.numel():
            return
        if not 0 <= int(ids.min()) <= int(ids.max()) < self._pool_size:
            raise PoolIndexError(
                f"ids are {int(ids.min())} to {int(ids.max())}, expected 0 to {self._pool_size - 1}: the pool has "
                f"{self._pool_size} rows."
            )

    def update(self, ids: Tensor, values: Tensor) -> None:
        """Write the rows of (n,) numbers; where one stands several times, its last row stays.

        Args:
            ids: (n,) int32 or int64.
            values: (n, dim), of the pool's dtype.

        Raises:
            OptionError: values of another number of columns, of another dtype, or on another device than the ids.
            IndexError: a number outside of the pool.
        """
        if values.dim() != 2 or values.shape[1] != self._dim or values.dtype != self._dtype:
            raise OptionError(
                f"values has shape {tuple(values.shape)} and dtype {values.dtype}, expected ({len(ids)}, {self._dim}) "
                f"of {self._dtype}."
            )
        if values.device != ids.device:
            raise OptionError(f"values is on {values.device} and ids on {ids.device}; put both on one device.")
        self._check(ids)
        with torch.no_grad():
            ids, at = deterministic_dedup(ids)
            self._pool[ids.to(self._pool.device)] = values[at].detach().to(self._pool.device)

    def forward(self, ids: Tensor) -> Tensor:
        """See `lookup`."""
        return self.lookup(ids)
