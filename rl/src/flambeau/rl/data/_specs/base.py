"""`TensorSpec`: what all specs have in common."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Size, Tensor

from flambeau.rl.data._specs import shapes
from flambeau.rl.data._specs.boxes import Box
from flambeau.rl.data._specs.shapes import Change, as_size
from flambeau.rl.data._specs.text import listed

CHECK_ENCODE = "CHECK_SPEC_ENCODE"
"""Environment variable: where it is 1, what specs encode must be in them."""


def as_device(device: Any) -> torch.device:
    """A device; None is torch's default device."""
    return torch.get_default_device() if device is None else torch.device(device)


def as_dtype(dtype: Any) -> Any:
    """A dtype, which may be given by its name."""
    return getattr(torch, dtype) if isinstance(dtype, str) else dtype


def checks_encode() -> bool:
    """Whether what is encoded must be in the spec."""
    return os.environ.get(CHECK_ENCODE, "0") not in ("", "0", "False", "false")


class TensorSpec(ABC):
    """Which tensors may stand somewhere: their shape, dtype, device and values.

    Args:
        shape: of the tensors.
        space: the values, as a box; None where there is none.
        device: of the tensors; None for those that have none.
        dtype: of the tensors.
        domain: "continuous", "discrete" or "".
        _encode_memo_dict: what `encode` made of values earlier.

    Example:
        >>> from flambeau.rl.data import Bounded
        >>> Bounded(-1, 1, (2,)).project(torch.tensor([0.5, 3.0]))
        tensor([0.5000, 1.0000])
    """

    SPEC_HANDLED_FUNCTIONS: ClassVar[dict[Callable[..., Any], Callable[..., Any]]] = {}

    shape: Size
    space: Any
    dtype: Any
    domain: Any

    def __init__(
        self,
        shape: Any,
        space: Box | None,
        device: Any = None,
        dtype: torch.dtype | None = torch.float32,
        domain: str | None = "",
        _encode_memo_dict: dict[Any, Any] | None = None,
    ) -> None:
        self.shape = as_size(shape)
        self.space = space
        self._device = None if device is None else torch.device(device)
        self.dtype = dtype
        self.domain = domain
        self._encode_memo_dict = {} if _encode_memo_dict is None else _encode_memo_dict
        self._memoizes = False

    # What each class says of itself

    @abstractmethod
    def _changed(self, shape: Size, change: Change) -> Self:
        """A spec of another shape, whose tensors went through `change`."""

    @abstractmethod
    def to(self, dest: torch.dtype | torch.device | str | int) -> Any:
        """This spec with another dtype, or on another device."""

    @abstractmethod
    def clone(self) -> Self:
        """A spec that shares no tensors with this one."""

    @abstractmethod
    def rand(self, shape: Any = None) -> Any:
        """Random values of the spec.

        Args:
            shape: leading dimensions, before the spec's; default: none.
        """

    @abstractmethod
    def is_in(self, val: Any) -> Any:
        """Whether a value has the spec's dtype and shape, and all of it lies in its space.

        Args:
            val: a tensor; further leading dimensions are allowed.
        """

    @abstractmethod
    def _project(self, val: Any) -> Any:
        """A value of the spec near one that is none."""

    @abstractmethod
    def __eq__(self, other: object) -> Any:
        """Whether another spec is of the same class and allows the same values."""

    __hash__ = None  # type: ignore[assignment]  # masks can be set

    @abstractmethod
    def cardinality(self) -> Any:
        """How many values there are; infinity where they cannot be counted."""

    @abstractmethod
    def enumerate(self, use_mask: bool = False) -> Any:
        """All values, along a new first dimension.

        Args:
            use_mask: leave out what the mask forbids.

        Raises:
            NotImplementedError: there is no end of them.
        """

    @abstractmethod
    def index(self, index: Any, tensor_to_index: Any) -> Any:
        """Entries of a tensor along its last dimension, picked by a value of the spec.

        Args:
            index: a value of the spec.
            tensor_to_index: its last dimension has as many entries as the spec has values.

        Raises:
            NotImplementedError: values of the spec are no indices.
        """

    # Facts

    @property
    def device(self) -> Any:
        """The device of the spec's tensors."""
        return self._device

    @device.setter
    def device(self, device: Any) -> None:
        self._device = None if device is None else torch.device(device)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def ndimension(self) -> int:
        """Number of dimensions."""
        return self.ndim

    def clear_device_(self) -> Self:
        """Forget the device, for specs that can do without: only `Composite`."""
        return self

    def __ne__(self, other: object) -> bool:
        return not bool(self == other)

    def __repr__(self) -> str:
        return listed(type(self).__name__, self._fields())

    def _fields(self) -> dict[str, Any]:
        names = ("shape", "space", "device", "dtype", "domain")
        return {name: getattr(self, name) for name in names}

    # Values

    def sample(self, shape: Any = None) -> Any:
        """Random values of the spec, as `rand`."""
        return self.rand(shape)

    def zero(self, shape: Any = None) -> Any:
        """Zeros of the spec's shape, dtype and device, be they in its space or not.

        Args:
            shape: leading dimensions, before the spec's; default: none.
        """
        return torch.zeros(self._leading(shape), dtype=self.dtype, device=self.device)

    def zeros(self, shape: Any = None) -> Any:
        """Zeros, as `zero`."""
        return self.zero(shape)

    def one(self, shape: Any = None) -> Any:
        """Ones of the spec's shape, dtype and device, be they in its space or not.

        Args:
            shape: leading dimensions, before the spec's; default: none.
        """
        return torch.ones(self._leading(shape), dtype=self.dtype, device=self.device)

    def ones(self, shape: Any = None) -> Any:
        """Ones, as `one`."""
        return self.one(shape)

    def _leading(self, shape: Any) -> Size:
        # A size that is not fixed is 1 where a value is made up.
        return Size([*self._batch(shape), *(1 if size < 0 else size for size in self.shape)])

    def _batch(self, shape: Any) -> Size:
        if shape is None:
            return Size([])
        if isinstance(shape, int):
            raise TypeError(f"shape must be a sequence of sizes, such as ({shape},), not the number {shape}.")
        return Size(shape)

    def contains(self, item: Any) -> Any:
        """Whether a value is in the spec, as `is_in`."""
        return self.is_in(item)

    def assert_is_in(self, value: Any) -> None:
        """Raise unless a value is in the spec.

        Raises:
            AssertionError: it is not.
        """
        if not self.is_in(value):
            raise AssertionError(
                f"The value is not in the spec; `project` gives one that is. The value was {value}, the spec {self}."
            )

    def project(self, val: Any) -> Any:
        """A value itself if it is in the spec, else one near it that is."""
        return val if self.is_in(val) else self._project(val)

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise unless a value has the spec's dtype.

        Args:
            value: a tensor.
            key: where it stands, for the message.

        Raises:
            TypeError: it has another one.
        """
        if value.dtype is not self.dtype:
            named = "" if key is None else f" of {key!r}"
            raise TypeError(f"The dtype{named} is {value.dtype}, but {type(self).__name__} expects {self.dtype}.")

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """A tensor of the spec from a number, list, array or tensor.

        Args:
            val: its elements may be arranged otherwise, but must be as many as the spec's shape has.
            ignore_device: leave tensors where they are.

        Raises:
            RuntimeError: the value does not fit the shape.
            AssertionError: it is not in the spec, where the environment sets CHECK_SPEC_ENCODE=1.
        """
        if not self._memoizes:
            return self._encode(val, ignore_device=ignore_device)
        array = np.asarray(val.cpu() if isinstance(val, Tensor) else val)
        key = (array.dtype.str, array.shape, array.tobytes(), ignore_device)
        if key not in self._encode_memo_dict:
            self._encode_memo_dict[key] = self._encode(val, ignore_device=ignore_device)
        return self._encode_memo_dict[key]

    def memoize_encode(self, mode: bool = True) -> None:
        """Keep what `encode` returns, for envs with few different values; what is kept is handed out again."""
        self._memoizes = mode

    def erase_memoize_cache(self) -> None:
        """Forget what `encode` kept."""
        self._encode_memo_dict.clear()

    def _encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        value = self._tensor(val, ignore_device=ignore_device)
        if value.shape != self.shape:
            if value.numel() != self.shape.numel():
                raise RuntimeError(
                    f"Shape mismatch: a value of shape {tuple(value.shape)} does not fit into the spec's "
                    f"{tuple(self.shape)}."
                )
            value = value.reshape(self.shape)
        if checks_encode():
            self.assert_is_in(value)
        return value

    def _tensor(self, val: Any, *, ignore_device: bool = False) -> Tensor:
        """A value as a tensor of the spec's dtype."""
        device = None if ignore_device and isinstance(val, Tensor) else self.device
        if isinstance(val, (list, tuple)) and any(isinstance(each, (np.ndarray, np.generic)) for each in val):
            val = np.asarray(val)
        if isinstance(val, np.ndarray) and not val.flags.writeable:
            val = val.copy()
        return torch.as_tensor(val, dtype=self.dtype, device=device)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """A value as an array.

        Args:
            val: a value of the spec.
            safe: check that it is; default: only where the environment sets CHECK_SPEC_ENCODE=1.

        Raises:
            AssertionError: it was checked and is not in the spec.
        """
        self._check(val, safe)
        return val.detach().cpu().numpy()

    def _check(self, val: Any, safe: bool | None) -> None:
        if checks_encode() if safe is None else safe:
            self.assert_is_in(val)

    # Shapes

    def _changeable(self) -> Size:
        """The dimensions that operations on shapes may change: all but the last ones, which hold one value."""
        return self.shape

    def _fixed(self) -> Size:
        return Size(self.shape[len(self._changeable()) :])

    def _checked_dim(self, dim: int, extra: int = 0) -> int:
        """A dimension counted from the front, which must not be one of those that hold one value."""
        dim = shapes.dimension(dim, self.ndim + extra)
        if self._fixed() and dim >= len(self._changeable()) + extra:
            raise self._final()
        return dim

    def _final(self) -> ValueError:
        return ValueError(
            f"The final dimension of {type(self).__name__} must remain as it is: it holds one value; its shape is "
            f"{tuple(self.shape)}."
        )

    def _apply(self, changed: tuple[Size, Change]) -> Self:
        shape, change = changed
        return self._changed(Size([*shape, *self._fixed()]), change)

    def expand(self, *shape: Any) -> Self:
        """To a larger shape, which ends with the spec's own.

        Args:
            shape: sizes, or one sequence of them.

        Raises:
            ValueError: the last sizes are not the spec's.
        """
        target = as_size(shape)
        fixed = self._fixed()
        if len(fixed) and target[len(target) - len(fixed) :] != fixed:
            raise ValueError(
                f"A spec of shape {tuple(self.shape)} cannot be expanded to {tuple(target)}: the last {self.ndim} "
                "sizes must be its own."
            )
        return self._apply(shapes.expanded(self._changeable(), Size(target[: len(target) - len(fixed)])))

    def unsqueeze(self, dim: int) -> Self:
        """With a dimension of size 1 before `dim`.

        Raises:
            ValueError: there is no such place, or it is behind the dimension that holds one value.
        """
        dim = shapes.dimension(dim, self.ndim + 1)
        if self._fixed() and dim > len(self._changeable()):
            raise self._final()
        return self._apply(shapes.unsqueezed(self._changeable(), dim))

    def squeeze(self, dim: int | None = None) -> Self:
        """Without the dimension `dim`, if its size is 1; without all of those where it is None.

        Raises:
            IndexError: there is no such dimension.
        """
        if dim is None:
            spec = self
            for at in reversed(range(len(self._changeable()))):
                if spec.shape[at] == 1:
                    spec = spec.squeeze(at)
            return spec
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"Dimension out of range: the shape {tuple(self.shape)} has no dimension {dim}.")
        dim %= self.ndim
        return self if dim >= len(self._changeable()) else self._apply(shapes.squeezed(self._changeable(), dim))

    def flatten(self, start_dim: int, end_dim: int) -> Self:
        """With the dimensions from `start_dim` to `end_dim`, both included, as one."""
        return self._reshape(shapes.flattened(self.shape, start_dim, end_dim))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """With the dimension `dim` as several, of the given sizes."""
        return self._reshape(shapes.unflattened(self.shape, dim, sizes))

    def reshape(self, *shape: Any) -> Self:
        """With its elements arranged in another shape, in which one size may be -1."""
        return self._reshape(as_size(shape))

    def view(self, *shape: Any) -> Self:
        """With its elements arranged in another shape, as `reshape`."""
        return self._reshape(as_size(shape))

    def _reshape(self, shape: Size) -> Self:
        fixed = self._fixed()
        if fixed and (not shape or shape[-1] != fixed[-1]):
            raise self._final()
        return self._apply(shapes.reshaped(self._changeable(), Size(shape[: len(shape) - len(fixed)])))

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """One spec for each position along a dimension.

        Raises:
            IndexError: there is no such dimension.
            ValueError: it holds one value.
        """
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"Dimension out of range: a spec of shape {tuple(self.shape)} has no dimension {dim}.")
        if dim % self.ndim >= len(self._changeable()):
            raise self._final()
        return tuple(self._apply(each) for each in shapes.unbound(self._changeable(), dim % self.ndim))

    def __getitem__(self, idx: Any) -> Any:
        return self._apply(shapes.indexed(self._changeable(), idx))

    def make_neg_dim(self, dim: int) -> None:
        """Write -1 for the size of a dimension that is not fixed, in place.

        Raises:
            ValueError: there is no such dimension.
        """
        if not -self.ndim <= dim < self.ndim:
            raise ValueError(f"dim={dim} is out of bounds for a spec of {self.ndim} dimensions.")
        sizes = list(self.shape)
        sizes[dim] = -1
        self.shape = Size(sizes)

    # Devices

    def cpu(self) -> Any:
        """This spec on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Any:
        """This spec on a CUDA device.

        Args:
            device: number of the device; default: the current one.
        """
        return self.to("cuda" if device is None else f"cuda:{device}")

    # Functions of torch

    @classmethod
    def implements_for_spec(cls, torch_function: Callable[..., Any]) -> Callable[..., Any]:
        """A decorator: what a function of torch does with specs."""

        def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
            cls.SPEC_HANDLED_FUNCTIONS[torch_function] = implementation
            return implementation

        return register

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        implementation = cls.SPEC_HANDLED_FUNCTIONS.get(func)
        return NotImplemented if implementation is None else implementation(*args, **(kwargs or {}))


def ragged(values: Sequence[Tensor]) -> Tensor:
    """Tensors of different shapes as one nested tensor."""
    with warnings.catch_warnings():
        # torch warns of every first one; it is what upstream's specs give.
        warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors", category=UserWarning)
        return torch.nested.nested_tensor(list(values))


def same_place(mine: TensorSpec, its: TensorSpec) -> bool:
    """Whether two specs have the same shape, dtype, device and domain."""
    return (
        mine.shape == its.shape and mine.dtype == its.dtype and mine.device == its.device and mine.domain == its.domain
    )


def same_tensor(mine: Tensor | None, its: Tensor | None) -> bool:
    """Whether two tensors, or their absence, are the same."""
    if mine is None or its is None:
        return mine is its
    return mine.shape == its.shape and bool((mine == its).all())


def moved(device: Any, dtype: Any, dest: Any) -> tuple[torch.device, Any]:
    """Device and dtype after `to(dest)`."""
    if isinstance(dest, torch.dtype):
        return device, dest
    return torch.device(dest), dtype
