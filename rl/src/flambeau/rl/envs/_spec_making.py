"""Specs from data."""

from __future__ import annotations

from typing import Any

from torch import Size

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.data.tensor_specs import Composite, NonTensor, Unbounded


def make_composite_from_td(data: Any, *, unsqueeze_null_shapes: bool = True, dynamic_shape: bool = False) -> Composite:
    """A composite of unbounded specs with the shapes, dtypes and devices of what is in a tensordict.

    Args:
        data: a tensordict.
        unsqueeze_null_shapes: tensors of shape () become specs of shape (1,).
        dynamic_shape: the last size of every spec is -1: not fixed.

    Example:
        >>> import torch
        >>> from flambeau.data.tensordict import TensorDict
        >>> spec = make_composite_from_td(TensorDict({"x": torch.zeros(3)}, []))
        >>> spec == Composite(x=Unbounded((3,)))
        True
    """
    specs: dict[str, Any] = {}
    for key, value in data.items():
        if type(value).__name__ in ("NonTensorData", "NonTensorStack", "MetaData"):
            example = value.data if type(value).__name__ != "NonTensorStack" else value.tolist()
            specs[key] = NonTensor(shape=value.shape, example_data=example, device=value.device)
        elif is_tensor_collection(value):
            specs[key] = make_composite_from_td(
                value, unsqueeze_null_shapes=unsqueeze_null_shapes, dynamic_shape=dynamic_shape
            )
        elif value is not None:
            shape = value.shape if value.shape or not unsqueeze_null_shapes else Size([1])
            if dynamic_shape and len(shape):
                shape = Size([*shape[:-1], -1])
            specs[key] = Unbounded(shape, dtype=value.dtype, device=value.device)
    return Composite(specs, shape=data.batch_size, names=data.names if any(data.names) else None)
