"""Trackers of the rows of tables that training changes, for those who publish or save only these."""

from __future__ import annotations

from flambeau.rec.distributed.model_tracker.delta_store import DeltaStore
from flambeau.rec.distributed.model_tracker.model_delta_tracker import SUPPORTED_MODULES, ModelDeltaTracker
from flambeau.rec.distributed.model_tracker.types import (
    IndexedLookup,
    ModelTrackerConfigs,
    Trackers,
    TrackingMode,
    UniqueRows,
    UpdateMode,
)

__all__ = [
    "SUPPORTED_MODULES",
    "DeltaStore",
    "IndexedLookup",
    "ModelDeltaTracker",
    "ModelTrackerConfigs",
    "Trackers",
    "TrackingMode",
    "UniqueRows",
    "UpdateMode",
]
