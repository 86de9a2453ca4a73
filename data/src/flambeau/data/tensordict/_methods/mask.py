"""Selecting and writing by masks and indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.keys import listing
from flambeau.data.tensordict._layout.non_tensor import choose
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection
from flambeau.data.tensordict.functional import pad


class MaskMethods(CollectionMethods):
    """gather, masked_select, masked_fill, where, pad."""

    def gather(self, dim: int, index: Tensor, out: Any = None, *, inplace: bool = False) -> Self:
        """Pick elements along a batch dimension.

        Args:
            dim: along which.
            index: int64, of as many dimensions as the batch; its shape is the batch size of the result.
            out: a tensordict that takes the result.
            inplace: change this tensordict.
        """
        where, width = self._dim(dim), len(self.batch_size)

        def pick(value: Any) -> Any:
            feature = value.shape[width:]
            if isinstance(value, TensorCollection) and value._is_non_tensor and not feature:
                return value.gather(where, index)
            spread = index.reshape(index.shape + (1,) * len(feature)).expand(index.shape + feature)
            return value.gather(where, spread)

        unlocked = self.copy() if self.is_locked else self
        result = unlocked._each(pick, index.shape, self._names_or_none())
        if out is not None:
            return out.update(result, inplace=True)
        return self._become(result) if inplace else result

    def masked_select(self, mask: Tensor) -> Self:
        """The elements where a mask over the (first) batch dimensions holds, one after another."""
        return self._index(mask)._plain()  # upstream: whatever class this is of

    def masked_fill(self, mask: Tensor, value: float | bool) -> Self:
        """With a number where a mask over the (first) batch dimensions holds."""
        self._check_mask(mask)
        return self._fast_apply(lambda leaf: leaf.masked_fill(_right(mask, leaf), value))

    def masked_fill_(self, mask: Tensor, value: float | bool) -> Self:
        """`masked_fill` in place."""
        self._check_mask(mask)
        for leaf in self._leaves():
            leaf.masked_fill_(_right(mask, leaf), value)
        return self

    def _check_mask(self, mask: Tensor) -> None:
        if mask.ndim > len(self.batch_size):
            raise RuntimeError(
                f"masked_fill: the mask has {mask.ndim} dimensions, the batch {len(self.batch_size)}; give no more."
            )

    def where(
        self,
        condition: Tensor,
        other: Any,
        *,
        out: Any = None,
        pad: int | bool | None = None,
        update_batch_size: bool = False,
    ) -> Self:
        """These entries where a condition holds, else those of another tensordict.

        Args:
            condition: bools over the batch dimensions.
            other: a collection of the same keys, a tensor or a number.
            out: a tensordict that takes the result.
            pad: stands for entries that one side lacks; without it they raise.
            update_batch_size: let `out` take the batch size of the result.

        Raises:
            KeyError: the keys differ, and there is no `pad`.
        """
        result = _where(self, condition, other, pad)
        if out is None:
            return result
        return out.update(result, inplace=not update_batch_size, update_batch_size=update_batch_size)

    def pad(self, pad_size: Sequence[int], value: float = 0.0, inplace: bool = False, safe: bool = True) -> Self:
        """Elements before and after along batch dimensions; see `flambeau.data.tensordict.functional.pad`."""
        return pad(self, pad_size, value, inplace=inplace, safe=safe)


def _right(mask: Tensor, leaf: Tensor) -> Tensor:
    """A mask with dimensions of size 1 for those of the leaf that it does not reach."""
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - mask.ndim))


def _where(td: Any, condition: Tensor, other: Any, pad: Any) -> Any:
    paired = isinstance(other, TensorCollection)
    theirs = list(other._key_names()) if paired else []
    extra = [key for key in theirs if td._get_str(key) is None]
    if extra and pad is None:
        raise KeyError(f"where: {listing(extra)} are in `other` only; give `pad` to fill in.")
    data = {}
    for key, value in td._items():
        opposite = other._get_str(key) if paired else other
        if opposite is None:
            if pad is None:
                raise KeyError(f"where: {key!r} is not in `other`; give `pad` to fill in.")
            opposite = _filled(value, pad)
        data[key] = _choose(condition, value, opposite, pad)
    for key in extra:
        value = other._get_str(key)
        data[key] = _choose(condition, _filled(value, pad), value, pad)
    size = td.batch_size
    if size and condition.ndim >= len(size):
        size = torch.broadcast_shapes(size, condition.shape)
    result = td._result(data, size, td.device, td._names_or_none() if len(size) == len(td.batch_size) else None)
    # Upstream: locked beside a number or a tensor alone.
    return result._propagate_lock() if td.is_locked and not paired else result


def _filled(value: Any, pad: Any) -> Any:
    if isinstance(value, TensorCollection):
        return value._fast_apply(lambda leaf: torch.full_like(leaf, pad), filter_empty=False)
    return torch.full_like(value, pad)


def _choose(condition: Tensor, value: Any, opposite: Any, pad: Any) -> Any:
    if isinstance(value, TensorCollection):
        if value._is_non_tensor:
            return choose(value, condition, opposite)
        return value.where(condition, opposite, pad=pad)
    return torch.where(_right(condition, value), value, opposite)
