"""Rows and gradients of batches that are sent in two parts: ids that the next batch has as well, and the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from flambeau.rec.distributed._transport import Pending, exchange
from flambeau.rec.distributed.comm_ops import get_gradient_division
from flambeau.rec.distributed.types import Awaitable
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

if TYPE_CHECKING:
    import torch.distributed as dist

    from flambeau.rec.distributed.pec_collision_handlers import OverlapSplits

__all__ = ["PECAll2AllSeqInfo", "PECAll2AllSeqWait", "PECGradUpdateAwaitable", "PECGradientApply"]


class PECGradientApply:
    """Sends the gradients of one part to the processes of its rows, and trains these by them.

    Args:
        grad: (ids, columns) in the order in which ids were sent.
        input_splits: how many go to each process.
        output_splits: how many come from each.
        pg: who takes part.
    """

    def __init__(self, grad: Tensor, input_splits: list[int], output_splits: list[int], pg: dist.ProcessGroup) -> None:
        self._grad: Tensor | None = grad
        self._width, self._pg = grad.shape[1], pg
        self._input_splits, self._output_splits = input_splits, output_splits
        self._pending: Pending | None = None

    def dist(self) -> None:
        """Start to send; nothing happens when it was started before."""
        if self._pending is not None or self._grad is None:
            return
        self._pending = exchange(
            self._pg,
            self._grad.reshape(-1),
            [count * self._width for count in self._input_splits],
            [count * self._width for count in self._output_splits],
            "an exchange of gradients (all-to-all)",
        )
        self._grad = None

    def apply(
        self, features: KeyedJaggedTensor, lookup_fn: Callable[[KeyedJaggedTensor], Tensor], embedding_dim: int
    ) -> None:
        """Wait for the gradients, and train by them.

        Args:
            features: of the part, as they came to this process.
            lookup_fn: looks them up again, with rows sorted by the process they came from.
            embedding_dim: columns.

        Raises:
            OptionError: gradients of other columns, or a second time.
        """
        self.dist()
        if self._pending is None:
            raise OptionError("these gradients were applied before; each batch has its own.")
        if embedding_dim != self._width:
            raise OptionError(f"gradients have {self._width} columns, expected {embedding_dim}, those of the tables.")
        grad = self._pending.wait().view(-1, embedding_dim)
        self._pending = None
        with torch.enable_grad():
            rows = lookup_fn(features)
            if rows.shape != grad.shape:
                raise OptionError(
                    f"features have {len(rows)} ids, and gradients came for {len(grad)}: give the features of the part "
                    "and batch that the gradients are of."
                )
            if rows.requires_grad:
                rows.backward(grad.to(rows.dtype))


class PECGradUpdateAwaitable(Awaitable[None]):
    """Training by one part, which happens when it is waited for.

    Args:
        applier: its gradients.
        features: of the part, as they came to this process.
        lookup_fn: looks them up again, with rows sorted by the process they came from.
        embedding_dim: columns.
    """

    def __init__(
        self,
        applier: PECGradientApply,
        features: KeyedJaggedTensor,
        lookup_fn: Callable[[KeyedJaggedTensor], Tensor],
        embedding_dim: int,
    ) -> None:
        super().__init__()
        self._applier, self._features = applier, features
        self._lookup_fn, self._embedding_dim = lookup_fn, embedding_dim

    def _wait_impl(self) -> None:
        self._applier.apply(self._features, self._lookup_fn, self._embedding_dim)


@dataclass
class PECAll2AllSeqInfo:
    """How the rows of both parts are joined, and their gradients parted.

    Args:
        forward_permute: (ids,) the place of each id among the rows of both parts, one part after the other.
        backward_ol_permute: which ids the next batch has as well, in the order in which they were sent.
        backward_nol_permute: which it has not.
        backward_splits: how many of each go where.
        pg: who takes part.
        ol_grad_apply: gradients of ids that the next batch has as well; set by the backward pass, under way.
        nol_grad_apply: those of the others; set by the backward pass, not yet sent.
    """

    forward_permute: Tensor
    backward_ol_permute: Tensor | None = None
    backward_nol_permute: Tensor | None = None
    backward_splits: OverlapSplits | None = None
    pg: dist.ProcessGroup | None = None
    ol_grad_apply: PECGradientApply | None = None
    nol_grad_apply: PECGradientApply | None = None


class PECAll2AllSeqWait(Function):
    """Joins the rows of both parts; in the backward pass parts their gradients, which go on by themselves."""

    @staticmethod
    def forward(
        ctx: Any, autograd_ctx: PECAll2AllSeqInfo, ol_embs: Tensor, nol_embs: Tensor, grad_anchor: Tensor
    ) -> Tensor:
        """(ids, columns) in the order of the local batch.

        Args:
            ctx: of autograd.
            autograd_ctx: how rows are joined; told of gradients in the backward pass.
            ol_embs: rows of ids that the batch before has as well, in the order in which ids were sent.
            nol_embs: rows of the others.
            grad_anchor: anything that requires a gradient, for there to be a backward pass; it gets none.
        """
        ctx.info = autograd_ctx
        return torch.cat([ol_embs, nol_embs])[autograd_ctx.forward_permute]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[None, None, None, None]:
        """Part the gradients, and start to send those that the next batch waits for."""
        info: PECAll2AllSeqInfo = ctx.info
        splits = info.backward_splits
        if splits is None or info.pg is None or info.backward_ol_permute is None or info.backward_nol_permute is None:
            raise OptionError(
                "nothing says which ids the next batch has as well: give backward_ctxs, which overlap_dist finds, to "
                "merge_partitioned_embeddings before the backward pass."
            )
        if get_gradient_division():
            grad_output = grad_output / info.pg.size()
        parts = []
        for at, order in enumerate((info.backward_ol_permute, info.backward_nol_permute)):
            parts.append(
                PECGradientApply(grad_output[order], splits.input_splits[at], splits.output_splits[at], info.pg)
            )
        info.ol_grad_apply, info.nol_grad_apply = parts
        info.ol_grad_apply.dist()
        return None, None, None, None
