"""Upstream's path of `fullsync` and of what it raises when other ranks are too late."""

from flambeau.data.datapipes.iter.fullsync import FullSyncIterDataPipe, PrefetchTimeoutError

__all__ = ["FullSyncIterDataPipe", "PrefetchTimeoutError"]
