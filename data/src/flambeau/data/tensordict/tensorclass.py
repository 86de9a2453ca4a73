"""Tensorclasses and non-tensor data: upstream's path of these names."""

from __future__ import annotations

from flambeau.data.tensordict._non_tensor.data import MetaData, NonTensorData, NonTensorDataBase
from flambeau.data.tensordict._non_tensor.stack import NonTensorStack
from flambeau.data.tensordict._tensorclass.base import TensorClass
from flambeau.data.tensordict._tensorclass.decorator import from_dataclass, tensorclass
from flambeau.data.tensordict._tensorclass.tensor_attrs import TensorAttrs
from flambeau.data.tensordict._tensorcollection import T, is_non_tensor

__all__ = [
    "MetaData",
    "NonTensorData",
    "NonTensorDataBase",
    "NonTensorStack",
    "T",
    "TensorAttrs",
    "TensorClass",
    "from_dataclass",
    "is_non_tensor",
    "tensorclass",
]
