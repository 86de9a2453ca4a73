"""Transforms along time."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2._transform import Transform


class UniformTemporalSubsample(Transform):
    """Take frames of a video at equal distances, the first and the last among them.

    Args:
        num_samples: how many.

    PIL images and other tensor types of the same sample come back as they are.
    """

    _transformed_types = (Tensor,)

    def __init__(self, num_samples: int) -> None:
        super().__init__()
        self.num_samples = num_samples

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Choose the frames of one leaf."""
        return self._call_kernel(F.uniform_temporal_subsample, inpt, self.num_samples)
