"""What every tensor collection is: the common root of `TensorDictBase`, tensorclasses and non-tensor data.

The core never asks for more than this protocol. Beside the public methods of `TensorDictBase` (`batch_size`, `keys`,
`get`, the shape operations, ...), which a collection has itself or forwards, it uses:

- `_is_non_tensor`: True for wrappers of arbitrary values; they are leaves that no arithmetic reaches.
- `_is_tensorclass`: True where named fields stand around a tensordict, `_is_lazy_stack` for a list of tensordicts.
- `_unwrap()`: for non-tensors, the raw value that `td[key]` gives back.
- `_with_item(index, value)`: for non-tensors, what becomes of the wrapper when `td[index] = other` writes a part of it.
- `_collect(leaves)` and `_rebuild(leaves)`: append all tensors below, in order; take as many from an iterator and make
  a collection of the same structure and batch size.
- `_apply_nest(call)`: see `_methods/apply.py`.
- `_lock_below(parent)`, `_check_unlock(parent)`, `_unlock_below(parent)`: see `_methods/locking.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

T = TypeVar("T", bound="TensorCollection")


class TensorCollection:
    """Anything that holds tensors under string keys and shares a batch size with them."""

    _is_non_tensor: ClassVar[bool] = False
    _is_tensorclass: ClassVar[bool] = False
    _is_lazy_stack: ClassVar[bool] = False

    def _unwrap(self) -> Any:
        """What `td[key]` gives for this entry."""
        return self


def is_tensor_collection(datatype: type | Any) -> bool:
    """Whether an object, or a class, is a tensor collection.

    Example:
        >>> import torch
        >>> is_tensor_collection(torch.zeros(1))
        False
    """
    return isinstance(datatype, TensorCollection) or (
        isinstance(datatype, type) and issubclass(datatype, TensorCollection)
    )


def is_non_tensor(data: Any) -> bool:
    """Whether an object, or a class, wraps a value that is no tensor (`NonTensorData`, `NonTensorStack`)."""
    return getattr(data if isinstance(data, type) else type(data), "_is_non_tensor", False)


def is_tensorclass(obj: type | Any) -> bool:
    """Whether an object, or a class, is a tensorclass."""
    return getattr(obj if isinstance(obj, type) else type(obj), "_is_tensorclass", False)
