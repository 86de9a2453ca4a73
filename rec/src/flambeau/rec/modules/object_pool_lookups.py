"""How pools keep what they hold, and read and write it."""

from __future__ import annotations

import abc
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.utils import deterministic_dedup
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.sparse.jagged_tensor import JaggedTensor

__all__ = [
    "KeyedJaggedTensorPoolLookup",
    "TensorJaggedIndexSelectLookup",
    "TensorLookup",
    "TensorPoolLookup",
    "UVMCachingFloatLookup",
    "UVMCachingInt32Lookup",
    "UVMCachingInt64Lookup",
]


class KeyedJaggedTensorPoolLookup(abc.ABC, nn.Module):
    """Bags of several features for each number; a row of `_values` has those of one number, feature after feature.

    Args:
        pool_size: how many numbers there are.
        feature_max_lengths: ids in the longest bag of each feature.
        is_weighted: whether ids have weights.
        device: where they are kept.
    """

    _values: Tensor
    _key_lengths: Tensor

    def __init__(
        self, pool_size: int, feature_max_lengths: dict[str, int], is_weighted: bool, device: torch.device
    ) -> None:
        super().__init__()
        self._pool_size, self._feature_max_lengths = pool_size, feature_max_lengths
        self._is_weighted, self._device = is_weighted, torch.device(device)
        self._total_lengths = sum(feature_max_lengths.values())
        shape = (pool_size, len(feature_max_lengths))
        self.register_buffer("_key_lengths", torch.zeros(shape, dtype=torch.int32, device=device), persistent=False)

    @abc.abstractmethod
    def lookup(self, ids: Tensor) -> JaggedTensor:
        """The bags of all features for (n,) numbers, number after number."""

    @abc.abstractmethod
    def update(self, ids: Tensor, values: JaggedTensor) -> None:
        """Write the bags of all features for (n,) numbers."""

    def forward(self, ids: Tensor) -> JaggedTensor:
        """See `lookup`."""
        return self.lookup(ids)

    @abc.abstractmethod
    def states_to_register(self) -> Iterator[tuple[str, Tensor]]:
        """Names and tensors that belong into checkpoints."""


class TensorJaggedIndexSelectLookup(KeyedJaggedTensorPoolLookup):
    """Bags in rows of one tensor.

    Args:
        pool_size: how many numbers there are.
        values_dtype: of ids.
        feature_max_lengths: ids in the longest bag of each feature.
        is_weighted: whether ids have weights.
        device: where they are kept.
    """

    def __init__(
        self,
        pool_size: int,
        values_dtype: torch.dtype,
        feature_max_lengths: dict[str, int],
        is_weighted: bool,
        device: torch.device,
    ) -> None:
        super().__init__(pool_size, feature_max_lengths, is_weighted, device)
        shape = (pool_size, self._total_lengths)
        self.register_buffer("_values", torch.zeros(shape, dtype=values_dtype, device=device), persistent=False)
        weights = torch.zeros(shape, device=device) if is_weighted else None
        self.register_buffer("_weights", weights, persistent=False)
        self._weights: Tensor | None

    def lookup(self, ids: Tensor) -> JaggedTensor:
        """The bags of all features for (n,) numbers: lengths are (n * features,)."""
        key_lengths = self._key_lengths[ids]
        lengths = key_lengths.sum(1)
        ends = lengths.cumsum(0)
        rows = torch.arange(len(self._values), device=ids.device) * self._total_lengths

        def chosen(stored: Tensor) -> Tensor:
            # Rows are as long as the longest may be: each ends where its own bags do.
            starts = rows[ids]
            within = torch.arange(int(ends[-1]) if len(ends) else 0, device=ids.device)
            shift = (starts - (ends - lengths)).repeat_interleave(lengths, output_size=len(within))
            return stored.flatten()[within + shift]

        weights = None if self._weights is None else chosen(self._weights)
        return JaggedTensor(chosen(self._values), weights, lengths=key_lengths.flatten())

    def update(self, ids: Tensor, values: JaggedTensor) -> None:
        """Write the bags of all features for (n,) numbers.

        Args:
            ids: (n,).
            values: lengths are (n * features,).
        """
        with torch.no_grad():
            ids, at = deterministic_dedup(ids)
            key_lengths = values.lengths().view(-1, len(self._feature_max_lengths))[at]
            lengths = values.lengths().view(-1, len(self._feature_max_lengths)).sum(1)
            places = asynchronous_complete_cumsum(lengths)[:-1][at]
            counts = key_lengths.sum(1)
            within = torch.arange(self._total_lengths, device=ids.device)
            taken = within < counts.unsqueeze(1)
            sources = (places.unsqueeze(1) + within)[taken]
            self._key_lengths[ids] = key_lengths.to(torch.int32)
            for stored, given in ((self._values, values.values()), (self._weights, values.weights_or_none())):
                if stored is not None and given is not None:
                    rows = stored.new_zeros(len(ids), self._total_lengths)
                    rows[taken] = given[sources].to(stored.dtype)
                    stored[ids] = rows

    def states_to_register(self) -> Iterator[tuple[str, Tensor]]:
        """Ids, lengths, and weights if there are any."""
        yield "values", self._values
        yield "key_lengths", self._key_lengths
        if self._weights is not None:
            yield "weights", self._weights


class UVMCachingInt64Lookup(TensorJaggedIndexSelectLookup):
    """Bags of int64 that are kept on the host, for pools that are larger than an accelerator's memory.

    Args:
        pool_size: how many numbers there are.
        feature_max_lengths: ids in the longest bag of each feature.
        is_weighted: whether ids have weights.
        device: where results are wanted.
    """

    _dtype = torch.int64

    def __init__(
        self, pool_size: int, feature_max_lengths: dict[str, int], is_weighted: bool, device: torch.device
    ) -> None:
        super().__init__(pool_size, self._dtype, feature_max_lengths, is_weighted, torch.device("cpu"))
        self._wanted = torch.device(device)

    def lookup(self, ids: Tensor) -> JaggedTensor:
        """The bags of all features for (n,) numbers: lengths are (n * features,)."""
        return super().lookup(ids.cpu()).to(self._wanted)

    def update(self, ids: Tensor, values: JaggedTensor) -> None:
        """Write the bags of all features for (n,) numbers."""
        super().update(ids.cpu(), values.to(torch.device("cpu")))


class UVMCachingInt32Lookup(UVMCachingInt64Lookup):
    """As `UVMCachingInt64Lookup`, of int32."""

    _dtype = torch.int32


class TensorPoolLookup(abc.ABC, nn.Module):
    """A row of numbers for each number.

    Args:
        pool_size: how many there are.
        dim: columns.
        dtype: of the rows.
        device: where they are kept.
    """

    def __init__(self, pool_size: int, dim: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self._pool_size, self._dim, self._dtype, self._device = pool_size, dim, dtype, torch.device(device)

    @abc.abstractmethod
    def lookup(self, ids: Tensor) -> Tensor:
        """(n, dim): the rows of (n,) numbers."""

    @abc.abstractmethod
    def update(self, ids: Tensor, values: Tensor) -> None:
        """Write the rows of (n,) numbers."""

    def forward(self, ids: Tensor) -> Tensor:
        """See `lookup`."""
        return self.lookup(ids)

    @abc.abstractmethod
    def states_to_register(self) -> Iterator[tuple[str, Tensor]]:
        """Names and tensors that belong into checkpoints."""

    @abc.abstractmethod
    def set_state(self, loaded_values: Tensor) -> None:
        """Take all rows over."""


class TensorLookup(TensorPoolLookup):
    """Rows of one tensor.

    Args:
        pool_size: how many there are.
        dim: columns.
        dtype: of the rows.
        device: where they are kept.
        enable_uvm: whether they are kept on the host, for pools that are larger than an accelerator's memory.
    """

    _pool: Tensor

    def __init__(
        self, pool_size: int, dim: int, dtype: torch.dtype, device: torch.device, enable_uvm: bool = False
    ) -> None:
        super().__init__(pool_size, dim, dtype, device)
        self._enable_uvm = enable_uvm
        where = torch.device("cpu") if enable_uvm and self._device.type != "meta" else self._device
        self.register_buffer("_pool", torch.zeros(pool_size, dim, dtype=dtype, device=where), persistent=False)

    def lookup(self, ids: Tensor) -> Tensor:
        """(n, dim): the rows of (n,) numbers."""
        return self._pool[ids.to(self._pool.device)].to(self._device)

    def update(self, ids: Tensor, values: Tensor) -> None:
        """Write the rows of (n,) numbers."""
        with torch.no_grad():
            ids, at = deterministic_dedup(ids)
            self._pool[ids.to(self._pool.device)] = values[at].detach().to(self._pool.device)

    def states_to_register(self) -> Iterator[tuple[str, Tensor]]:
        """The rows."""
        yield "_pool", self._pool

    def set_state(self, loaded_values: Tensor) -> None:
        """Take all rows over.

        Raises:
            OptionError: another number of rows or columns.
        """
        if loaded_values.shape != self._pool.shape:
            raise OptionError(
                f"loaded_values has shape {tuple(loaded_values.shape)}, expected {tuple(self._pool.shape)}."
            )
        with torch.no_grad():
            self._pool.copy_(loaded_values)


class UVMCachingFloatLookup(TensorLookup):
    """Rows that are kept on the host, for pools that are larger than an accelerator's memory.

    Args:
        pool_size: how many there are.
        dim: columns.
        dtype: of the rows.
        device: where results are wanted.
    """

    def __init__(self, pool_size: int, dim: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(pool_size, dim, dtype, device, enable_uvm=True)
