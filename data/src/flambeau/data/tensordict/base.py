"""`TensorDictBase`: what all kinds of tensordicts share.

The methods come in families, a module each. A concrete class brings the primitives that `_methods/access.py` lists and
`batch_size`, `device`, `names`; every family is written on top of these, and overridden where a class can do better.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, TypeVar

import torch
from torch.utils.data._utils.collate import default_collate_fn_map

from flambeau.data.tensordict._base.factories import *  # noqa: F403  upstream's path of these functions
from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.alignment import AlignmentMethods
from flambeau.data.tensordict._layout.defaults import BEST_ATTEMPT_INPLACE as BEST_ATTEMPT_INPLACE
from flambeau.data.tensordict._layout.defaults import NO_DEFAULT as NO_DEFAULT
from flambeau.data.tensordict._layout.defaults import get_defaults_to_none as get_defaults_to_none
from flambeau.data.tensordict._layout.defaults import set_get_defaults_to_none as set_get_defaults_to_none
from flambeau.data.tensordict._layout.sizes import refuse_device
from flambeau.data.tensordict._methods.access import AccessMethods
from flambeau.data.tensordict._methods.apply import ApplyMethods
from flambeau.data.tensordict._methods.autograd import AutogradMethods
from flambeau.data.tensordict._methods.comparison import ComparisonMethods
from flambeau.data.tensordict._methods.context import ContextMethods
from flambeau.data.tensordict._methods.conversion import ConversionMethods
from flambeau.data.tensordict._methods.copy import CopyMethods
from flambeau.data.tensordict._methods.creation import NewMethods
from flambeau.data.tensordict._methods.device import DeviceMethods
from flambeau.data.tensordict._methods.distributed import DistributedMethods
from flambeau.data.tensordict._methods.forms import FormMethods
from flambeau.data.tensordict._methods.locking import LockMethods
from flambeau.data.tensordict._methods.map import MapMethods
from flambeau.data.tensordict._methods.mask import MaskMethods
from flambeau.data.tensordict._methods.memmap import MemmapMethods
from flambeau.data.tensordict._methods.module import ModuleMethods
from flambeau.data.tensordict._methods.names import NamesMethods
from flambeau.data.tensordict._methods.non_tensor import NonTensorMethods
from flambeau.data.tensordict._methods.pointwise import PointwiseMethods
from flambeau.data.tensordict._methods.properties import PropertyMethods
from flambeau.data.tensordict._methods.reduction import ReductionMethods
from flambeau.data.tensordict._methods.shape import ShapeMethods
from flambeau.data.tensordict._methods.split import SplitMethods
from flambeau.data.tensordict._methods.state import StateMethods
from flambeau.data.tensordict._methods.structure import StructureMethods
from flambeau.data.tensordict._methods.update import UpdateMethods
from flambeau.data.tensordict._methods.vmap import VmapMethods
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._tensorcollection import is_tensor_collection as is_tensor_collection
from flambeau.data.tensordict._torch_func import call_torch_function, cat_tensordicts, stack_tensordicts

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
    VmapMethods,
    TensorCollection,
):
    """The root of `TensorDict`, `LazyStackedTensorDict`, `PersistentTensorDict` and `TensorDictParams`."""

    __hash__ = object.__hash__

    @property
    def batch_size(self) -> torch.Size:
        """The dimensions that all entries share. A concrete class says what they are."""
        raise AttributeError(f"{type(self).__name__} defines no batch_size.")

    @batch_size.setter
    def batch_size(self, new_size: Any) -> None:
        raise AttributeError(f"{type(self).__name__} sets no batch_size.")

    @property
    def device(self) -> torch.device | None:
        """Where all entries live; None where each may live anywhere. A concrete class says where."""
        raise AttributeError(f"{type(self).__name__} defines no device.")

    @device.setter
    def device(self, device: Any) -> None:
        refuse_device(device)

    @classmethod
    def _result(
        cls,
        entries: dict[str, Any],
        batch_size: torch.Size,
        device: torch.device | None = None,
        names: list[str | None] | None = None,
    ) -> Any:
        """What an operation gives, around entries that fit and are given away: a TensorDict, unless a class differs."""
        return classes.make_td(entries, batch_size, device, names)

    _combine_rank = 0  # of the classes that are combined, the one of the highest rank says what comes out

    @classmethod
    def _stack_of(cls, tds: list[Any], dim: int, out: Any) -> Any:
        return stack_tensordicts(tds, dim, out)

    @classmethod
    def _cat_of(cls, tds: list[Any], dim: int, out: Any) -> Any:
        return cat_tensordicts(tds, dim, out)

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


def _collate(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """What torch's `default_collate` makes of tensordicts: a stack; a batch of `__getitems__` is one already."""
    return batch if isinstance(batch, TensorCollection) else torch.stack(list(batch))


default_collate_fn_map[TensorCollection] = _collate


def _default_is_leaf(cls: type) -> bool:
    """Whether entries of a class are leaves: whether it is no collection."""
    return not issubclass(cls, TensorCollection)


def _is_leaf_nontensor(cls: type) -> bool:
    """As the default, but non-tensor data are leaves too."""
    return not issubclass(cls, TensorCollection) or cls._is_non_tensor


default_is_leaf = _default_is_leaf
is_leaf_nontensor = _is_leaf_nontensor
