"""Where tables, features and optimizer states lie in memory, as lookups are told."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType

BY_ELEMENT = {
    EmbOptimType.EXACT_SGD: (),
    EmbOptimType.EXACT_ADAGRAD: (True,),
    EmbOptimType.EXACT_ROWWISE_ADAGRAD: (False,),
    EmbOptimType.ADAM: (True, True),
    EmbOptimType.PARTIAL_ROWWISE_ADAM: (True, False),
    EmbOptimType.LAMB: (True, True),
    EmbOptimType.PARTIAL_ROWWISE_LAMB: (True, False),
    EmbOptimType.LARS_SGD: (True,),
    EmbOptimType.ENSEMBLE_ROWWISE_ADAGRAD: (False, True),
    EmbOptimType.EMAINPLACE_ROWWISE_ADAGRAD: (False,),
    EmbOptimType.NONE: (),
}
"""Of each optimizer that trains here: whether its states hold a number for each element, or one for each row."""

STATE_NAMES = {
    EmbOptimType.EXACT_ADAGRAD: ("sum",),
    EmbOptimType.EXACT_ROWWISE_ADAGRAD: ("sum",),
    EmbOptimType.ADAM: ("exp_avg", "exp_avg_sq"),
    EmbOptimType.PARTIAL_ROWWISE_ADAM: ("exp_avg", "exp_avg_sq"),
    EmbOptimType.LAMB: ("exp_avg", "exp_avg_sq"),
    EmbOptimType.PARTIAL_ROWWISE_LAMB: ("exp_avg", "exp_avg_sq"),
    EmbOptimType.LARS_SGD: ("momentum_buffer",),
    EmbOptimType.ENSEMBLE_ROWWISE_ADAGRAD: ("sum", "sparse_ema"),
    EmbOptimType.EMAINPLACE_ROWWISE_ADAGRAD: ("sum",),
}
"""What `get_optimizer_state` calls them."""


class Layout:
    """Tables one after another in one tensor, and the features that read them.

    Args:
        shapes: (rows, columns) of each table.
        feature_table_map: the table of each feature, in any order.
        nobag: whether rows are given as they are, so that all are equally wide.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], feature_table_map: Sequence[int], *, nobag: bool) -> None:
        self.shapes = list(shapes)
        self.tables = list(feature_table_map)
        sizes, rows = [r * d for r, d in shapes], [r for r, _ in shapes]
        self.table_elements = [0, *accumulate(sizes)]
        self.table_rows = [0, *accumulate(rows)]
        widths = [shapes[table][1] for table in self.tables]
        ends = [0, *accumulate(widths)]
        self.total_width = max(widths, default=0) if nobag else ends[-1]
        self.column_ends = ends
        facts = [
            [self.table_elements[table], rows[table], shapes[table][1], self.table_rows[table], 0 if nobag else column]
            for table, column in zip(self.tables, ends, strict=False)
        ]
        self.tensor = torch.tensor(facts, dtype=torch.int64).reshape(-1, 5).t().contiguous()
        self.elements, self.rows = self.tensor[0].contiguous(), self.tensor[3].contiguous()
        self._starts: tuple[int, Tensor] | None = None

    def bag_starts(self, batch: int) -> Tensor:
        """(features + 1,): which bags are a feature's where all have so many; that of the last call is kept."""
        kept = self._starts
        if kept is None or kept[0] != batch:
            kept = self._starts = (batch, torch.arange(len(self.tables) + 1) * batch)
        return kept[1]

    def split(self, flat: Tensor, *, by_element: bool = True) -> list[Tensor]:
        """A view of each table, or of what an optimizer keeps of each."""
        if not by_element:
            return list(flat.split([rows for rows, _ in self.shapes]))
        parts = flat.split([rows * dim for rows, dim in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def new(self, dtype: torch.dtype, device: torch.device, *, by_element: bool = True) -> Tensor:
        """Zeros for all tables."""
        size = self.table_elements[-1] if by_element else self.table_rows[-1]
        return torch.zeros(size, dtype=dtype, device=device)


def places_by_rank(sizes: Sequence[Sequence[int]], widths: Sequence[int]) -> tuple[Tensor, int]:
    """Where in a flat output each bag begins, if that goes rank by rank, feature by feature, example by example.

    Args:
        sizes: examples of each feature, and of each rank.
        widths: of each feature.

    Returns:
        (bags,) int64, feature-major; and the size of the output.
    """
    starts = [[0] * len(ranks) for ranks in sizes]
    at = 0
    for rank in range(len(sizes[0]) if sizes else 0):
        for feature, width in enumerate(widths):
            starts[feature][rank] = at
            at += sizes[feature][rank] * width
    parts = [
        torch.arange(size) * width + start
        for ranks, first, width in zip(sizes, starts, widths, strict=True)
        for size, start in zip(ranks, first, strict=True)
    ]
    return (torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)), at


def elements_by_rank(sizes: Sequence[Sequence[int]], widths: Sequence[int], starts: Tensor) -> Tensor:
    """Where the numbers of a flat output go in a larger one.

    Args:
        sizes: examples of each feature, and of each rank.
        widths: of each feature.
        starts: (ranks, features) where those of each rank and feature begin there.

    Returns:
        (size of the output,) int64.
    """
    parts = [
        torch.arange(ranks[rank] * width, device=starts.device) + starts[rank, feature]
        for rank in range(starts.shape[0])
        for feature, (ranks, width) in enumerate(zip(sizes, widths, strict=True))
    ]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64, device=starts.device)
