"""Managed collisions by hashing: an id has the row that its hash says, or one of the next ones, until it is evicted."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.hash_mc_evictions import (
    HashZchEvictionConfig,
    HashZchEvictionModule,
    HashZchEvictionPolicyName,
    get_kernel_from_policy,
)
from flambeau.rec.modules.hash_mc_metrics import ScalarLogger
from flambeau.rec.modules.mc_modules import Features, ManagedCollisionModule
from flambeau.rec.ops.hashing import create_zch_buffer, zero_collision_hash
from flambeau.rec.sparse.jagged_tensor import JaggedTensor

__all__ = ["HashZchManagedCollisionModule", "TrainInputMapper"]


class TrainInputMapper(nn.Module):
    """Which part of the rows each id belongs to.

    Args:
        input_hash_size: ids are below it and belong to parts in blocks; 0: they belong to parts in turn.
        total_num_buckets: parts.
        size_per_rank: (parts,): rows of each.
        train_rank_offsets: (parts,): where each begins.
        inference_dispatch_div_train_world_size: whether ids are divided by the number of parts once they are placed.
        name: of the table, for messages.
    """

    _zch_size_per_training_rank: Tensor
    _train_rank_offsets: Tensor

    def __init__(
        self,
        input_hash_size: int,
        total_num_buckets: int,
        size_per_rank: Tensor,
        train_rank_offsets: Tensor,
        inference_dispatch_div_train_world_size: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._input_hash_size, self._buckets = input_hash_size, total_num_buckets
        self._inference_dispatch_div_train_world_size = inference_dispatch_div_train_world_size
        self._name = name
        self.register_buffer("_zch_size_per_training_rank", size_per_rank, persistent=False)
        self.register_buffer("_train_rank_offsets", train_rank_offsets, persistent=False)

    def forward(self, values: Tensor, output_offset: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Place ids.

        Args:
            values: (L,).
            output_offset: the first row of those that are here.

        Returns:
            The ids, how many rows each one's part has, and where it begins.

        Raises:
            IndexError: an id that is not below `input_hash_size`.
        """
        if self._input_hash_size:
            block = -(-self._input_hash_size // self._buckets)
            part = values // block
        else:
            part = values % self._buckets
        sizes = self._zch_size_per_training_rank.index_select(0, part)
        offsets = self._train_rank_offsets.index_select(0, part)
        if output_offset is not None:
            offsets = offsets - output_offset
        if self._inference_dispatch_div_train_world_size:
            values = values // self._buckets
        return values, sizes, offsets


class HashZchManagedCollisionModule(ManagedCollisionModule):
    """Rows by hashing, with linear probing (MPZCH): ids come to rows at once, without a history.

    Rows are divided into buckets, so that tables can be divided among any number of processes that divides theirs.

    Args:
        zch_size: rows.
        device: of what is kept.
        total_num_buckets: parts of the rows, which divide them evenly unless `output_segments` says how.
        max_probe: rows to look at for an id.
        input_hash_size: ids are below it; 0 for no bound.
        output_segments: boundaries of the parts.
        is_inference: whether ids are looked up only.
        name: of the table, for messages.
        tb_logging_frequency: batches from one report of rates to the next, see `ScalarLogger`; 0 for none.
        eviction_policy_name: which ids may be evicted; none where not given.
        eviction_config: for how long ids stay.
        inference_dispatch_div_train_world_size: see `TrainInputMapper`.
        start_bucket: the first part that is here.
        end_bucket: the one behind the last; all where not given.
        opt_in_prob: percentage of new ids that get rows; -1: all.
        percent_reserved_slots: of each part's rows, how many are shared by ids that `opt_in_prob` leaves without one.
        disable_fallback: whether ids without a row are left out, instead of sharing that of another.
        track_id_freq: whether it is counted how often each row is looked up.
        read_only_suffix: see `ManagedCollisionModule`.
        enable_per_feature_lookups: see `ManagedCollisionModule`.
        no_bag: kept for programs that give it.
        write_runtime_meta_dim: numbers that `update_runtime_meta` notes of each row.
        persist_hash_zch_bucket: whether the number of parts is in checkpoints.

    Raises:
        OptionError: parts that do not divide the rows, or an eviction by time without a configuration.
    """

    _hash_zch_bucket: Tensor

    def __init__(
        self,
        zch_size: int,
        device: torch.device,
        total_num_buckets: int,
        max_probe: int = 128,
        input_hash_size: int = 0,
        output_segments: list[int] | None = None,
        is_inference: bool = False,
        name: str | None = None,
        tb_logging_frequency: int = 0,
        eviction_policy_name: HashZchEvictionPolicyName | None = None,
        eviction_config: HashZchEvictionConfig | None = None,
        inference_dispatch_div_train_world_size: bool = False,
        start_bucket: int = 0,
        end_bucket: int | None = None,
        opt_in_prob: int = -1,
        percent_reserved_slots: float = 0,
        disable_fallback: bool = False,
        track_id_freq: bool = False,
        read_only_suffix: str = "_readonly",
        enable_per_feature_lookups: bool = False,
        no_bag: bool = False,
        write_runtime_meta_dim: int = 0,
        persist_hash_zch_bucket: bool = True,
    ) -> None:
        end_bucket = total_num_buckets if end_bucket is None else end_bucket
        here = end_bucket - start_bucket
        if output_segments is None:
            if zch_size % here:
                raise OptionError(
                    f"zch_size is {zch_size} and {here} buckets are here; give output_segments where rows are not "
                    "divided evenly."
                )
            size = zch_size // here
            output_segments = [size * at for at in range(total_num_buckets + 1)]
        super().__init__(device, output_segments, True, read_only_suffix, enable_per_feature_lookups)
        self._zch_size, self._buckets, self._max_probe = zch_size, total_num_buckets, max_probe
        self._input_hash_size, self._output_segments = input_hash_size, output_segments
        self._is_inference, self._name = is_inference, name
        self._start_bucket, self._end_bucket = start_bucket, end_bucket
        self._output_global_offset = output_segments[start_bucket]
        self._eviction_policy_name, self._eviction_config = eviction_policy_name, eviction_config
        self._opt_in_prob, self._percent_reserved_slots = opt_in_prob, percent_reserved_slots
        self._disable_fallback = disable_fallback
        self._track_id_freq, self._write_runtime_meta_dim = track_id_freq, write_runtime_meta_dim
        self._options: dict[str, Any] = {
            "max_probe": max_probe, "input_hash_size": input_hash_size, "is_inference": is_inference, "name": name,
            "tb_logging_frequency": tb_logging_frequency, "eviction_policy_name": eviction_policy_name,
            "eviction_config": eviction_config, "opt_in_prob": opt_in_prob, "disable_fallback": disable_fallback,
            "inference_dispatch_div_train_world_size": inference_dispatch_div_train_world_size,
            "percent_reserved_slots": percent_reserved_slots, "track_id_freq": track_id_freq,
            "read_only_suffix": read_only_suffix, "enable_per_feature_lookups": enable_per_feature_lookups,
            "no_bag": no_bag, "write_runtime_meta_dim": write_runtime_meta_dim,
            "persist_hash_zch_bucket": persist_hash_zch_bucket,
        }  # fmt: skip
        self._evicted_indices: list[Tensor] = []
        self._eviction_module: HashZchEvictionModule | None = None
        evicting = eviction_policy_name is not None and not is_inference
        if eviction_policy_name is not None:
            self._eviction_module = HashZchEvictionModule(eviction_policy_name, self._device, eviction_config)
        identities, metadata = create_zch_buffer(zch_size, evicting, self._device, long_type=True)
        self._hash_zch_identities = nn.Parameter(identities, requires_grad=False)
        self._hash_zch_metadata = None if metadata is None else nn.Parameter(metadata, requires_grad=False)
        noted = write_runtime_meta_dim or int(track_id_freq)
        self._hash_zch_runtime_meta = None
        if noted:
            meta = torch.zeros(zch_size, noted, dtype=torch.int64, device=self._device)
            self._hash_zch_runtime_meta = nn.Parameter(meta, requires_grad=False)
        buckets = torch.tensor([[total_num_buckets]], dtype=torch.int64, device=self._device)
        self.register_buffer("_hash_zch_bucket", buckets, persistent=persist_hash_zch_bucket)
        bounds = torch.tensor(output_segments, dtype=torch.int64, device=self._device)
        self.input_mapper = TrainInputMapper(
            input_hash_size, total_num_buckets, bounds.diff(), bounds[:-1], inference_dispatch_div_train_world_size,
            name,
        )  # fmt: skip

        self._scalar_logger: ScalarLogger | None = None
        if tb_logging_frequency > 0:
            self._scalar_logger = ScalarLogger(
                name or "", zch_size, tb_logging_frequency, start_bucket, here, self.get_reserved_slots_per_bucket(),
                self._device, disable_fallback,
            )  # fmt: skip

    @property
    def max_probe(self) -> int:
        """Rows to look at for an id."""
        return self._max_probe

    @property
    def disable_fallback(self) -> bool:
        """Whether ids without a row are left out."""
        return self._disable_fallback

    @property
    def eviction_flag(self) -> int:
        """What `zero_collision_hash` calls the eviction policy."""
        return get_kernel_from_policy(self._eviction_policy_name)

    @property
    def is_sharded(self) -> bool:
        """Whether only some of the parts are here."""
        return self._end_bucket - self._start_bucket < self._buckets

    def preprocess(self, features: Features) -> Features:
        """Ids as they are: they are hashed when they are mapped."""
        return features

    def profile(self, features: Features) -> Features:
        """Nothing to learn ahead: ids come to rows when they are mapped."""
        return features

    @torch.no_grad()
    def remap(
        self, features: Features, mutate_miss_lengths: bool = True, write_weights: Tensor | None = None
    ) -> Features:
        """Ids to rows; new ones come to rows in training.

        Args:
            features: bags of ids.
            mutate_miss_lengths: whether bags are shorter by the ids that are left out.
            write_weights: (L, write_runtime_meta_dim): what is noted of the rows.
        """
        return {
            name: self._placed(feature, self.rows_of(feature, write_weights), mutate_miss_lengths)
            for name, feature in features.items()
        }

    @torch.no_grad()
    def rows_of(self, feature: JaggedTensor, write_weights: Tensor | None = None) -> Tensor:
        """The row of each id; new ids come to rows in training.

        Args:
            feature: bags of ids.
            write_weights: (L, write_runtime_meta_dim): what is noted of the rows.

        Returns:
            (L,) int64; -1 for an id that has no row and shares none, where fallbacks are disabled.
        """
        readonly = self._is_inference or not self.training
        ids, sizes, offsets = self.input_mapper(feature.values().to(torch.int64), self._offset())
        before = self._hash_zch_identities.clone() if self._scalar_logger is not None else None
        stayed = None if before is None or self._hash_zch_metadata is None else self._hash_zch_metadata.clone()
        scores, threshold = None, -1
        if not readonly and self._eviction_module is not None:
            scores, threshold = self._eviction_module(feature)
        reserved = self.get_reserved_slots_per_bucket()
        rows, evicted = zero_collision_hash(
            ids, self._hash_zch_identities, self._max_probe, circular_probe=True, readonly=readonly,
            local_sizes=sizes, offsets=offsets, metadata=None if readonly else self._hash_zch_metadata,
            disable_fallback=self._disable_fallback, input_metadata=scores, eviction_threshold=threshold,
            eviction_policy=self.eviction_flag, opt_in_prob=self._opt_in_prob, num_reserved_slots=reserved,
            runtime_meta=None if readonly else self._hash_zch_runtime_meta,
        )  # fmt: skip
        if evicted is not None and evicted.numel():
            self._evicted_indices.append(evicted[evicted >= 0] + self._output_global_offset)
        self._note(rows, write_weights, readonly)
        if before is not None:
            self._log(before, stayed, ids, rows, evicted)
        return torch.where(rows >= 0, rows + self._output_global_offset, rows)

    def _log(self, before: Tensor, stayed: Tensor | None, ids: Tensor, rows: Tensor, evicted: Tensor | None) -> None:
        """Count what became of a batch's ids, and report if it is time."""
        assert self._scalar_logger is not None
        self._scalar_logger.train(self.training and not self._is_inference)
        placed = (rows >= 0).nonzero().view(-1)
        changed = None if evicted is None else evicted[evicted >= 0]
        self._scalar_logger.update(
            before, self._hash_zch_identities, ids, rows[placed], placed, changed, stayed, self._eviction_config
        )
        self._scalar_logger("train" if self._scalar_logger.training else "eval", self._hash_zch_identities)

    def _offset(self) -> Tensor | None:
        if not self._output_global_offset:
            return None
        return torch.tensor(self._output_global_offset, dtype=torch.int64, device=self._device)

    def _note(self, rows: Tensor, weights: Tensor | None, readonly: bool) -> None:
        meta = self._hash_zch_runtime_meta
        if meta is None or readonly:
            return
        placed = rows >= 0
        if weights is not None:
            meta[rows[placed]] = weights[placed].to(meta.dtype)
        elif self._track_id_freq:
            meta.index_add_(0, rows[placed], torch.ones_like(rows[placed]).unsqueeze(1).expand(-1, meta.shape[1]))

    def _placed(self, feature: JaggedTensor, rows: Tensor, shorten: bool) -> JaggedTensor:
        weights, lengths = feature.weights_or_none(), feature.lengths()
        if not self._disable_fallback:
            return JaggedTensor(values=rows, lengths=lengths, offsets=feature.offsets(), weights=weights)
        placed = rows >= 0
        if shorten:
            bags = torch.arange(len(lengths), device=rows.device).repeat_interleave(lengths, output_size=len(rows))
            lengths = torch.zeros_like(lengths).index_add_(0, bags, placed.to(lengths.dtype))
        kept = weights[placed] if weights is not None and weights.shape[0] == len(rows) else weights
        return JaggedTensor(values=rows[placed], lengths=lengths, weights=kept)

    def forward(self, features: Features, mutate_miss_lengths: bool = True) -> Features:
        """Ids to rows; see `remap`."""
        return self.remap(features, mutate_miss_lengths)

    @torch.no_grad()
    def update_runtime_meta(self, raw_ids: Tensor, remapped_ids: Tensor, weights: Tensor) -> None:
        """Note numbers of rows that still belong to given ids.

        Args:
            raw_ids: (L,).
            remapped_ids: (L,): their rows.
            weights: (L, write_runtime_meta_dim).
        """
        if self._hash_zch_runtime_meta is None:
            return
        rows = remapped_ids - self._output_global_offset
        theirs = self._hash_zch_identities[rows, 0] == raw_ids
        self._hash_zch_runtime_meta[rows[theirs]] = weights[theirs].to(torch.int64)

    @torch.no_grad()
    def lookup_runtime_meta(self, features: Tensor, remapped_ids: Tensor) -> Tensor:
        """(L, numbers): what was noted of rows; 0 where a row is another id's by now, or nothing is noted.

        Args:
            features: (L,) ids.
            remapped_ids: (L,): their rows.
        """
        noted = self.lookup_custom_runtime_meta(remapped_ids)
        theirs = self._hash_zch_identities[remapped_ids - self._output_global_offset, 0] == features
        return torch.where(theirs.unsqueeze(1), noted, 0)

    @torch.no_grad()
    def lookup_custom_runtime_meta(self, remapped_ids: Tensor) -> Tensor:
        """(L, numbers): what was noted of rows; one 0 each where nothing is noted."""
        if self._hash_zch_runtime_meta is None:
            return remapped_ids.new_zeros(len(remapped_ids), 1)
        return self._hash_zch_runtime_meta[remapped_ids - self._output_global_offset]

    def evict(self) -> Tensor | None:
        """Rows that changed hands since this was last asked; None where none did."""
        if not self._evicted_indices:
            return None
        rows = torch.unique(torch.cat(self._evicted_indices))
        self._evicted_indices = []
        return rows if rows.numel() else None

    def get_reserved_slots_per_bucket(self) -> int:
        """Rows of each part that ids without one share; -1 for none, as where all ids come to rows."""
        if self._opt_in_prob == -1 or self._percent_reserved_slots <= 0:
            return -1
        return int(self._zch_size // (self._end_bucket - self._start_bucket) * self._percent_reserved_slots // 100)

    def get_indices_of_reserved_slots_per_bucket(self) -> Tensor | None:
        """Which rows those are; None for none."""
        count = self.get_reserved_slots_per_bucket()
        if count <= 0:
            return None
        ends = torch.tensor(self._output_segments[self._start_bucket + 1 : self._end_bucket + 1], device=self._device)
        return (ends.unsqueeze(1) - count + torch.arange(count, device=self._device)).flatten()

    @torch.no_grad()
    def sync_identities(
        self, is_root_node: bool, num_replica_gp: int, replica_ranks: list[int], replica_pg: dist.ProcessGroup
    ) -> tuple[Tensor, Tensor]:
        """Bring copies of the table, which have learned from different batches, to the same ids in the same rows.

        Ids of the first copy keep their rows; those of the others keep theirs where they are free, or come to the next
        free one that is looked at for them. An id for which there is none is lost.

        Args:
            is_root_node: accepted for upstream's sake: all copies find the same by themselves.
            num_replica_gp: copies.
            replica_ranks: processes that have them.
            replica_pg: the same.

        Returns:
            (rows here,) int64, the row from now on of each row's id, or -1; and (rows here,) bool, whether it has one.

        Raises:
            OptionError: there are not as many copies as processes.
        """
        if num_replica_gp != dist.get_world_size(replica_pg) or len(replica_ranks) != num_replica_gp:
            raise OptionError(
                f"num_replica_gp is {num_replica_gp} and replica_ranks are {replica_ranks}, expected the "
                f"{dist.get_world_size(replica_pg)} processes of replica_pg."
            )
        mine = self._hash_zch_identities.clone()
        copies = [torch.empty_like(mine) for _ in range(num_replica_gp)]
        dist.all_gather(copies, mine, group=replica_pg)
        stays: list[Tensor] = []
        if self._hash_zch_metadata is not None:
            stays = [torch.empty_like(self._hash_zch_metadata) for _ in copies]
            dist.all_gather(stays, self._hash_zch_metadata.data, group=replica_pg)
        merged = copies[0].clone()
        for other in copies[1:]:
            self._placed_in(merged, other, readonly=False)
        merged_stays = torch.full_like(stays[0], -1) if stays else None
        for other, until in zip(copies, stays, strict=False):
            assert merged_stays is not None
            rows = self._placed_in(merged, other, readonly=True)
            kept = rows >= 0
            # An id stays as long as in the copy where it stays longest.
            merged_stays.view(-1).scatter_reduce_(0, rows[kept], until.view(-1)[kept], "amax")
        found = self._placed_in(merged, mine, readonly=True)
        self._hash_zch_identities.copy_(merged)
        if self._hash_zch_metadata is not None and merged_stays is not None:
            self._hash_zch_metadata.copy_(merged_stays)
        return found, found >= 0

    def _placed_in(self, table: Tensor, other: Tensor, *, readonly: bool) -> Tensor:
        """Where ids of another table are in this one; put there, where they are not, if there is room."""
        held = (other[:, 0] != -1).nonzero().view(-1)
        found = torch.full((other.shape[0],), -1, dtype=torch.int64, device=other.device)
        if not held.numel():
            return found
        bounds = torch.tensor(self._output_segments, device=other.device)
        bucket = torch.searchsorted(bounds, held + self._output_global_offset, right=True) - 1
        rows, _ = zero_collision_hash(
            other[held, 0], table, self._max_probe, circular_probe=True, readonly=readonly,
            local_sizes=bounds.diff()[bucket], offsets=bounds[bucket] - self._output_global_offset,
            disable_fallback=True,
        )  # fmt: skip
        found[held] = rows
        return found

    def open_slots(self) -> Tensor:
        """(1,) of 0: rows are found when they are needed."""
        return torch.tensor([0], dtype=torch.int64, device=self._device)

    def input_size(self) -> int:
        """How many ids there are; 0 for no bound."""
        return self._input_hash_size

    def output_size(self) -> int:
        """How many rows there are here."""
        return self._zch_size

    def buckets(self) -> int:
        """Parts that rows are divided into."""
        return self._buckets

    def validate_state(self) -> None:
        """Look whether the state is that of as many parts.

        Raises:
            OptionError: it is not.
        """
        if int(self._hash_zch_bucket) != self._buckets:
            raise OptionError(f"the state is of {int(self._hash_zch_bucket)} buckets, expected {self._buckets}.")

    def reset_inference_mode(self) -> None:
        """Only look ids up from now on; what evictions need is dropped."""
        self._is_inference = True
        self._hash_zch_metadata = self._hash_zch_runtime_meta = None

    def reset_training_mode(self) -> None:
        """Let new ids come to rows in training again."""
        self._is_inference = False

    def reset_intrainer_bulk_eval_mode(self) -> None:
        """Only look ids up, and keep what evictions need."""
        self._is_inference = True

    def rebuild_with_output_id_range(
        self,
        output_id_range: tuple[int, int],
        output_segments: list[int] | None = None,
        device: torch.device | None = None,
    ) -> HashZchManagedCollisionModule:
        """One like this for some of the rows, as a process has them.

        Args:
            output_id_range: the first row, and the one behind the last; both are boundaries of parts.
            output_segments: boundaries of all parts; as here where not given.
            device: of what it keeps.

        Raises:
            OptionError: rows that do not begin and end with a part.
        """
        segments = self._output_segments if output_segments is None else output_segments
        first, behind = output_id_range
        if first not in segments or behind not in segments:
            raise OptionError(f"rows {first} to {behind} do not lie on boundaries of the segments {segments}.")
        return type(self)(
            zch_size=behind - first,
            device=device or self.device,
            total_num_buckets=self._buckets,
            output_segments=segments,
            start_bucket=segments.index(first),
            end_bucket=segments.index(behind),
            **self._options,
        )
