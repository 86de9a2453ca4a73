"""`JaggedTensor`: rows of different lengths, laid end to end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flambeau.rec.ops.jagged_conversion import one_to_dense
from flambeau.rec.sparse._errors import SparseError
from flambeau.rec.sparse._rows import Rows

__all__ = ["JaggedTensor"]


class JaggedTensor(Rows):
    """A batch of bags: row i is `values[offsets[i]:offsets[i + 1]]`.

    Args:
        values: (L, ...): the items of all rows, row after row.
        weights: (L, ...): a weight of each item, or None.
        lengths: (B,) int32 or int64: items in each row; found from `offsets` when it is asked for.
        offsets: (B + 1,) int32 or int64, from 0 to L; found from `lengths` when it is asked for.

    Raises:
        SparseError: neither lengths nor offsets are given.

    Example:
        >>> jagged = JaggedTensor(torch.tensor([1.0, 2.0, 3.0]), lengths=torch.tensor([2, 0, 1]))
        >>> jagged.to_padded_dense()
        tensor([[1., 2.],
                [0., 0.],
                [3., 0.]])
    """

    _fields = ("_values", "_weights", "_lengths", "_offsets")

    def __init__(
        self,
        values: Tensor,
        weights: Tensor | None = None,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> None:
        if lengths is None and offsets is None:
            raise SparseError("a JaggedTensor needs lengths or offsets, got neither.")
        self._values = values
        self._weights = weights
        self._lengths = lengths
        self._offsets = offsets

    @staticmethod
    def empty(
        is_weighted: bool = False,
        device: torch.device | None = None,
        values_dtype: torch.dtype | None = None,
        weights_dtype: torch.dtype | None = None,
        lengths_dtype: torch.dtype = torch.int32,
    ) -> JaggedTensor:
        """No rows.

        Args:
            is_weighted: whether there are weights, of no item.
            device: of all tensors.
            values_dtype: torch's default floating-point type where not given.
            weights_dtype: likewise.
            lengths_dtype: of lengths and offsets.
        """
        weights = torch.empty(0, dtype=weights_dtype, device=device) if is_weighted else None
        return JaggedTensor(
            torch.empty(0, dtype=values_dtype, device=device),
            weights,
            torch.empty(0, dtype=lengths_dtype, device=device),
            torch.empty(0, dtype=lengths_dtype, device=device),
        )

    @staticmethod
    def empty_like(jt: JaggedTensor, device: torch.device | None = None) -> JaggedTensor:
        """No rows, of the types of another one."""
        weights, sizes = jt._weights, jt.lengths().dtype
        return JaggedTensor.empty(
            weights is not None,
            device or jt.device(),
            jt._values.dtype,
            None if weights is None else weights.dtype,
            sizes,
        )

    @staticmethod
    def from_dense(values: list[Tensor], weights: list[Tensor] | None = None) -> JaggedTensor:
        """Rows, each (length, ...), laid end to end; lengths are int32.

        Example:
            >>> JaggedTensor.from_dense([torch.tensor([1, 2]), torch.tensor([3])]).lengths()
            tensor([2, 1], dtype=torch.int32)
        """
        if not values:
            raise SparseError("values is empty; from_dense takes one row or more.")
        device = values[0].device
        lengths = torch.tensor([row.size(0) for row in values], dtype=torch.int32, device=device)
        return JaggedTensor(torch.cat(values), None if weights is None else torch.cat(weights), lengths)

    @staticmethod
    def from_dense_lengths(values: Tensor, lengths: Tensor, weights: Tensor | None = None) -> JaggedTensor:
        """The first items of each row of a dense batch.

        Args:
            values: (B, N, ...).
            lengths: (B,), each at most N.
            weights: (B, N), or None.
        """
        inside = torch.arange(values.size(1), device=values.device).expand(values.size(0), -1) < lengths.unsqueeze(-1)
        return JaggedTensor(values[inside], None if weights is None else weights[inside], lengths)

    def to_dense(self) -> list[Tensor]:
        """The rows, as views."""
        return _rows(self._values, self.offsets())

    def to_dense_weights(self) -> list[Tensor] | None:
        """The weights of each row, as views; None where there are none."""
        return None if self._weights is None else _rows(self._weights, self.offsets())

    def to_padded_dense(self, desired_length: int | None = None, padding_value: float = 0.0) -> Tensor:
        """The rows cut or filled to one length.

        Args:
            desired_length: items in a row; as many as the longest row has where not given.
            padding_value: what fills rows that are shorter.

        Returns:
            (B, desired_length, ...).
        """
        return self._padded(self._values, desired_length, padding_value)

    def to_padded_dense_weights(self, desired_length: int | None = None, padding_value: float = 0.0) -> Tensor | None:
        """The weights of the rows cut or filled to one length, as `to_padded_dense`; None where there are none."""
        return None if self._weights is None else self._padded(self._weights, desired_length, padding_value)

    def _padded(self, items: Tensor, length: int | None, padding: float) -> Tensor:
        if length is None:
            lengths = self.lengths()
            length = int(lengths.max()) if lengths.numel() else 0
        return one_to_dense(items, self.offsets(), length, padding)

    def to(self, device: torch.device, non_blocking: bool = False) -> JaggedTensor:
        """The same rows on another device."""

        def moved(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device, non_blocking=non_blocking)

        values = self._values.to(device, non_blocking=non_blocking)
        return JaggedTensor(values, moved(self._weights), moved(self._lengths), moved(self._offsets))

    def copy_(self, jt: JaggedTensor, non_blocking: bool = False) -> JaggedTensor:
        """Take over the content of another one, whose tensors have the shapes of this one's."""
        for mine, other in zip(self._tensors(), jt._tensors(), strict=True):
            if mine is not None and other is not None:
                mine.copy_(other, non_blocking=non_blocking)
        return self

    def size_in_bytes(self) -> int:
        """The memory of all its tensors."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._tensors() if tensor is not None)

    def __str__(self) -> str:
        if self.offsets().numel() == 0:
            return "JaggedTensor({\n    []\n})\n"
        return "JaggedTensor({\n" + shown(self.values(), self.offsets(), self._weights, 4) + "\n})\n"

    def __repr__(self) -> str:
        weighted = ", weighted" if self._weights is not None else ""
        return (
            f"JaggedTensor({self.lengths().numel()} rows, {tuple(self._values.shape)} {self._values.dtype}{weighted})"
        )


def shown(values: Tensor, offsets: Tensor, weights: Tensor | None, indent: int) -> str:
    """Rows as nested lists, with their weights in a second entry."""
    blank = " " * indent
    rows = str([row.tolist() for row in _rows(values, offsets)])
    if weights is None:
        return f"{blank}{rows}"
    heavy = str([row.tolist() for row in _rows(weights, offsets)])
    return f'{blank}"values": {rows},\n{blank}"weights": {heavy}'


def _rows(items: Tensor, offsets: Tensor) -> list[Tensor]:
    ends: Sequence[int] = offsets.tolist()
    return [items[begin:end] for begin, end in pairwise(ends)]


def _flatten(jt: JaggedTensor) -> tuple[list[Any], None]:
    return [jt._values, jt._weights, jt._lengths, jt._offsets], None


def _flatten_with_keys(jt: JaggedTensor) -> tuple[list[tuple[Any, Any]], None]:
    values, context = _flatten(jt)
    return [(pytree.GetAttrKey(name), value) for name, value in zip(jt._fields, values, strict=True)], context


def _unflatten(values: Any, context: None) -> JaggedTensor:
    # Neither checked nor completed: a tree may hold anything in the place of tensors.
    jt = JaggedTensor.__new__(JaggedTensor)
    jt._values, jt._weights, jt._lengths, jt._offsets = values
    return jt


pytree.register_pytree_node(
    JaggedTensor,
    _flatten,
    _unflatten,
    serialized_type_name="flambeau.rec.JaggedTensor",
    flatten_with_keys_fn=_flatten_with_keys,
)
