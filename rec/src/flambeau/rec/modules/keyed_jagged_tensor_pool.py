"""A pool of bags of several features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.object_pool import ObjectPool
from flambeau.rec.modules.object_pool_lookups import (
    KeyedJaggedTensorPoolLookup,
    TensorJaggedIndexSelectLookup,
    UVMCachingInt32Lookup,
    UVMCachingInt64Lookup,
)
from flambeau.rec.ops.permute import permute_1D_sparse_data
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

__all__ = ["KeyedJaggedTensorPool"]


class KeyedJaggedTensorPool(ObjectPool[KeyedJaggedTensor]):
    """Sparse features by number, such as what is known of each user.

    Args:
        pool_size: how many numbers there are.
        feature_max_lengths: ids in the longest bag of each feature.
        values_dtype: of ids.
        is_weighted: whether ids have weights.
        device: where they are kept; the CPU where not given.
        enable_uvm: whether they are kept on the host, for pools that are larger than an accelerator's memory.

    Example:
        >>> pool = KeyedJaggedTensorPool(pool_size=4, feature_max_lengths={"item": 2})
        >>> pool.update(torch.tensor([3]), KeyedJaggedTensor(["item"], torch.tensor([7, 8]), lengths=torch.tensor([2])))
        >>> pool.lookup(torch.tensor([0, 3]))["item"].to_dense()
        [tensor([], dtype=torch.int64), tensor([7, 8])]
    """

    _feature_max_lengths_t: Tensor

    def __init__(
        self,
        pool_size: int,
        feature_max_lengths: dict[str, int],
        values_dtype: torch.dtype = torch.int64,
        is_weighted: bool = False,
        device: torch.device | None = None,
        enable_uvm: bool = False,
    ) -> None:
        super().__init__()
        self._pool_size, self._feature_max_lengths = pool_size, feature_max_lengths
        self._values_dtype, self._is_weighted = values_dtype, is_weighted
        self._device = torch.device("cpu") if device is None else torch.device(device)
        self._enable_uvm = enable_uvm
        self._lookup = self._storage()
        limits = torch.tensor(list(feature_max_lengths.values()), dtype=torch.int32, device=self._device)
        self.register_buffer("_feature_max_lengths_t", limits, persistent=False)
        for name, state in self._lookup.states_to_register():
            self.register_buffer(name, state)

    def _storage(self) -> KeyedJaggedTensorPoolLookup:
        if self._enable_uvm and self._device.type != "cpu":
            kinds = {torch.int64: UVMCachingInt64Lookup, torch.int32: UVMCachingInt32Lookup}
            if self._values_dtype not in kinds:
                raise OptionError(
                    f"values_dtype is {self._values_dtype}, expected torch.int32 or torch.int64 on the host."
                )
            return kinds[self._values_dtype](
                self._pool_size, self._feature_max_lengths, self._is_weighted, self._device
            )
        return TensorJaggedIndexSelectLookup(
            self._pool_size, self._values_dtype, self._feature_max_lengths, self._is_weighted, self._device
        )

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        for name, _ in self._lookup.states_to_register():
            setattr(self._lookup, f"_{name}", getattr(self, name))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, _ in self._lookup.states_to_register():
            setattr(self._lookup, f"_{name}", getattr(self, name))
        return self

    @property
    def pool_size(self) -> int:
        """How many numbers there are."""
        return self._pool_size

    @property
    def feature_max_lengths(self) -> dict[str, int]:
        """Ids in the longest bag of each feature."""
        return self._feature_max_lengths

    @property
    def values_dtype(self) -> torch.dtype:
        """Of ids."""
        return self._values_dtype

    @property
    def is_weighted(self) -> bool:
        """Whether ids have weights."""
        return self._is_weighted

    def lookup(self, ids: Tensor) -> KeyedJaggedTensor:
        """The features of (n,) numbers, a batch of n examples.

        Raises:
            IndexError: a number outside of the pool.
        """
        rows = self._lookup(ids)
        keys = list(self._feature_max_lengths)
        # The bags of a number are one after another; those of a key are wanted so.
        order = torch.arange(len(ids) * len(keys), device=ids.device).view(len(ids), len(keys)).t().flatten()
        lengths, values, weights = permute_1D_sparse_data(order, rows.lengths(), rows.values(), rows.weights_or_none())
        return KeyedJaggedTensor(keys, values, weights, lengths, stride=len(ids))

    def update(self, ids: Tensor, values: KeyedJaggedTensor) -> None:
        """Write the features of (n,) numbers; where one stands several times, its last features stay.

        Args:
            ids: (n,) int32 or int64.
            values: n examples of all features of the pool, in any order; further ones are left alone.

        Raises:
            KeyError: a feature is missing.
            OptionError: bags that are too long, another number of examples, another dtype, weights where there are none
                or the reverse.
            IndexError: a number outside of the pool.
        """
        chosen = checked_bags(values, len(ids), self._feature_max_lengths, self._values_dtype, self._is_weighted)
        lengths = chosen.lengths()
        order = torch.arange(lengths.numel(), device=ids.device).view(len(self._feature_max_lengths), -1).t().flatten()
        by_number, ids_of_all, weights = permute_1D_sparse_data(
            order, lengths, chosen.values(), chosen.weights_or_none()
        )
        self._lookup.update(ids, JaggedTensor(ids_of_all, weights, by_number))


def checked_bags(
    values: KeyedJaggedTensor, count: int, limits: dict[str, int], dtype: torch.dtype, is_weighted: bool
) -> KeyedJaggedTensor:
    """The features of a pool among those that are given, in its order; see `KeyedJaggedTensorPool.update` for errors.

    Args:
        values: features.
        count: how many examples they should be of.
        limits: ids in the longest bag of each feature of the pool.
        dtype: the pool's, of ids.
        is_weighted: whether the pool's ids have weights.
    """
    places = values.index_per_key()
    chosen = values.permute([places[key] for key in limits])
    if chosen.stride() != count:
        raise OptionError(f"values has {chosen.stride()} examples for {count} ids.")
    if chosen.values().dtype != dtype:
        raise OptionError(f"values has dtype {chosen.values().dtype}, expected {dtype}, the pool's.")
    if (chosen.weights_or_none() is not None) != is_weighted:
        has = "no weights" if is_weighted else "weights"
        raise OptionError(f"values has {has}, but the pool was made with is_weighted={is_weighted}.")
    lengths = chosen.lengths().view(len(limits), -1)
    longest = lengths.amax(1) if lengths.numel() else lengths.new_zeros(len(lengths))
    if bool((longest > longest.new_tensor(list(limits.values()))).any()):
        found = dict(zip(limits, longest.tolist(), strict=True))
        raise OptionError(f"the longest bags of values are {found}, expected at most {limits}.")
    return chosen
