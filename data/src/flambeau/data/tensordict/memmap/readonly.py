"""Memory-mapped tensors that must not be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

from flambeau.data.tensordict.memmap.errors import ReadOnlyError
from flambeau.data.tensordict.memmap.tensor import MemoryMappedTensor

# What makes every other in-place function of torch recognizable is the underscore at its end.
_IN_PLACE = {"__setitem__", "__set__", "resize_", "set_", "copy_"}
_NO_WRITE = {"requires_grad_", "detach_", "retain_grad", "share_memory_", "squeeze_", "unsqueeze_", "transpose_", "t_"}


class ReadOnly(MemoryMappedTensor):
    """Maps a file that must not change: in-place writes raise, and so do writes to its views.

    The pages are mapped copy-on-write, so that even a write that goes around torch's functions reaches private memory,
    and neither the file nor the address space's end.
    """

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if _writes(name) and args and _is_read_only(args[0]):
            raise _read_only(_first(args[0]), name)
        if "out" in kwargs and _is_read_only(kwargs["out"]):
            raise _read_only(_first(kwargs["out"]), name)
        source = next((part for part in args if isinstance(part, ReadOnly)), None)
        with DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        if name == "numpy" and source is not None:
            result.setflags(write=False)
        if source is None:
            return result
        if type(result) is Tensor:
            return source._like(result)
        if isinstance(result, (tuple, list)):
            return (
                type(result)(source._like(part) if type(part) is Tensor else part for part in result)
                if type(result) in (tuple, list)
                else result
            )
        return result


ReadOnly.__name__ = ReadOnly.__qualname__ = "MemoryMappedTensor"
MemoryMappedTensor._read_only_class = ReadOnly


def _writes(name: str) -> bool:
    if name in _IN_PLACE or (
        name.startswith("__i") and name.endswith("__") and name not in ("__invert__", "__int__", "__index__")
    ):
        return True
    return name.endswith("_") and not name.endswith("__") and name not in _NO_WRITE


def _is_read_only(value: Any) -> bool:
    return isinstance(value, ReadOnly) or (isinstance(value, (list, tuple)) and any(map(_is_read_only, value)))


def _first(value: Any) -> ReadOnly:
    return value if isinstance(value, ReadOnly) else next(part for part in value if isinstance(part, ReadOnly))


def _read_only(tensor: ReadOnly, name: str) -> ReadOnlyError:
    return ReadOnlyError(
        f"{name} would write to {tensor._filename}, which is mapped for reading only. Work on a clone(), load with "
        'mode="c" to write to private copies of pages, or with mode="r+" where the file itself may change.'
    )
