"""Trackers for modules of their own kinds."""

from __future__ import annotations

from flambeau.rec.distributed.model_tracker.trackers.raw_id_tracker import RawIdTracker

__all__ = ["RawIdTracker"]
