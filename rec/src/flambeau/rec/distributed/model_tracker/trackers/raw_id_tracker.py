"""Which ids were mapped to which rows, for modules that manage collisions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed._data_parallel import get_unwrapped_module
from flambeau.rec.distributed.mc_modules import ShardedManagedCollisionCollection
from flambeau.rec.distributed.model_tracker.delta_store import RawIdTrackerStore
from flambeau.rec.distributed.model_tracker.model_delta_tracker import Consumers, ModelDeltaTracker
from flambeau.rec.distributed.model_tracker.types import UniqueRows
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["RawIdTracker"]


class RawIdTracker(ModelDeltaTracker):
    """Takes note of ids before and after sharded modules that manage collisions map them to rows.

    Args:
        model: in wrappers or not.
        delete_on_read: whether ids are forgotten once they were given.
        fqns_to_skip: paths of modules that are not tracked.
    """

    def __init__(self, model: nn.Module, delete_on_read: bool = True, fqns_to_skip: Iterable[str] = ()) -> None:
        skipped = set(fqns_to_skip)
        self._delete_on_read = delete_on_read
        self.store = RawIdTrackerStore()
        self.curr_batch_idx = 0
        self._consumers = Consumers(None)
        self.tracked_modules: dict[str, nn.Module] = {}
        self._features: OrderedDict[str, list[str]] = OrderedDict()
        for path, module in get_unwrapped_module(model).named_modules():
            if isinstance(module, ShardedManagedCollisionCollection) and path not in skipped:
                self.tracked_modules[path] = module
                for feature, table in module._feature_to_table.items():
                    self._features.setdefault(f"{path}.{table}" if path else table, []).append(feature)
                module.register_post_lookup_tracker_fn(self.record_lookup)

    def fqn_to_feature_names(self) -> dict[str, list[str]]:
        """Features of each table that is tracked."""
        return self._features

    def record_lookup(
        self,
        kjt: KeyedJaggedTensor,
        states: Tensor,
        emb_module: nn.Module | None = None,
        raw_ids: Tensor | None = None,
        runtime_meta: Tensor | None = None,
    ) -> None:
        """Take note of ids.

        Args:
            kjt: rows, by feature.
            states: not kept.
            emb_module: where they were mapped.
            raw_ids: (ids,), ids as they were before.
            runtime_meta: (ids, ...), what came with them.
        """
        if raw_ids is None:
            return
        begins = kjt.offset_per_key()
        inside = [path for path, module in self.tracked_modules.items() if module is emb_module]
        for at, key in enumerate(kjt.keys()):
            part = slice(begins[at], begins[at + 1])
            for fqn, names in self._features.items():
                if key in names and (not inside or fqn.rpartition(".")[0] in inside):
                    meta = None if runtime_meta is None else runtime_meta[part].detach().clone()
                    self.store.append(
                        self.curr_batch_idx,
                        fqn,
                        kjt.values()[part].detach().clone(),
                        raw_ids=raw_ids[part].detach().clone(),
                        runtime_meta=meta,
                    )

    def get_indexed_lookups(
        self, tables: list[str], consumer: str | None = None
    ) -> dict[str, tuple[list[Tensor], list[Tensor]]]:
        """Of each table, ids and what came with them, look-up by look-up, since a consumer asked last.

        Args:
            tables: names of tables.
            consumer: who asks; "default" by default.
        """
        begin = self._consumers.read(consumer, self.curr_batch_idx)
        found: dict[str, tuple[list[Tensor], list[Tensor]]] = {}
        for fqn, lookups in self.store.get_indexed_lookups(begin, self.curr_batch_idx + 1).items():
            name = fqn.rpartition(".")[2]
            if name in tables:
                ids, metas = found.setdefault(name, ([], []))
                ids += [one.raw_ids for one in lookups if one.raw_ids is not None]
                metas += [one.runtime_meta for one in lookups if one.runtime_meta is not None]
        if self._delete_on_read:
            self.store.delete(self._consumers.first())
        return found

    def get_unique_ids(self, consumer: str | None = None) -> dict[str, Tensor]:
        """Of each table, ids as they were before they were mapped, each once, since a consumer asked last."""
        return {fqn: rows.ids for fqn, rows in self.get_unique(consumer).items()}

    def get_unique(
        self,
        consumer: str | None = None,
        top_percentage: float | None = 1.0,
        per_table_percentage: dict[str, tuple[float, str]] | None = None,
        sorted_by_indices: bool | None = True,
    ) -> dict[str, UniqueRows]:
        """The same, without states; shares of rows have no effect."""
        begin = self._consumers.read(consumer, self.curr_batch_idx)
        found = {}
        for fqn, lookups in self.store.get_indexed_lookups(begin, self.curr_batch_idx + 1).items():
            ids: list[Any] = [one.raw_ids for one in lookups if one.raw_ids is not None]
            if ids:
                found[fqn] = UniqueRows(torch.cat(ids).unique(), None)
        if self._delete_on_read:
            self.store.delete(self._consumers.first())
        return found

    def delete(self, up_to_idx: int | None) -> None:
        """Forget ids of batches before one; of all batches by default."""
        self.store.delete(up_to_idx)

    def clear(self, consumer: str | None = None) -> None:
        """Leave ids so far out of what a consumer is given."""
        self._consumers.read(consumer, self.curr_batch_idx)
        self.store.delete(self._consumers.first())

    def step(self) -> None:
        """Begin another batch."""
        self.curr_batch_idx += 1
