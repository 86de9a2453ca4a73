"""Copies of a table whose ids lie in different rows of each, brought to the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["merged_rows"]


@torch.no_grad()
def merged_rows(
    rows: Tensor,
    rank_to_global: Tensor,
    survived: Tensor,
    allreduce_fn: Callable[[dict[torch.dtype, list[Tensor]], str, Any], None],
    indices_slots: Tensor | None = None,
) -> None:
    """Average what is kept of each id over the copies that have it, in place, into the row that it has from now on.

    Args:
        rows: (rows here, ...): of this copy.
        rank_to_global: (rows here,) int64: the row of each row's id from now on; -1 for none.
        survived: (rows here,) bool: rows whose id has a row from now on.
        allreduce_fn: adds up, in place, tensors by their dtype over the copies; it is given them, a name for profiles,
            and options.
        indices_slots: (rows,): the only rows from now on to write; all by default.
    """
    wide = rows.view(rows.shape[0], -1)
    moved = survived & (rank_to_global >= 0)
    summed = torch.zeros_like(wide, dtype=torch.float32)
    counts = torch.zeros(rows.shape[0], 1, dtype=torch.float32, device=rows.device)
    summed.index_add_(0, rank_to_global[moved], wide[moved].float())
    counts.index_add_(0, rank_to_global[moved], torch.ones_like(counts[: int(moved.sum())]))
    options = dist.AllreduceCoalescedOptions()
    options.reduceOp = dist.ReduceOp.SUM  # type: ignore[assignment]
    allreduce_fn({torch.float32: [summed, counts]}, "## sync_hash_zch_weights ##", options)
    written = counts.view(-1) > 0
    if indices_slots is not None:
        asked = torch.zeros_like(written)
        asked[indices_slots] = True
        written &= asked
    wide[written] = (summed[written] / counts[written]).to(rows.dtype)
