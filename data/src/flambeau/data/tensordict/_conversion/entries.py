"""What becomes of a value when it is set: the one place where Python values turn into entries.

`convert` gives a tensor or a tensor collection for anything. Values that are neither, and that make no tensor, go to
`wrap_non_tensor`.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._td_functions import maybe_dense_stack
from flambeau.data.tensordict._tensorcollection import TensorCollection


def convert(value: Any, batch_size: torch.Size, device: torch.device | None) -> Tensor | TensorCollection:
    """The entry for a value.

    Tensors and collections stay what they are, on whatever device. Dicts become TensorDicts, numbers and numeric
    arrays and lists tensors; everything else is wrapped as non-tensor data.

    Args:
        value: anything.
        batch_size: of the tensordict that it is set in; new collections get it.
        device: of that tensordict, None for any.
    """
    if isinstance(value, (Tensor, TensorCollection)):
        return value
    if type(value) is dict:
        return classes.TensorDict(value, batch_size=batch_size, device=device)
    if isinstance(value, (bool, numbers.Real)) or (isinstance(value, np.generic) and _is_numeric(value.dtype)):
        return torch.as_tensor(value, device=device)
    if isinstance(value, dict):
        return classes.TensorDict(value, batch_size=batch_size, device=device)
    if isinstance(value, np.ndarray) and _is_numeric(value.dtype):
        return torch.as_tensor(value, device=device)
    if isinstance(value, (list, tuple)):
        return convert_sequence(value, batch_size, device)
    return wrap_non_tensor(value, batch_size, device)


def convert_sequence(value: Any, batch_size: torch.Size, device: torch.device | None) -> Tensor | TensorCollection:
    """The entry for a list or tuple: a tensor of what is numeric, a stack of tensordicts, or non-tensor data."""
    if value and all(isinstance(item, TensorCollection) and not item._is_non_tensor for item in value):
        return maybe_dense_stack(list(value))
    if is_numeric_sequence(value):
        try:
            if _holds_tensors(value):
                parts: list[Any] = [convert(item, batch_size, device) for item in value]
                return torch.stack(parts)
            return torch.as_tensor(value, device=device)
        except (ValueError, TypeError, RuntimeError):  # ragged: no tensor holds it
            pass
    return wrap_non_tensor(value, batch_size, device)


def is_numeric_sequence(value: Any) -> bool:
    """Whether a list or tuple holds, at any depth, numbers, numeric arrays and tensors alone."""
    for item in value:
        if isinstance(item, (list, tuple)):
            if not is_numeric_sequence(item):
                return False
        elif not (
            isinstance(item, (Tensor, bool, numbers.Real))
            or (isinstance(item, (np.ndarray, np.generic)) and _is_numeric(item.dtype))
        ):
            return False
    return True


def _holds_tensors(value: Any) -> bool:
    return any(isinstance(item, Tensor) or (isinstance(item, (list, tuple)) and _holds_tensors(item)) for item in value)


def _is_numeric(dtype: np.dtype) -> bool:
    return dtype.kind in "biufc"


def wrap_non_tensor(value: Any, batch_size: torch.Size, device: torch.device | None) -> TensorCollection:
    """Wrap a value that makes no tensor."""
    return classes.NonTensorData._from_value(value, batch_size, device)
