"""Pruning of tables while they are trained (ITEP): more ids than rows, which go to the ids that are seen most."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor, ShardedTensorMetadata  # type: ignore[attr-defined]
from torch.distributed._shard.sharded_tensor.metadata import TensorProperties

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.pruning_logger import PruningLogger, PruningLoggerDefault
from flambeau.rec.ops.intraining_pruning import (
    init_address_lookup,
    prune_embedding_tables,
    remap_indices_update_utils,
)
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

if TYPE_CHECKING:
    import torch.distributed as dist

__all__ = ["GenericITEPModule", "RowwiseShardedITEPModule"]

logger = logging.getLogger(__name__)

_BY_ROWS = ("row_wise", "table_row_wise")


class _Table(Protocol):
    """A `ShardedEmbeddingTable`, of the layer above: a table of which one process has a part."""

    name: str
    feature_names: list[str]
    local_rows: int
    local_metadata: ShardMetadata | None
    global_metadata: ShardedTensorMetadata | None


class GenericITEPModule(nn.Module):
    """Gives the rows of tables to the ids that are seen most, and takes them from those that are not.

    Ids are remapped before they are looked up. In training they are counted: in the first 10 batches, in every 19th up
    to 100, and in every 39th. At the third, sixth and ninth batch, then at every 30th up
    to 100, at every 300th up to 1,000, and at every `pruning_interval`-th, rows change hands; after the first interval
    they, and what the optimizer keeps of them, become zero. Ids without a row share row 0.

    Without lookups, as in modules that are not sharded, ids stay as they are.

    Args:
        table_name_to_unpruned_hash_sizes: ids of each table that is pruned.
        lookups: of sharded collections, whose kernels hold the tables.
        enable_pruning: whether anything is done at all.
        pruning_interval: batches from one pruning to the next.
        pg: the processes; for tables that are spread by rows.
        table_name_to_sharding_type: how each table is spread.
        pruning_logger_type: where prunings are logged.

    Raises:
        OptionError: an interval below 1, or a table with fewer ids than rows.
    """

    address_lookup: Tensor
    row_util: Tensor
    buffer_offsets: Tensor
    emb_sizes: Tensor

    def __init__(
        self,
        table_name_to_unpruned_hash_sizes: dict[str, int],
        lookups: list[nn.Module] | None = None,
        enable_pruning: bool = True,
        pruning_interval: int = 1001,
        pg: dist.ProcessGroup | None = None,
        table_name_to_sharding_type: dict[str, str] | None = None,
        pruning_logger_type: type[PruningLogger] = PruningLoggerDefault,
    ) -> None:
        super().__init__()
        if pruning_interval < 1:
            raise OptionError(f"pruning_interval is {pruning_interval}, expected at least 1: batches between prunings.")
        self.pruning_logger = pruning_logger_type
        self.enable_pruning, self.pruning_interval, self.pg = enable_pruning, pruning_interval, pg
        # Not registered: lookups belong to the sharded collection.
        self.lookups: list[nn.Module] = [] if lookups is None else lookups
        self.table_name_to_unpruned_hash_sizes = table_name_to_unpruned_hash_sizes
        self.table_name_to_sharding_type = table_name_to_sharding_type or {}
        self.rank_to_virtual_index_mapping: dict[str, dict[int, int]] = {}
        self.feature_table_map: dict[str, int] = {}
        self.reversed_feature_table_map: dict[int, str] = {}
        self.table_name_to_idx: dict[str, int] = {}
        self.idx_to_table_name: dict[int, str] = {}
        self.buffer_offsets_list: list[int] = []
        self.last_pruned_iter = -1
        self._tables_of: dict[int, list[tuple[str, int | None]]] = {}
        if self.lookups and enable_pruning:
            self.init_itep_state()

    # ----- state ------------------------------------------------------------------------------------------------------

    def _kernels(self) -> Iterator[tuple[Any, Any]]:
        """Each lookup with each of its kernels."""
        for lookup in self.lookups:
            inner = getattr(lookup, "module", lookup)
            for kernel in inner._emb_modules:  # type: ignore[union-attr]
                yield inner, kernel

    def _is_pruned_here(self, table: _Table) -> bool:
        return table.name in self.table_name_to_unpruned_hash_sizes

    def get_table_hash_sizes(self, table: _Table) -> tuple[int, int]:
        """Rows of a table on this process, and ids that may ask for them.

        Raises:
            OptionError: fewer ids than rows.
        """
        return self._checked(table, table.local_rows, self.table_name_to_unpruned_hash_sizes[table.name])

    @staticmethod
    def _checked(table: _Table, rows: int, ids: int) -> tuple[int, int]:
        if not 0 < rows <= ids:
            raise OptionError(
                f"table {table.name!r} has {rows} rows here for {ids} ids; pruning takes at least one row, and no more "
                "rows than ids. Say how many ids there are in table_name_to_unpruned_hash_sizes."
            )
        return rows, ids

    def init_itep_state(self) -> None:
        """Find the tables that are pruned among those of the lookups, and make their buffers."""
        names: list[str] = []
        rows: list[int] = []
        offsets = [0]
        device = torch.device("cpu")
        for lookup, kernel in self._kernels():
            for table in kernel.config.embedding_tables:
                pruned = self._is_pruned_here(table)
                if pruned and table.name not in self.table_name_to_idx:
                    here, ids = self.get_table_hash_sizes(table)
                    self.table_name_to_idx[table.name] = len(names)
                    self.idx_to_table_name[len(names)] = table.name
                    names.append(table.name)
                    rows.append(here)
                    offsets.append(offsets[-1] + ids)
                    device = kernel.split_embedding_weights()[0].device
                number = self.table_name_to_idx[table.name] if pruned else None
                for feature in table.feature_names:
                    self._tables_of.setdefault(id(lookup), []).append((feature, number))
                    if number is not None:
                        self.feature_table_map[feature] = number
                        self.reversed_feature_table_map[number] = feature
        self.buffer_offsets_list = offsets if names else []
        self.current_device = device
        self.create_itep_buffers(offsets[-1], offsets, names, rows)
        init_address_lookup(self.address_lookup, self.buffer_offsets, self.emb_sizes)

    def create_itep_buffers(
        self, buffer_size: int, buffer_offsets: list[int], table_names: list[str], emb_sizes: list[int]
    ) -> None:
        """Make a place for each id of each table; each table's part is a buffer of its own, for checkpoints.

        Args:
            buffer_size: ids of all tables.
            buffer_offsets: where those of each table begin, and the last one's end.
            table_names: the tables.
            emb_sizes: rows of each.
        """
        device = getattr(self, "current_device", torch.device("cpu"))
        self.buffer_offsets = torch.tensor(buffer_offsets, dtype=torch.int64, device=device)
        self.emb_sizes = torch.tensor(emb_sizes, dtype=torch.int64, device=device)
        self.address_lookup = torch.zeros(buffer_size, dtype=torch.int64, device=device)
        self.row_util = torch.zeros(buffer_size, dtype=torch.float32, device=device)
        for at, name in enumerate(table_names):
            part = slice(buffer_offsets[at], buffer_offsets[at + 1])
            self.register_buffer(f"{name}_itp_address_lookup", self.address_lookup[part])
            self.register_buffer(f"{name}_itp_row_util", self.row_util[part])

    # ----- features ---------------------------------------------------------------------------------------------------

    def _tables_of_features(self, features: KeyedJaggedTensor, lookup: nn.Module | None) -> list[int | None]:
        """The pruned table of each feature: a feature of several tables stands there once for each."""
        keys = features.keys()
        candidates = self._tables_of.values() if lookup is None else [self._tables_of.get(id(lookup), [])]
        for pairs in candidates:
            if [feature for feature, _ in pairs] == keys:
                return [number for _, number in pairs]
        return [self.feature_table_map.get(key) for key in keys]

    def _remap_info(self, features: KeyedJaggedTensor, lookup: nn.Module | None) -> list[Tensor]:
        tables = self._tables_of_features(features, lookup)
        starts = features.offset_per_key()
        chosen = [(table, at) for at, table in enumerate(tables) if table is not None]
        return [
            torch.tensor([table for table, _ in chosen], dtype=torch.int32),
            torch.tensor([starts[at + 1] - starts[at] for _, at in chosen], dtype=torch.int64),
            torch.tensor([starts[at] for _, at in chosen], dtype=torch.int64),
        ]

    def get_remap_info(self, features: KeyedJaggedTensor) -> list[Tensor]:
        """Of each feature of a pruned table: its table (int32), how many ids it has, and where they begin."""
        return self._remap_info(features, None)

    def get_full_values_list(self, features: KeyedJaggedTensor) -> list[Tensor]:
        """Of each feature of a pruned table, the ids of the full batch, which is what is counted.

        Args:
            features: with `inverse_indices`, where examples that are alike stand there once.
        """
        return self._full_values(features, None)

    def _full_values(self, features: KeyedJaggedTensor, lookup: nn.Module | None) -> list[Tensor]:
        tables = self._tables_of_features(features, lookup)
        inverse = features.inverse_indices_or_none()
        starts, keys = features.offset_per_key(), features.keys()
        lengths = features.lengths().view(-1).split(features.stride_per_key())
        found = []
        for at, table in enumerate(tables):
            if table is None:
                continue
            values = features.values()[starts[at] : starts[at + 1]]
            if inverse is not None:
                examples = inverse[1][inverse[0].index(keys[at])]
                times = torch.bincount(examples.long(), minlength=len(lengths[at]))
                values = values.repeat_interleave(times.repeat_interleave(lengths[at].long()))
            found.append(values)
        return found

    def _prunes_at(self, cur_iter: int) -> bool:
        number = cur_iter + 1
        early = any(cur_iter < limit and number % every == 0 for limit, every in ((10, 3), (100, 30), (1000, 300)))
        return early or number % self.pruning_interval == 0

    def _prune(self, cur_iter: int) -> None:
        rows, offsets, count = prune_embedding_tables(
            cur_iter, self.pruning_interval, self.address_lookup, self.row_util, self.buffer_offsets, self.emb_sizes
        )
        self.last_pruned_iter = cur_iter
        if count and cur_iter > self.pruning_interval:
            self.reset_weight_momentum(rows, offsets)
        if count:
            # Rows in caches are of those who had them before.
            self.flush_uvm_cache()
        self.print_itep_eviction_stats(offsets, torch.tensor(count), cur_iter)

    def reset_weight_momentum(self, pruned_indices: Tensor, pruned_indices_offsets: Tensor) -> None:
        """Make rows that changed hands, and what optimizers keep of them, zero.

        Args:
            pruned_indices: (rows,) one table after another, in the order of buffers.
            pruned_indices_offsets: (tables + 1,) where those of each table begin.
        """
        ends = pruned_indices_offsets.tolist()
        for _, kernel in self._kernels():
            places, parts = [], []
            for place, table in enumerate(kernel.config.embedding_tables):
                number = self.table_name_to_idx.get(table.name)
                if number is not None and ends[number] < ends[number + 1]:
                    places.append(place)
                    parts.append(pruned_indices[ends[number] : ends[number + 1]])
            if not places:
                continue
            reset = getattr(kernel.emb_module, "reset_embedding_weight_momentum", None)
            if reset is None:  # tables that are trained from outside: their optimizer cannot be reached
                for place, rows in zip(places, parts, strict=True):
                    with torch.no_grad():
                        kernel.split_embedding_weights()[place][rows] = 0
                continue
            starts = torch.tensor([0, *(len(part) for part in parts)]).cumsum(0)
            tables = torch.tensor(places, dtype=torch.int32)
            reset(torch.cat(parts), starts, tables, tables)

    def flush_uvm_cache(self) -> None:
        """Write what caches hold of tables back to them."""
        for _, kernel in self._kernels():
            flush = getattr(kernel, "flush", None)
            if flush is not None:
                flush()

    def print_itep_eviction_stats(
        self, pruned_indices_offsets: Tensor, pruned_indices_total_length: Tensor, cur_iter: int
    ) -> None:
        """Log how many rows of each table changed hands.

        Args:
            pruned_indices_offsets: (tables + 1,) where those of each table begin.
            pruned_indices_total_length: how many there are.
            cur_iter: number of the batch.
        """
        if not logger.isEnabledFor(logging.INFO):
            return
        counts = pruned_indices_offsets.diff().tolist()
        total = int(pruned_indices_total_length)
        logger.info("at batch %d, %d rows changed hands", cur_iter, total)
        for number, (count, rows) in enumerate(zip(counts, self.emb_sizes.tolist(), strict=True)):
            name = self.idx_to_table_name[number]
            logger.info("table %s: %d of %d rows (%.2f%%)", name, count, rows, 100 * count / max(rows, 1))

    def _remapped(self, features: KeyedJaggedTensor, cur_iter: int, lookup: nn.Module | None) -> KeyedJaggedTensor:
        if not self.enable_pruning or not self.table_name_to_idx:
            return features
        if self.training and self._prunes_at(cur_iter) and self.last_pruned_iter != cur_iter:
            self._prune(cur_iter)
        tables, lengths, starts = self._remap_info(features, lookup)
        full = None if features.inverse_indices_or_none() is None else self._full_values(features, lookup)
        values = remap_indices_update_utils(
            cur_iter, tables, lengths, starts, features.values(), self.address_lookup, self.row_util,
            self.buffer_offsets, full, None if self.training else False,
        )  # fmt: skip
        return _with_values(features, values)

    def forward(self, sparse_features: KeyedJaggedTensor, cur_iter: int) -> KeyedJaggedTensor:
        """The features with rows in place of ids; in training, ids are counted, and tables pruned when it is time.

        Args:
            sparse_features: as a lookup gets them.
            cur_iter: number of the batch.

        Raises:
            RuntimeError: an id that its table has not.
        """
        return self._remapped(sparse_features, cur_iter, None)


def _with_values(features: KeyedJaggedTensor, values: Tensor) -> KeyedJaggedTensor:
    variable = features.variable_stride_per_key()
    return KeyedJaggedTensor(
        features.keys(),
        values,
        features.weights_or_none(),
        features.lengths_or_none(),
        features.offsets_or_none(),
        stride=None if variable else features.stride(),
        stride_per_key_per_rank=features.stride_per_key_per_rank() if variable else None,
        length_per_key=features.length_per_key_or_none(),
        offset_per_key=features.offset_per_key_or_none(),
        inverse_indices=features.inverse_indices_or_none(),
    )


class RowwiseShardedITEPModule(GenericITEPModule):
    """The same for tables that are spread by rows: each process gives its own rows to its own ids.

    Its states are tensors of all processes, of which each has its part.

    Args:
        table_name_to_unpruned_hash_sizes: ids of each table that is pruned, of all processes.
        lookups: of sharded collections, whose kernels hold the tables.
        enable_pruning: whether anything is done at all.
        pruning_interval: batches from one pruning to the next.
        pg: the processes.
        table_name_to_sharding_type: how each table is spread.
        pruning_logger_type: where prunings are logged.

    Raises:
        OptionError: it is not said how tables are spread.
    """

    def __init__(
        self,
        table_name_to_unpruned_hash_sizes: dict[str, int],
        lookups: list[nn.Module] | None = None,
        enable_pruning: bool = True,
        pruning_interval: int = 1001,
        pg: dist.ProcessGroup | None = None,
        table_name_to_sharding_type: dict[str, str] | None = None,
        pruning_logger_type: type[PruningLogger] = PruningLoggerDefault,
    ) -> None:
        if lookups and enable_pruning and not table_name_to_sharding_type:
            raise OptionError("table_name_to_sharding_type is not given: how tables are spread, by name.")
        super().__init__(
            table_name_to_unpruned_hash_sizes, lookups, enable_pruning, pruning_interval, pg,
            table_name_to_sharding_type, pruning_logger_type,
        )  # fmt: skip

    def _is_pruned_here(self, table: _Table) -> bool:
        by_rows = self.table_name_to_sharding_type.get(table.name) in _BY_ROWS
        return by_rows and super()._is_pruned_here(table)

    def get_table_hash_sizes(self, table: _Table, num_gpus: int = 8) -> tuple[int, int]:
        """Rows of a table on this process, and ids that may ask for them: beyond the table's rows, ids take turns.

        Args:
            table: its part here.
            num_gpus: how many processes have rows of it, where the table does not say so itself.

        Raises:
            OptionError: fewer ids than rows.
        """
        if table.global_metadata is not None:
            num_gpus = len({tuple(one.shard_offsets) for one in table.global_metadata.shards_metadata})
        ids = self.table_name_to_unpruned_hash_sizes[table.name]
        return self._checked(table, table.local_rows, -(-ids // num_gpus))

    # ----- states -----------------------------------------------------------------------------------------------------

    def get_buffer_param(self, buffer_params: Tensor, idx: int) -> Tensor:
        """(ids of a table, 1): its part.

        Args:
            buffer_params: (ids of all tables,).
            idx: which table.
        """
        return buffer_params[self.buffer_offsets_list[idx] : self.buffer_offsets_list[idx + 1]].view(-1, 1)

    def _here(self) -> list[_Table]:
        found: dict[str, _Table] = {}
        for _, kernel in self._kernels():
            for table in kernel.config.embedding_tables:
                if table.name in self.table_name_to_idx:
                    found.setdefault(table.name, table)
        return list(found.values())

    def get_itp_state_dict(
        self,
        embedding_tables: list[_Table],
        params: Tensor,
        pg: dist.ProcessGroup | None = None,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        suffix: str = "",
        dtype: torch.dtype = torch.float32,
    ) -> dict[str, Any]:
        """The state of tables, of each a tensor of all processes.

        Args:
            embedding_tables: their parts here.
            params: (ids of all tables,) of this process.
            pg: the processes; the part itself where there are none.
            destination: where states go.
            prefix: of their names.
            suffix: of their names, behind the table's.
            dtype: of the states.
        """
        found = {} if destination is None else destination
        for table in embedding_tables:
            number = self.table_name_to_idx.get(table.name)
            if number is None:
                continue
            part = self.get_buffer_param(params, number).view(-1).to(dtype)
            whole = table.global_metadata
            if pg is None or whole is None:
                found[f"{prefix}{table.name}{suffix}"] = part
                continue
            found[f"{prefix}{table.name}{suffix}"] = _whole(part, table, whole, pg)
        return found

    def state_dict(  # type: ignore[override]
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Rows and counts of all ids, of each table a tensor of all processes.

        Args:
            destination: where states go.
            prefix: of their names.
            keep_vars: has no effect: there are no parameters.
        """
        found: dict[str, Any] = {} if destination is None else destination
        if self.table_name_to_idx:
            tables = self._here()
            for params, suffix in ((self.address_lookup, "_itp_address_lookup"), (self.row_util, "_itp_row_util")):
                self.get_itp_state_dict(tables, params, self.pg, found, prefix, suffix, params.dtype)
        return found

    def load_state_dict(  # type: ignore[override]
        self, state_dict: Any, strict: bool = True
    ) -> Any:
        """Take over what `state_dict` gave; see `torch.nn.Module.load_state_dict`."""
        return super().load_state_dict(state_dict, strict=strict)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        parts = dict(state_dict)
        for name in self._buffers:
            whole = parts.get(f"{prefix}{name}")
            if isinstance(whole, ShardedTensor):
                local = whole.local_shards()
                parts[f"{prefix}{name}"] = local[0].tensor if local else self._buffers[name]
        super()._load_from_state_dict(parts, prefix, *args)


def _whole(part: Tensor, table: _Table, whole: ShardedTensorMetadata, pg: dist.ProcessGroup) -> ShardedTensor:
    """The tensor of all processes: ids take turns among those that have rows, so that all parts are equally long."""
    shards = [
        ShardMetadata([number * len(part)], [len(part)], placement=one.placement)
        for number, one in enumerate(whole.shards_metadata)
    ]
    assert table.local_metadata is not None
    mine = next(
        at for at, one in enumerate(whole.shards_metadata) if one.shard_offsets == table.local_metadata.shard_offsets
    )
    metadata = ShardedTensorMetadata(shards, torch.Size([len(part) * len(shards)]), TensorProperties(dtype=part.dtype))
    return ShardedTensor._init_from_local_shards_and_global_metadata(
        [Shard(part, shards[mine])], metadata, process_group=pg
    )
