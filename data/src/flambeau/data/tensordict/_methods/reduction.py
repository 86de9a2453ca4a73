"""Sums, extrema and other reductions.

All take `dim`: nothing (every tensor to one number), one or several batch dimensions, or "feature" (all dimensions
after the batch's); `keepdim`, to keep reduced dimensions with size 1; and `reduce`: True puts the tensors together
first, along `dim`, so that one tensor comes out. `key_transform` is applied to every part of the result's keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.defaults import NO_DEFAULT
from flambeau.data.tensordict._methods.pointwise import rekeyed
from flambeau.data.tensordict._tensorcollection import CollectionMethods
from flambeau.data.tensordict._unbatched import batched


class ReductionMethods(CollectionMethods):
    """Reductions. Non-tensor data take no part and stay."""

    def _reduce(
        self, function: Callable[..., Any], dim: Any, keepdim: Any, reduce: bool | None, key_transform: Any = None
    ) -> Any:
        """Run `function(tensor, dim, keepdim)`, dim a tuple of dimensions or None for all of them."""
        keepdim = False if keepdim is NO_DEFAULT else bool(keepdim)
        ndim = len(self.batch_size)
        if dim == "feature" and isinstance(dim, str):
            if keepdim:
                raise TypeError('keepdim=True makes no sense with dim="feature".')
            if reduce:
                flat = [leaf.flatten(ndim) if leaf.ndim > ndim else leaf.unsqueeze(-1) for leaf in self._leaves()]
                joined = torch.cat(flat, -1)
                return function(joined, (-1,), False)
            return self._fast_apply(lambda leaf: _over_features(function, leaf, ndim), filter_empty=False)
        whole = dim is NO_DEFAULT or dim is None
        dims = tuple(range(ndim)) if whole else self._dims(dim)
        if reduce:
            if whole:
                return function(torch.cat([leaf.flatten() for leaf in self._leaves()]), None, False)
            return function(torch.cat(self._leaves(), dims[0]), dims, keepdim)
        if whole and not keepdim:
            result = self._fast_apply(lambda leaf: function(leaf, None, False), batch_size=[], filter_empty=False)
            return rekeyed(result, key_transform)
        if whole:
            size = torch.Size([1] * ndim)
            result = self._fast_apply(
                lambda leaf: function(leaf, tuple(range(leaf.ndim)), True), batch_size=size, filter_empty=False
            )
            return rekeyed(result, key_transform)
        return rekeyed(self._reduced_batch(function, dims, keepdim), key_transform)

    def _dims(self, dim: Any) -> tuple[int, ...]:
        return tuple(self._dim(one) for one in ((dim,) if isinstance(dim, int) else dim))

    def _reduced_batch(self, function: Callable[..., Any], dims: tuple[int, ...], keepdim: bool) -> Any:
        old, names = self.batch_size, self._names_or_none()
        kept = [place for place in range(len(old)) if place not in dims]
        if keepdim:
            size = torch.Size([1 if place in dims else length for place, length in enumerate(old)])
        else:
            size = torch.Size([old[place] for place in kept])
            names = None if names is None else [names[place] for place in kept]
        return self._fast_apply(
            lambda leaf: batched(lambda one: function(one, dims, keepdim), leaf, size),
            batch_size=size, names=names, filter_empty=False,
        )  # fmt: skip

    def sum(
        self, dim: Any = NO_DEFAULT, keepdim: bool = NO_DEFAULT, *, dtype: Any = None, reduce: bool | None = None,
        key_transform: Any = None,
    ) -> Any:  # fmt: skip
        """The sum of every tensor, over `dim`; converted to `dtype` before."""
        return self._reduce(
            lambda leaf, dims, keep: _over(torch.sum, leaf, dims, keep, dtype=dtype),
            dim, keepdim, reduce, key_transform,
        )  # fmt: skip

    def mean(
        self, dim: Any = NO_DEFAULT, keepdim: bool = NO_DEFAULT, *, dtype: Any = None, reduce: bool | None = None,
        key_transform: Any = None,
    ) -> Any:  # fmt: skip
        """The mean of every tensor, over `dim`; converted to `dtype` before."""
        return self._reduce(
            lambda leaf, dims, keep: _over(torch.mean, leaf, dims, keep, dtype=dtype),
            dim, keepdim, reduce, key_transform,
        )  # fmt: skip

    def nansum(
        self, dim: Any = NO_DEFAULT, keepdim: bool = NO_DEFAULT, *, dtype: Any = None, reduce: bool | None = None
    ) -> Any:
        """As `sum`, without NaNs."""
        return self._reduce(
            lambda leaf, dims, keep: _over(torch.nansum, leaf, dims, keep, dtype=dtype), dim, keepdim, reduce
        )

    def nanmean(
        self, dim: Any = NO_DEFAULT, keepdim: bool = NO_DEFAULT, *, dtype: Any = None, reduce: bool | None = None
    ) -> Any:
        """As `mean`, without NaNs."""
        return self._reduce(
            lambda leaf, dims, keep: _over(torch.nanmean, leaf, dims, keep, dtype=dtype), dim, keepdim, reduce
        )

    def prod(
        self, dim: Any = NO_DEFAULT, keepdim: bool = NO_DEFAULT, *, dtype: Any = None, reduce: bool | None = None
    ) -> Any:
        """The product of every tensor, over `dim`; converted to `dtype` before."""

        def function(leaf: Tensor, dims: tuple[int, ...] | None, keep: bool) -> Tensor:
            return one_by_one(lambda item, one: torch.prod(item, one, keep, dtype=dtype), leaf, dims, keep)

        return self._reduce(function, dim, keepdim, reduce)

    def std(
        self, dim: Any = NO_DEFAULT, keepdim: bool = NO_DEFAULT, *, correction: int = 1, reduce: bool | None = None,
        key_transform: Any = None,
    ) -> Any:  # fmt: skip
        """The standard deviation of every tensor, over `dim`; divides by the number of elements less `correction`."""
        return self._reduce(
            lambda leaf, dims, keep: torch.std(leaf, dims, correction=correction, keepdim=keep),
            dim, keepdim, reduce, key_transform,
        )  # fmt: skip

    def var(
        self, dim: Any = NO_DEFAULT, keepdim: bool = NO_DEFAULT, *, correction: int = 1, reduce: bool | None = None,
        key_transform: Any = None,
    ) -> Any:  # fmt: skip
        """The variance of every tensor, over `dim`; divides by the number of elements less `correction`."""
        return self._reduce(
            lambda leaf, dims, keep: torch.var(leaf, dims, correction=correction, keepdim=keep),
            dim, keepdim, reduce, key_transform,
        )  # fmt: skip

    def amin(self, dim: Any = NO_DEFAULT, keepdim: bool = False, *, reduce: bool | None = None) -> Any:
        """The smallest element of every tensor, over `dim`."""
        return self._reduce(lambda leaf, dims, keep: torch.amin(leaf, dims or (), keep), dim, keepdim, reduce)

    def amax(self, dim: Any = NO_DEFAULT, keepdim: bool = False, *, reduce: bool | None = None) -> Any:
        """The largest element of every tensor, over `dim`."""
        return self._reduce(lambda leaf, dims, keep: torch.amax(leaf, dims or (), keep), dim, keepdim, reduce)

    def quantile(
        self, q: float | Tensor, dim: Any = NO_DEFAULT, keepdim: bool = NO_DEFAULT, *, interpolation: str = "linear",
        reduce: bool | None = None, key_transform: Any = None,
    ) -> Any:  # fmt: skip
        """Quantiles of every tensor; several of them come first in the shape of the entries, which has no batch then.

        Args:
            q: in [0, 1], or a tensor of such.
            dim: nothing for the whole tensor, one batch dimension, or "feature".
            keepdim: keep reduced dimensions with size 1.
            interpolation: "linear", "lower", "higher", "midpoint" or "nearest".
            reduce: True puts the tensors together first, along `dim`, and gives one tensor.
            key_transform: string -> string, for every part of the keys.
        """
        several = isinstance(q, Tensor) and q.ndim > 0

        def function(leaf: Tensor, dims: tuple[int, ...] | None, keep: bool) -> Tensor:
            if dims is not None and len(dims) > 1:
                moved = leaf.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims))
                result = torch.quantile(moved, q, -1, interpolation=interpolation)
                return result if not keep else _restored(result, dims, several)
            return torch.quantile(leaf, q, None if dims is None else dims[0], keep, interpolation=interpolation)

        result = self._reduce(function, dim, keepdim, reduce, key_transform)
        if several and not isinstance(result, Tensor):
            result.batch_size = []
            result.auto_batch_size_(1)
        return result

    def min(
        self, dim: Any = NO_DEFAULT, keepdim: bool = False, *, reduce: bool | None = None, return_indices: bool = True
    ) -> Any:
        """The smallest element of every tensor; along a batch dimension with its place.

        Args:
            dim: nothing for the whole tensor, one batch dimension, or "feature".
            keepdim: keep the reduced dimension with size 1.
            reduce: put the tensors together first, and give tensors.
            return_indices: along a dimension give (values, indices); otherwise the values alone.
        """
        return self._extremum(torch.min, torch.amin, dim, keepdim, reduce, return_indices)

    def max(
        self, dim: Any = NO_DEFAULT, keepdim: bool = False, *, reduce: bool | None = None, return_indices: bool = True
    ) -> Any:
        """The largest element of every tensor; along a batch dimension with its place.

        Args:
            dim: nothing for the whole tensor, one batch dimension, or "feature".
            keepdim: keep the reduced dimension with size 1.
            reduce: put the tensors together first, and give tensors.
            return_indices: along a dimension give (values, indices); otherwise the values alone.
        """
        return self._extremum(torch.max, torch.amax, dim, keepdim, reduce, return_indices)

    def _extremum(self, function: Any, whole: Any, dim: Any, keepdim: bool, reduce: Any, return_indices: bool) -> Any:
        if dim is NO_DEFAULT or dim is None or isinstance(dim, str):
            return self._reduce(lambda leaf, dims, keep: whole(leaf, dims or (), keep), dim, keepdim, reduce)
        (where,) = self._dims(dim)
        if reduce:
            result = function(torch.cat(self._leaves(), where), where, keepdim)
            return result if return_indices else result[0]
        return self._with_indices(
            lambda leaf: function(leaf, where, keepdim),
            lambda values: self._reduced_batch(lambda leaf, *_: next(values), (where,), keepdim),
            getattr(torch.return_types, function.__name__),
            return_indices,
        )

    def cummin(self, dim: int, *, reduce: bool | None = None, return_indices: bool = True) -> Any:
        """The smallest element so far along a batch dimension, and where it was.

        Args:
            dim: along which.
            reduce: True puts the tensors together first and gives tensors.
            return_indices: False gives the values alone.
        """
        return self._cumulated(torch.cummin, dim, reduce, return_indices)

    def cummax(self, dim: int, *, reduce: bool | None = None, return_indices: bool = True) -> Any:
        """The largest element so far along a batch dimension, and where it was; arguments as `cummin`."""
        return self._cumulated(torch.cummax, dim, reduce, return_indices)

    def _cumulated(self, function: Any, dim: int, reduce: bool | None, return_indices: bool) -> Any:
        where = self._dim(dim)
        if reduce:
            result = function(torch.cat(self._leaves(), where), where)
            return result if return_indices else result[0]
        return self._with_indices(
            lambda leaf: function(leaf, where),
            self._rebuild,
            getattr(torch.return_types, function.__name__),
            return_indices,
        )

    def _with_indices(self, function: Any, rebuild: Any, kind: Any, return_indices: bool) -> Any:
        pairs = [function(leaf) for leaf in self._leaves()]
        values = rebuild(iter([pair[0] for pair in pairs]))
        return kind((values, rebuild(iter([pair[1] for pair in pairs])))) if return_indices else values

    def softmax(self, dim: int, dtype: torch.dtype | None = None) -> Self:
        """`torch.softmax` of every tensor along a batch dimension."""
        dim = self._dim(dim)
        return self._rebuild(iter([torch.softmax(leaf, dim, dtype) for leaf in self._leaves()]))

    def logsumexp(self, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
        """`torch.logsumexp` of every tensor over batch dimensions, all of them by default.

        Args:
            dim: one or several.
            keepdim: keep them with size 1.
            out: takes the results.
        """
        dims = tuple(range(len(self.batch_size))) if dim is None else self._dims(dim)
        result = self._reduced_batch(lambda leaf, dims, keep: torch.logsumexp(leaf, dims, keep), dims, keepdim)
        return result if out is None else out.update(result, inplace=True)


def _over_features(function: Any, leaf: Tensor, ndim: int) -> Tensor:
    """A reduction of all dimensions after the batch's; where there is none, of the one number at each position."""
    leaf = leaf if leaf.ndim > ndim else leaf.unsqueeze(-1)
    return function(leaf, tuple(range(ndim, leaf.ndim)), False)


def _over(function: Any, leaf: Tensor, dims: tuple[int, ...] | None, keep: bool, *, dtype: Any) -> Tensor:
    if dims is None:
        return function(leaf, dtype=dtype)
    return function(leaf, dims, keep, dtype=dtype)


def one_by_one(function: Any, leaf: Tensor, dims: tuple[int, ...] | None, keep: bool) -> Tensor:
    """A reduction that takes one dimension at a time, over several or all."""
    if dims is None:
        return function(leaf.flatten(), 0)
    for one in sorted(dims, reverse=True):
        leaf = function(leaf, one)
    return leaf


def _restored(result: Tensor, dims: tuple[int, ...], several: bool) -> Tensor:
    for one in sorted(dims):
        result = result.unsqueeze(one + several)
    return result
