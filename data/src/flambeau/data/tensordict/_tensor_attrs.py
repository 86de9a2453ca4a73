"""`TensorAttrs`: the device, dtype and shape that a tensor is meant to get."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict._tensorclass import TensorClass


class TensorAttrs(TensorClass):
    """Wishes for a tensor, carried where the tensor itself is not there yet."""

    tgt_device: Any = None
    tgt_dtype: Any = None
    tgt_shape: Any = None
