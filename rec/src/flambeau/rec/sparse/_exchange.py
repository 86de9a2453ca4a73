"""Sparse features on their way between processes: what is sent, and what arrived from several, put together.

What arrives is rank-major: for each process, for each key, the lengths (and the ids) of its examples. What is wanted is
key-major: for each key the examples of all processes, in the order of the processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.permute import sources
from flambeau.rec.sparse._keyed_rows import KeyedRows

__all__ = ["ExchangedRows", "from_exchanged"]


class ExchangedRows(KeyedRows):
    """Keyed rows as they are sent to other processes: tensors, and how many entries of each go where."""

    def dist_labels(self) -> list[str]:
        """What `dist_tensors` are."""
        strides = ["strides"] if self._strides is not None else []
        return ["lengths", "values", *strides, *([] if self._weights is None else ["weights"])]

    def dist_splits(self, key_splits: list[int]) -> list[list[int]]:
        """How many entries of each of `dist_tensors` go to each process.

        Args:
            key_splits: how many keys go to each.
        """
        values = _summed(self.length_per_key(), key_splits)
        strides = [list(key_splits)] if self._strides is not None else []
        return [
            _summed(self.stride_per_key(), key_splits),
            values,
            *strides,
            *([] if self._weights is None else [values]),
        ]

    def dist_tensors(self) -> list[Tensor]:
        """What is sent to other processes, and put together there by `dist_init`."""
        strides = []
        if self._strides is not None:
            strides.append(torch.tensor(self.stride_per_key(), device=self.device()))
        weights = [] if self._weights is None else [self._weights]
        return [self.lengths(), self._values, *strides, *weights]


def from_exchanged(
    keys: int,
    tensors: list[Tensor],
    variable: bool,
    workers: int,
    recat: Tensor | None,
    stride_per_rank: list[int] | None,
    stagger: int = 1,
) -> dict[str, Any]:
    """The arguments of a `KeyedJaggedTensor` besides its keys.

    Args:
        keys: how many there are.
        tensors: lengths, values, with `variable` the number of examples of each process and key, and weights if any.
        variable: whether each key has a batch of its own.
        workers: processes.
        recat: which (process, key) comes at each (key, process); None where the order is right as it is.
        stride_per_rank: examples of each process, where they are the same for all keys.
        stagger: the ranks arrived as `workers / stagger` groups of every `stagger`-th one.
    """
    lengths, values = tensors[0].view(-1), tensors[1]
    weights = tensors[2 + variable] if len(tensors) > 2 + variable else None
    if variable:
        sizes = tensors[2].view(workers, keys)
        strides = sizes.t()
        if stagger > 1:
            strides = strides[:, torch.arange(workers).view(stagger, -1).t().reshape(-1)]
        counts = sizes.reshape(-1)
        sizing: dict[str, Any] = {"stride_per_key_per_rank": strides.tolist()}
    else:
        per_rank = stride_per_rank or [0] * workers
        counts = torch.tensor(per_rank, device=lengths.device).repeat_interleave(keys)
        sizing = {"stride": sum(per_rank)}
    if recat is None or not recat.numel():
        return {"values": values, "weights": weights, "lengths": lengths, **sizing}
    if not variable and len(set(per_rank)) == 1 and per_rank[0] > 0:
        grouped = lengths.view(-1, per_rank[0])
        moved = OPS.permute_2D_sparse_data(recat, grouped, values, weights)
    else:
        # A row of lengths has as many entries as its process has examples: first its entries, then their values.
        rows = sources(recat, counts.to(lengths.device)).to(torch.int64)
        moved = OPS.permute_1D_sparse_data(rows, lengths, values, weights)
    new_lengths, values, weights = moved
    return {"values": values, "weights": weights, "lengths": new_lengths.reshape(-1), **sizing}


def _summed(counts: Sequence[int], groups: Sequence[int]) -> list[int]:
    sums, begin = [], 0
    for size in groups:
        sums.append(sum(counts[begin : begin + size]))
        begin += size
    return sums
