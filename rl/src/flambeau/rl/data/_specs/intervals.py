"""Specs of numbers in an interval, and of all numbers."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import torch
from torch import Size, Tensor

from flambeau.rl.data._specs.base import TensorSpec, as_device, as_dtype, moved, same_place
from flambeau.rl.data._specs.boxes import ContinuousBox
from flambeau.rl.data._specs.shapes import Change, as_size, known

_ONE = Size([1])
_MOVED = {"minimum": "low", "maximum": "high"}


def _domain(dtype: torch.dtype, domain: str | None) -> str:
    return domain or ("continuous" if dtype.is_floating_point else "discrete")


class _Interval(TensorSpec):
    """Numbers between two limits: the part that bounded and unbounded specs share."""

    space: ContinuousBox

    def cardinality(self) -> float:
        """Infinity."""
        return math.inf

    def enumerate(self, use_mask: bool = False) -> Any:
        """Impossible: the values are taken for continuous.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"The values of a {type(self).__name__} spec have no end and cannot be listed.")

    def index(self, index: Any, tensor_to_index: Any) -> Any:
        """Impossible: the values are no indices.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"Values of {type(self).__name__} are no indices; use Categorical or OneHot.")


class Bounded(_Interval):
    """Numbers between a lowest and a highest one, both included.

    `Bounded(...)` is a `BoundedContinuous` for floating-point dtypes, else a `BoundedDiscrete`.

    Args:
        low: the lowest values: a number, or a tensor of the spec's shape.
        high: the highest values, alike.
        shape: of the spec; default: that of `low` or `high`.
        device: default: torch's default device.
        dtype: default: float32.
        domain: "continuous" or "discrete"; default: by the dtype.

    Raises:
        RuntimeError: the shape is not given, or another one than the limits'.
        TypeError: an argument is unknown, or has its former name.

    Example:
        >>> Bounded(low=-1, high=1, shape=(3,)).is_in(torch.tensor([0.0, 1.0, 2.0]))
        tensor(False)
    """

    CONFLICTING_KWARGS = "{} and {} were both given, and mean the same limit; give one."

    def __init__(
        self,
        low: float | Tensor | np.ndarray[Any, Any] | None = None,
        high: float | Tensor | np.ndarray[Any, Any] | None = None,
        shape: Any = None,
        device: Any = None,
        dtype: torch.dtype | str | None = None,
        **kwargs: Any,
    ) -> None:
        domain = kwargs.pop("domain", None)
        for name in kwargs:
            if name in _MOVED:
                raise TypeError(f"{name!r} has been removed. Use {_MOVED[name]!r} instead.")
            raise TypeError(f"Bounded has no argument {name!r}; it has low, high, shape, device, dtype and domain.")
        if low is None or high is None:
            raise TypeError("Bounded needs `low` and `high`; `Unbounded` has neither.")
        dtype = torch.get_default_dtype() if dtype is None else as_dtype(dtype)
        device = as_device(device)
        low, high = (torch.as_tensor(limit, dtype=dtype, device=device) for limit in (low, high))
        size = _common_shape(low, high, shape)
        domain = _domain(dtype, domain)
        space = ContinuousBox(low.expand(known(size)).contiguous(), high.expand(known(size)).contiguous())
        super().__init__(size, space, device, dtype, domain)
        if type(self) in (Bounded, BoundedContinuous, BoundedDiscrete):
            self.__class__ = BoundedContinuous if domain == "continuous" else BoundedDiscrete

    def __eq__(self, other: object) -> Any:
        return (
            isinstance(other, Bounded)
            and type(other) is type(self)
            and same_place(self, other)
            and self.space == other.space
        )

    @property
    def low(self) -> Tensor:
        """The lowest values."""
        return self.space.low

    @property
    def high(self) -> Tensor:
        """The highest values."""
        return self.space.high

    def _like(self, low: Tensor, high: Tensor, shape: Size, device: Any, dtype: Any, domain: str | None) -> Self:
        spec: Self = Bounded(low, high, shape, device, dtype, domain=domain)  # type: ignore[assignment]
        if type(self) not in (BoundedContinuous, BoundedDiscrete):
            spec.__class__ = type(self)
        return spec

    def _changed(self, shape: Size, change: Change) -> Self:
        return self._like(change(self.low), change(self.high), shape, self.device, self.dtype, self.domain)

    def clone(self) -> Self:
        """A spec with limits of its own."""
        return self._changed(self.shape, torch.clone)

    def to(self, dest: torch.dtype | torch.device | str | int) -> Self:
        """With limits of another dtype, or on another device."""
        device, dtype = moved(self.device, self.dtype, dest)
        if (device, dtype) == (self.device, self.dtype):
            return self
        domain = self.domain if dtype == self.dtype else None
        return self._like(self.low.to(device), self.high.to(device), self.shape, device, dtype, domain)

    def rand(self, shape: Any = None) -> Tensor:
        """Values drawn uniformly between the limits; whole numbers with the highest one included."""
        size = self._leading(shape)
        low, high = self.space
        if self.dtype.is_floating_point:
            drawn = torch.empty(size, dtype=self.dtype, device=self.device).uniform_()
            # In exact arithmetic the sum is within the limits, rounded it may be not.
            return (drawn * (high - low) + low).minimum(high).maximum(low)
        wide = torch.float64 if self.dtype.itemsize > 2 else torch.float32
        drawn = torch.empty(size, dtype=wide, device=self.device).uniform_()
        low_, high_ = low.to(wide), high.to(wide)
        return (drawn * (high_ - low_ + 1) + low_).floor().minimum(high_).maximum(low_).to(self.dtype)

    def is_in(self, val: Tensor) -> Any:
        """Whether a tensor has the spec's dtype, and all of it lies between the limits.

        Args:
            val: of the spec's shape; further leading dimensions are allowed.
        """
        if val.dtype != self.dtype:
            return False
        low, high = self.space
        return ((val >= low) & (val <= high)).all()

    def _project(self, val: Tensor) -> Tensor:
        low, high = self.space
        return torch.maximum(torch.minimum(val, high.to(val.dtype)), low.to(val.dtype))


class BoundedContinuous(Bounded):
    """`Bounded` whose values are taken for continuous.

    Args:
        low: as in `Bounded`.
        high: as in `Bounded`.
        shape: as in `Bounded`.
        device: as in `Bounded`.
        dtype: as in `Bounded`.
        domain: as in `Bounded`.
    """

    def __init__(
        self,
        low: float | Tensor | np.ndarray[Any, Any] | None = None,
        high: float | Tensor | np.ndarray[Any, Any] | None = None,
        shape: Any = None,
        device: Any = None,
        dtype: torch.dtype | str | None = None,
        domain: str = "continuous",
    ) -> None:
        super().__init__(low, high, shape, device, dtype, domain=domain)


class BoundedDiscrete(Bounded):
    """`Bounded` whose values are taken for discrete.

    Args:
        low: as in `Bounded`.
        high: as in `Bounded`.
        shape: as in `Bounded`.
        device: as in `Bounded`.
        dtype: as in `Bounded`.
        domain: as in `Bounded`.
    """

    def __init__(
        self,
        low: float | Tensor | np.ndarray[Any, Any] | None = None,
        high: float | Tensor | np.ndarray[Any, Any] | None = None,
        shape: Any = None,
        device: Any = None,
        dtype: torch.dtype | str | None = None,
        domain: str = "discrete",
    ) -> None:
        super().__init__(low, high, shape, device, dtype, domain=domain)


def _common_shape(low: Tensor, high: Tensor, shape: Any) -> Size:
    """The spec's shape: that of the limits which have one, and the one given."""
    given = [limit.shape for limit in (low, high) if limit.ndim]
    if shape is not None:
        given.append(as_size(shape))
    if not given:
        raise RuntimeError("Bounded has no shape: give `shape`, or tensors of that shape as `low` or `high`.")
    if any(known(each) != known(given[0]) for each in given):
        raise RuntimeError(
            f"Bounded has several shapes: low is {tuple(low.shape)}, high {tuple(high.shape)}, shape {shape}. Limits "
            "are numbers, or tensors of the spec's shape."
        )
    return given[-1]


class Unbounded(_Interval):
    """All numbers of a dtype.

    `Unbounded(...)` is an `UnboundedContinuous` for floating-point dtypes, else an `UnboundedDiscrete`.

    Args:
        shape: of the spec.
        device: default: torch's default device.
        dtype: default: float32.
        domain: "continuous" or "discrete"; default: by the dtype.

    Example:
        >>> Unbounded((2,)).zero()
        tensor([0., 0.])
    """

    def __init__(
        self, shape: Any = _ONE, device: Any = None, dtype: torch.dtype | str | None = None, **kwargs: Any
    ) -> None:
        domain = kwargs.pop("domain", None)
        if kwargs:
            raise TypeError(
                f"Unbounded has no argument {next(iter(kwargs))!r}; it has shape, device, dtype and domain."
            )
        dtype = torch.get_default_dtype() if dtype is None else as_dtype(dtype)
        device, size = as_device(device), as_size(shape)
        domain = _domain(dtype, domain)
        self._space: ContinuousBox | None = None
        super().__init__(size, None, device, dtype, domain)
        if type(self) in (Unbounded, UnboundedContinuous, UnboundedDiscrete):
            self.__class__ = UnboundedContinuous if domain == "continuous" else UnboundedDiscrete

    @property
    def space(self) -> ContinuousBox:
        """The least and the greatest number of the dtype, as a box; it is made when it is first asked for."""
        if self._space is None:
            limits = [
                torch.full(known(self.shape), limit, dtype=self.dtype, device=self.device)
                for limit in _limits(self.dtype)
            ]
            self._space = ContinuousBox(limits[0], limits[1])
        return self._space

    @space.setter
    def space(self, value: ContinuousBox | None) -> None:
        self._space = value

    def __eq__(self, other: object) -> Any:
        return isinstance(other, Unbounded) and type(other) is type(self) and same_place(self, other)

    def _like(self, shape: Size, device: Any, dtype: Any, domain: str | None) -> Self:
        spec: Self = Unbounded(shape, device, dtype, domain=domain)  # type: ignore[assignment]
        if type(self) not in (UnboundedContinuous, UnboundedDiscrete):
            spec.__class__ = type(self)
        return spec

    def _changed(self, shape: Size, change: Change) -> Self:
        return self._like(shape, self.device, self.dtype, self.domain)

    def clone(self) -> Self:
        """A spec like this one."""
        return self._like(self.shape, self.device, self.dtype, self.domain)

    def to(self, dest: torch.dtype | torch.device | str | int) -> Self:
        """With another dtype, or on another device."""
        device, dtype = moved(self.device, self.dtype, dest)
        if (device, dtype) == (self.device, self.dtype):
            return self
        return self._like(self.shape, device, dtype, self.domain if dtype == self.dtype else None)

    def rand(self, shape: Any = None) -> Tensor:
        """Normally distributed values; whole numbers are drawn uniformly from all that are not negative."""
        values = torch.empty(self._leading(shape), dtype=self.dtype, device=self.device)
        return values.normal_() if self.dtype.is_floating_point else values.random_()

    def is_in(self, val: Tensor) -> bool:
        """Whether a tensor has the spec's dtype and shape; further leading dimensions are allowed.

        Raises:
            RuntimeError: the shapes cannot be broadcast.
        """
        shape = torch.broadcast_shapes(self.shape, val.shape)
        return bool(val.dtype == self.dtype and shape == val.shape)

    def _project(self, val: Tensor) -> Tensor:
        return torch.as_tensor(val, dtype=self.dtype).reshape(*val.shape[: val.ndim - self.ndim], *self.shape)


class UnboundedContinuous(Unbounded):
    """`Unbounded` whose values are taken for continuous; a dtype of whole numbers makes it an `UnboundedDiscrete`."""


class UnboundedDiscrete(Unbounded):
    """`Unbounded` whose values are taken for discrete; a floating-point dtype makes it an `UnboundedContinuous`.

    Args:
        shape: of the spec.
        device: default: torch's default device.
        dtype: default: int64.
        kwargs: as in `Unbounded`.
    """

    def __init__(
        self, shape: Any = _ONE, device: Any = None, dtype: torch.dtype | str | None = torch.int64, **kwargs: Any
    ) -> None:
        super().__init__(shape, device, dtype, **kwargs)


def _limits(dtype: torch.dtype) -> tuple[Any, Any]:
    if dtype is torch.bool:
        return False, True
    info = torch.finfo(dtype) if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype)
    return info.min, info.max
