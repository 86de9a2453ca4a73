"""Ids outside of their tables, found before they are sent to processes that could not say where they came from."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["Bound", "IdOutOfBoundsError", "within_bounds"]

logger = logging.getLogger("flambeau.rec.distributed")

_FATAL = (BoundsCheckMode.FATAL, BoundsCheckMode.V2_FATAL)
_WARNING = (BoundsCheckMode.WARNING, BoundsCheckMode.V2_WARNING)


class IdOutOfBoundsError(RuntimeError, IndexError):
    """An id that its table has no row for."""


@dataclass(frozen=True)
class Bound:
    """The table of a feature, and what becomes of ids that it has no row for.

    Args:
        table: its name.
        rows: how many it has.
        mode: None for an error on the CPU, and no check on an accelerator, which it would make wait.
    """

    table: str
    rows: int
    mode: BoundsCheckMode | None


def _here() -> str:
    return f" on process {dist.get_rank()}" if dist.is_initialized() else ""


def within_bounds(features: KeyedJaggedTensor, bounds: Sequence[Bound]) -> KeyedJaggedTensor:
    """Features whose ids all have a row.

    Args:
        features: of the local batch.
        bounds: of each key.

    Returns:
        The features; with ids replaced by 0 where a table's mode asks for that.

    Raises:
        IdOutOfBoundsError: an id without a row; the message says of which feature and table, and where.
    """
    values = features.values()
    if not values.numel() or (values.device.type != "cpu" and all(bound.mode is None for bound in bounds)):
        return features
    ends = features.offset_per_key()
    fixed: torch.Tensor | None = None
    for at, (key, bound) in enumerate(zip(features.keys(), bounds, strict=True)):
        unchecked = bound.mode == BoundsCheckMode.NONE or (bound.mode is None and values.device.type != "cpu")
        ids = values[ends[at] : ends[at + 1]]
        if unchecked or not ids.numel():
            continue
        low, high = torch.aminmax(ids)
        if int(low) >= 0 and int(high) < bound.rows:
            continue
        stray = (ids < 0) | (ids >= bound.rows)
        place = int(stray.nonzero()[0])
        found = (
            f"feature {key!r} has the id {int(ids[place])} at {place} of its {ids.numel()} ids{_here()}, expected 0 to "
            f"{bound.rows - 1}: table {bound.table!r} has {bound.rows} rows."
        )
        if bound.mode is None or bound.mode in _FATAL:
            raise IdOutOfBoundsError(f"{found} Correct the ids, or choose by bounds_check_mode what becomes of them.")
        if bound.mode in _WARNING:
            logger.warning("%s It and %d others became 0.", found, int(stray.sum()) - 1)
        if fixed is None:
            fixed = values.clone()
        fixed[ends[at] : ends[at + 1]].masked_fill_(stray, 0)
    if fixed is None:
        return features
    return features._with(fixed, features.weights_or_none(), features.lengths(), features.offsets_or_none())
