"""Which ids two batches have in common, on the processes of their rows and on those that ask for them."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.rec.distributed.dist_data import TensorAllToAllValuesAwaitable
from flambeau.rec.distributed.types import Awaitable, ShardingType
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.pec_embedding_modules import OverlappingCheckerType
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.ops.permute import sources
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

if TYPE_CHECKING:
    import torch.distributed as dist

    from flambeau.rec.distributed.embedding_types import GroupedEmbeddingConfig
    from flambeau.rec.distributed.sharding.sequence_sharding import SequenceShardingContext
    from flambeau.rec.modules.embedding_configs import EmbeddingConfig

__all__ = [
    "BooleanOverlapChecker",
    "MaskDistAwaitable",
    "OverlapChecker",
    "OverlapHandler",
    "OverlapMasks",
    "OverlapSplits",
    "RWOverlapHandler",
    "create_overlap_handler",
    "order_by_process",
    "split_kjt_by_values_mask",
]


@dataclass
class OverlapMasks:
    """Which ids a batch and the one before it have in common.

    Args:
        forward_overlap_mask: (ids of this batch,) which of them the batch before has; None without this batch.
        backward_overlap_mask: (ids of the batch before,) which of them this batch has; None without that one.
    """

    forward_overlap_mask: Tensor | None
    backward_overlap_mask: Tensor | None


@dataclass
class OverlapSplits:
    """How many ids of each part go where: those in common first, then the others.

    Args:
        input_splits: ids that were sent to each process.
        output_splits: ids that came from each process.
    """

    input_splits: tuple[list[int], list[int]]
    output_splits: tuple[list[int], list[int]]


class MaskDistAwaitable(Awaitable[tuple[Tensor, Tensor]]):
    """Masks that are under way.

    Args:
        awaitable: of the ids that this process sent, from the processes of their rows.
        pre_dist_mask: of the ids that came here, sorted by process.

    Returns:
        Waited for, both, the first one sorted by process as well.
    """

    def __init__(self, awaitable: TensorAllToAllValuesAwaitable, pre_dist_mask: Tensor) -> None:
        super().__init__()
        self._awaitable, self._pre_dist_mask = awaitable, pre_dist_mask

    def _wait_impl(self) -> tuple[Tensor, Tensor]:
        return self._awaitable.wait().bool(), self._pre_dist_mask.bool()


class OverlapChecker(abc.ABC):
    """Finds the ids that two batches have in common."""

    @abc.abstractmethod
    def check(self, current_remapped: Tensor, prev_remapped: Tensor) -> tuple[Tensor, Tensor]:
        """Which ids of this batch the other one has, and which of the other one's this one has."""


class BooleanOverlapChecker(OverlapChecker):
    """Finds them by a bit for each row.

    Args:
        device: where ids are.
        mask_size: rows of all tables here.
    """

    def __init__(self, device: torch.device, mask_size: int) -> None:
        self._seen_buffer = torch.zeros(mask_size, dtype=torch.bool, device=device)

    def check(self, current_remapped: Tensor, prev_remapped: Tensor) -> tuple[Tensor, Tensor]:
        """Which ids of this batch the other one has, and which of the other one's this one has.

        Args:
            current_remapped: (ids,) below `mask_size`.
            prev_remapped: (ids of the batch before,) likewise.
        """
        seen = self._seen_buffer.zero_()
        seen[current_remapped] = True
        of_previous = seen[prev_remapped]
        seen.zero_()
        seen[prev_remapped] = True
        return seen[current_remapped], of_previous


def split_kjt_by_values_mask(
    features: KeyedJaggedTensor, overlap_mask: Tensor
) -> tuple[KeyedJaggedTensor, KeyedJaggedTensor]:
    """The ids of a mask, and the others, in as many bags.

    Args:
        features: of one batch size.
        overlap_mask: (ids,) of bool.

    Raises:
        OptionError: a mask of another length.
    """
    if overlap_mask.shape != features.values().shape:
        raise OptionError(
            f"overlap_mask has shape {tuple(overlap_mask.shape)}, expected {tuple(features.values().shape)}: an entry "
            "for each id."
        )
    mask, weights = overlap_mask.bool(), features.weights_or_none()
    ends = asynchronous_complete_cumsum(features.lengths())
    before = asynchronous_complete_cumsum(mask.to(features.lengths().dtype))
    inside = before[ends.long()].diff()

    def part(chosen: Tensor, lengths: Tensor) -> KeyedJaggedTensor:
        return KeyedJaggedTensor(
            features.keys(),
            features.values()[chosen],
            None if weights is None else weights[chosen],
            lengths=lengths,
            stride=features.stride(),
        )

    return part(mask, inside), part(~mask, features.lengths() - inside)


def order_by_process(features: KeyedJaggedTensor, sharding_ctx: SequenceShardingContext) -> Tensor:
    """(ids,): which id, sorted by feature, comes at each place when ids are sorted by the process they came from.

    Args:
        features: as `input_dist` gave them, or a part of them.
        sharding_ctx: of the batch.
    """
    count, sizes = len(features.keys()), sharding_ctx.batch_size_per_rank
    ranks = len(sizes)
    lengths = features.lengths().view(-1)
    ends = torch.tensor([0, *(sizes * count)]).cumsum(0)
    blocks = asynchronous_complete_cumsum(lengths)[ends].diff()
    recat = torch.arange(count * ranks).view(count, ranks).t().flatten().int()
    return sources(recat, blocks, len(features.values())).long()


class OverlapHandler(abc.ABC):
    """What is known of the ids that two batches have in common, where tables are spread in one way."""

    @abc.abstractmethod
    def remap_kjt_values(self, features: KeyedJaggedTensor) -> Tensor:
        """(ids,) of all tables as numbers that no two rows share."""

    @abc.abstractmethod
    def detect_overlap(self, current_remapped: Tensor | None, prev_remapped: Tensor | None) -> OverlapMasks:
        """Which ids two batches have in common; one of the two may not be there."""

    @abc.abstractmethod
    def mask_dist(
        self, features: KeyedJaggedTensor, sharding_ctx: SequenceShardingContext, overlap_mask: Tensor
    ) -> MaskDistAwaitable:
        """Start to tell the processes that asked which of their ids are in common."""

    @abc.abstractmethod
    def compute_splits(
        self, post_dist_mask: Tensor, pre_dist_mask: Tensor, sharding_ctx: SequenceShardingContext
    ) -> OverlapSplits:
        """How many ids of each part go where."""

    @abc.abstractmethod
    def compute_forward_permute(self, post_dist_mask: Tensor, sharding_ctx: SequenceShardingContext) -> Tensor:
        """(ids,): the place of each id of the local batch among the rows of both parts, one part after the other."""

    @abc.abstractmethod
    def compute_backward_permutes(
        self, post_dist_mask: Tensor, sharding_ctx: SequenceShardingContext
    ) -> tuple[Tensor, Tensor]:
        """Which ids of the local batch each part has, in the order in which they are sent."""


class RWOverlapHandler(OverlapHandler):
    """The same for tables that are spread by rows.

    Args:
        device: of this process.
        grouped_emb_configs: the tables of each kernel.
        table_name_to_config: the tables, by name.
        process_group: the processes.
        checker_type: how common ids are found.
    """

    def __init__(
        self,
        device: torch.device,
        grouped_emb_configs: list[GroupedEmbeddingConfig],
        table_name_to_config: dict[str, EmbeddingConfig],
        process_group: dist.ProcessGroup,
        checker_type: OverlappingCheckerType = OverlappingCheckerType.BOOLEAN,
    ) -> None:
        self._device, self._pg = torch.device(device), process_group
        if checker_type != OverlappingCheckerType.BOOLEAN:
            raise OptionError(f"checker_type is {checker_type}; choose one of {list(OverlappingCheckerType)}.")
        begin, offsets = 0, []
        for config in grouped_emb_configs:
            for table in config.embedding_tables:
                # The rows of the whole table are enough for those of any process.
                rows = table_name_to_config[table.name].num_embeddings
                offsets += [begin] * len(table.feature_names)
                begin += rows
        self._offsets = torch.tensor(offsets, dtype=torch.int64, device=self._device)
        self._checker: OverlapChecker = BooleanOverlapChecker(self._device, begin)

    def remap_kjt_values(self, features: KeyedJaggedTensor) -> Tensor:
        """(ids,) of all tables as numbers that no two rows share.

        Args:
            features: as `input_dist` gave them: ids count from this process's first row of their table.
        """
        if len(features.keys()) != len(self._offsets):
            raise OptionError(
                f"features has {len(features.keys())} keys, expected {len(self._offsets)}: one for each table of each "
                "feature."
            )
        counts = torch.tensor(features.length_per_key(), device=self._device)
        return features.values().long() + self._offsets.repeat_interleave(counts)

    def detect_overlap(self, current_remapped: Tensor | None, prev_remapped: Tensor | None) -> OverlapMasks:
        """Which ids two batches have in common.

        Args:
            current_remapped: of this batch; None after the last one.
            prev_remapped: of the batch before; None before the first one.

        Raises:
            OptionError: neither is there.
        """
        if current_remapped is None and prev_remapped is None:
            raise OptionError("neither this batch nor the one before is given.")
        if current_remapped is None:
            assert prev_remapped is not None
            # Upstream: nothing is to be waited for, so that all gradients are sent at once.
            return OverlapMasks(None, torch.ones_like(prev_remapped, dtype=torch.bool))
        if prev_remapped is None:
            return OverlapMasks(torch.zeros_like(current_remapped, dtype=torch.bool), None)
        return OverlapMasks(*self._checker.check(current_remapped, prev_remapped))

    def mask_dist(
        self, features: KeyedJaggedTensor, sharding_ctx: SequenceShardingContext, overlap_mask: Tensor
    ) -> MaskDistAwaitable:
        """Start to tell the processes that asked which of their ids are in common.

        Args:
            features: as `input_dist` gave them.
            sharding_ctx: of the batch.
            overlap_mask: (ids,) of bool.
        """
        by_process = overlap_mask[order_by_process(features, sharding_ctx)]
        awaitable = TensorAllToAllValuesAwaitable(
            self._pg,
            by_process.to(torch.uint8),
            torch.tensor(sharding_ctx.output_splits),
            torch.tensor(sharding_ctx.input_splits),
            self._device,
        )
        return MaskDistAwaitable(awaitable, by_process)

    def compute_splits(
        self, post_dist_mask: Tensor, pre_dist_mask: Tensor, sharding_ctx: SequenceShardingContext
    ) -> OverlapSplits:
        """How many ids of each part go where.

        Args:
            post_dist_mask: (ids that were sent,) in the order in which they were.
            pre_dist_mask: (ids that came,) sorted by process.
            sharding_ctx: of the batch.
        """
        return OverlapSplits(
            _counts(post_dist_mask, sharding_ctx.input_splits), _counts(pre_dist_mask, sharding_ctx.output_splits)
        )

    def compute_forward_permute(self, post_dist_mask: Tensor, sharding_ctx: SequenceShardingContext) -> Tensor:
        """(ids,): the place of each id of the local batch among the rows of both parts, one part after the other.

        Args:
            post_dist_mask: (ids that were sent,) in the order in which they were.
            sharding_ctx: of the batch.
        """
        mask = post_dist_mask.bool()
        within = torch.where(mask, mask.cumsum(0) - 1, mask.sum() + (~mask).cumsum(0) - 1)
        places = sharding_ctx.unbucketize_permute_tensor
        return within if places is None else within[places.long()]

    def compute_backward_permutes(
        self, post_dist_mask: Tensor, sharding_ctx: SequenceShardingContext
    ) -> tuple[Tensor, Tensor]:
        """Which ids of the local batch each part has, in the order in which they are sent.

        Args:
            post_dist_mask: (ids that were sent,) in the order in which they were.
            sharding_ctx: of the batch.
        """
        mask = post_dist_mask.bool()
        places = sharding_ctx.unbucketize_permute_tensor
        order = torch.arange(len(mask), device=mask.device) if places is None else torch.argsort(places.long())
        return order[mask], order[~mask]


def _counts(mask: Tensor, sizes: list[int]) -> tuple[list[int], list[int]]:
    inside = [int(part.sum()) for part in mask.bool().split(list(sizes))]
    return inside, [size - count for size, count in zip(sizes, inside, strict=True)]


def create_overlap_handler(
    sharding_type: str,
    device: torch.device,
    grouped_emb_configs: list[GroupedEmbeddingConfig],
    table_name_to_config: dict[str, EmbeddingConfig],
    process_group: dist.ProcessGroup,
    checker_type: OverlappingCheckerType,
) -> OverlapHandler:
    """What handles the ids that two batches have in common, for tables that are spread in one way.

    Args:
        sharding_type: which way; "row_wise".
        device: of this process.
        grouped_emb_configs: the tables of each kernel.
        table_name_to_config: the tables, by name.
        process_group: the processes.
        checker_type: how common ids are found.

    Raises:
        OptionError: another way.
    """
    if sharding_type != ShardingType.ROW_WISE.value:
        raise OptionError(
            f"sharding_type is {sharding_type!r}, expected 'row_wise': of tables {sorted(table_name_to_config)} common "
            "ids are found where all rows of a process are its own."
        )
    return RWOverlapHandler(device, grouped_emb_configs, table_name_to_config, process_group, checker_type)
