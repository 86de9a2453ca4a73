"""Rows of different lengths as tensors: what frames collate lists to, and what any jagged tensor offers.

`Jagged` is the contract: whoever takes rows of different lengths takes anything that has it. `JaggedValues` is the
least that fulfils it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Jagged", "JaggedError", "JaggedValues"]


class JaggedError(FlambeauError, ValueError):
    """Values, lengths and offsets that do not fit together."""


@runtime_checkable
class Jagged(Protocol):
    """Rows of different lengths, laid end to end."""

    def values(self) -> Tensor:
        """(items, ...): the items of all rows, row after row."""

    def lengths(self) -> Tensor:
        """(rows,), int32 or int64: items in each row."""

    def offsets(self) -> Tensor:
        """(rows + 1,), int32 or int64: where each row begins, and where the last ends."""


class JaggedValues:
    """Rows of different lengths, with weights of the items if there are any.

    Args:
        values: (items, ...).
        lengths: (rows,), whole numbers; found from `offsets` where not given.
        offsets: (rows + 1,), whole numbers from 0 to items; found from `lengths` where not given.
        weights: (items,), or None.

    Raises:
        ValueError: neither lengths nor offsets are given, or they do not fit the values.

    Example:
        >>> jagged = JaggedValues(torch.tensor([1, 2, 3]), lengths=torch.tensor([2, 0, 1]))
        >>> jagged.offsets().tolist(), [row.tolist() for row in jagged]
        ([0, 2, 2, 3], [[1, 2], [], [3]])
    """

    def __init__(
        self,
        values: Tensor,
        *,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        if offsets is None:
            if lengths is None:
                raise JaggedError("rows need lengths or offsets, got neither.")
            offsets = torch.zeros(len(lengths) + 1, dtype=lengths.dtype, device=lengths.device)
            torch.cumsum(lengths, 0, out=offsets[1:])
        if offsets.dim() != 1 or offsets.is_floating_point() or not len(offsets):
            raise JaggedError(f"offsets are (rows + 1,) whole numbers, got {tuple(offsets.shape)} of {offsets.dtype}.")
        self._values, self._offsets, self._weights = values, offsets, weights
        self._lengths = offsets.diff() if lengths is None else lengths
        self._check()

    def _check(self) -> None:
        # The last offset would make an accelerator wait.
        if self._offsets.device.type == "cpu":
            first, last = int(self._offsets[0]), int(self._offsets[-1])
            if first != 0 or last != len(self._values):
                raise JaggedError(f"offsets run from {first} to {last}; expected 0 to {len(self._values)} items.")
            if bool((self._lengths < 0).any()):
                raise JaggedError("lengths are negative somewhere: offsets must not fall.")
        if self._weights is not None and len(self._weights) != len(self._values):
            raise JaggedError(f"{len(self._weights)} weights for {len(self._values)} items; expected one for each.")

    @classmethod
    def from_dense(cls, rows: Sequence[Tensor], weights: Sequence[Tensor] | None = None) -> Self:
        """Rows, each (length, ...), laid end to end."""
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        values = torch.cat(list(rows)) if rows else torch.empty(0)
        return cls(values, lengths=lengths, weights=None if weights is None else torch.cat(list(weights)))

    def values(self) -> Tensor:
        """(items, ...): the items of all rows, row after row."""
        return self._values

    def lengths(self) -> Tensor:
        """(rows,): items in each row."""
        return self._lengths

    def offsets(self) -> Tensor:
        """(rows + 1,): where each row begins, and where the last ends."""
        return self._offsets

    def weights_or_none(self) -> Tensor | None:
        """(items,): a weight of each item; None where there are none."""
        return self._weights

    def weights(self) -> Tensor:
        """(items,): a weight of each item.

        Raises:
            ValueError: there are none.
        """
        if self._weights is None:
            raise JaggedError("these rows have no weights; ask weights_or_none().")
        return self._weights

    def to_dense(self) -> list[Tensor]:
        """The rows, as views."""
        return list(self._values.split(self._lengths.tolist()))

    def to_padded_dense(self, desired_length: int | None = None, padding_value: float = 0.0) -> Tensor:
        """The rows cut or filled to one length.

        Args:
            desired_length: items in a row; as many as the longest has where not given.
            padding_value: what fills rows that are shorter.

        Returns:
            (rows, length, ...).
        """
        length = int(self._lengths.max()) if desired_length is None and len(self) else int(desired_length or 0)
        rest = self._values.shape[1:]
        result = self._values.new_full((len(self), length, *rest), padding_value)
        inside = torch.arange(length, device=self._values.device) < self._lengths.unsqueeze(1)
        place = torch.arange(len(self._values), device=self._values.device)
        place = place - self._offsets[:-1].repeat_interleave(self._lengths)
        result[inside] = self._values[place < length]
        return result

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same rows on another device, or with values of another type; see `torch.Tensor.to`."""
        values = self._values.to(*args, **kwargs)
        weights = None if self._weights is None else self._weights.to(values.device)
        return type(self)(
            values, lengths=self._lengths.to(values.device), offsets=self._offsets.to(values.device), weights=weights
        )

    def pin_memory(self) -> Self:
        """The same rows in page-locked memory, as DataLoader asks for."""
        weights = None if self._weights is None else self._weights.pin_memory()
        return type(self)(
            self._values.pin_memory(),
            lengths=self._lengths.pin_memory(),
            offsets=self._offsets.pin_memory(),
            weights=weights,
        )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> Tensor:
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} rows")
        row %= len(self)
        return self._values[int(self._offsets[row]) : int(self._offsets[row + 1])]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.to_dense())

    def __repr__(self) -> str:
        weighted = ", weighted" if self._weights is not None else ""
        return (
            f"{type(self).__name__}(rows={len(self)}, items={len(self._values)}, dtype={self._values.dtype}, "
            f"device={self._values.device}{weighted})"
        )
