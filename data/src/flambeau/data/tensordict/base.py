"""`TensorDictBase`: what all kinds of tensordicts share.

The methods come in families, a module each. A concrete class brings the primitives that `_access_methods.py` lists and
`batch_size`, `device`, `names`; every family is written on top of these, and overridden where a class can do better.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, TypeVar

import torch

from flambeau.data.tensordict._access_methods import AccessMethods
from flambeau.data.tensordict._alignment import AlignmentMethods
from flambeau.data.tensordict._apply_methods import ApplyMethods
from flambeau.data.tensordict._autograd_methods import AutogradMethods
from flambeau.data.tensordict._comparison_methods import ComparisonMethods
from flambeau.data.tensordict._context_methods import ContextMethods
from flambeau.data.tensordict._conversion_methods import ConversionMethods
from flambeau.data.tensordict._copy_methods import CopyMethods
from flambeau.data.tensordict._defaults import BEST_ATTEMPT_INPLACE as BEST_ATTEMPT_INPLACE
from flambeau.data.tensordict._defaults import NO_DEFAULT as NO_DEFAULT
from flambeau.data.tensordict._defaults import get_defaults_to_none as get_defaults_to_none
from flambeau.data.tensordict._defaults import set_get_defaults_to_none as set_get_defaults_to_none
from flambeau.data.tensordict._device_methods import DeviceMethods
from flambeau.data.tensordict._distributed_methods import DistributedMethods
from flambeau.data.tensordict._forms_methods import FormMethods
from flambeau.data.tensordict._lock_methods import LockMethods
from flambeau.data.tensordict._map_methods import MapMethods
from flambeau.data.tensordict._mask_methods import MaskMethods
from flambeau.data.tensordict._memmap_methods import MemmapMethods
from flambeau.data.tensordict._module_methods import ModuleMethods
from flambeau.data.tensordict._names_methods import NamesMethods
from flambeau.data.tensordict._new_methods import NewMethods
from flambeau.data.tensordict._nontensor_methods import NonTensorMethods
from flambeau.data.tensordict._pointwise_methods import PointwiseMethods
from flambeau.data.tensordict._properties import PropertyMethods
from flambeau.data.tensordict._reduction_methods import ReductionMethods
from flambeau.data.tensordict._shape_methods import ShapeMethods
from flambeau.data.tensordict._split_methods import SplitMethods
from flambeau.data.tensordict._state_methods import StateMethods
from flambeau.data.tensordict._structure_methods import StructureMethods
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._tensorcollection import is_tensor_collection as is_tensor_collection
from flambeau.data.tensordict._torch_func import call_torch_function
from flambeau.data.tensordict._update_methods import UpdateMethods

T = TypeVar("T", bound="TensorDictBase")


class TensorDictBase(
    AccessMethods,
    UpdateMethods,
    StructureMethods,
    CopyMethods,
    ApplyMethods,
    ShapeMethods,
    SplitMethods,
    MaskMethods,
    AlignmentMethods,
    PointwiseMethods,
    ComparisonMethods,
    ReductionMethods,
    DeviceMethods,
    AutogradMethods,
    StateMethods,
    NewMethods,
    ModuleMethods,
    MapMethods,
    FormMethods,
    LockMethods,
    ContextMethods,
    NamesMethods,
    PropertyMethods,
    MemmapMethods,
    NonTensorMethods,
    ConversionMethods,
    DistributedMethods,
    TensorCollection,
):
    """The root of `TensorDict`, `LazyStackedTensorDict`, `PersistentTensorDict` and `TensorDictParams`."""

    __hash__ = object.__hash__

    @property
    def batch_size(self) -> torch.Size:
        """The dimensions that all entries share. A concrete class says what they are."""
        raise AttributeError(f"{type(self).__name__} defines no batch_size.")

    @property
    def device(self) -> torch.device | None:
        """Where all entries live; None where each may live anywhere. A concrete class says where."""
        raise AttributeError(f"{type(self).__name__} defines no device.")

    def __iter__(self) -> Iterator[Any]:
        """Over the first batch dimension, not over the keys.

        Raises:
            StopIteration: there is no batch dimension.
        """
        if not self.batch_size:
            return iter(())
        return iter(self.unbind(0))

    def __len__(self) -> int:
        """The size of the first batch dimension, 0 where there is none."""
        return self.batch_size[0] if self.batch_size else 0

    def __bool__(self) -> bool:
        raise RuntimeError("a tensordict has no truth value; use is_empty(), or all() and any() of its entries.")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Functions of torch that know tensordicts, see `_torch_func.py`; TypeError for the others."""
        return call_torch_function(func, types, args, kwargs or {})


# Not a base class: its metaclass makes every isinstance slower.
MutableMapping.register(TensorDictBase)


def _default_is_leaf(cls: type) -> bool:
    """Whether entries of a class are leaves: whether it is no collection."""
    return not issubclass(cls, TensorCollection)


def _is_leaf_nontensor(cls: type) -> bool:
    """As the default, but non-tensor data are leaves too."""
    return not issubclass(cls, TensorCollection) or cls._is_non_tensor


default_is_leaf = _default_is_leaf
is_leaf_nontensor = _is_leaf_nontensor

from flambeau.data.tensordict._base.factories import *  # noqa: E402, F403  upstream's path of these functions
