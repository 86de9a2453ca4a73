"""Sizes of rows in stores."""

from __future__ import annotations

from torch import Tensor

from flambeau.rec.fbgemm_gpu.split_embedding_configs import pad4

__all__ = ["ASSOC", "pad4", "tensor_pad4"]

ASSOC: int = 32
"""Rows of a set of the cache: `cache_sets` counts by it."""


def tensor_pad4(value: Tensor) -> Tensor:
    """The next multiples of 4."""
    return (value + 3) // 4 * 4
