"""`TensorAttrs`: the device, dtype and shape that a tensor is meant to get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from flambeau.data.tensordict._tensorclass.base import TensorClass


class TensorAttrs(TensorClass):
    """Wishes for a tensor, carried where the tensor itself is not there yet."""

    tgt_device: Any = None
    tgt_dtype: Any = None
    tgt_shape: Any = None

    @classmethod
    def from_tensor(cls, tensor: Tensor, *, fields: Sequence[str] = ("device", "dtype", "shape")) -> TensorAttrs:
        """The attributes that a tensor has.

        Args:
            tensor: what is described.
            fields: which of `"device"`, `"dtype"` and `"shape"` to take; the others stay None.

        Raises:
            TypeError: `tensor` is no tensor.
            ValueError: a field has another name.
        """
        if not isinstance(tensor, Tensor):
            raise TypeError(f"tensor is of type {type(tensor).__name__}; expected a torch.Tensor.")
        wanted = (fields,) if isinstance(fields, str) else tuple(fields)
        if unknown := set(wanted) - {"device", "dtype", "shape"}:
            raise ValueError(f"fields holds {sorted(unknown)}; choose among 'device', 'dtype' and 'shape'.")
        return cls(**{f"tgt_{name}": getattr(tensor, name) for name in wanted}, batch_size=[])
