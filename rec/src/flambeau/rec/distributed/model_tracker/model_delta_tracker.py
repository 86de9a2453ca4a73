"""Which rows of tables batches have looked up, and so changed, since somebody asked last."""

from __future__ import annotations

import abc
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from flambeau.rec.distributed._data_parallel import get_unwrapped_module
from flambeau.rec.distributed.embedding import ShardedEmbeddingCollection
from flambeau.rec.distributed.embedding_types import ShardedEmbeddingTable
from flambeau.rec.distributed.embeddingbag import ShardedEmbeddingBagCollection
from flambeau.rec.distributed.model_tracker.delta_store import DeltaStoreTrec
from flambeau.rec.distributed.model_tracker.types import TrackingMode, UniqueRows, UpdateMode
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["SUPPORTED_MODULES", "ModelDeltaTracker", "ModelDeltaTrackerTrec"]

SUPPORTED_MODULES = (ShardedEmbeddingCollection, ShardedEmbeddingBagCollection)
"""Modules whose tables are tracked."""

_UPDATES = {
    TrackingMode.ID_ONLY: UpdateMode.NONE,
    TrackingMode.EMBEDDING: UpdateMode.FIRST,
    TrackingMode.MOMENTUM_LAST: UpdateMode.LAST,
    TrackingMode.MOMENTUM_DIFF: UpdateMode.FIRST,
    TrackingMode.ROWWISE_ADAGRAD: UpdateMode.FIRST,
}
_CHANGES = (TrackingMode.MOMENTUM_DIFF, TrackingMode.ROWWISE_ADAGRAD)


def _side_by_side(parts: list[Tensor]) -> Tensor:
    """Columns of one table that lie here in several parts."""
    return parts[0] if len(parts) == 1 else torch.cat([one.view(len(one), -1) for one in parts], dim=1)


class ModelDeltaTracker(abc.ABC):
    """Tells which rows of tables were looked up since a consumer asked last."""

    @abc.abstractmethod
    def record_lookup(
        self,
        kjt: KeyedJaggedTensor,
        states: Tensor,
        emb_module: nn.Module | None = None,
        raw_ids: Tensor | None = None,
    ) -> None:
        """Take note of a look-up.

        Args:
            kjt: what was looked up.
            states: (ids, ...), what to keep of each.
            emb_module: where.
            raw_ids: (ids,), ids as they were before they were mapped to rows.
        """

    @abc.abstractmethod
    def get_unique_ids(self, consumer: str | None = None) -> dict[str, Tensor]:
        """Of each table with rows that were looked up, these rows of the part on this process, each once."""

    @abc.abstractmethod
    def get_unique(
        self,
        consumer: str | None = None,
        top_percentage: float | None = 1.0,
        per_table_percentage: dict[str, tuple[float, str]] | None = None,
        sorted_by_indices: bool | None = True,
    ) -> dict[str, UniqueRows]:
        """The same, with what was kept of each row."""

    @abc.abstractmethod
    def clear(self, consumer: str | None = None) -> None:
        """Leave what was looked up so far out of what a consumer is given."""

    @abc.abstractmethod
    def step(self) -> None:
        """Begin another batch."""


class Consumers:
    """Where each of those who ask has got to.

    Args:
        names: of them.
    """

    def __init__(self, names: list[str] | None) -> None:
        self._next = dict.fromkeys(names or ["default"], 0)

    def _name(self, consumer: str | None) -> str:
        name = "default" if consumer is None else consumer
        if name not in self._next:
            raise OptionError(f"consumer is {consumer!r}; choose one of {list(self._next)}.")
        return name

    def read(self, consumer: str | None, up_to: int) -> int:
        """The first batch that a consumer was not given yet; it now has those up to another one."""
        name = self._name(consumer)
        begin, self._next[name] = self._next[name], up_to + 1
        return begin

    def first(self) -> int:
        """The first batch that some consumer was not given yet."""
        return min(self._next.values())

    def last(self) -> int:
        """The first batch that no consumer was given yet."""
        return max(self._next.values())


class ModelDeltaTrackerTrec(ModelDeltaTracker):
    """Takes note of every look-up in a model's sharded collections.

    Rows are counted within the part of a table on this process. A `DistributedModelParallel` calls `step` in each
    forward pass; see its `init_torchrec_delta_tracker`.

    Args:
        model: in wrappers or not.
        consumers: who asks; one, called "default", where none is named.
        delete_on_read: whether rows are forgotten once all consumers were given them.
        auto_compact: whether rows of several batches are put together while results are exchanged.
        mode: what is kept of rows.
        fqns_to_skip: paths of tables, or of modules, that are not tracked.

    Raises:
        OptionError: embeddings of pooled tables, or states that their optimizer does not keep, are to be tracked.
    """

    def __init__(
        self,
        model: nn.Module,
        consumers: list[str] | None = None,
        delete_on_read: bool = True,
        auto_compact: bool = False,
        mode: TrackingMode = TrackingMode.ID_ONLY,
        fqns_to_skip: Iterable[str] = (),
    ) -> None:
        self._model, self._mode, self._skipped = get_unwrapped_module(model), mode, tuple(fqns_to_skip)
        self._delete_on_read, self._auto_compact = delete_on_read, auto_compact
        self.store = DeltaStoreTrec(_UPDATES[mode])
        self.curr_batch_idx = 0
        self._consumers = Consumers(consumers)
        self.tracked_modules: dict[str, nn.Module] = {}
        self._features: OrderedDict[str, list[str]] = OrderedDict()
        self._kernels: dict[str, list[tuple[Any, int]]] = {}
        for path, module in self._model.named_modules():
            if isinstance(module, SUPPORTED_MODULES) and path not in self._skipped:
                self._track(path, module)

    # ----- modules ----------------------------------------------------------------------------------------------------

    def _track(self, path: str, module: Any) -> None:
        root = f"{path}.{module._tables_name}" if path else module._tables_name
        names = {info.embedding_config.name: info.embedding_config.feature_names for info in module._all_infos()}
        tracked = {name: f"{root}.{name}" for name in names if f"{root}.{name}" not in self._skipped}
        if not tracked:
            return
        self._check(path, module)
        self.tracked_modules[path] = module
        for name, fqn in tracked.items():
            self._features[fqn] = list(names[name])
        for kernel in module._kernels():
            for at, table in enumerate(kernel.config.embedding_tables):
                if table.name in tracked:
                    self._kernels.setdefault(tracked[table.name], []).append((kernel, at))
        for lookup in module._lookups:
            inside = lookup.module if isinstance(lookup, DistributedDataParallel) else lookup
            inside.register_optim_state_tracker_fn(partial(self._looked_up, tracked))
        if self._auto_compact:
            module.register_post_odist_tracker_fn(self.trigger_compaction)

    def _check(self, path: str, module: Any) -> None:
        if self._mode is TrackingMode.EMBEDDING and isinstance(module, ShardedEmbeddingBagCollection):
            raise OptionError(f"{path!r} pools its embeddings, which cannot be tracked then; choose another mode.")
        if self._mode in (TrackingMode.ID_ONLY, TrackingMode.EMBEDDING):
            return
        for kernel in module._kernels():
            optimizer = getattr(kernel.emb_module, "optimizer", None)
            row_wise = optimizer is EmbOptimType.EXACT_ROWWISE_ADAGRAD
            kept: list[list[Tensor]] = getattr(kernel.emb_module, "split_optimizer_states", list)()
            if not kept or not kept[0] or (self._mode is TrackingMode.ROWWISE_ADAGRAD and not row_wise):
                raise OptionError(
                    f"tables {kernel.config.table_names()} of {path!r} are trained by {optimizer}, which does not keep "
                    f"what mode {self._mode.value!r} tracks."
                )

    def get_tracked_modules(self) -> dict[str, nn.Module]:
        """Modules whose tables are tracked, by path."""
        return self.tracked_modules

    def fqn_to_feature_names(self) -> dict[str, list[str]]:
        """Features of each table that is tracked."""
        return self._features

    # ----- look-ups ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _looked_up(self, tracked: dict[str, str], features: KeyedJaggedTensor, rows: Tensor, kernel: Any) -> None:
        """Take note of a kernel's look-up.

        Args:
            tracked: paths of the module's tables, by name.
            features: those of the kernel's tables, one after another.
            rows: its result.
            kernel: it.
        """
        begins = features.offset_per_key()
        values, at = features.values(), 0
        found: dict[str, list[tuple[Tensor, Tensor | None]]] = {}
        for number, table in enumerate(kernel.config.embedding_tables):
            count = len(table.feature_names)
            part = slice(begins[at], begins[at + count])
            at += count
            if table.name in tracked:
                ids = values[part].detach()
                found.setdefault(table.name, []).append((ids, self._state(table, number, kernel, ids, rows[part])))
        for name, parts in found.items():
            # Columns of one table that lie here in several parts are looked up by the same ids.
            states = [state for _, state in parts if state is not None]
            state = _side_by_side(states) if states else None
            self.store.append(self.curr_batch_idx, tracked[name], parts[0][0].clone(), state)

    def _state(
        self, table: ShardedEmbeddingTable, number: int, kernel: Any, ids: Tensor, rows: Tensor
    ) -> Tensor | None:
        if self._mode is TrackingMode.ID_ONLY:
            return None
        if self._mode is TrackingMode.EMBEDDING:
            return rows.detach().clone()
        kept: Tensor = kernel.emb_module.split_optimizer_states()[number][0]
        return kept[ids]

    def record_lookup(
        self,
        kjt: KeyedJaggedTensor,
        states: Tensor,
        emb_module: nn.Module | None = None,
        raw_ids: Tensor | None = None,
    ) -> None:
        """Take note of a look-up that was made otherwise; see `ModelDeltaTracker.record_lookup`.

        Tables are found by the names of features. What is kept is what the mode says.
        """
        if self._mode is TrackingMode.ID_ONLY:
            self.record_ids(kjt)
        elif self._mode is TrackingMode.EMBEDDING:
            self.record_embeddings(kjt, states)
        elif emb_module is None:
            raise OptionError(f"emb_module is None; mode {self._mode.value!r} needs the kernel that looked up.")
        else:
            self.record_momentum(emb_module, kjt)

    def _by_table(self, kjt: KeyedJaggedTensor) -> dict[str, slice]:
        begins, found = kjt.offset_per_key(), {}
        for at, key in enumerate(kjt.keys()):
            for fqn, names in self._features.items():
                if key in names:
                    found[f"{fqn}\n{at}"] = slice(begins[at], begins[at + 1])
        return found

    def record_ids(self, kjt: KeyedJaggedTensor) -> None:
        """Take note of ids.

        Args:
            kjt: of features of tracked tables.
        """
        for fqn, part in self._by_table(kjt).items():
            self.store.append(self.curr_batch_idx, fqn.partition("\n")[0], kjt.values()[part].detach().clone())

    def record_embeddings(self, kjt: KeyedJaggedTensor, embeddings: Tensor) -> None:
        """Take note of ids, and of the embedding of each.

        Args:
            kjt: of features of tracked tables.
            embeddings: (ids, columns).

        Raises:
            OptionError: there are not as many embeddings as ids.
        """
        rows = embeddings.view(-1, embeddings.shape[-1]).detach() if embeddings.dim() else embeddings
        if embeddings.dim() < 2 or len(rows) != kjt.values().numel():
            count = kjt.values().numel()
            raise OptionError(f"embeddings is {tuple(embeddings.shape)}, expected a row for each of the {count} ids.")
        for fqn, part in self._by_table(kjt).items():
            ids = kjt.values()[part].detach().clone()
            self.store.append(self.curr_batch_idx, fqn.partition("\n")[0], ids, rows[part].clone())

    def record_momentum(self, emb_module: nn.Module, kjt: KeyedJaggedTensor) -> None:
        """Take note of ids, and of what a kernel's optimizer keeps of each.

        Args:
            emb_module: the kernel; its tables' features are those of `kjt`, in order.
            kjt: what it looked up.
        """
        tables = emb_module.config.embedding_tables  # type: ignore[union-attr]
        tracked = {fqn.rpartition(".")[2]: fqn for fqn in self._features}
        names = {table.name: tracked[table.name] for table in tables if table.name in tracked}  # type: ignore[union-attr]
        nothing = torch.empty(kjt.values().numel(), 0)
        self._looked_up(names, kjt, nothing, emb_module)

    def record_rowwise_optim_state(self, emb_module: nn.Module, kjt: KeyedJaggedTensor) -> None:
        """The same as `record_momentum`, of row-wise Adagrad."""
        self.record_momentum(emb_module, kjt)

    # ----- what was looked up -----------------------------------------------------------------------------------------

    def get_unique_ids(self, consumer: str | None = None) -> dict[str, Tensor]:
        """Of each table with rows that were looked up, these rows of the part on this process, each once.

        Args:
            consumer: who asks; "default" by default.
        """
        return {fqn: rows.ids for fqn, rows in self._read(consumer).items()}

    def get_unique(
        self,
        consumer: str | None = None,
        top_percentage: float | None = 1.0,
        per_table_percentage: dict[str, tuple[float, str]] | None = None,
        sorted_by_indices: bool | None = True,
    ) -> dict[str, UniqueRows]:
        """The same, with what was kept of each row.

        Args:
            consumer: who asks; "default" by default.
            top_percentage: the share of rows that is given, 0 to 1, those whose states are largest.
            per_table_percentage: by path of a table, another share, and what it is called.
            sorted_by_indices: whether rows come in order of their ids; else those with the largest states first.
        """
        found = self._read(consumer)
        for fqn, rows in found.items():
            if self._mode in _CHANGES:
                rows.states = self._now(fqn)[rows.ids] - rows.states  # type: ignore[operator]
            share = (per_table_percentage or {}).get(fqn, (top_percentage, ""))[0]
            share = 1.0 if share is None else share
            if not 0.0 <= share <= 1.0:
                raise OptionError(f"the share of rows of {fqn!r} is {share}; expected 0 to 1.")
            if rows.states is not None and (share < 1.0 or not sorted_by_indices):
                size = rows.states.detach().float().reshape(len(rows.ids), -1).norm(dim=1)
                order = size.argsort(descending=True, stable=True)[: round(share * len(size))]
                order = order.sort().values if sorted_by_indices else order
                found[fqn] = UniqueRows(rows.ids[order], rows.states[order])
        return found

    def _read(self, consumer: str | None) -> dict[str, UniqueRows]:
        begin = self._consumers.read(consumer, self.curr_batch_idx)
        found = self.store.get_unique(begin)
        if self._delete_on_read:
            self.store.delete(self._consumers.first())
        return found

    def _now(self, fqn: str) -> Tensor:
        """What the optimizer keeps of the part of a table here; columns of several parts side by side."""
        return _side_by_side([kernel.emb_module.split_optimizer_states()[at][0] for kernel, at in self._kernels[fqn]])

    def get_latest(self) -> dict[str, Tensor]:
        """Of each table, what the optimizer keeps of all rows here, as it is now.

        Raises:
            OptionError: that is not what is tracked.
        """
        if self._mode in (TrackingMode.ID_ONLY, TrackingMode.EMBEDDING):
            raise OptionError(f"mode {self._mode.value!r} tracks nothing that an optimizer keeps.")
        return {fqn: self._now(fqn) for fqn in self._kernels}

    def clear(self, consumer: str | None = None) -> None:
        """Leave what was looked up so far out of what a consumer is given.

        Args:
            consumer: who; "default" by default.
        """
        self._consumers.read(consumer, self.curr_batch_idx)
        self.store.delete(self._consumers.first())

    def compact(self, start_idx: int, end_idx: int) -> None:
        """Keep each row of some batches once.

        Args:
            start_idx: the first batch.
            end_idx: the batch behind the last one.
        """
        self.store.compact(start_idx, end_idx)

    def trigger_compaction(self) -> None:
        """Keep each row of all batches once that no consumer was given yet."""
        self.compact(self._consumers.last(), self.curr_batch_idx + 1)

    def step(self) -> None:
        """Begin another batch."""
        self.curr_batch_idx += 1
