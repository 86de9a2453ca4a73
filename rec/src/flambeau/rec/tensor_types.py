"""Tensors of codes that are smaller than a byte: bytes inside, numbers of codes outside.

Tables of INT4 and INT2 hold two and four codes in each byte, the first in the lowest bits. Where a table is cut by
rows and columns, columns are codes and not bytes; these tensors count in codes, so that plans and state dictionaries
speak of columns of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError

__all__ = ["UInt2Tensor", "UInt4Tensor", "UIntXTensor", "down_size", "fill_defaults", "find_arg_of_type", "up_size"]

aten = torch.ops.aten


def down_size(N: int, size: torch.Size) -> tuple[int, ...]:
    """The shape of bytes with `N` codes in each.

    Args:
        N: codes in a byte.
        size: (..., codes).

    Returns:
        (..., codes / N).

    Raises:
        AssertionError: codes do not fill whole bytes; it is a ValueError too.
    """
    if size[-1] % N:
        raise OptionError(f"the last of {tuple(size)} is no multiple of {N}, expected codes that fill whole bytes.")
    return (*size[:-1], size[-1] // N)


def up_size(N: int, size: torch.Size) -> tuple[int, ...]:
    """The shape of codes of which each byte has `N`.

    Args:
        N: codes in a byte.
        size: (..., bytes).

    Returns:
        (..., bytes * N).
    """
    return (*size[:-1], size[-1] * N)


def fill_defaults(args: Sequence[Any], n: int, defaults_tail: Sequence[Any]) -> list[Any]:
    """Arguments of an operator with its defaults behind those that were given.

    Args:
        args: that were given.
        n: how many there are in all.
        defaults_tail: of the last arguments.

    Raises:
        RuntimeError: too few defaults for what was left out.
    """
    missing = n - len(args)
    if missing > len(defaults_tail):
        raise RuntimeError(
            f"{len(args)} of {n} arguments are given, and {len(defaults_tail)} have defaults; give more."
        )
    return [*args, *(defaults_tail[len(defaults_tail) - missing :] if missing > 0 else ())]


def find_arg_of_type(it: Iterable[Any], t: type) -> Any:
    """The first of some values that is of a type, or None."""
    return next((value for value in it if isinstance(value, t)), None)


class UIntXTensor(Tensor):
    """Codes of less than a byte.

    Shape, strides and slices count codes; `elem` has the bytes. What moves, copies, cuts or reshapes works; arithmetic
    does not, as codes without scale and bias are no numbers. `view(torch.uint8)` gives the bytes.

    Args:
        N: codes in a byte.
        elem: (..., bytes) uint8.

    Raises:
        AssertionError: other dtypes; it is a ValueError too.
    """

    N: int
    elem: Tensor
    __slots__: ClassVar[list[str]] = ["N", "elem"]

    @staticmethod
    def __new__(cls: type[UIntXTensor], N: int, elem: Tensor) -> UIntXTensor:
        """A tensor that shows codes of bytes."""
        if elem.dtype is not torch.uint8:
            raise OptionError(f"elem is {elem.dtype}, expected bytes (torch.uint8).")
        return Tensor._make_wrapper_subclass(
            cls, up_size(N, elem.shape), dtype=torch.uint8, device=elem.device, requires_grad=False
        )

    def __init__(self, N: int, elem: Tensor) -> None:
        self.N, self.elem = N, elem

    def _like(self, elem: Tensor) -> UIntXTensor:
        """Other bytes of the same kind of codes."""
        kind = type(self)
        return UIntXTensor(self.N, elem) if kind is UIntXTensor else kind(elem)  # type: ignore[call-arg, arg-type]

    def tolist(self) -> list[Any]:
        """The bytes."""
        return self.elem.tolist()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{type(self).__name__}(shape={self.shape}, elem={self.elem})"

    def __tensor_flatten__(self) -> tuple[list[str], dict[str, Any]]:
        return ["elem"], {"N": self.N}

    @classmethod
    def __tensor_unflatten__(
        cls, inner: dict[str, Tensor], context: dict[str, Any], size: Any, stride: Any
    ) -> UIntXTensor:
        return UIntXTensor(context["N"], inner["elem"]) if cls is UIntXTensor else cls(inner["elem"])  # type: ignore[call-arg, arg-type]

    def __reduce_ex__(self, proto: Any) -> Any:
        return (UIntXTensor, (self.N, self.elem)) if type(self) is UIntXTensor else (type(self), (self.elem,))

    def __deepcopy__(self, memo: dict[int, Any]) -> UIntXTensor:
        return self._like(self.elem.clone())

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Bytes in place of codes, by the operator's rule."""
        rule = _RULES.get(func)
        if rule is None:
            raise NotImplementedError(
                f"{func} of {cls.__name__}: its codes are no numbers. Take the bytes by `.view(torch.uint8)`."
            )
        return rule(func, *args, **(kwargs or {}))


class UInt4Tensor(UIntXTensor):
    """Two codes in each byte.

    Args:
        elem: (..., bytes) uint8.
    """

    @staticmethod
    def __new__(cls: type[UInt4Tensor], elem: Tensor) -> UInt4Tensor:
        """A tensor that shows codes of bytes."""
        return UIntXTensor.__new__(cls, 2, elem)  # type: ignore[return-value]

    def __init__(self, elem: Tensor) -> None:
        super().__init__(2, elem)


class UInt2Tensor(UIntXTensor):
    """Four codes in each byte.

    Args:
        elem: (..., bytes) uint8.
    """

    @staticmethod
    def __new__(cls: type[UInt2Tensor], elem: Tensor) -> UInt2Tensor:
        """A tensor that shows codes of bytes."""
        return UIntXTensor.__new__(cls, 4, elem)  # type: ignore[return-value]

    def __init__(self, elem: Tensor) -> None:
        super().__init__(4, elem)


# ----- rules ----------------------------------------------------------------------------------------------------------


def _bytes_of(tensor: Any) -> Any:
    return tensor.elem if isinstance(tensor, UIntXTensor) else tensor


def _same(func: Any, tensor: UIntXTensor, *args: Any, **kwargs: Any) -> UIntXTensor:
    """Operators that do to bytes what they do to codes."""
    return tensor._like(func(tensor.elem, *args, **kwargs))


def _converted(func: Any, tensor: UIntXTensor, **kwargs: Any) -> UIntXTensor:
    dtype = kwargs.get("dtype")
    if dtype not in (None, torch.uint8):
        raise NotImplementedError(f"codes cannot become {dtype}; take the bytes by `.view(torch.uint8)`.")
    return _same(func, tensor, **kwargs)


def _copied(func: Any, target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Codes from codes, and from or to a plain tensor of as many bytes."""
    _bytes_of(target).copy_(_bytes_of(source), non_blocking)
    return target


def _compared(func: Any, tensor: Tensor, other: Tensor) -> bool:
    return torch.equal(_bytes_of(tensor), _bytes_of(other))


def _sliced(
    func: Any, tensor: UIntXTensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> UIntXTensor:
    if dim not in (-1, tensor.dim() - 1):
        return _same(func, tensor, dim, start, end, step)
    size = tensor.shape[-1]
    first, last, _ = slice(start, end).indices(size)
    if step != 1 or first % tensor.N or last % tensor.N:
        raise OptionError(
            f"codes {first} to {last} in steps of {step} are no whole bytes; expected multiples of {tensor.N}."
        )
    return tensor._like(func(tensor.elem, dim, first // tensor.N, last // tensor.N, 1))


def _selected(func: Any, tensor: UIntXTensor, dim: int, index: int) -> UIntXTensor:
    if dim in (-1, tensor.dim() - 1):
        raise OptionError(f"one of {tensor.N} codes of a byte cannot be selected; take the bytes.")
    return _same(func, tensor, dim, index)


def _viewed(func: Any, tensor: UIntXTensor, size: Sequence[int]) -> UIntXTensor:
    wanted = list(size)
    if wanted[-1] != -1:
        wanted = list(down_size(tensor.N, torch.Size(wanted)))
    return tensor._like(func(tensor.elem, wanted))


def _as_bytes(func: Any, tensor: UIntXTensor, dtype: torch.dtype) -> Tensor:
    if dtype is not torch.uint8:
        raise NotImplementedError(f"codes cannot be seen as {dtype}, but as bytes (torch.uint8).")
    return tensor.elem


def _zeroed(func: Any, tensor: UIntXTensor) -> UIntXTensor:
    tensor.elem.zero_()
    return tensor


def _made(func: Any, tensor: UIntXTensor, *args: Any, **kwargs: Any) -> UIntXTensor:
    """A tensor like another one."""
    return _converted(func, tensor, **{name: value for name, value in kwargs.items() if name != "memory_format"})


_RULES: dict[Any, Callable[..., Any]] = {
    aten.detach.default: _same,
    aten.alias.default: _same,
    aten.clone.default: _same,
    aten.zero_.default: _zeroed,
    aten._to_copy.default: _converted,
    aten.copy_.default: _copied,
    aten.equal.default: _compared,
    aten.slice.Tensor: _sliced,
    aten.select.int: _selected,
    aten.view.default: _viewed,
    aten._unsafe_view.default: _viewed,
    aten.view.dtype: _as_bytes,
    aten.empty_like.default: _made,
    aten.zeros_like.default: _made,
}
