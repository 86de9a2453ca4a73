"""Exchanges of embeddings between processes, with gradients.

Each function starts an exchange and returns an awaitable of its result, so that other work can go on meanwhile; in the
backward pass, gradients are sent when they arrive at the result, and waited for when they are needed.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from flambeau.rec.distributed import _exchanges as exchanges
from flambeau.rec.distributed.types import Awaitable, NoWait, QuantizedCommCodecs
from flambeau.rec.errors import OptionError

__all__ = [
    "GRADIENT_DIVISION",
    "USE_SYNC_COLLECTIVES",
    "All2AllDenseInfo",
    "All2AllPooledInfo",
    "All2AllSequenceInfo",
    "All2AllSingle",
    "All2AllVInfo",
    "All2All_Pooled_Req",
    "All2All_Pooled_Wait",
    "All2All_Seq_Req",
    "All2All_Seq_Req_Wait",
    "All2Allv_Req",
    "All2Allv_Wait",
    "AllGatherBaseInfo",
    "AllGatherBase_Req",
    "AllGatherBase_Wait",
    "AllToAllSingle",
    "Comm",
    "DefaultAll2AllSingle",
    "DefaultAllocMixin",
    "ReduceScatterBaseInfo",
    "ReduceScatterBase_Req",
    "ReduceScatterBase_Wait",
    "ReduceScatterInfo",
    "ReduceScatterVInfo",
    "ReduceScatterV_Req",
    "ReduceScatterV_Wait",
    "ReduceScatter_Req",
    "ReduceScatter_Wait",
    "Request",
    "VariableBatchAll2AllPooledInfo",
    "Variable_Batch_All2All_Pooled_Req",
    "Variable_Batch_All2All_Pooled_Wait",
    "all2all_pooled_sync",
    "all2all_sequence_sync",
    "all_gather_base_pooled",
    "all_gather_base_sync",
    "all_gather_into_tensor_backward",
    "all_gather_into_tensor_fake",
    "all_gather_into_tensor_setup_context",
    "alltoall_pooled",
    "alltoall_sequence",
    "alltoallv",
    "get_gradient_division",
    "get_use_sync_collectives",
    "pg_name",
    "reduce_scatter_base_pooled",
    "reduce_scatter_base_sync",
    "reduce_scatter_pooled",
    "reduce_scatter_sync",
    "reduce_scatter_tensor_backward",
    "reduce_scatter_tensor_fake",
    "reduce_scatter_tensor_setup_context",
    "reduce_scatter_v_per_feature_pooled",
    "reduce_scatter_v_pooled",
    "reduce_scatter_v_sync",
    "set_gradient_division",
    "set_use_sync_collectives",
    "torchrec_use_sync_collectives",
    "variable_batch_all2all_pooled_sync",
    "variable_batch_alltoall_pooled",
]

W = TypeVar("W")

GRADIENT_DIVISION: bool = True
USE_SYNC_COLLECTIVES: bool = False


def set_gradient_division(val: bool) -> None:
    """Say whether gradients are divided by the number of processes, as data parallelism does for other parameters."""
    global GRADIENT_DIVISION
    GRADIENT_DIVISION = val


def get_gradient_division() -> bool:
    """Whether gradients are divided by the number of processes."""
    return GRADIENT_DIVISION


def set_use_sync_collectives(val: bool) -> None:
    """Say whether exchanges are waited for as soon as they are started."""
    global USE_SYNC_COLLECTIVES
    USE_SYNC_COLLECTIVES = val


def get_use_sync_collectives() -> bool:
    """Whether exchanges are waited for as soon as they are started, as they are while a program is compiled."""
    return USE_SYNC_COLLECTIVES or torch.compiler.is_dynamo_compiling()


@contextlib.contextmanager
def torchrec_use_sync_collectives() -> Iterator[None]:
    """Within it, exchanges are waited for as soon as they are started."""
    before = USE_SYNC_COLLECTIVES
    set_use_sync_collectives(True)
    try:
        yield
    finally:
        set_use_sync_collectives(before)


def pg_name(pg: dist.ProcessGroup) -> str:
    """The name by which functional collectives know a group."""
    return pg.group_name


# ----- what exchanges are told ----------------------------------------------------------------------------------------


@dataclass
class All2AllPooledInfo:
    """Of `alltoall_pooled`: examples and columns of each process, the latter also as tensors, and codecs."""

    batch_size_per_rank: list[int]
    dim_sum_per_rank: list[int]
    dim_sum_per_rank_tensor: Tensor | None
    cumsum_dim_sum_per_rank_tensor: Tensor | None
    codecs: QuantizedCommCodecs | None = None


@dataclass
class VariableBatchAll2AllPooledInfo:
    """Of `variable_batch_alltoall_pooled`: see there."""

    batch_size_per_rank_per_feature: list[list[int]]
    batch_size_per_feature_pre_a2a: list[int]
    emb_dim_per_rank_per_feature: list[list[int]]
    codecs: QuantizedCommCodecs | None = None
    input_splits: list[int] | None = None
    output_splits: list[int] | None = None


@dataclass
class All2AllSequenceInfo:
    """Of `alltoall_sequence`: see there."""

    embedding_dim: int
    lengths_after_sparse_data_all2all: Tensor
    forward_recat_tensor: Tensor | None
    backward_recat_tensor: Tensor
    input_splits: list[int]
    output_splits: list[int]
    variable_batch_size: bool = False
    codecs: QuantizedCommCodecs | None = None
    permuted_lengths_after_sparse_data_all2all: Tensor | None = None


@dataclass
class All2AllVInfo:
    """Of `alltoallv`: columns of each process, examples of all and of this one, of each, columns of each input."""

    dims_sum_per_rank: list[int]
    B_global: int
    B_local: int
    B_local_list: list[int]
    D_local_list: list[int]
    input_split_sizes: list[int] = field(default_factory=list)
    output_split_sizes: list[int] = field(default_factory=list)
    codecs: QuantizedCommCodecs | None = None


@dataclass
class All2AllDenseInfo:
    """Of an all-to-all of a dense tensor: pieces received and sent, examples, and the input's shape."""

    output_splits: list[int]
    batch_size: int
    input_shape: list[int]
    input_splits: list[int]


@dataclass
class ReduceScatterInfo:
    """Of `reduce_scatter_pooled`: the shape of each process's input."""

    input_sizes: list[torch.Size]
    codecs: QuantizedCommCodecs | None = None


@dataclass
class ReduceScatterBaseInfo:
    """Of `reduce_scatter_base_pooled`: the shape of the input."""

    input_sizes: torch.Size
    codecs: QuantizedCommCodecs | None = None


@dataclass
class ReduceScatterVInfo:
    """Of `reduce_scatter_v_pooled`: shapes and sizes of each process's piece, and whether all are equal."""

    input_sizes: list[list[int]]
    input_splits: list[int]
    equal_splits: bool
    total_input_size: list[int]
    codecs: QuantizedCommCodecs | None


@dataclass
class AllGatherBaseInfo:
    """Of `all_gather_base_pooled`: the shape of the input."""

    input_size: torch.Size
    codecs: QuantizedCommCodecs | None = None


class Comm(abc.ABC):
    """A collective that a program may bring along."""

    @abc.abstractmethod
    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Memory for what is received."""

    @abc.abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> dist.Work | None:
        """Start it."""


class All2AllSingle(Comm):
    """An all-to-all of flat pieces, as `torch.distributed.all_to_all_single`."""


class DefaultAllocMixin:
    """Memory as torch gives it."""

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Memory for what is received."""
        return torch.empty(*size, dtype=dtype, device=device)


class DefaultAll2AllSingle(DefaultAllocMixin, All2AllSingle):
    """`torch.distributed.all_to_all_single` itself."""

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        output_split_sizes: list[int] | None = None,
        input_split_sizes: list[int] | None = None,
        group: dist.ProcessGroup | None = None,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Start it."""
        work: dist.Work | None = dist.all_to_all_single(
            output_tensor, input_tensor, output_split_sizes, input_split_sizes, group, async_op
        )
        return work


# ----- two functions for each exchange: one that starts it, one that waits for it -------------------------------------


class Request(Awaitable[W], Generic[W]):
    """An exchange that was started.

    Args:
        pg: who takes part.
        device: of what is exchanged.
    """

    def __init__(self, pg: dist.ProcessGroup, device: torch.device) -> None:
        super().__init__()
        self.pg = pg
        # What leads the gradient from the function that waits to the one that started.
        self.dummy_tensor = torch.empty(1, requires_grad=True, device=device)
        # Whether nothing here wants the gradient, so that the one that started takes no part in the backward pass.
        self.unwanted = False
        self.exchange: exchanges.Exchange | None = None
        self.arrive: exchanges.Finish | None = None
        self.arrive_back: exchanges.Finish | None = None
        self.wait_function: type[Function] | None = None

    def _wait_impl(self) -> W:
        assert self.wait_function is not None
        result: W = self.wait_function.apply(self.pg, self, self.dummy_tensor)
        self.arrive = None
        return result


class _Start(Function):
    """Starts an exchange; its gradient is waited for."""

    @staticmethod
    def begin(
        ctx: Any, pg: dist.ProcessGroup, request: Request[Tensor], made: exchanges.Exchange, given: Any
    ) -> Tensor:
        request.exchange = made
        request.arrive = made.send(given)
        ctx.request = request
        return torch.empty(1, device=request.dummy_tensor.device)

    @staticmethod
    def backward(ctx: Any, *unused: Tensor) -> tuple[Tensor | None, ...]:
        request = ctx.request
        assert request.arrive_back is not None
        gradient = request.arrive_back()
        request.arrive_back = None
        if GRADIENT_DIVISION:
            gradient = gradient / request.exchange.world_size
        return None, None, None, gradient, None


class _Wait(Function):
    """Waits for an exchange; its gradient is started."""

    @staticmethod
    def forward(ctx: Any, pg: dist.ProcessGroup, request: Request[Tensor], *dummy_tensor: Tensor) -> Tensor:
        ctx.request = request
        assert request.arrive is not None
        return request.arrive()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        request = ctx.request
        arrive_back = request.exchange.send_back(gradients[0].contiguous())
        if request.unwanted:
            arrive_back()
        else:
            request.arrive_back = arrive_back
        return None, None, torch.zeros_like(request.dummy_tensor)


def _pair(name: str, make: Any, waiting: str | None = None) -> tuple[type[Function], type[Function]]:
    """The two functions of an exchange.

    Args:
        name: of both, before "_Req" and "_Wait".
        make: the exchange, of the group, of what it is told, and of the embeddings.
        waiting: the name of the second one, where it is another.
    """
    waits = type(waiting or f"{name}_Wait", (_Wait,), {"__module__": __name__, "__doc__": _Wait.__doc__})

    def forward(
        ctx: Any, pg: dist.ProcessGroup, myreq: Request[Tensor], info: Any, embeddings: Tensor, *rest: Any
    ) -> Any:
        myreq.wait_function = waits
        return _Start.begin(ctx, pg, myreq, make(pg, info, embeddings), embeddings)

    starts = type(
        f"{name}_Req",
        (_Start,),
        {"__module__": __name__, "__doc__": _Start.__doc__, "forward": staticmethod(forward)},
    )
    return starts, waits


def _pooled(pg: dist.ProcessGroup, info: All2AllPooledInfo, embeddings: Tensor) -> exchanges.Exchange:
    made = exchanges.Pooled(pg, info.batch_size_per_rank, info.dim_sum_per_rank, info.codecs)
    made.collective = getattr(info, "_collective", None)
    return made


def _variable(pg: dist.ProcessGroup, info: VariableBatchAll2AllPooledInfo, embeddings: Tensor) -> exchanges.Exchange:
    widths = info.emb_dim_per_rank_per_feature
    mine = widths[dist.get_rank(pg)]
    sent = [
        sum(size * width for size, width in zip(sizes, mine, strict=True))
        for sizes in info.batch_size_per_rank_per_feature
    ]
    received, at = [], 0
    for of_rank in widths:
        sizes = info.batch_size_per_feature_pre_a2a[at : at + len(of_rank)]
        received.append(sum(size * width for size, width in zip(sizes, of_rank, strict=True)))
        at += len(of_rank)
    info.input_splits, info.output_splits = sent, received
    made = exchanges.VariablePooled(pg, sent, received, info.codecs)
    made.collective = getattr(info, "_collective", None)
    return made


def _sequences(pg: dist.ProcessGroup, info: All2AllSequenceInfo, embeddings: Tensor) -> exchanges.Exchange:
    order = _order_of_rows(info)
    return exchanges.Sequences(pg, info.embedding_dim, order, info.input_splits, info.output_splits, info.codecs)


def _order_of_rows(info: All2AllSequenceInfo) -> Tensor | None:
    """Which row of a look-up, sorted by feature, comes at each place when rows are sorted by process."""
    recat, lengths = info.forward_recat_tensor, info.lengths_after_sparse_data_all2all
    if recat is None or not recat.numel():
        return None
    from flambeau.rec.ops.permute import sources

    per_block = lengths.reshape(-1) if info.variable_batch_size else lengths.view(recat.numel(), -1).sum(1)
    return sources(recat, per_block, sum(info.input_splits))


def _rows(pg: dist.ProcessGroup, info: ReduceScatterVInfo, embeddings: Tensor) -> exchanges.Exchange:
    return exchanges.ReduceScatter(pg, info.input_splits, info.codecs)


def _base(pg: dist.ProcessGroup, info: ReduceScatterBaseInfo, embeddings: Tensor) -> exchanges.Exchange:
    size = dist.get_world_size(pg)
    rows = info.input_sizes[0]
    if rows % size:
        raise OptionError(f"input has {rows} rows, which {size} processes cannot share equally; give input_splits.")
    return exchanges.ReduceScatter(pg, [rows // size] * size, info.codecs)


def _collected(pg: dist.ProcessGroup, info: AllGatherBaseInfo, embeddings: Tensor) -> exchanges.Exchange:
    return exchanges.AllGather(pg, info.codecs)


def _by_feature(pg: dist.ProcessGroup, info: ReduceScatterVInfo, embeddings: Tensor) -> exchanges.Exchange:
    return exchanges.FeatureReduceScatter(pg, info.input_splits, info.codecs)


All2All_Pooled_Req, All2All_Pooled_Wait = _pair("All2All_Pooled", _pooled)
Variable_Batch_All2All_Pooled_Req, Variable_Batch_All2All_Pooled_Wait = _pair(
    "Variable_Batch_All2All_Pooled", _variable
)
All2All_Seq_Req, All2All_Seq_Req_Wait = _pair("All2All_Seq", _sequences, "All2All_Seq_Req_Wait")
All2Allv_Req, All2Allv_Wait = _pair("All2Allv", _pooled)
ReduceScatterBase_Req, ReduceScatterBase_Wait = _pair("ReduceScatterBase", _base)
ReduceScatterV_Req, ReduceScatterV_Wait = _pair("ReduceScatterV", _rows)
ReduceScatter_Req, ReduceScatter_Wait = _pair("ReduceScatter", _rows)
AllGatherBase_Req, AllGatherBase_Wait = _pair("AllGatherBase", _collected)
_FeatureReduceScatter_Req, _FeatureReduceScatter_Wait = _pair("FeatureReduceScatter", _by_feature)


def _group(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    if group is not None:
        return group
    default = dist.group.WORLD
    if default is None:
        raise OptionError("there is no default process group; call torch.distributed.init_process_group, or give one.")
    return default


def _started(
    starts: type[Function], group: dist.ProcessGroup | None, info: Any, embeddings: Tensor
) -> Awaitable[Tensor]:
    pg = _group(group)
    request: Request[Tensor] = Request(pg, embeddings.device)
    dummy_tensor: Tensor = starts.apply(pg, request, info, embeddings, None)
    if torch.is_grad_enabled() and not dummy_tensor.requires_grad:
        # Others may want gradients that this process has a part of, as one without rows does; whoever left the backward
        # exchange out would be one collective ahead of them.
        request.unwanted = True
        dummy_tensor.requires_grad_()
    request.dummy_tensor = dummy_tensor
    return NoWait(request.wait()) if get_use_sync_collectives() else request


# ----- the exchanges --------------------------------------------------------------------------------------------------


def alltoall_pooled(
    a2a_pooled_embs_tensor: Tensor,
    batch_size_per_rank: list[int],
    dim_sum_per_rank: list[int],
    dim_sum_per_rank_tensor: Tensor | None = None,
    cumsum_dim_sum_per_rank_tensor: Tensor | None = None,
    group: dist.ProcessGroup | None = None,
    codecs: QuantizedCommCodecs | None = None,
    all_to_all_single_comm: All2AllSingle | None = None,
) -> Awaitable[Tensor]:
    """From all examples of some features to some examples of all features.

    Args:
        a2a_pooled_embs_tensor: (examples of all processes, columns of this process).
        batch_size_per_rank: examples of each process.
        dim_sum_per_rank: columns of each process.
        dim_sum_per_rank_tensor: the same as a tensor, which is not needed here.
        cumsum_dim_sum_per_rank_tensor: its cumulative sums, which are not needed here.
        group: who takes part; all processes by default.
        codecs: of what is sent.
        all_to_all_single_comm: what sends embeddings, and gives the memory for it; torch's by default, which sends
            gradients back in any case.

    Returns:
        Awaitable of (examples of this process, columns of all processes).
    """
    if dist.get_world_size(group) <= 1:
        return NoWait(a2a_pooled_embs_tensor)
    info = All2AllPooledInfo(
        batch_size_per_rank, dim_sum_per_rank, dim_sum_per_rank_tensor, cumsum_dim_sum_per_rank_tensor, codecs
    )
    info._collective = all_to_all_single_comm  # type: ignore[attr-defined]
    return _started(All2All_Pooled_Req, group, info, a2a_pooled_embs_tensor)


def all2all_pooled_sync(pg: dist.ProcessGroup, a2ai: All2AllPooledInfo, input_embeddings: Tensor) -> Tensor:
    """`alltoall_pooled`, waited for."""
    return _started(All2All_Pooled_Req, pg, a2ai, input_embeddings).wait()


def variable_batch_alltoall_pooled(
    a2a_pooled_embs_tensor: Tensor,
    batch_size_per_rank_per_feature: list[list[int]],
    batch_size_per_feature_pre_a2a: list[int],
    emb_dim_per_rank_per_feature: list[list[int]],
    group: dist.ProcessGroup | None = None,
    codecs: QuantizedCommCodecs | None = None,
    all_to_all_single_comm: All2AllSingle | None = None,
) -> Awaitable[Tensor]:
    """`alltoall_pooled` where each feature has a batch of its own.

    Args:
        a2a_pooled_embs_tensor: flat: for each process, for each feature of this one, (examples, columns).
        batch_size_per_rank_per_feature: of each process, examples of each feature of this one.
        batch_size_per_feature_pre_a2a: of each feature of all processes, examples of this process.
        emb_dim_per_rank_per_feature: of each process, columns of each of its features.
        group: who takes part; all processes by default.
        codecs: of what is sent.
        all_to_all_single_comm: likewise.

    Returns:
        Awaitable of a flat tensor: for each process, for each of its features, (examples of this process, columns).
    """
    if dist.get_world_size(group) <= 1:
        return NoWait(a2a_pooled_embs_tensor)
    info = VariableBatchAll2AllPooledInfo(
        batch_size_per_rank_per_feature, batch_size_per_feature_pre_a2a, emb_dim_per_rank_per_feature, codecs
    )
    info._collective = all_to_all_single_comm  # type: ignore[attr-defined]
    return _started(Variable_Batch_All2All_Pooled_Req, group, info, a2a_pooled_embs_tensor)


def variable_batch_all2all_pooled_sync(
    pg: dist.ProcessGroup, a2ai: VariableBatchAll2AllPooledInfo, input_embeddings: Tensor
) -> Tensor:
    """`variable_batch_alltoall_pooled`, waited for."""
    return _started(Variable_Batch_All2All_Pooled_Req, pg, a2ai, input_embeddings).wait()


def alltoall_sequence(
    a2a_sequence_embs_tensor: Tensor,
    forward_recat_tensor: Tensor,
    backward_recat_tensor: Tensor,
    lengths_after_sparse_data_all2all: Tensor,
    input_splits: list[int],
    output_splits: list[int],
    variable_batch_size: bool = False,
    group: dist.ProcessGroup | None = None,
    codecs: QuantizedCommCodecs | None = None,
) -> Awaitable[Tensor]:
    """Send rows to the processes that asked for them.

    Args:
        a2a_sequence_embs_tensor: (ids that all processes sent here, columns), feature by feature.
        forward_recat_tensor: from (feature, process) to (process, feature): the place of each block, int32.
        backward_recat_tensor: the other way.
        lengths_after_sparse_data_all2all: ids of each feature, process and example, in that order.
        input_splits: rows for each process.
        output_splits: rows from each process.
        variable_batch_size: whether processes have batches of different sizes; recats are then of single examples.
        group: who takes part; all processes by default.
        codecs: of what is sent.

    Returns:
        Awaitable of (ids of this process, columns), process by process.
    """
    if dist.get_world_size(group) <= 1:
        return NoWait(a2a_sequence_embs_tensor)
    info = All2AllSequenceInfo(
        a2a_sequence_embs_tensor.shape[1],
        lengths_after_sparse_data_all2all,
        forward_recat_tensor,
        backward_recat_tensor,
        input_splits,
        output_splits,
        variable_batch_size,
        codecs,
    )
    return _started(All2All_Seq_Req, group, info, a2a_sequence_embs_tensor)


def all2all_sequence_sync(pg: dist.ProcessGroup, a2ai: All2AllSequenceInfo, sharded_input_embeddings: Tensor) -> Tensor:
    """`alltoall_sequence`, waited for."""
    return _started(All2All_Seq_Req, pg, a2ai, sharded_input_embeddings).wait()


def alltoallv(
    inputs: list[Tensor],
    out_split: list[int] | None = None,
    per_rank_split_lengths: list[int] | None = None,
    group: dist.ProcessGroup | None = None,
    codecs: QuantizedCommCodecs | None = None,
) -> Awaitable[list[Tensor]]:
    """`alltoall_pooled` of several tensors, with as many examples of each process, cut into the columns of each tensor.

    Args:
        inputs: (examples of all processes, columns) each.
        out_split: columns of each tensor of the result.
        per_rank_split_lengths: of them, how many tensors come from each process; as many from each by default.
        group: who takes part; all processes by default.
        codecs: of what is sent.

    Returns:
        Awaitable of (examples of this process, columns), a tensor for each of `out_split`.
    """
    pg = _group(group)
    size, rank = dist.get_world_size(pg), dist.get_rank(pg)
    rows = inputs[0].shape[0]
    if any(one.shape[0] != rows for one in inputs):
        raise OptionError(f"inputs have {[one.shape[0] for one in inputs]} examples; expected as many of each.")
    widths = list(out_split or [])
    counts = per_rank_split_lengths or [len(widths) // size] * size
    per_rank, at = [], 0
    for count in counts:
        per_rank.append(sum(widths[at : at + count]))
        at += count
    if not widths:
        widths = per_rank = [sum(one.shape[1] for one in inputs)] * size
    share, rest = divmod(rows, size)
    sizes = [share + (one < rest) for one in range(size)]
    if sizes[rank] * size != rows and rest:
        raise OptionError(f"inputs have {rows} examples, which {size} processes cannot share equally.")
    joined = torch.cat(inputs, dim=1)
    info = All2AllPooledInfo(sizes, per_rank, None, None, codecs)
    if size <= 1:
        return NoWait(list(joined.split(widths, dim=1)))
    return _Cut(_started(All2Allv_Req, pg, info, joined), widths)


class _Cut(Awaitable[list[Tensor]]):
    """The columns of a matrix that is under way, in groups."""

    def __init__(self, whole: Awaitable[Tensor], widths: list[int]) -> None:
        super().__init__()
        self._whole, self._widths = whole, widths

    def _wait_impl(self) -> list[Tensor]:
        return list(self._whole.wait().split(self._widths, dim=1))


def reduce_scatter_pooled(
    inputs: list[Tensor], group: dist.ProcessGroup | None = None, codecs: QuantizedCommCodecs | None = None
) -> Awaitable[Tensor]:
    """Add up what all processes have for each, and give it to each.

    Args:
        inputs: for each process a tensor, of its shape on all of them.
        group: who takes part; all processes by default.
        codecs: of what is sent.

    Returns:
        Awaitable of the sum, over all processes, of their tensors for this one.
    """
    pg = _group(group)
    if len(inputs) != dist.get_world_size(pg):
        raise OptionError(f"inputs has {len(inputs)} tensors, expected one for each of {dist.get_world_size(pg)}.")
    if len(inputs) == 1:
        return NoWait(inputs[0])
    return reduce_scatter_v_pooled(torch.cat(inputs), [one.shape[0] for one in inputs], pg, codecs)


def reduce_scatter_sync(pg: dist.ProcessGroup, rsi: ReduceScatterInfo, *inputs: Any) -> Tensor:
    """`reduce_scatter_pooled`, waited for."""
    return reduce_scatter_pooled(list(inputs), pg, rsi.codecs).wait()


def reduce_scatter_base_pooled(
    input: Tensor, group: dist.ProcessGroup | None = None, codecs: QuantizedCommCodecs | None = None
) -> Awaitable[Tensor]:
    """Add up what all processes have, and give each as many rows of it.

    Args:
        input: (examples of all processes, columns).
        group: who takes part; all processes by default.
        codecs: of what is sent.

    Returns:
        Awaitable of (examples of this process, columns).
    """
    if dist.get_world_size(group) <= 1:
        return NoWait(input)
    return _started(ReduceScatterBase_Req, group, ReduceScatterBaseInfo(input.shape, codecs), input)


def reduce_scatter_base_sync(pg: dist.ProcessGroup, rsi: ReduceScatterBaseInfo, inputs: Tensor) -> Tensor:
    """`reduce_scatter_base_pooled`, waited for."""
    return _started(ReduceScatterBase_Req, pg, rsi, inputs).wait()


def reduce_scatter_v_pooled(
    input: Tensor,
    input_splits: list[int],
    group: dist.ProcessGroup | None = None,
    codecs: QuantizedCommCodecs | None = None,
) -> Awaitable[Tensor]:
    """Add up what all processes have, and give each its rows of it.

    Args:
        input: (examples of all processes, columns).
        input_splits: examples of each process.
        group: who takes part; all processes by default.
        codecs: of what is sent.

    Returns:
        Awaitable of (examples of this process, columns).
    """
    if dist.get_world_size(group) <= 1:
        return NoWait(input)
    info = ReduceScatterVInfo(
        [[rows, *input.shape[1:]] for rows in input_splits],
        input_splits,
        len(set(input_splits)) == 1,
        list(input.shape),
        codecs,
    )
    return _started(ReduceScatterV_Req, group, info, input)


def reduce_scatter_v_sync(pg: dist.ProcessGroup, rsi: ReduceScatterVInfo, input: Tensor) -> Tensor:
    """`reduce_scatter_v_pooled`, waited for."""
    return _started(ReduceScatterV_Req, pg, rsi, input).wait()


def reduce_scatter_v_per_feature_pooled(
    input: Tensor,
    batch_size_per_rank_per_feature: list[list[int]],
    embedding_dims: list[int],
    group: dist.ProcessGroup | None = None,
    codecs: QuantizedCommCodecs | None = None,
) -> Awaitable[Tensor]:
    """`reduce_scatter_v_pooled` where each feature has a batch of its own.

    Args:
        input: flat: for each process, for each feature, (examples, columns).
        batch_size_per_rank_per_feature: of each process, examples of each feature.
        embedding_dims: columns of each feature.
        group: who takes part; all processes by default.
        codecs: of what is sent.

    Returns:
        Awaitable of a flat tensor: for each feature, (examples of this process, columns).
    """
    if dist.get_world_size(group) <= 1:
        return NoWait(input)
    sizes = [
        sum(size * width for size, width in zip(of_rank, embedding_dims, strict=True))
        for of_rank in batch_size_per_rank_per_feature
    ]
    info = ReduceScatterVInfo([[size] for size in sizes], sizes, len(set(sizes)) == 1, list(input.shape), codecs)
    return _started(_FeatureReduceScatter_Req, group, info, input)


def all_gather_base_pooled(
    input: Tensor, group: dist.ProcessGroup | None = None, codecs: QuantizedCommCodecs | None = None
) -> Awaitable[Tensor]:
    """Give all processes what each of them has.

    Args:
        input: (examples, columns), as many on each process.
        group: who takes part; all processes by default.
        codecs: of what is sent.

    Returns:
        Awaitable of (examples of all processes, columns).
    """
    if dist.get_world_size(group) <= 1:
        return NoWait(input)
    return _started(AllGatherBase_Req, group, AllGatherBaseInfo(input.shape, codecs), input)


def all_gather_base_sync(pg: dist.ProcessGroup, agi: AllGatherBaseInfo, input: Tensor) -> Tensor:
    """`all_gather_base_pooled`, waited for."""
    return _started(AllGatherBase_Req, pg, agi, input).wait()


# ----- exchanges that graphs can hold ---------------------------------------------------------------------------------


def _waited(tensor: Tensor) -> Tensor:
    found: Tensor = torch.ops._c10d_functional.wait_tensor(tensor)
    return found


class AllToAllSingle(Function):
    """An all-to-all of rows that compiled programs can hold; `apply` it.

    Its arguments: (rows for all processes, ...), rows from each process, rows for each process, the name of the group,
    its size, and whether gradients are divided by it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        group_name: str,
        group_size: int,
        gradient_division: bool,
    ) -> Tensor:
        """(rows from all processes, ...)."""
        ctx.splits = input_split_sizes, output_split_sizes
        ctx.group_name, ctx.factor = group_name, group_size if gradient_division else 1
        return _waited(
            torch.ops._c10d_functional.all_to_all_single(
                input.contiguous(), output_split_sizes, input_split_sizes, group_name
            )
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to where rows came from."""
        received, sent = ctx.splits
        back = _waited(torch.ops._c10d_functional.all_to_all_single(grad.contiguous(), received, sent, ctx.group_name))
        return (back if ctx.factor == 1 else back / ctx.factor, None, None, None, None, None)


def _gathered(shard: Tensor, group_size: int, group_name: str) -> Tensor:
    return _waited(torch.ops._c10d_functional.all_gather_into_tensor(shard.contiguous(), group_size, group_name))


def _summed(whole: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    """By any backend: an all-to-all, and a sum in the order of the processes."""
    rows = whole.shape[0] // group_size
    pieces = _waited(
        torch.ops._c10d_functional.all_to_all_single(
            whole.contiguous(), [rows] * group_size, [rows] * group_size, group_name
        )
    )
    total = pieces.view(group_size, rows, *whole.shape[1:])
    return total.mean(0) if reduce_op.lower() == "avg" else total.sum(0)


@torch.library.custom_op("flambeau_rec::reduce_scatter_tensor", mutates_args=())
def _reduce_scatter_tensor(
    input: Tensor, reduceOp: str, group_size: int, group_name: str, gradient_division: bool
) -> Tensor:
    """Each process's rows of the sum, or mean, of what all processes have."""
    if reduceOp.lower() not in ("sum", "avg"):
        raise OptionError(f"reduceOp is {reduceOp!r}, expected 'sum' or 'avg'.")
    if input.shape[0] % group_size:
        raise OptionError(f"input has {input.shape[0]} rows, which {group_size} processes cannot share equally.")
    return _summed(input, reduceOp, group_size, group_name)


@_reduce_scatter_tensor.register_fake
def reduce_scatter_tensor_fake(
    input: Tensor, reduceOp: str, group_size: int, group_name: str, gradient_division: bool
) -> Tensor:
    """A tensor of the shape that a process gets of a sum."""
    return input.new_empty(input.shape[0] // group_size, *input.shape[1:])


def reduce_scatter_tensor_setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Note what the gradient of a sum is computed by."""
    _, reduce_op, group_size, group_name, gradient_division = inputs
    ctx.group_size, ctx.group_name, ctx.gradient_division = group_size, group_name, gradient_division
    ctx.reduce_op = reduce_op


def reduce_scatter_tensor_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of a sum: those of all processes."""
    back = _gathered(grad, ctx.group_size, ctx.group_name)
    for divides in (ctx.gradient_division, ctx.reduce_op.lower() == "avg"):
        if divides:
            back = back / ctx.group_size
    return back, None, None, None, None


_reduce_scatter_tensor.register_autograd(
    reduce_scatter_tensor_backward, setup_context=reduce_scatter_tensor_setup_context
)


@torch.library.custom_op("flambeau_rec::all_gather_into_tensor", mutates_args=())
def _all_gather_into_tensor(
    shard: Tensor, gather_dim: int, group_size: int, group_name: str, gradient_division: bool
) -> Tensor:
    """What all processes have, joined along a dimension."""
    joined = _gathered(shard, group_size, group_name)
    return joined if gather_dim == 0 else torch.cat(joined.chunk(group_size), dim=gather_dim)


@_all_gather_into_tensor.register_fake
def all_gather_into_tensor_fake(
    shard: Tensor, gather_dim: int, group_size: int, group_name: str, gradient_division: bool
) -> Tensor:
    """A tensor of the shape that a process gets of what all have."""
    shape = list(shard.shape)
    shape[gather_dim] *= group_size
    return shard.new_empty(shape)


def all_gather_into_tensor_setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Note what the gradient is computed by."""
    _, gather_dim, group_size, group_name, gradient_division = inputs
    ctx.gather_dim, ctx.group_size, ctx.group_name = gather_dim, group_size, group_name
    ctx.gradient_division = gradient_division


def all_gather_into_tensor_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The sum of all processes' gradients of this one's part."""
    if ctx.gather_dim:
        grad = torch.cat(grad.chunk(ctx.group_size, dim=ctx.gather_dim))
    back = _summed(grad, "sum", ctx.group_size, ctx.group_name)
    return (back / ctx.group_size if ctx.gradient_division else back), None, None, None, None


_all_gather_into_tensor.register_autograd(
    all_gather_into_tensor_backward, setup_context=all_gather_into_tensor_setup_context
)
