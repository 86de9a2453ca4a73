"""Specs of several choices at once, each among a number of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Size, Tensor
from torch.nn import functional

from flambeau.rl.data._specs import shapes
from flambeau.rl.data._specs.base import moved, ragged, same_place, same_tensor
from flambeau.rl.data._specs.boxes import BoxList, CategoricalBox
from flambeau.rl.data._specs.discrete import Categorical, OneHot, _Discrete, masked_draw, one_hot, uniform_mask
from flambeau.rl.data._specs.shapes import Change, as_size


class MultiOneHot(OneHot):
    """Several choices, as one-hot vectors one behind the other.

    Args:
        nvec: number of possibilities of each choice.
        shape: of the spec, ending with their sum; default: only that.
        device: default: torch's default device.
        dtype: default: bool.
        use_register: kept for upstream's signature.
        mask: which possibilities are allowed: bool, of the spec's shape, or what can be expanded to it.

    Raises:
        ValueError: the shape does not end with the sum.

    Example:
        >>> MultiOneHot([2, 3]).to_categorical(torch.tensor([False, True, True, False, False]))
        tensor([1, 0])
    """

    space: BoxList  # type: ignore[assignment]

    def __init__(
        self,
        nvec: Sequence[int],
        shape: Any = None,
        device: Any = None,
        dtype: Any = torch.bool,
        use_register: bool = False,
        mask: Tensor | None = None,
    ) -> None:
        self.nvec = [int(n) for n in nvec]
        total = sum(self.nvec)
        size = Size([total]) if shape is None else as_size(shape)
        if not size or size[-1] != total:
            raise ValueError(f"The shape of MultiOneHot must end with the sum of nvec, {total}; got {tuple(size)}.")
        self.use_register = use_register
        space = BoxList([CategoricalBox(n) for n in self.nvec])
        _Discrete.__init__(self, size, space, device, torch.bool if dtype is None else dtype, mask)

    @property
    def n(self) -> int:
        """Length of all vectors together."""
        return sum(self.nvec)

    def _like(self, shape: Size, device: Any, dtype: Any, mask: Tensor | None) -> Self:
        return type(self)(self.nvec, shape, device, dtype, self.use_register, mask)

    def __eq__(self, other: object) -> Any:
        return (
            type(other) is type(self)
            and same_place(self, other)
            and self.space == other.space
            and same_tensor(self.mask, other.mask)
        )

    def cardinality(self) -> Any:
        """The product of the numbers of possibilities, a tensor without dimensions."""
        return torch.tensor(math.prod(self.nvec))

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """All combinations, of shape (number of them, *shape), the last choice changing fastest.

        Args:
            use_mask: leave out what the mask forbids; the mask must be the same everywhere.
        """
        mask = uniform_mask(self.mask).split(self.nvec) if use_mask and self.mask is not None else None
        numbers = [torch.arange(n) if mask is None else mask[at].nonzero()[:, 0] for at, n in enumerate(self.nvec)]
        rows = torch.cartesian_prod(*numbers).reshape(-1, len(self.nvec)).to(self.device)
        rows = self._joined(rows)
        return rows.reshape(len(rows), *[1] * (self.ndim - 1), -1).expand(len(rows), *self.shape).clone()

    def rand(self, shape: Any = None) -> Tensor:
        """Choices that are allowed, all as likely."""
        leading = self._batch(shape)
        size = (*leading, *self.shape[:-1])
        if self.mask is None:
            numbers = [torch.randint(n, size, device=self.device) for n in self.nvec]
        else:
            numbers = [masked_draw(part, leading) for part in self.mask.split(self.nvec, -1)]
        return self._joined(torch.stack(numbers, -1))

    def _joined(self, numbers: Tensor) -> Tensor:
        parts = zip(numbers.unbind(-1), self.nvec, strict=True)
        return torch.cat([one_hot(number, n, self.dtype) for number, n in parts], -1)

    def _parts(self, val: Tensor) -> Sequence[Tensor]:
        parts: Sequence[Tensor] = val.split(self.nvec, -1)
        return parts

    def is_in(self, val: Tensor) -> bool:
        """Whether a tensor has the spec's dtype and shape, and one allowed entry that is not 0 in each vector."""
        if val.dtype != self.dtype or val.shape[val.ndim - self.ndim :] != self.shape:
            return False
        if self.mask is not None and bool((val.bool() & ~self.mask).any()):
            return False
        return all(bool((part.sum(-1) == 1).all()) for part in self._parts(val))

    def _project(self, val: Tensor) -> Tensor:
        masks: Sequence[Tensor | None] = [None] * len(self.nvec)
        if self.mask is not None:
            masks = self.mask.split(self.nvec, -1)
        specs = (OneHot(n, dtype=self.dtype, device=self.device) for n in self.nvec)
        projected = []
        for part, mask, spec in zip(self._parts(val), masks, specs, strict=True):
            spec = OneHot(spec.n, (*self.shape[:-1], spec.n), self.device, self.dtype, mask=mask)
            projected.append(spec._project(part))
        return torch.cat(projected, -1)

    def _encode(self, val: Any, *, ignore_device: bool = False, space: Any = None) -> Tensor:
        """One-hot vectors from the numbers of the choices, along the last dimension."""
        device = None if ignore_device and isinstance(val, Tensor) else self.device
        numbers = torch.as_tensor(val, device=device)
        if not numbers.ndim:
            raise IndexError(f"MultiOneHot encodes {len(self.nvec)} numbers along the last dimension; got one number.")
        return torch.cat(
            [
                super(MultiOneHot, self)._encode(number, space=box)
                for number, box in zip(numbers.unbind(-1), self.space, strict=False)
            ],
            -1,
        )

    def to_categorical(self, val: Tensor, safe: bool | None = None) -> Tensor:
        """The numbers of the choices, (..., number of choices), int64.

        Args:
            val: a value of the spec.
            safe: check that it is; default: only where the environment sets CHECK_SPEC_ENCODE=1.
        """
        self._check(val, safe)
        return torch.stack([part.long().argmax(-1) for part in self._parts(val)], -1)

    def to_categorical_spec(self) -> MultiCategorical:
        """The spec of the numbers of the choices: int64, or this dtype if it is one of whole numbers."""
        dtype = torch.int64 if self.dtype is torch.bool else self.dtype
        return MultiCategorical(self.nvec, [*self.shape[:-1], len(self.nvec)], self.device, dtype, self.mask)

    def index(self, index: Tensor, tensor_to_index: Tensor) -> Tensor:
        """Entries along the last dimension of a tensor, picked by the ones of each vector; one row for each choice."""
        picked = [
            super(MultiOneHot, self).index(part, entries)
            for part, entries in zip(self._parts(index), tensor_to_index.split(self.nvec, -1), strict=True)
        ]
        return torch.cat(picked, -1)


class MultiCategorical(Categorical):
    """Several choices, as their numbers.

    Args:
        nvec: number of possibilities of each choice; may have the dimensions of `shape` before the last one.
        shape: of the spec, ending with the number of choices; default: that of `nvec`.
        device: default: torch's default device.
        dtype: default: int64.
        mask: which possibilities are allowed: bool, (*shape[:-1], sum of nvec).
        remove_singleton: kept for upstream's signature.

    Raises:
        ValueError: the shape does not end with the number of choices.

    Example:
        >>> MultiCategorical([2, 3]).is_in(torch.tensor([1, 3]))
        False
    """

    space: BoxList  # type: ignore[assignment]

    def __init__(
        self,
        nvec: Sequence[int] | Tensor | int,
        shape: Any = None,
        device: Any = None,
        dtype: str | torch.dtype | None = torch.int64,
        mask: Tensor | None = None,
        remove_singleton: bool = True,
    ) -> None:
        numbers = torch.as_tensor(nvec).to(torch.int64)
        if not numbers.ndim:
            numbers = numbers.unsqueeze(0)
        size = numbers.shape if shape is None else as_size(shape)
        if not size or size[-1] != numbers.shape[-1]:
            raise ValueError(
                f"The shape of MultiCategorical must end with the number of choices, {numbers.shape[-1]}; got "
                f"{tuple(size)}."
            )
        self.nvec = numbers.expand(size)
        self.remove_singleton = remove_singleton
        self._provisional_n = None
        space = BoxList.from_nvec(self.nvec)
        _Discrete.__init__(self, size, space, device, torch.int64 if dtype is None else dtype, mask)

    @property
    def n(self) -> Any:
        """Number of possibilities of each choice."""
        return self.nvec

    def _row(self) -> list[int] | None:
        """The numbers of possibilities where they are the same everywhere."""
        rows = self.nvec.reshape(-1, self.nvec.shape[-1])
        return rows[0].tolist() if len(rows) and bool((rows == rows[:1]).all()) else None

    def update_mask(self, mask: Any) -> None:
        """Set which possibilities are allowed.

        Args:
            mask: bool, (*shape[:-1], sum of nvec), the possibilities of one choice behind those of another; None allows
                all.

        Raises:
            RuntimeError: the mask has another shape, or numbers of possibilities differ between entries.
        """
        if mask is None:
            self.mask = None
            return
        mask = torch.as_tensor(mask, device=self.device)
        row = self._row()
        if row is None or mask.shape[-1:] != (sum(row),):
            raise RuntimeError(
                f"A mask of shape {tuple(mask.shape)} does not fit MultiCategorical of {self.nvec.tolist()}: it needs "
                "one entry for each possibility of each choice along its last dimension, as many for every entry."
            )
        self.mask = mask.expand(*self.shape[:-1], mask.shape[-1])

    def _like(self, shape: Size, device: Any, dtype: Any, mask: Tensor | None, nvec: Tensor | None = None) -> Self:
        nvec = self.nvec if nvec is None else nvec
        return type(self)(nvec, shape, device, dtype, mask, self.remove_singleton)

    def _changed(self, shape: Size, change: Change) -> Self:
        return self._like(shape, self.device, self.dtype, self._tensors_changed(change), change(self.nvec))

    def _changeable(self) -> Size:
        return Size(self.shape[:-1])

    def __getitem__(self, idx: Any) -> Any:
        shape, change = shapes.indexed(self.shape, idx)
        batch = self.shape[:-1]
        parts = shapes.without_ellipsis(idx, self.ndim)
        if shapes.dimensions_of(parts) <= len(batch):
            return super().__getitem__(parts)
        # The last dimension is indexed as well: fewer choices, whose mask is no longer one row.
        nvec = change(self.nvec)
        return type(self)(nvec.reshape(1) if not nvec.ndim else nvec, shape or Size([1]), self.device, self.dtype)

    def __eq__(self, other: object) -> Any:
        return (
            type(other) is type(self)
            and same_place(self, other)
            and bool((self.nvec == other.nvec).all())
            and same_tensor(self.mask, other.mask)
        )

    def cardinality(self) -> Any:
        """The product of the numbers of possibilities of one entry, a tensor without dimensions."""
        return self.nvec.reshape(-1, self.nvec.shape[-1])[0].prod() if self._row() else self.nvec.prod()

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """All combinations, of shape (number of them, *shape), the last choice changing fastest.

        Args:
            use_mask: leave out what the mask forbids; the mask must be the same everywhere.

        Raises:
            ValueError: numbers of possibilities differ between entries.
        """
        row = self._row()
        if row is None:
            raise ValueError("MultiCategorical enumerates only where all entries have the same possibilities.")
        numbers: list[Sequence[int]] = [range(n) for n in row]
        if use_mask and self.mask is not None:
            numbers = [part.nonzero()[:, 0].tolist() for part in uniform_mask(self.mask).split(row)]
        rows = torch.tensor(list(itertools.product(*numbers)), dtype=self.dtype, device=self.device)
        rows = rows.reshape(-1, len(row))
        return rows.reshape(len(rows), *[1] * (self.ndim - 1), -1).expand(len(rows), *self.shape).clone()

    def rand(self, shape: Any = None) -> Tensor:
        """Choices that are allowed, all as likely."""
        leading = self._batch(shape)
        row = self._row()
        if self.mask is not None and row is not None:
            parts = [masked_draw(part, leading) for part in self.mask.split(row, -1)]
            return torch.stack(parts, -1).to(self.dtype)
        if row is not None:
            batch = self.shape[:-1]
            # In the order in which upstream draws them: entry by entry, the first dimension fastest.
            order = (*range(len(batch), len(batch) + len(leading)), *reversed(range(len(batch))))
            sizes = (*batch[::-1], *leading)
            parts = [torch.randint(n, sizes, device=self.device, dtype=self.dtype).permute(order) for n in row]
            return torch.stack(parts, -1)
        return self._drawn(self.space, leading)

    def _drawn(self, box: Any, size: Size) -> Tensor:
        if isinstance(box, CategoricalBox):
            return torch.randint(box.n, size, device=self.device, dtype=self.dtype)
        return torch.stack([self._drawn(each, size) for each in box], -1)

    def is_in(self, val: Tensor) -> bool:
        """Whether a tensor has the spec's dtype and shape, and holds numbers of allowed possibilities only."""
        if val.dtype != self.dtype or val.shape[val.ndim - self.ndim :] != self.shape:
            return False
        if not bool(((val >= 0) & (val < self.nvec.to(val.device))).all()):
            return False
        return self.mask is None or self.to_one_hot_spec().is_in(self._hot(val))

    def _project(self, val: Tensor) -> Tensor:
        if val.is_floating_point():
            val = val.round()
        near = val.clamp_min(0).minimum((self.nvec - 1).to(val.dtype).to(val.device))
        row = self._row()
        if self.mask is None or row is None:
            return near
        masks = self.mask.split(row, -1)
        parts = zip(near.unbind(-1), row, masks, strict=True)
        specs = ((part, Categorical(n, self.shape[:-1], self.device, part.dtype, mask)) for part, n, mask in parts)
        return torch.stack([one.project(part) for part, one in specs], -1)

    def _hot(self, val: Tensor) -> Tensor:
        row = self._row()
        if row is None:
            return ragged([spec._hot(part) for spec, part in zip(self.unbind(0), val, strict=True)])
        parts = zip(val.unbind(-1), row, strict=True)
        return torch.cat([functional.one_hot(number.long(), n).bool() for number, n in parts], -1)

    def to_one_hot(self, val: Tensor, safe: bool | None = None) -> Tensor:
        """One-hot vectors one behind the other, bool, (..., sum of nvec).

        Args:
            val: a value of the spec.
            safe: check that it is; default: only where the environment sets CHECK_SPEC_ENCODE=1.

        Returns:
            A nested tensor where numbers of possibilities differ between entries.
        """
        self._check(val, safe)
        return self._hot(val)

    def to_one_hot_spec(self) -> Any:
        """The spec of the one-hot vectors: bool; a stack where numbers of possibilities differ between entries."""
        row = self._row()
        if row is None:
            return torch.stack([spec.to_one_hot_spec() for spec in self.unbind(0)])
        return MultiOneHot(row, (*self.shape[:-1], sum(row)), self.device, mask=self.mask)

    def to_categorical(self, val: Tensor, safe: bool | None = None) -> Tensor:
        """The value itself.

        Args:
            val: a value of the spec.
            safe: check that it is; default: only where the environment sets CHECK_SPEC_ENCODE=1.
        """
        self._check(val, safe)
        return val

    def to_categorical_spec(self) -> MultiCategorical:
        """The spec itself."""
        return self

    def to(self, dest: torch.dtype | torch.device | str | int) -> Self:
        """With another dtype, or on another device."""
        device, dtype = moved(self.device, self.dtype, dest)
        if (device, dtype) == (self.device, self.dtype):
            return self
        return self._like(self.shape, device, dtype, None if self.mask is None else self.mask.to(device))
