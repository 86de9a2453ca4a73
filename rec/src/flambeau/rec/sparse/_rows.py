"""What jagged tensors with and without keys share: items laid end to end, their weights, and where each row begins."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.sparse._construction import JaggedTensorMeta
from flambeau.rec.sparse._errors import SparseError
from flambeau.rec.streamable import Pipelineable

__all__ = ["Rows"]


class Rows(Pipelineable, metaclass=JaggedTensorMeta):
    """Rows of different lengths; of lengths and offsets one is given, and the other found when it is asked for."""

    _values: Tensor
    _weights: Tensor | None
    _lengths: Tensor | None
    _offsets: Tensor | None

    def values(self) -> Tensor:
        """(L, ...): the items of all rows, row after row."""
        return self._values

    def weights(self) -> Tensor:
        """(L, ...): a weight of each item.

        Raises:
            SparseError: there are none.
        """
        if self._weights is None:
            raise SparseError(f"this {type(self).__name__} has no weights; weights_or_none() gives None then.")
        return self._weights

    def weights_or_none(self) -> Tensor | None:
        """(L, ...): a weight of each item, or None."""
        return self._weights

    def lengths(self) -> Tensor:
        """(rows,): items in each row."""
        if self._lengths is None:
            self._lengths = self.offsets().diff()
        return self._lengths

    def lengths_or_none(self) -> Tensor | None:
        """(rows,): items in each row, or None where that was not found out yet."""
        return self._lengths

    def offsets(self) -> Tensor:
        """(rows + 1,): where each row begins, and where the last ends."""
        if self._offsets is None:
            assert self._lengths is not None
            self._offsets = asynchronous_complete_cumsum(self._lengths.view(-1))
        return self._offsets

    def offsets_or_none(self) -> Tensor | None:
        """(rows + 1,): where each row begins and the last ends, or None where that was not found out yet."""
        return self._offsets

    def device(self) -> torch.device:
        """Where the values are."""
        return self._values.device

    @torch.jit.unused
    def record_stream(self, stream: torch.Stream) -> None:
        """Keep the memory of all tensors from being used again before `stream` is done with them."""
        for tensor in self._tensors():
            if tensor is not None:
                tensor.record_stream(stream)

    def _tensors(self) -> tuple[Tensor | None, ...]:
        return self._values, self._weights, self._lengths, self._offsets
