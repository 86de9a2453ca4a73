"""What trackers of changed rows keep, and how they are configured."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, unique

import torch

__all__ = [
    "DeltaTrackerConfig",
    "IndexedLookup",
    "ModelTrackerConfigs",
    "RawIdTrackerConfig",
    "RawIndexedLookup",
    "Trackers",
    "TrackingMode",
    "UniqueRows",
    "UpdateMode",
]


@dataclass
class IndexedLookup:
    """Rows of a table that a batch looked up.

    Args:
        batch_idx: number of the batch.
        ids: (L,), rows of the part of the table on this process.
        states: (L, ...), what was kept of each; None where rows only are tracked.
        compact: whether it stands for several batches, with each row once.
    """

    batch_idx: int
    ids: torch.Tensor
    states: torch.Tensor | None
    compact: bool = False


@dataclass
class RawIndexedLookup:
    """Rows of a table that a batch looked up, and the ids that were mapped to them.

    Args:
        batch_idx: number of the batch.
        ids: (L,), rows of the part of the table on this process.
        raw_ids: (L,), ids as they were before.
        runtime_meta: (L, ...), what came with the ids.
    """

    batch_idx: int
    ids: torch.Tensor
    raw_ids: torch.Tensor | None = None
    runtime_meta: torch.Tensor | None = None


@dataclass
class UniqueRows:
    """Rows of a table, each once.

    Args:
        ids: (rows,).
        states: (rows, ...), what was kept of each; None where rows only are tracked.
    """

    ids: torch.Tensor
    states: torch.Tensor | None


@unique
class Trackers(Enum):
    """Kinds of trackers."""

    DELTA_TRACKER = "delta_tracker"
    RAW_ID_TRACKER = "raw_id_tracker"


class TrackingMode(Enum):
    """What is kept of rows that batches looked up.

    `ID_ONLY`: nothing but which they are. `EMBEDDING`: the embedding before the first change, of sequences.
    `MOMENTUM_LAST`: what the kernel's optimizer kept at the last look-up. `MOMENTUM_DIFF`: by how much that has changed
    since the first one. `ROWWISE_ADAGRAD`: the same, of row-wise Adagrad.
    """

    ID_ONLY = "id_only"
    EMBEDDING = "embedding"
    MOMENTUM_LAST = "momentum_last"
    MOMENTUM_DIFF = "momentum_diff"
    ROWWISE_ADAGRAD = "rowwise_adagrad"


@unique
class UpdateMode(Enum):
    """Which state counts of a row that was looked up several times: none, the first one, or the last one."""

    NONE = "none"
    FIRST = "first"
    LAST = "last"


@dataclass
class DeltaTrackerConfig:
    """How a `ModelDeltaTracker` works.

    Args:
        tracking_mode: what is kept of rows.
        consumers: who asks for them, each for those since it asked last; one, called "default", where none is named.
        delete_on_read: whether rows are forgotten once all consumers were given them.
        auto_compact: whether rows of several batches are put together while results are exchanged, and not when they
            are asked for.
        fqns_to_skip: paths of tables, or of modules, that are not tracked.
    """

    tracking_mode: TrackingMode = TrackingMode.ID_ONLY
    consumers: list[str] | None = None
    delete_on_read: bool = True
    auto_compact: bool = False
    fqns_to_skip: list[str] = field(default_factory=list)


@dataclass
class RawIdTrackerConfig:
    """How a `RawIdTracker` works.

    Args:
        delete_on_read: whether ids are forgotten once they were given.
        fqns_to_skip: paths of modules that are not tracked.
    """

    delete_on_read: bool = True
    fqns_to_skip: list[str] = field(default_factory=list)


@dataclass
class ModelTrackerConfigs:
    """Trackers that a model begins with.

    Args:
        raw_id_tracker_config: of ids before they are mapped to rows.
    """

    raw_id_tracker_config: RawIdTrackerConfig | None = None
