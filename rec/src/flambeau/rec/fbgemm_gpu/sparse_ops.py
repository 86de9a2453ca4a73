"""Operators that upstream has Python functions for; importing it registers all operators on sparse data."""

from __future__ import annotations

from torch import Tensor

from flambeau.rec.ops.calibration import generic_histogram_binning_calibration_by_feature
from flambeau.rec.ops.exchange import all_to_one_device, merge_pooled_embeddings, sum_reduce_to_one
from flambeau.rec.ops.ranges import get_source_mask, repeat_arange

__all__ = [
    "all_to_one_device",
    "check_all_same_device",
    "generic_histogram_binning_calibration_by_feature",
    "get_source_mask",
    "merge_pooled_embeddings",
    "repeat_arange",
    "sum_reduce_to_one",
]


def check_all_same_device(*tensors: Tensor | None) -> None:
    """Refuse tensors of different devices.

    Raises:
        RuntimeError: they are on different devices.
    """
    devices = {one.device for one in tensors if one is not None}
    if len(devices) > 1:
        raise RuntimeError(f"tensors are on {sorted(map(str, devices))}, expected one device; move them.")
