"""Numbers on their way between the processes of a group: one all-to-all of flat pieces, under everything else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.distributed._codecs import QuantizedCommCodec
from flambeau.rec.distributed._failures import waited_for

__all__ = ["Coded", "Pending", "exchange"]

# What gloo sends as it is; anything else travels as bytes.
_SENT_AS_THEY_ARE = (
    torch.float32, torch.float64, torch.float16, torch.int32, torch.int64, torch.uint8, torch.int8,
)  # fmt: skip


class Pending:
    """A buffer that is being filled.

    Args:
        buffer: which one.
        work: the collective; None where it is done.
        pg: who takes part.
        what: it is, for messages.
        sent: memory that has to stay until then.
    """

    def __init__(
        self, buffer: Tensor, work: dist.Work | None, pg: dist.ProcessGroup, what: str, sent: Tensor | None = None
    ) -> None:
        self._buffer, self._work, self._pg, self._what, self._sent = buffer, work, pg, what, sent

    def wait(self) -> Tensor:
        """The buffer, when it is full."""
        if self._work is not None:
            waited_for(self._work.wait, self._pg, self._what)
            self._work = self._sent = None
        return self._buffer


def exchange(
    pg: dist.ProcessGroup,
    sent: Tensor,
    sent_sizes: Sequence[int],
    received_sizes: Sequence[int],
    what: str,
    collective: Any | None = None,
) -> Pending:
    """Send the pieces of a flat tensor to the processes, and receive as many from them.

    Args:
        pg: who takes part; one piece for each.
        sent: (sum of sent_sizes,).
        sent_sizes: elements for each process.
        received_sizes: elements from each process.
        what: it is, for messages.
        collective: an `All2AllSingle` to send by, which also gives the memory; torch's by default.

    Returns:
        (sum of received_sizes,) of the same dtype, from the first process on.
    """
    if len(sent_sizes) == 1:
        return Pending(sent, None, pg, what)
    sent = sent.contiguous()
    if collective is None:
        received = torch.empty(sum(received_sizes), dtype=sent.dtype, device=sent.device)
    else:
        received = collective.allocate((sum(received_sizes),), dtype=sent.dtype, device=sent.device)
        sent = collective.allocate((sent.numel(),), dtype=sent.dtype, device=sent.device).copy_(sent)
    outgoing, incoming = sent, received
    sent_sizes, received_sizes = list(sent_sizes), list(received_sizes)
    if sent.dtype not in _SENT_AS_THEY_ARE:
        width = sent.element_size()
        outgoing, incoming = sent.view(torch.uint8), received.view(torch.uint8)
        sent_sizes, received_sizes = [n * width for n in sent_sizes], [n * width for n in received_sizes]
    holder: list[dist.Work | None] = []

    def start() -> None:
        if collective is None:
            holder.append(dist.all_to_all_single(incoming, outgoing, received_sizes, sent_sizes, pg, async_op=True))
            return
        holder.append(
            collective(
                output_tensor=incoming, input_tensor=outgoing, output_split_sizes=received_sizes,
                input_split_sizes=sent_sizes, group=pg, async_op=True,
            )
        )  # fmt: skip

    waited_for(start, pg, what)
    return Pending(received, holder[0], pg, what, outgoing)


class Coded:
    """Pieces of numbers as a codec sends them.

    A codec that works on rows (its context has a `row_dim`) is given each piece filled up to whole rows.

    Args:
        codec: or None, to send numbers as they are.
    """

    def __init__(self, codec: QuantizedCommCodec | None) -> None:  # type: ignore[type-arg]
        self._codec = codec
        self._context = None if codec is None else codec.create_context()
        self._row = max(int(getattr(self._context, "row_dim", 0) or 0), 0)

    def sizes(self, sizes: Sequence[int]) -> list[int]:
        """Elements that are sent for pieces of these sizes."""
        if self._codec is None:
            return list(sizes)
        return [self._codec.calc_quantized_size(size, self._context) for size in self._filled(sizes)]

    def _filled(self, sizes: Sequence[int]) -> list[int]:
        if not self._row:
            return list(sizes)
        return [-(-size // self._row) * self._row for size in sizes]

    def encode(self, flat: Tensor, sizes: Sequence[int]) -> Tensor:
        """What is sent for pieces that come one after another."""
        if self._codec is None:
            return flat
        filled = self._filled(sizes)
        if filled != list(sizes):
            pieces = [flat.new_zeros(size) for size in filled]
            for piece, given in zip(pieces, flat.split(list(sizes)), strict=True):
                piece[: given.numel()] = given
            flat = torch.cat(pieces)
        encoded: Tensor = self._codec.encode(flat, self._context)
        return encoded.reshape(-1)

    def decode(self, received: Tensor, sizes: Sequence[int]) -> Tensor:
        """The pieces, one after another, for which this was sent."""
        if self._codec is None:
            return received
        flat: Tensor = self._codec.decode(received, self._context).reshape(-1)
        filled = self._filled(sizes)
        if filled == list(sizes):
            return flat
        starts = [0, *accumulate(filled)]
        return torch.cat([flat[begin : begin + size] for begin, size in zip(starts, sizes, strict=False)])
