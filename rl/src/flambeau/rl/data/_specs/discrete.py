"""Specs of one choice among n: as its number, as a one-hot vector, or as zeros and ones."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from torch import Size, Tensor
from torch.nn import functional

from flambeau.rl.data._specs.base import (
    TensorSpec,
    as_device,
    as_dtype,
    moved,
    same_place,
    same_tensor,
)
from flambeau.rl.data._specs.boxes import Box, CategoricalBox, invertible_dict
from flambeau.rl.data._specs.shapes import Change, as_size


class _Discrete(TensorSpec):
    """What specs of numbered choices have in common: a box, and a mask of what is allowed."""

    mask: Tensor | None

    def __init__(self, shape: Size, space: Box, device: Any, dtype: Any, mask: Any) -> None:
        super().__init__(shape, space, as_device(device), as_dtype(dtype), "discrete")
        self.mask = None
        self.update_mask(mask)

    def _masked_shape(self) -> Size:
        """The shape of a mask: the spec's, with one entry for each choice at its end."""
        raise NotImplementedError

    def update_mask(self, mask: Any) -> None:
        """Set which choices are allowed.

        Args:
            mask: bool, of the spec's shape with one entry for each choice at its end, or what can be expanded to it;
                None allows all.

        Raises:
            RuntimeError: the mask cannot be expanded to that shape.
        """
        if mask is None:
            self.mask = None
            return
        mask = torch.as_tensor(mask, device=self.device)
        target = self._masked_shape()
        try:
            self.mask = mask.expand(target)
        except RuntimeError:
            raise RuntimeError(
                f"Cannot expand a mask of shape {tuple(mask.shape)} to {tuple(target)}, the shape of "
                f"{type(self).__name__} with one entry for each choice."
            ) from None

    def _tensors_changed(self, change: Change) -> Tensor | None:
        return None if self.mask is None else change(self.mask)

    def clone(self) -> Self:
        """A spec with a mask of its own."""
        return self._changed(self.shape, torch.clone)

    def __eq__(self, other: object) -> Any:
        return (
            isinstance(other, _Discrete)
            and (isinstance(other, type(self)) or isinstance(self, type(other)))
            and same_place(self, other)
            and self.space == other.space
            and same_tensor(self.mask, other.mask)
        )


def masked_draw(mask: Tensor, leading: Size) -> Tensor:
    """Numbers of allowed choices, each as likely as the others.

    Args:
        mask: (..., n).
        leading: further dimensions before the mask's.

    Returns:
        (*leading, ...), int64.
    """
    expanded = mask.expand(*leading, *mask.shape)
    rows = expanded.reshape(-1, expanded.shape[-1]).to(torch.float32)
    return torch.multinomial(rows, 1).reshape(expanded.shape[:-1])


def one_hot(number: Tensor, n: int, dtype: torch.dtype) -> Tensor:
    """One-hot vectors of a dtype, of numbers from 0 to n - 1."""
    return (number.unsqueeze(-1) == torch.arange(n, device=number.device)).to(dtype)


class OneHot(_Discrete):
    """One of n choices, as a vector with a 1 at its number and 0 elsewhere.

    Args:
        n: number of choices.
        shape: of the spec, ending with n; default: (n,).
        device: default: torch's default device.
        dtype: default: bool.
        use_register: `encode` takes any hashable values, and numbers them as they come.
        mask: which choices are allowed: bool, of the spec's shape, or what can be expanded to it.

    Raises:
        ValueError: the shape does not end with n.

    Example:
        >>> spec = OneHot(3)
        >>> spec.encode(1), spec.is_in(torch.tensor([True, True, False]))
        (tensor([False,  True, False]), tensor(False))
    """

    space: CategoricalBox

    def __init__(
        self,
        n: int,
        shape: Any = None,
        device: Any = None,
        dtype: str | torch.dtype | None = torch.bool,
        use_register: bool = False,
        mask: Tensor | None = None,
    ) -> None:
        n = int(n)
        size = Size([n]) if shape is None else as_size(shape)
        if not size or size[-1] != n:
            raise ValueError(f"The shape of OneHot must end with the number of choices, n={n}; got {tuple(size)}.")
        self.use_register = use_register
        self._register: invertible_dict = invertible_dict()
        super().__init__(size, CategoricalBox(n), device, torch.bool if dtype is None else dtype, mask)

    @property
    def n(self) -> int:
        """Number of choices."""
        return self.space.n

    def _masked_shape(self) -> Size:
        return self.shape

    def _changeable(self) -> Size:
        return Size(self.shape[:-1])

    def _like(self, shape: Size, device: Any, dtype: Any, mask: Tensor | None) -> Self:
        spec = type(self)(self.n, shape, device, dtype, self.use_register, mask)
        spec._register = self._register
        return spec

    def _changed(self, shape: Size, change: Change) -> Self:
        return self._like(shape, self.device, self.dtype, self._tensors_changed(change))

    def to(self, dest: torch.dtype | torch.device | str | int) -> Self:
        """With another dtype, or on another device."""
        device, dtype = moved(self.device, self.dtype, dest)
        if (device, dtype) == (self.device, self.dtype):
            return self
        return self._like(self.shape, device, dtype, None if self.mask is None else self.mask.to(device))

    def cardinality(self) -> int:
        """N."""
        return self.n

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """All one-hot vectors, of shape (n, *shape).

        Args:
            use_mask: leave out those that the mask forbids; the mask must be the same everywhere.

        Raises:
            ValueError: the mask differs between entries.
        """
        rows = torch.eye(self.n, dtype=self.dtype, device=self.device)
        if use_mask and self.mask is not None:
            rows = rows[uniform_mask(self.mask)]
        middle = [1] * (self.ndim - 1)
        return rows.reshape(len(rows), *middle, self.n).expand(len(rows), *self.shape).clone()

    def rand(self, shape: Any = None) -> Tensor:
        """Choices that are allowed, all as likely."""
        leading = self._batch(shape)
        if self.mask is None:
            number = torch.randint(self.n, (*leading, *self.shape[:-1]), device=self.device)
        else:
            number = masked_draw(self.mask, leading)
        return one_hot(number, self.n, self.dtype)

    def is_in(self, val: Tensor) -> Any:
        """Whether a tensor has the spec's dtype and shape, one entry that is not 0 in each vector, and that is allowed.

        Args:
            val: of the spec's shape; further leading dimensions are allowed.
        """
        if val.dtype != self.dtype or val.shape[val.ndim - self.ndim :] != self.shape:
            return False
        hot = (val.sum(-1) == 1).all()
        return hot if self.mask is None else hot & (val.bool() & self.mask).any(-1).all()

    def _project(self, val: Tensor) -> Tensor:
        """One of the entries that are not 0, by their weights; any choice that is allowed where there is a mask."""
        if self.mask is not None:
            return one_hot(masked_draw(self.mask, Size(val.shape[: val.ndim - self.ndim])), self.n, self.dtype)
        weights = val.reshape(-1, val.shape[-1]).to(torch.get_default_dtype()).clamp_min(0)
        # A vector without any weight allows everything.
        weights = torch.where((weights > 0).any(-1, keepdim=True), weights, torch.ones_like(weights))
        return one_hot(torch.multinomial(weights, 1).reshape(val.shape[:-1]), self.n, self.dtype)

    def _encode(self, val: Any, *, ignore_device: bool = False, space: CategoricalBox | None = None) -> Tensor:
        """A one-hot vector from the number of a choice; any value of an env that numbers its choices by a register."""
        n = (space or self.space).n
        if self.use_register:
            if val not in self._register:
                self._register[val] = len(self._register)
            val = self._register[val]
        device = None if ignore_device and isinstance(val, Tensor) else self.device
        number = torch.as_tensor(np.asarray(val) if isinstance(val, (list, np.ndarray)) else val, device=device)
        number = number.to(torch.int64)
        if number.ndim and number.shape[-1] == 1 and self.shape[:-1] != number.shape:
            number = number.squeeze(-1)
        if number.numel() and int(number.max()) >= n:
            raise AssertionError(f"OneHot has {n} choices, numbered from 0; {int(number.max())} is none of them.")
        return one_hot(number, n, self.dtype)

    def to_numpy(self, val: Tensor, safe: bool | None = None) -> Any:
        """The numbers of the choices as an array; with a register, the values that were numbered."""
        number = self.to_categorical(val, safe).cpu().numpy()
        if self.use_register:
            inverse = self._register.inverse()
            if number.ndim:
                return np.asarray([inverse[int(each)] for each in number.reshape(-1)]).reshape(number.shape)
            return inverse[int(number)]
        return number

    def index(self, index: Tensor, tensor_to_index: Tensor) -> Tensor:
        """Entries along the last dimension of a tensor, picked by one-hot vectors.

        Args:
            index: a value of the spec.
            tensor_to_index: (*shape, n) or (n,), or with further dimensions between.

        Returns:
            (*tensor_to_index.shape[:-1], number of ones in `index`).
        """
        index = index.nonzero()
        index = index[..., -1] if index.ndim > 1 else index.squeeze()
        index = index.expand((*tensor_to_index.shape[:-1], index.shape[-1]))
        return torch.gather(tensor_to_index, -1, index)

    def to_one_hot(self, val: Tensor, safe: bool | None = None) -> Tensor:
        """The value itself.

        Args:
            val: a value of the spec.
            safe: check that it is; default: only where the environment sets CHECK_SPEC_ENCODE=1.
        """
        return val

    def to_one_hot_spec(self) -> OneHot:
        """The spec itself."""
        return self

    def to_categorical(self, val: Tensor, safe: bool | None = None) -> Tensor:
        """The numbers of the choices.

        Args:
            val: a value of the spec.
            safe: check that it is; default: only where the environment sets CHECK_SPEC_ENCODE=1.

        Raises:
            AssertionError: it was checked and is not in the spec.
        """
        self._check(val, safe)
        return val.long().argmax(-1)

    def to_categorical_spec(self) -> Categorical:
        """The spec of the numbers of the choices: int64, or this dtype if it is one of whole numbers."""
        dtype = torch.int64 if self.dtype is torch.bool else self.dtype
        return Categorical(self.n, self.shape[:-1], self.device, dtype, self.mask)


def uniform_mask(mask: Tensor) -> Tensor:
    """The one row that all rows of a mask are.

    Raises:
        ValueError: they differ.
    """
    rows = mask.reshape(-1, mask.shape[-1])
    if not bool((rows == rows[:1]).all()):
        raise ValueError("The mask allows different choices for different entries: there is no one list of them.")
    return rows[0]


class Categorical(_Discrete):
    """One of n choices, as its number from 0 to n - 1.

    Args:
        n: number of choices; -1 where it is not known yet (see `set_provisional_n`).
        shape: of the spec; default: ().
        device: default: torch's default device.
        dtype: default: int64.
        mask: which choices are allowed: bool, (*shape, n), or what can be expanded to it.

    Example:
        >>> spec = Categorical(3)
        >>> spec.to_one_hot(torch.tensor(1))
        tensor([False,  True, False])
    """

    space: CategoricalBox

    def __init__(
        self,
        n: int,
        shape: Any = None,
        device: Any = None,
        dtype: str | torch.dtype = torch.int64,
        mask: Tensor | None = None,
    ) -> None:
        size = Size([]) if shape is None else as_size(shape)
        self._provisional_n: int | None = None
        super().__init__(size, CategoricalBox(int(n)), device, dtype, mask)

    @property
    def n(self) -> int:
        """Number of choices; the provisional one where it is not known.

        Raises:
            RuntimeError: it is not known, and no provisional one is set.
        """
        if self.space.n != -1:
            return self.space.n
        if self._provisional_n is None:
            raise RuntimeError(
                f"{type(self).__name__} does not know its number of choices (n=-1); call set_provisional_n(n) first."
            )
        return self._provisional_n

    def set_provisional_n(self, n: int) -> None:
        """Set the number of choices to draw from while the true one is not known.

        Args:
            n: number of choices.
        """
        self._provisional_n = n

    def _masked_shape(self) -> Size:
        return Size([*self.shape, self.space.n])

    def _like(self, shape: Size, device: Any, dtype: Any, mask: Tensor | None) -> Self:
        return type(self)(self.space.n, shape, device, dtype, mask)

    def _changed(self, shape: Size, change: Change) -> Self:
        spec = self._like(shape, self.device, self.dtype, self._tensors_changed(change))
        spec._provisional_n = self._provisional_n
        return spec

    def to(self, dest: torch.dtype | torch.device | str | int) -> Self:
        """With another dtype, or on another device."""
        device, dtype = moved(self.device, self.dtype, dest)
        if (device, dtype) == (self.device, self.dtype):
            return self
        return self._like(self.shape, device, dtype, None if self.mask is None else self.mask.to(device))

    def cardinality(self) -> Any:
        """N."""
        return self.n

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """All numbers, of shape (n, *shape).

        Args:
            use_mask: leave out those that the mask forbids; the mask must be the same everywhere.

        Raises:
            ValueError: the mask differs between entries.
        """
        numbers = torch.arange(self.n, device=self.device).to(self.dtype)
        if use_mask and self.mask is not None:
            numbers = numbers[uniform_mask(self.mask)]
        return numbers.reshape(-1, *[1] * self.ndim).expand(len(numbers), *self.shape).clone()

    def rand(self, shape: Any = None) -> Tensor:
        """Choices that are allowed, all as likely."""
        leading = self._batch(shape)
        if self.mask is None:
            return torch.randint(self.n, (*leading, *self.shape), device=self.device, dtype=self.dtype)
        return masked_draw(self.mask, leading).to(self.dtype)

    def is_in(self, val: Tensor) -> Any:
        """Whether a tensor has the spec's dtype, and holds numbers of allowed choices only.

        Args:
            val: of the spec's shape; further leading dimensions are allowed.
        """
        if self.space.n == -1:
            return True
        if self.dtype != val.dtype or val.shape[val.ndim - self.ndim :] != self.shape:
            return False
        inside = ((val >= 0) & (val < self.space.n)).all()
        if self.mask is None or not inside:
            return inside
        mask = self.mask.expand(*val.shape, self.space.n)
        return torch.gather(mask, -1, val.long().unsqueeze(-1)).all()

    def _project(self, val: Tensor) -> Tensor:
        """The nearest number; a random one of those allowed where there is a mask that forbids it."""
        if val.is_floating_point():
            val = val.round()
        near = val.clamp(0, self.space.n - 1)
        if self.mask is None:
            return near
        mask = self.mask.expand(*val.shape, self.space.n)
        allowed = torch.gather(mask, -1, near.long().unsqueeze(-1)).squeeze(-1)
        return torch.where(allowed, near, masked_draw(mask, Size([])).to(near.dtype))

    def index(self, index: Tensor, tensor_to_index: Tensor) -> Tensor:
        """Entries along the last dimension of a tensor, picked by numbers.

        Args:
            index: a value of the spec.
            tensor_to_index: its last dimension has n entries.

        Returns:
            The shape of `index` after the leading dimensions of the tensor; without a last dimension for a number.
        """
        if not index.ndim:
            return tensor_to_index[..., index.long()] if tensor_to_index.ndim else tensor_to_index.clone()
        leading = tensor_to_index.shape[: tensor_to_index.ndim - index.ndim]
        return torch.gather(tensor_to_index, -1, index.long().expand((*leading, *index.shape)))

    def to_numpy(self, val: Tensor, safe: bool | None = None) -> Any:
        """The numbers as an array; of n=1 without dimensions, as an array of one entry."""
        self._check(val, safe)
        return val.detach().cpu().numpy()

    def to_one_hot(self, val: Tensor, safe: bool | None = None) -> Tensor:
        """One-hot vectors of numbers, bool, with n entries along a new last dimension.

        Args:
            val: a value of the spec.
            safe: check that it is; default: only where the environment sets CHECK_SPEC_ENCODE=1.

        Raises:
            AssertionError: it was checked and is not in the spec.
        """
        self._check(val, safe)
        return functional.one_hot(val.long(), self.n).bool()

    def to_one_hot_spec(self) -> OneHot:
        """The spec of one-hot vectors: bool."""
        return OneHot(self.n, (*self.shape, self.n), self.device, mask=self.mask)

    def to_categorical(self, val: Tensor, safe: bool | None = None) -> Tensor:
        """The value itself.

        Args:
            val: a value of the spec.
            safe: check that it is; default: only where the environment sets CHECK_SPEC_ENCODE=1.
        """
        self._check(val, safe)
        return val

    def to_categorical_spec(self) -> Categorical:
        """The spec itself."""
        return self


class Binary(Categorical):
    """Zeros and ones.

    Args:
        n: size of the last dimension; default: that of `shape`.
        shape: of the spec; default: (n,).
        device: default: torch's default device.
        dtype: default: int8.

    Raises:
        TypeError: neither n nor a shape is given.
        ValueError: the shape does not end with n.

    Example:
        >>> Binary(3).is_in(torch.tensor([0, 1, 1], dtype=torch.int8))
        tensor(True)
    """

    def __init__(
        self,
        n: int | None = None,
        shape: Any = None,
        device: Any = None,
        dtype: str | torch.dtype = torch.int8,
    ) -> None:
        if n is None and shape is None:
            raise TypeError("Binary needs n, the number of zeros and ones, or a shape.")
        size = as_size(n if shape is None else shape)
        if n is not None and (size[-1] if size else 0) != n:
            raise ValueError(f"The shape of Binary must end with n={n}; got {tuple(size)}.")
        super().__init__(2, size, device, dtype)

    def _like(self, shape: Size, device: Any, dtype: Any, mask: Tensor | None) -> Self:
        spec = type(self)(shape=shape, device=device, dtype=dtype)
        spec.update_mask(mask)
        return spec

    def cardinality(self) -> int:
        """2, the number of values of each entry."""
        return 2
