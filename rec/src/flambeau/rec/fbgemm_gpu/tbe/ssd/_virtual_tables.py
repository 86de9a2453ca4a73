"""What tables whose rows are made when their ids come up can do beyond others: load, evict, ask others for rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.tbe.ssd import _eviction
from flambeau.rec.fbgemm_gpu.tbe.ssd._tiers import TieredTables
from flambeau.rec.fbgemm_gpu.tbe.ssd.ssd_config import EvictionPolicy, KVZCHParams

__all__ = ["VirtualTables"]


class VirtualTables(nn.Module):
    """A part of `SSDTableBatchedEmbeddingBags`."""

    tables: TieredTables
    feature_table_map: list[int]
    kv_zch_params: KVZCHParams | None
    step: int

    def _init_virtual(self) -> None:
        self._policy = self.kv_zch_params.eviction_policy if self.kv_zch_params else EvictionPolicy()
        self._counts_of_load: dict[int, int] = {}
        self._ids_of_ranks: dict[int, Tensor] = {}
        self._loading: Any = None

    # ----- eviction ---------------------------------------------------------------------------------------------------

    def set_free_mem_eviction_trigger_config(self, eviction_policy: EvictionPolicy) -> None:
        """Have rows leave by another policy.

        Args:
            eviction_policy: the policy.

        Raises:
            AssertionError: it lacks what its mode or strategy needs; also a ValueError.
        """
        eviction_policy.validate()
        self._policy = eviction_policy

    def get_free_cpu_memory_gb(self) -> float:
        """Memory of the machine that programs can still have, in GiB."""
        return _eviction.free_memory_gb()

    def may_trigger_eviction(self) -> None:
        """Have rows leave where the policy says that it is time."""
        if self.tables.ids and _eviction.is_due(self._policy, self.tables, self.step):
            self.evict_rows()

    def evict_rows(self) -> list[int]:
        """Have rows leave by the policy now.

        Returns:
            How many left each virtual table.
        """
        left = []
        with self.tables.lock:
            for table in self.tables.ids:
                rows = _eviction.leaving(self._policy, self.tables, table)
                self.tables.remove(table, rows)
                left.append(len(rows))
        return left

    # ----- loading ----------------------------------------------------------------------------------------------------

    def set_local_weight_counts_for_table(self, table_idx: int, weight_count: int) -> None:
        """Say how many rows of a virtual table are going to be loaded.

        Args:
            table_idx: the table.
            weight_count: its rows.
        """
        self._counts_of_load[self._known(table_idx)] = weight_count

    def set_global_id_per_rank_for_table(self, table_idx: int, global_id: Tensor) -> None:
        """Note the ids of a virtual table that belong here, of a checkpoint of all processes.

        Args:
            table_idx: the table.
            global_id: the ids.
        """
        self._ids_of_ranks[self._known(table_idx)] = global_id

    def _known(self, table: int) -> int:
        if not 0 <= table < len(self.tables.specs):
            raise OptionError(f"table_idx is {table}; there are tables 0 to {len(self.tables.specs) - 1}.")
        return table

    def _make_loading(self) -> Any:
        from flambeau.rec.fbgemm_gpu.tbe.ssd.training import KVZCHCachedData

        weights, ids, states, buckets = [], [], [], []
        for table, form in enumerate(self.tables.forms):
            count = self._counts_of_load.get(table, 0)
            given = self._ids_of_ranks.get(table)
            weights.append(torch.zeros(count, form.columns, dtype=form.dtype))
            ids.append(torch.zeros(count, 1, dtype=torch.int64) if given is None else given.clone().view(-1, 1))
            states.append(
                [torch.zeros(count, numbers) if numbers > 1 else torch.zeros(count) for numbers in form.states]
            )
            buckets.append(torch.zeros(self._buckets(table), 1, dtype=torch.int64))
        return KVZCHCachedData(states, weights, ids, buckets)

    def _buckets(self, table: int) -> int:
        offsets = (self.kv_zch_params.bucket_offsets or []) if self.kv_zch_params else []
        return offsets[table][1] - offsets[table][0] if table < len(offsets) else 1

    def enable_load_state_dict_mode(self) -> None:
        """Give tensors in memory for weights, ids and states of virtual tables, which a checkpoint is loaded into.

        How large they are is said before, by `set_local_weight_counts_for_table`; `apply_state_dict` takes them over.
        """
        if self.tables.ids and self._loading is None:
            self._loading = self._make_loading()

    def apply_state_dict(self) -> None:
        """Take over what was loaded since `enable_load_state_dict_mode`; rows that there were before are gone."""
        loaded, self._loading = self._loading, None
        if loaded is None:
            return
        with self.tables.lock:
            for table, known in self.tables.ids.items():
                self.tables.remove(table, known.rows())
                self._take_over(
                    table,
                    loaded.cached_id_tensor_per_table[table].view(-1),
                    loaded.cached_weight_tensor_per_table[table],
                    loaded.cached_optimizer_states_per_table[table],
                )

    def _take_over(self, table: int, ids: Tensor, weights: Tensor, states: list[Tensor]) -> None:
        with self.tables.lock:
            rows = self.tables.rows_of(table, ids.cpu().numpy())
            for part, values in enumerate([weights, *states]):
                self.tables.write_part(table, rows, part, values)

    def streaming_write_weight_and_id_per_table(
        self, weight_state: Tensor, opt_states: list[Tensor], id_tensor: Tensor, row_offset: int
    ) -> None:
        """Overwrite rows of a table and what the optimizer keeps of them, some at a time.

        Args:
            weight_state: (rows, columns).
            opt_states: of each state, (rows,) or (rows, columns); may be fewer than there are, the rest stays.
            id_tensor: (rows,) or (rows, 1): ids, or numbers of rows, each once.
            row_offset: rows of the tables before this one.

        Raises:
            ValueError: no table begins there.
        """
        begins = np.cumsum([0, *(spec.rows for spec in self.tables.specs)]).tolist()[:-1]
        if row_offset not in begins:
            raise OptionError(f"row_offset is {row_offset}; tables begin at {begins}.")
        self._take_over(begins.index(row_offset), id_tensor.view(-1), weight_state, opt_states)

    # ----- rows from elsewhere ----------------------------------------------------------------------------------------

    def enrichment_query_id(self, indices: Tensor, offsets: Tensor, weights: Tensor) -> None:
        """Fill rows of a batch that are new by asking the provider of the enrichment policy.

        Args:
            indices: (L,) ids.
            offsets: (bags + 1,).
            weights: (L,), what the provider is told of each id.

        Raises:
            ValueError: there is no policy, or `register_enrichment_provider` was not called for its provider.
        """
        from flambeau.rec.fbgemm_gpu.tbe.ssd._enrichment import provider_of

        provider = provider_of(self.kv_zch_params.enrichment_policy if self.kv_zch_params else None)
        batch = (offsets.numel() - 1) // max(len(self.feature_table_map), 1)
        ends = offsets[:: max(batch, 1)].tolist() if batch else [0] * (len(self.feature_table_map) + 1)
        with self.tables.lock:
            for feature, table in enumerate(self.feature_table_map):
                known = self.tables.ids.get(table)
                if known is None:
                    continue
                ids = indices[ends[feature] : ends[feature + 1]].unique()
                new = ids[torch.from_numpy(known.find(ids.numpy()) < 0)]
                if new.numel():
                    self._take_over(table, new, provider(new), [])

    def fetch_sids_sync(self, hashed_ids: Tensor, unhashed_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Ask the provider of the enrichment policy about ids.

        Args:
            hashed_ids: (L,) as tables have them.
            unhashed_ids: (L,) as the provider knows them.

        Returns:
            The hashed ids, and what the provider gives for each.
        """
        from flambeau.rec.fbgemm_gpu.tbe.ssd._enrichment import provider_of

        provider = provider_of(self.kv_zch_params.enrichment_policy if self.kv_zch_params else None)
        return hashed_ids, provider(unhashed_ids)
