"""What each exchange of embeddings sends and makes of what it receives, forward and backward.

An exchange is linear, so that its gradient is the exchange that goes the other way: of an all-to-all again one, of a
reduce-scatter an all-gather. Where gradients are divided (see `set_gradient_division`), that of all processes is their
mean, as it is for parameters that every process has.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.distributed._codecs import QuantizedCommCodec, QuantizedCommCodecs
from flambeau.rec.distributed._transport import Coded, Pending, exchange

__all__ = ["AllGather", "Exchange", "FeatureReduceScatter", "Pooled", "ReduceScatter", "Sequences", "VariablePooled"]

Finish = Callable[[], Tensor]


class Exchange(abc.ABC):
    """One exchange.

    Args:
        pg: who takes part.
        codecs: of what is sent, forward and backward.
    """

    what = "an exchange of embeddings"
    # A collective that the program brought along for what is sent forward; torch's sends gradients back.
    collective: Any | None = None

    def __init__(self, pg: dist.ProcessGroup, codecs: QuantizedCommCodecs | None) -> None:
        self.pg = pg
        self.world_size, self.rank = dist.get_world_size(pg), dist.get_rank(pg)
        self._forward: QuantizedCommCodec | None = None if codecs is None else codecs.forward  # type: ignore[type-arg]
        self._backward: QuantizedCommCodec | None = None if codecs is None else codecs.backward  # type: ignore[type-arg]

    @abc.abstractmethod
    def send(self, embeddings: Tensor) -> Finish:
        """Start to send; what is returned waits, and gives the result."""

    @abc.abstractmethod
    def send_back(self, gradient: Tensor) -> Finish:
        """Start to send the gradient of the result; what is returned waits, and gives that of the embeddings."""

    def _all_to_all(
        self,
        flat: Tensor,
        sent: Sequence[int],
        received: Sequence[int],
        codec: QuantizedCommCodec | None,  # type: ignore[type-arg]
        collective: Any | None = None,
    ) -> Finish:
        coded, dtype = Coded(codec), flat.dtype
        pending = exchange(
            self.pg,
            coded.encode(flat, sent),
            coded.sizes(sent),
            coded.sizes(received),
            f"{self.what} (all-to-all)",
            collective,
        )
        return lambda: coded.decode(pending.wait(), received).to(dtype)

    def _sum(self, flat: Tensor, sizes: Sequence[int], codec: QuantizedCommCodec | None) -> Finish:  # type: ignore[type-arg]
        """Start to add up, on each process, the pieces that all of them have for it."""
        mine = sizes[self.rank]
        if codec is None and len(set(sizes)) == 1 and dist.get_backend(self.pg) == "nccl":
            summed = flat.new_empty(mine)
            work = dist.reduce_scatter_tensor(summed, flat.contiguous(), group=self.pg, async_op=True)
            return Pending(summed, work, self.pg, f"{self.what} (reduce-scatter)", flat).wait
        # By all backends: an all-to-all, and a sum in the order of the processes, the same wherever it is done.
        arrive = self._all_to_all(flat, sizes, [mine] * self.world_size, codec)
        return lambda: arrive().view(self.world_size, mine).sum(0)

    def _gather(self, flat: Tensor, sizes: Sequence[int], codec: QuantizedCommCodec | None) -> Finish:  # type: ignore[type-arg]
        """Start to collect, on all processes, the pieces of each."""
        coded, dtype = Coded(codec), flat.dtype
        sent = coded.encode(flat, [flat.numel()]).contiguous()
        received = coded.sizes(sizes)
        what = f"{self.what} (all-gather)"
        if len(set(received)) == 1:
            buffer = sent.new_empty(sum(received))
            work = dist.all_gather_into_tensor(buffer, sent, group=self.pg, async_op=True)
            pending = Pending(buffer, work, self.pg, what, sent)
        else:
            pending = exchange(self.pg, sent.repeat(self.world_size), [sent.numel()] * self.world_size, received, what)
        return lambda: coded.decode(pending.wait(), sizes).to(dtype)


class Pooled(Exchange):
    """From all examples of some features to some examples of all features.

    (sum of batch sizes, columns of this process) becomes (examples of this process, columns of all).

    Args:
        pg: who takes part.
        batch_sizes: examples of each process.
        widths: columns of each process.
        codecs: of what is sent.
    """

    what = "an exchange of pooled embeddings"

    def __init__(
        self,
        pg: dist.ProcessGroup,
        batch_sizes: Sequence[int],
        widths: Sequence[int],
        codecs: QuantizedCommCodecs | None,
    ) -> None:
        super().__init__(pg, codecs)
        self._batch_sizes, self._widths = list(batch_sizes), list(widths)
        self._batch, self._width = batch_sizes[self.rank], widths[self.rank]
        self._sent = [size * self._width for size in batch_sizes]
        self._received = [self._batch * width for width in widths]

    def send(self, embeddings: Tensor) -> Finish:
        """Send examples to the processes they came from."""
        arrive = self._all_to_all(embeddings.reshape(-1), self._sent, self._received, self._forward, self.collective)

        def finish() -> Tensor:
            pieces = arrive().split(self._received)
            return torch.cat([p.view(self._batch, w) for p, w in zip(pieces, self._widths, strict=True)], dim=1)

        return finish

    def send_back(self, gradient: Tensor) -> Finish:
        """Send columns to the processes that looked them up."""
        flat = torch.cat([piece.reshape(-1) for piece in gradient.split(self._widths, dim=1)])
        arrive = self._all_to_all(flat, self._received, self._sent, self._backward)
        return lambda: arrive().view(sum(self._batch_sizes), self._width)


class VariablePooled(Exchange):
    """The same where each feature has a batch of its own; everything is flat, by process, then by feature.

    Args:
        pg: who takes part.
        sent: elements for each process.
        received: elements from each process.
        codecs: of what is sent.
    """

    what = "an exchange of pooled embeddings of batches by feature"

    def __init__(
        self, pg: dist.ProcessGroup, sent: Sequence[int], received: Sequence[int], codecs: QuantizedCommCodecs | None
    ) -> None:
        super().__init__(pg, codecs)
        self._sent, self._received = list(sent), list(received)

    def send(self, embeddings: Tensor) -> Finish:
        """Send bags to the processes they came from."""
        return self._all_to_all(embeddings.reshape(-1), self._sent, self._received, self._forward, self.collective)

    def send_back(self, gradient: Tensor) -> Finish:
        """Send their gradients to the processes that looked them up."""
        return self._all_to_all(gradient.reshape(-1), self._received, self._sent, self._backward)


class Sequences(Exchange):
    """Rows to the processes that asked for them.

    (ids that all processes sent here, columns) becomes (ids of this process, columns).

    Args:
        pg: who takes part.
        width: columns.
        order: which row of the look-up comes at each place when rows are sorted by process; None where they are.
        sent: rows for each process.
        received: rows from each process.
        codecs: of what is sent.
    """

    what = "an exchange of embeddings of sequences"

    def __init__(
        self,
        pg: dist.ProcessGroup,
        width: int,
        order: Tensor | None,
        sent: Sequence[int],
        received: Sequence[int],
        codecs: QuantizedCommCodecs | None,
    ) -> None:
        super().__init__(pg, codecs)
        self._width, self._order, self._asked = width, order, sum(received)
        self._looked_up = sum(sent)
        self._sent, self._received = [rows * width for rows in sent], [rows * width for rows in received]

    def send(self, embeddings: Tensor) -> Finish:
        """Sort rows by process, and send them."""
        if self._order is not None:
            embeddings = embeddings.index_select(0, self._order)
        arrive = self._all_to_all(embeddings.reshape(-1), self._sent, self._received, self._forward, self.collective)
        return lambda: arrive().view(self._asked, self._width)

    def send_back(self, gradient: Tensor) -> Finish:
        """Send gradients of rows to the processes that looked them up."""
        arrive = self._all_to_all(gradient.reshape(-1), self._received, self._sent, self._backward)

        def finish() -> Tensor:
            rows = arrive().view(self._looked_up, self._width)
            if self._order is None:
                return rows
            return torch.empty_like(rows).index_copy_(0, self._order, rows)

        return finish


class ReduceScatter(Exchange):
    """The sum over all processes of some rows of a matrix that each of them has.

    Args:
        pg: who takes part.
        rows: of each process, one after another.
        codecs: of what is sent.
    """

    what = "a sum of pooled embeddings"

    def __init__(self, pg: dist.ProcessGroup, rows: Sequence[int], codecs: QuantizedCommCodecs | None) -> None:
        super().__init__(pg, codecs)
        self._rows = list(rows)

    def send(self, embeddings: Tensor) -> Finish:
        """Send rows to the processes that add them up."""
        shape = embeddings.shape[1:]
        arrive = self._sum(embeddings.reshape(-1), self._sizes(shape), self._forward)
        return lambda: arrive().view(self._rows[self.rank], *shape)

    def send_back(self, gradient: Tensor) -> Finish:
        """Send gradients of sums to all processes."""
        shape = gradient.shape[1:]
        arrive = self._gather(gradient.reshape(-1), self._sizes(shape), self._backward)
        return lambda: arrive().view(sum(self._rows), *shape)

    def _sizes(self, shape: torch.Size) -> list[int]:
        return [rows * shape.numel() for rows in self._rows]


class FeatureReduceScatter(Exchange):
    """The same where each feature has a batch of its own; everything is flat, by process, then by feature.

    Args:
        pg: who takes part.
        sizes: elements of each process.
        codecs: of what is sent.
    """

    what = "a sum of pooled embeddings of batches by feature"

    def __init__(self, pg: dist.ProcessGroup, sizes: Sequence[int], codecs: QuantizedCommCodecs | None) -> None:
        super().__init__(pg, codecs)
        self._sizes = list(sizes)

    def send(self, embeddings: Tensor) -> Finish:
        """Send bags to the processes that add them up."""
        return self._sum(embeddings.reshape(-1), self._sizes, self._forward)

    def send_back(self, gradient: Tensor) -> Finish:
        """Send gradients of sums to all processes."""
        return self._gather(gradient.reshape(-1), self._sizes, self._backward)


class AllGather(Exchange):
    """The matrices of all processes, one below another.

    Args:
        pg: who takes part.
        codecs: of what is sent.
    """

    what = "a matrix of pooled embeddings"

    def send(self, embeddings: Tensor) -> Finish:
        """Send the matrix to all processes."""
        self._shape = embeddings.shape
        arrive = self._gather(embeddings.reshape(-1), [embeddings.numel()] * self.world_size, self._forward)
        rows = self._shape[0] * self.world_size
        return lambda: arrive().view(rows, *self._shape[1:])

    def send_back(self, gradient: Tensor) -> Finish:
        """Send gradients to the processes whose matrices they are of, which add them up."""
        sizes = [self._shape.numel()] * self.world_size
        arrive = self._sum(gradient.reshape(-1), sizes, self._backward)
        return lambda: arrive().view(self._shape)
