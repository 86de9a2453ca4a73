"""Boxes: which values one dimension of a spec may take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data._specs.text import described, indented

Destination = torch.dtype | torch.device | str | int


class Box:
    """A set of values; base of the other boxes."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no limits to iterate over.")

    def to(self, dest: Destination) -> Box:
        """This box with tensors of another dtype or on another device."""
        return self

    def clone(self) -> Box:
        """A box that shares no memory with this one."""
        return self


@dataclass(repr=False, eq=False)
class ContinuousBox(Box):
    """All values between two limits, limits included.

    Args:
        _low: smallest values, any shape.
        _high: largest values, of the same shape.
        device: of the limits; default: where they are.
        _batch_size: leading dimensions that `low` and `high` are expanded to.

    Example:
        >>> ContinuousBox(torch.zeros(2), torch.ones(2)).high
        tensor([1., 1.])
    """

    _low: Tensor
    _high: Tensor
    device: torch.device | None = None
    _batch_size: torch.Size | None = None

    def __post_init__(self) -> None:
        if self.device is None:
            self.device = self._low.device
        self._low, self._high = self._low.to(self.device), self._high.to(self.device)

    @property
    def low(self) -> Tensor:
        """The smallest values."""
        return self._expanded(self._low)

    @low.setter
    def low(self, value: Tensor) -> None:
        self._low = value.to(self._low.device)

    @property
    def high(self) -> Tensor:
        """The largest values."""
        return self._expanded(self._high)

    @high.setter
    def high(self, value: Tensor) -> None:
        self._high = value.to(self._high.device)

    @property
    def batch_size(self) -> torch.Size | None:
        """Leading dimensions that the limits are expanded to; None where they are as they are."""
        return self._batch_size

    def _expanded(self, limit: Tensor) -> Tensor:
        return limit if self._batch_size is None else limit.expand(*self._batch_size, *limit.shape)

    def unbind(self, dim: int = 0) -> tuple[ContinuousBox, ...]:
        """One box for each position along a dimension."""
        return tuple(ContinuousBox(*limits) for limits in zip(self.low.unbind(dim), self.high.unbind(dim), strict=True))

    def __iter__(self) -> Iterator[Tensor]:
        yield self.low
        yield self.high

    def to(self, dest: Destination) -> ContinuousBox:
        """This box with limits of another dtype or on another device."""
        return ContinuousBox(self.low.to(dest), self.high.to(dest))

    def clone(self) -> ContinuousBox:
        """A box with limits of its own."""
        return ContinuousBox(self.low.clone(), self.high.clone())

    def __repr__(self) -> str:
        limits = ",\n".join(f"{name}={described(limit)}" for name, limit in zip(("low", "high"), self, strict=True))
        return f"{type(self).__name__}(\n{indented(limits)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ContinuousBox) or type(other) is not type(self):
            return False
        return all(
            mine.dtype == its.dtype and mine.shape == its.shape and mine.device == its.device and torch.equal(mine, its)
            for mine, its in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # limits can be set


@dataclass(frozen=True)
class CategoricalBox(Box):
    """The numbers from 0 to n - 1.

    Args:
        n: how many.
    """

    n: int


@dataclass(frozen=True)
class DiscreteBox(CategoricalBox):
    """`CategoricalBox` under its former name."""


@dataclass(frozen=True)
class BinaryBox(Box):
    """Vectors of n numbers that are 0 or 1.

    Args:
        n: length of the vectors.
    """

    n: int


@dataclass
class BoxList(Box):
    """Several boxes, one for each variable.

    Args:
        boxes: the boxes, which may be lists themselves.
    """

    boxes: list[Any]

    @staticmethod
    def from_nvec(nvec: Tensor) -> BoxList:
        """A list with a `CategoricalBox` for each number of a tensor, nested by its dimensions, the last one outermost.

        Example:
            >>> BoxList.from_nvec(torch.tensor([2, 3]))
            BoxList(boxes=[CategoricalBox(n=2), CategoricalBox(n=3)])
        """
        if nvec.ndim <= 1:
            return BoxList([CategoricalBox(int(n)) for n in nvec.reshape(-1).tolist()])
        return BoxList([BoxList.from_nvec(part) for part in nvec.unbind(-1)])

    def to(self, dest: Destination) -> BoxList:
        """A list of the boxes with another dtype or on another device."""
        return BoxList([box.to(dest) for box in self.boxes])

    def clone(self) -> BoxList:
        """A list of clones."""
        return BoxList([box.clone() for box in self.boxes])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.boxes)

    def __len__(self) -> int:
        return len(self.boxes)


class invertible_dict(dict[Any, Any]):  # upstream's name
    """A dictionary that keeps its inverse: values must be hashable and occur once.

    Args:
        args: as `dict`.
        inv_dict: the inverse; default: made of what is set from now on.
        kwargs: as `dict`.
    """

    def __init__(self, *args: Any, inv_dict: dict[Any, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.inv_dict = {} if inv_dict is None else inv_dict

    def __setitem__(self, k: Any, v: Any) -> None:
        if v in self.inv_dict or k in self:
            raise ValueError(
                f"invertible_dict: the key {k!r} or the value {v!r} is in it already; each may be set once, or nothing "
                f"could be looked up by its value. Use another one, or make a new dictionary."
            )
        super().__setitem__(k, v)
        self.inv_dict[v] = k

    def update(self, d: Any) -> None:  # type: ignore[override]
        """Refused: entries are set one by one.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("invertible_dict has no update; set its entries one by one.")

    def invert(self) -> invertible_dict:
        """A dictionary from values to keys, of all entries."""
        return invertible_dict({value: key for key, value in self.items()}, inv_dict=dict(self))

    def inverse(self) -> dict[Any, Any]:
        """From values to keys, of the entries set since construction."""
        return self.inv_dict
