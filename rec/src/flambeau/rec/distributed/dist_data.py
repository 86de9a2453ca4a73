"""Modules that send sparse features to the processes that have their tables, and embeddings back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
import torch.distributed as dist
from torch import Tensor, nn

from flambeau.rec.distributed._transport import Pending, exchange
from flambeau.rec.distributed.comm_ops import (
    all_gather_base_pooled,
    alltoall_pooled,
    alltoall_sequence,
    reduce_scatter_base_pooled,
    reduce_scatter_v_per_feature_pooled,
    reduce_scatter_v_pooled,
    variable_batch_alltoall_pooled,
)
from flambeau.rec.distributed.embedding_types import KJTList
from flambeau.rec.distributed.types import Awaitable, QuantizedCommCodecs
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

__all__ = [
    "EmbeddingsAllToOne",
    "EmbeddingsAllToOneReduce",
    "JaggedTensorAllToAll",
    "KJEAllToAll",
    "KJTAllToAll",
    "KJTAllToAllSplitsAwaitable",
    "KJTAllToAllTensorsAwaitable",
    "KJTOneToAll",
    "MergePooledEmbeddingsModule",
    "PooledEmbeddingsAllGather",
    "PooledEmbeddingsAllToAll",
    "PooledEmbeddingsAwaitable",
    "PooledEmbeddingsReduceScatter",
    "SeqEmbeddingsAllToOne",
    "SequenceEmbeddingsAllToAll",
    "SequenceEmbeddingsAwaitable",
    "SplitsAllToAllAwaitable",
    "TensorAllToAll",
    "TensorAllToAllSplitsAwaitable",
    "TensorAllToAllValuesAwaitable",
    "TensorValuesAllToAll",
    "VariableBatchPooledEmbeddingsAllToAll",
    "VariableBatchPooledEmbeddingsReduceScatter",
]

Callback = Callable[[Tensor], Tensor]


def _recat(
    local_split: int,
    num_splits: int,
    stagger: int = 1,
    device: torch.device | None = None,
    batch_size_per_rank: Sequence[int] | None = None,
) -> Tensor | None:
    """The order that makes blocks sorted by process sorted by feature.

    Args:
        local_split: features.
        num_splits: processes.
        stagger: of them, groups whose members alternate.
        device: of the result.
        batch_size_per_rank: examples of each process, where blocks are of one example each.

    Returns:
        (features * processes,) int32, or (features * examples,); None without features.
    """
    if not local_split:
        return None
    blocks = torch.arange(num_splits * local_split).view(num_splits, local_split)
    if stagger > 1:
        blocks = blocks[torch.arange(num_splits).view(stagger, -1).t().reshape(-1)]
    order = blocks.t().reshape(-1)
    if batch_size_per_rank is not None and len(set(batch_size_per_rank)) > 1:
        from flambeau.rec.ops.permute import sources

        sizes = torch.tensor(batch_size_per_rank).repeat_interleave(local_split)
        order = sources(order, sizes)
    return order.to(device=device, dtype=torch.int32)


# ----- sparse features ------------------------------------------------------------------------------------------------


class SplitsAllToAllAwaitable(Awaitable[list[list[int]]]):
    """How much each process will get from each.

    Args:
        input_tensors: (processes,) int64 each: what this one has for each process.
        pg: who takes part.
        collective_tag: accepted for upstream's sake; it has no effect.
        collective_tag_parts: likewise.
    """

    def __init__(
        self,
        input_tensors: list[Tensor],
        pg: dist.ProcessGroup,
        collective_tag: int | None = None,
        collective_tag_parts: tuple[object, ...] | None = None,
    ) -> None:
        super().__init__()
        self.num_workers = dist.get_world_size(pg)
        self._rows = len(input_tensors)
        sent = torch.stack(input_tensors, dim=1).flatten()
        sizes = [self._rows] * self.num_workers
        self._pending = exchange(pg, sent, sizes, sizes, "an exchange of sizes (all-to-all)")

    def _wait_impl(self) -> list[list[int]]:
        found: list[list[int]] = self._pending.wait().view(self.num_workers, self._rows).t().tolist()
        return found


class KJTAllToAllTensorsAwaitable(Awaitable[KeyedJaggedTensor]):
    """Sparse features on their way.

    Args:
        pg: who takes part.
        input: what is sent.
        splits: features for each process.
        input_splits: of each tensor, elements for each process.
        output_splits: of each tensor, elements from each process.
        input_tensors: they.
        labels: what they are.
        keys: features of this process.
        device: of the result.
        stagger: groups of processes whose members alternate.
        stride_per_rank: examples of each process, where they are the same for all features.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        input: KeyedJaggedTensor,
        splits: list[int],
        input_splits: list[list[int]],
        output_splits: list[list[int]],
        input_tensors: list[Tensor],
        labels: list[str],
        keys: list[str],
        device: torch.device,
        stagger: int,
        stride_per_rank: list[int] | None,
    ) -> None:
        super().__init__()
        self._workers: int = dist.get_world_size(pg)
        self._pg, self._device = pg, device
        self._input, self._splits, self._input_splits, self._output_splits = input, splits, input_splits, output_splits
        self._labels, self._keys, self._stagger = labels, keys, stagger
        self._stride_per_rank = stride_per_rank
        self._recat = _recat(splits[dist.get_rank(pg)], self._workers, stagger, device)
        self._pending = [
            exchange(pg, tensor, sent, received, f"an exchange of sparse features' {label} (all-to-all)")
            for tensor, sent, received, label in zip(input_tensors, input_splits, output_splits, labels, strict=True)
        ]
        self._output_tensors: list[Tensor] = [pending._buffer for pending in self._pending]

    def clear_inputs(self) -> int:
        """Give the memory of what was sent back, once it has arrived everywhere; returns how many bytes that were."""
        return self._input.clear_storage()

    def _wait_impl(self) -> KeyedJaggedTensor:
        tensors = [pending.wait() for pending in self._pending]
        return KeyedJaggedTensor.dist_init(
            keys=self._keys,
            tensors=tensors,
            variable_stride_per_key=self._input.variable_stride_per_key(),
            num_workers=self._workers,
            recat=self._recat,
            stride_per_rank=self._stride_per_rank,
            stagger=self._stagger,
        )


class KJTAllToAllSplitsAwaitable(Awaitable[KJTAllToAllTensorsAwaitable]):
    """How many sparse features there will be; the features themselves when it is waited for.

    Args:
        pg: who takes part.
        input: what is sent.
        splits: features for each process.
        labels: what `input_tensors` are.
        tensor_splits: of each tensor, elements for each process.
        input_tensors: they.
        keys: features of this process.
        device: of the result.
        stagger: groups of processes whose members alternate.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        input: KeyedJaggedTensor,
        splits: list[int],
        labels: list[str],
        tensor_splits: list[list[int]],
        input_tensors: list[Tensor],
        keys: list[str],
        device: torch.device,
        stagger: int,
    ) -> None:
        super().__init__()
        self._workers: int = dist.get_world_size(pg)
        self._pg, self._device = pg, device
        self._input, self._splits, self._labels, self._keys = input, splits, labels, keys
        self._input_splits, self._input_tensors, self._stagger = tensor_splits, input_tensors, stagger
        self._stride_per_rank: list[int] | None = None
        self._output_splits = tensor_splits
        if self._workers == 1:
            return
        sizes = [torch.tensor(of_tensor, device=device) for of_tensor in tensor_splits]
        if not input.variable_stride_per_key():
            sizes.append(torch.tensor([input.stride()] * self._workers, device=device))
        self._splits_awaitable = SplitsAllToAllAwaitable(sizes, pg)

    def _wait_impl(self) -> KJTAllToAllTensorsAwaitable:
        if self._workers > 1:
            found = self._splits_awaitable.wait()
            if self._input.variable_stride_per_key():
                self._output_splits = found
            else:
                *self._output_splits, self._stride_per_rank = found
        elif not self._input.variable_stride_per_key():
            self._stride_per_rank = [self._input.stride()]
        return KJTAllToAllTensorsAwaitable(
            self._pg, self._input, self._splits, self._input_splits, self._output_splits, self._input_tensors,
            self._labels, self._keys, self._device, self._stagger, self._stride_per_rank,
        )  # fmt: skip


class KJTAllToAll(nn.Module):
    """Sends sparse features to the processes that look them up, in two rounds: how many, then the features.

    Args:
        pg: who takes part.
        splits: features for each process; those of a batch have to come in this order.
        stagger: groups of processes whose members alternate in the result.
    """

    def __init__(self, pg: dist.ProcessGroup, splits: list[int], stagger: int = 1) -> None:
        super().__init__()
        size = dist.get_world_size(pg)
        if len(splits) != size:
            raise OptionError(f"splits has {len(splits)} entries, expected one for each of {size} processes.")
        self._pg, self._splits, self._stagger = pg, splits, stagger
        rank = dist.get_rank(pg)
        self._splits_cumsum = [sum(splits[:at]) for at in range(len(splits) + 1)]
        self._mine = slice(self._splits_cumsum[rank], self._splits_cumsum[rank + 1])

    def forward(self, input: KeyedJaggedTensor) -> Awaitable[KJTAllToAllTensorsAwaitable]:
        """Start to send.

        Args:
            input: features of the local batch, those of the first process first.

        Returns:
            Awaitable of an awaitable of the features of this process, for the examples of all processes.
        """
        with torch.no_grad():
            self._check(input)
            return KJTAllToAllSplitsAwaitable(
                pg=self._pg,
                input=input,
                splits=self._splits,
                labels=input.dist_labels(),
                tensor_splits=input.dist_splits(self._splits),
                input_tensors=input.dist_tensors(),
                keys=input.keys()[self._mine],
                device=input.device(),
                stagger=self._stagger,
            )

    def _check(self, input: KeyedJaggedTensor) -> None:
        if len(input.keys()) != sum(self._splits):
            raise OptionError(f"input has {len(input.keys())} keys, expected {sum(self._splits)}.")


class KJEAllToAll(KJTAllToAll):
    """Sends rows of embeddings, as the weights of their ids, to the processes that hold them."""


class JaggedTensorAllToAll(Awaitable[JaggedTensor]):
    """Sends bags to processes.

    Args:
        jt: bags, those for the first process first.
        num_items_to_send: (processes,): bags for each.
        num_items_to_receive: (processes,): bags from each.
        pg: who takes part.
    """

    def __init__(
        self, jt: JaggedTensor, num_items_to_send: Tensor, num_items_to_receive: Tensor, pg: dist.ProcessGroup
    ) -> None:
        super().__init__()
        self._workers: int = dist.get_world_size(pg)
        sent, received = num_items_to_send.tolist(), num_items_to_receive.tolist()
        what = "an exchange of bags (all-to-all)"
        lengths = jt.lengths()
        arrived = exchange(pg, lengths, sent, received, what).wait()
        sizes = [int(part.sum()) for part in lengths.split(sent)]
        sizes_there = [int(part.sum()) for part in arrived.split(received)]
        self._lengths = arrived
        self._values = exchange(pg, jt.values(), sizes, sizes_there, what)
        weights = jt.weights_or_none()
        self._weights = None if weights is None else exchange(pg, weights, sizes, sizes_there, what)

    def _wait_impl(self) -> JaggedTensor:
        weights = None if self._weights is None else self._weights.wait()
        return JaggedTensor(self._values.wait(), weights, self._lengths)


class TensorAllToAllValuesAwaitable(Awaitable[Tensor]):
    """Rows on their way.

    Args:
        pg: who takes part.
        input: (rows, ...), those for the first process first.
        input_splits: (processes,): rows for each.
        output_splits: (processes,): rows from each.
        device: of the result.
    """

    def __init__(
        self, pg: dist.ProcessGroup, input: Tensor, input_splits: Tensor, output_splits: Tensor, device: torch.device
    ) -> None:
        super().__init__()
        self._shape = input.shape[1:]
        width = self._shape.numel()
        received: list[int] = output_splits.tolist()
        self._rows = sum(received)
        self._pending: Pending = exchange(
            pg,
            input.reshape(-1),
            [rows * width for rows in input_splits.tolist()],
            [rows * width for rows in received],
            "an exchange of rows (all-to-all)",
        )

    def _wait_impl(self) -> Tensor:
        return self._pending.wait().view(self._rows, *self._shape)


class TensorAllToAllSplitsAwaitable(Awaitable[TensorAllToAllValuesAwaitable]):
    """How many rows there will be; the rows themselves when it is waited for.

    Args:
        pg: who takes part.
        input: (rows, ...), those for the first process first.
        splits: (processes,): rows for each.
        device: of the result.
    """

    def __init__(self, pg: dist.ProcessGroup, input: Tensor, splits: Tensor, device: torch.device) -> None:
        super().__init__()
        self._pg, self._input, self._input_splits, self._device = pg, input, splits, device
        ones = [1] * dist.get_world_size(pg)
        self._pending = exchange(pg, splits, ones, ones, "an exchange of sizes (all-to-all)")

    def _wait_impl(self) -> TensorAllToAllValuesAwaitable:
        return TensorAllToAllValuesAwaitable(
            self._pg, self._input, self._input_splits, self._pending.wait(), self._device
        )


class TensorAllToAll(nn.Module):
    """Sends rows to processes that do not know how many they get.

    Args:
        pg: who takes part.
    """

    def __init__(self, pg: dist.ProcessGroup) -> None:
        super().__init__()
        self._pg = pg

    def forward(self, input: Tensor, splits: Tensor) -> TensorAllToAllSplitsAwaitable:
        """Start to send.

        Args:
            input: (rows, ...), those for the first process first.
            splits: (processes,): rows for each.
        """
        return TensorAllToAllSplitsAwaitable(self._pg, input, splits, input.device)


class TensorValuesAllToAll(nn.Module):
    """Sends rows to processes that know how many they get.

    Args:
        pg: who takes part.
    """

    def __init__(self, pg: dist.ProcessGroup) -> None:
        super().__init__()
        self._pg = pg

    def forward(self, input: Tensor, input_splits: Tensor, output_splits: Tensor) -> TensorAllToAllValuesAwaitable:
        """Start to send.

        Args:
            input: (rows, ...), those for the first process first.
            input_splits: (processes,): rows for each.
            output_splits: (processes,): rows from each.
        """
        return TensorAllToAllValuesAwaitable(self._pg, input, input_splits, output_splits, input.device)


# ----- pooled embeddings ----------------------------------------------------------------------------------------------


class PooledEmbeddingsAwaitable(Awaitable[Tensor]):
    """Pooled embeddings on their way.

    Args:
        tensor_awaitable: they.
    """

    def __init__(self, tensor_awaitable: Awaitable[Tensor]) -> None:
        super().__init__()
        self._tensor_awaitable = tensor_awaitable

    def _wait_impl(self) -> Tensor:
        return self._tensor_awaitable.wait()


class _PooledDist(nn.Module):
    """Sends pooled embeddings; callbacks change the result."""

    def __init__(
        self, pg: dist.ProcessGroup, callbacks: list[Callback] | None, codecs: QuantizedCommCodecs | None
    ) -> None:
        super().__init__()
        self._pg, self._codecs = pg, codecs
        self._callbacks: list[Callback] = [] if callbacks is None else callbacks

    @property
    def callbacks(self) -> list[Callback]:
        """What is done to the result, in order, once it is there."""
        return self._callbacks

    def _awaitable(self, embeddings: Awaitable[Tensor]) -> PooledEmbeddingsAwaitable:
        awaitable = PooledEmbeddingsAwaitable(embeddings)
        awaitable.callbacks.extend(self._callbacks)
        return awaitable


class PooledEmbeddingsAllToAll(_PooledDist):
    """From all examples of some features to some examples of all features.

    Args:
        pg: who takes part.
        dim_sum_per_rank: columns of each process.
        device: of embeddings.
        callbacks: what is done to the result.
        codecs: of what is sent.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        dim_sum_per_rank: list[int],
        device: torch.device | None = None,
        callbacks: list[Callback] | None = None,
        codecs: QuantizedCommCodecs | None = None,
    ) -> None:
        super().__init__(pg, callbacks, codecs)
        self._dim_sum_per_rank = dim_sum_per_rank

    def forward(self, local_embs: Tensor, batch_size_per_rank: list[int] | None = None) -> PooledEmbeddingsAwaitable:
        """Start to send.

        Args:
            local_embs: (examples of all processes, columns of this process).
            batch_size_per_rank: examples of each process; as many of each by default.
        """
        if not batch_size_per_rank:
            size = dist.get_world_size(self._pg)
            if local_embs.shape[0] % size:
                raise OptionError(
                    f"local_embs has {local_embs.shape[0]} examples, which {size} processes cannot have equally many "
                    "of; give batch_size_per_rank."
                )
            batch_size_per_rank = [local_embs.shape[0] // size] * size
        return self._awaitable(
            alltoall_pooled(
                local_embs, batch_size_per_rank, self._dim_sum_per_rank, group=self._pg, codecs=self._codecs
            )
        )


class VariableBatchPooledEmbeddingsAllToAll(_PooledDist):
    """The same where each feature has a batch of its own.

    Args:
        pg: who takes part.
        emb_dim_per_rank_per_feature: of each process, columns of each of its features.
        device: of embeddings.
        callbacks: what is done to the result.
        codecs: of what is sent.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        emb_dim_per_rank_per_feature: list[list[int]],
        device: torch.device | None = None,
        callbacks: list[Callback] | None = None,
        codecs: QuantizedCommCodecs | None = None,
    ) -> None:
        super().__init__(pg, callbacks, codecs)
        self._emb_dim_per_rank_per_feature = emb_dim_per_rank_per_feature

    def forward(
        self,
        local_embs: Tensor,
        batch_size_per_rank_per_feature: list[list[int]],
        batch_size_per_feature_pre_a2a: list[int],
    ) -> PooledEmbeddingsAwaitable:
        """Start to send; see `variable_batch_alltoall_pooled`."""
        return self._awaitable(
            variable_batch_alltoall_pooled(
                local_embs,
                batch_size_per_rank_per_feature,
                batch_size_per_feature_pre_a2a,
                self._emb_dim_per_rank_per_feature,
                group=self._pg,
                codecs=self._codecs,
            )
        )


class PooledEmbeddingsReduceScatter(_PooledDist):
    """Adds up what all processes have, and gives each its examples.

    Args:
        pg: who takes part.
        codecs: of what is sent.
    """

    def __init__(self, pg: dist.ProcessGroup, codecs: QuantizedCommCodecs | None = None) -> None:
        super().__init__(pg, None, codecs)

    def forward(self, local_embs: Tensor, input_splits: list[int] | None = None) -> PooledEmbeddingsAwaitable:
        """Start to send.

        Args:
            local_embs: (examples of all processes, columns).
            input_splits: examples of each process; as many of each by default.
        """
        if input_splits and len(set(input_splits)) > 1:
            return self._awaitable(reduce_scatter_v_pooled(local_embs, input_splits, self._pg, self._codecs))
        return self._awaitable(reduce_scatter_base_pooled(local_embs, self._pg, self._codecs))


class VariableBatchPooledEmbeddingsReduceScatter(_PooledDist):
    """The same where each feature has a batch of its own.

    Args:
        pg: who takes part.
        codecs: of what is sent.
    """

    def __init__(self, pg: dist.ProcessGroup, codecs: QuantizedCommCodecs | None = None) -> None:
        super().__init__(pg, None, codecs)

    def forward(
        self, local_embs: Tensor, batch_size_per_rank_per_feature: list[list[int]], embedding_dims: list[int]
    ) -> PooledEmbeddingsAwaitable:
        """Start to send; see `reduce_scatter_v_per_feature_pooled`."""
        return self._awaitable(
            reduce_scatter_v_per_feature_pooled(
                local_embs, batch_size_per_rank_per_feature, embedding_dims, self._pg, self._codecs
            )
        )


class PooledEmbeddingsAllGather(_PooledDist):
    """Gives all processes what each of them has.

    Args:
        pg: who takes part.
        codecs: of what is sent.
    """

    def __init__(self, pg: dist.ProcessGroup, codecs: QuantizedCommCodecs | None = None) -> None:
        super().__init__(pg, None, codecs)

    def forward(self, local_emb: Tensor) -> PooledEmbeddingsAwaitable:
        """Start to send (examples, columns), as many on each process."""
        return self._awaitable(all_gather_base_pooled(local_emb, self._pg, self._codecs))


# ----- rows of sequences ----------------------------------------------------------------------------------------------


class SequenceEmbeddingsAwaitable(Awaitable[Tensor]):
    """Rows on their way.

    Args:
        tensor_awaitable: they.
        unbucketize_permute_tensor: (ids,): which row each id has, where ids were sorted by process.
        embedding_dim: columns.
    """

    def __init__(
        self, tensor_awaitable: Awaitable[Tensor], unbucketize_permute_tensor: Tensor | None, embedding_dim: int
    ) -> None:
        super().__init__()
        self._tensor_awaitable = tensor_awaitable
        if unbucketize_permute_tensor is not None:
            self.callbacks.append(lambda rows: torch.index_select(rows, 0, unbucketize_permute_tensor))

    def _wait_impl(self) -> Tensor:
        return self._tensor_awaitable.wait()


class SequenceEmbeddingsAllToAll(nn.Module):
    """Sends rows to the processes that asked for them.

    Args:
        pg: who takes part.
        features_per_rank: features that each process looks up.
        device: of embeddings.
        codecs: of what is sent.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        features_per_rank: list[int],
        device: torch.device | None = None,
        codecs: QuantizedCommCodecs | None = None,
    ) -> None:
        super().__init__()
        self._pg, self._codecs = pg, codecs
        self._local_split = features_per_rank[dist.get_rank(pg)]
        self._num_splits = len(features_per_rank)
        self._device = device
        blocks = torch.arange(self._num_splits * self._local_split).view(self._local_split, self._num_splits)
        forward = blocks.t().reshape(-1).int().to(device)
        backward = blocks.reshape(self._num_splits, self._local_split).t().reshape(-1).int().to(device)
        self.register_buffer("_forward_recat_tensor", forward, persistent=False)
        self.register_buffer("_backward_recat_tensor", backward, persistent=False)

    def forward(
        self,
        local_embs: Tensor,
        lengths: Tensor,
        input_splits: list[int],
        output_splits: list[int],
        unbucketize_permute_tensor: Tensor | None = None,
        batch_size_per_rank: list[int] | None = None,
        sparse_features_recat: Tensor | None = None,
        batch_size_per_rank_per_feature: list[list[int]] | None = None,
    ) -> SequenceEmbeddingsAwaitable:
        """Start to send.

        Args:
            local_embs: (ids that all processes sent here, columns), feature by feature.
            lengths: ids of each feature, process and example, in that order.
            input_splits: rows for each process.
            output_splits: rows from each process.
            unbucketize_permute_tensor: (ids,): which row each id has, where ids were sorted by process.
            batch_size_per_rank: examples of each process; as many of each by default.
            sparse_features_recat: the order in which blocks came, which is not needed here.
            batch_size_per_rank_per_feature: of each process, examples of each feature, where they differ.
        """
        blocks = self._blocks(lengths.reshape(-1), batch_size_per_rank, batch_size_per_rank_per_feature)
        awaitable = alltoall_sequence(
            a2a_sequence_embs_tensor=local_embs,
            forward_recat_tensor=self._forward_recat_tensor,  # type: ignore[arg-type]
            backward_recat_tensor=self._backward_recat_tensor,  # type: ignore[arg-type]
            lengths_after_sparse_data_all2all=blocks,
            input_splits=input_splits,
            output_splits=output_splits,
            variable_batch_size=True,
            group=self._pg,
            codecs=self._codecs,
        )
        return SequenceEmbeddingsAwaitable(awaitable, unbucketize_permute_tensor, local_embs.shape[1])

    def _blocks(self, lengths: Tensor, per_rank: list[int] | None, per_feature: list[list[int]] | None) -> Tensor:
        """(features * processes,): ids of each feature that came from each process."""
        features, ranks = self._local_split, self._num_splits
        if not features:
            return lengths.new_empty(0)
        if per_feature:
            sizes = [per_feature[rank][feature] for feature in range(features) for rank in range(ranks)]
        elif per_rank and len(set(per_rank)) > 1:
            sizes = per_rank * features
        else:
            return lengths.view(features * ranks, -1).sum(1)
        ends = torch.tensor([0, *accumulate(sizes)], device=lengths.device)
        starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return starts[ends].diff()


# ----- one process with several devices -------------------------------------------------------------------------------


class KJTOneToAll(nn.Module):
    """Gives each device of a process its sparse features.

    Args:
        splits: features for each device.
        world_size: devices.
        device: of which kind; "cuda" devices are numbered, others are one.
    """

    def __init__(self, splits: list[int], world_size: int, device: torch.device | None = None) -> None:
        super().__init__()
        if len(splits) != world_size:
            raise OptionError(f"splits has {len(splits)} entries, expected one for each of {world_size} devices.")
        self._splits, self._world_size = splits, world_size
        self._device_type = "cuda" if device is None else torch.device(device).type

    def forward(self, kjt: KeyedJaggedTensor) -> KJTList:
        """The features of each device, there.

        Args:
            kjt: all features, those of the first device first.
        """
        parts = kjt.split(self._splits)
        if self._device_type != "cuda":
            return KJTList([part.to(torch.device(self._device_type)) for part in parts])
        return KJTList([part.to(torch.device("cuda", at), non_blocking=True) for at, part in enumerate(parts)])


class _AllToOne(nn.Module):
    """Collects on one device.

    Args:
        device: which.
        world_size: devices.
    """

    def __init__(self, device: torch.device, world_size: int) -> None:
        super().__init__()
        self._device, self._world_size = torch.device(device), world_size

    def set_device(self, device_str: str) -> None:
        """Collect on another device."""
        self._device = torch.device(device_str)

    def _there(self, tensors: list[Tensor]) -> list[Tensor]:
        if len(tensors) != self._world_size:
            raise OptionError(f"got {len(tensors)} tensors, expected one of each of {self._world_size} devices.")
        return [tensor.to(self._device, non_blocking=True) for tensor in tensors]


class EmbeddingsAllToOne(_AllToOne):
    """Joins pooled embeddings of several devices on one.

    Args:
        device: which.
        world_size: devices.
        cat_dim: along which they are joined.
    """

    def __init__(self, device: torch.device, world_size: int, cat_dim: int) -> None:
        super().__init__(device, world_size)
        self._cat_dim = cat_dim

    def forward(self, tensors: list[Tensor]) -> Tensor:
        """All of them joined."""
        return torch.cat(self._there(tensors), dim=self._cat_dim)


class EmbeddingsAllToOneReduce(_AllToOne):
    """Adds up pooled embeddings of several devices on one."""

    def forward(self, tensors: list[Tensor]) -> Tensor:
        """Their sum, from the first device on."""
        first, *others = self._there(tensors)
        for other in others:
            first = first + other
        return first


class SeqEmbeddingsAllToOne(_AllToOne):
    """Collects rows of several devices on one."""

    def forward(self, tensors: list[Tensor]) -> list[Tensor]:
        """All of them, there."""
        return self._there(tensors)


class MergePooledEmbeddingsModule(nn.Module):
    """Joins tensors of several devices on one.

    Args:
        device: which.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = torch.device(device)

    def set_device(self, device_str: str) -> None:
        """Join on another device."""
        self._device = torch.device(device_str)

    def forward(self, tensors: list[Tensor], cat_dim: int) -> Tensor:
        """All of them joined along a dimension."""
        return torch.cat([tensor.to(self._device, non_blocking=True) for tensor in tensors], dim=cat_dim)
