"""Steps that upstream's look-up consists of, for programs that call them one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.tbe.ssd._tiers import TieredTables

__all__ = ["UpstreamSteps"]

Rows = np.ndarray


class UpstreamSteps(nn.Module):
    """A part of `SSDTableBatchedEmbeddingBags`.

    Rows are numbered through all tables here: those of a table come after those of the tables before it.
    """

    tables: TieredTables
    feature_table_map: list[int]
    _streaming: bool
    _consumers: list[Callable[[int, Tensor, Tensor], None]]

    def record_function_via_dummy_profile_factory(self, use_dummy_profile: bool) -> Callable[..., Any]:
        """What names parts of a profile: `torch.profiler.record_function`, or something that does nothing.

        Args:
            use_dummy_profile: whether nothing is to be done.
        """
        if use_dummy_profile:
            return lambda *_, **__: contextlib.nullcontext()
        return torch.profiler.record_function

    def to_pinned_cpu(self, t: Tensor) -> Tensor:
        """A copy on the host, in pinned memory where there is an accelerator.

        Args:
            t: any tensor.
        """
        pinned = torch.empty(t.shape, dtype=t.dtype, pin_memory=torch.cuda.is_available())
        return pinned.copy_(t, non_blocking=True)

    def to_pinned_cpu_on_stream_wait_on_another_stream(
        self,
        tensors: list[Tensor],
        stream: torch.cuda.Stream,
        stream_to_wait_on: torch.cuda.Stream,
        post_event: torch.cuda.Event | None = None,
    ) -> list[Tensor]:
        """Copies on the host, made on one stream after what is queued on another.

        Args:
            tensors: what is copied.
            stream: where; None without an accelerator.
            stream_to_wait_on: after what.
            post_event: is recorded behind it.
        """
        if not torch.cuda.is_available():
            return [self.to_pinned_cpu(one) for one in tensors]
        with torch.cuda.stream(stream):
            stream.wait_stream(stream_to_wait_on)
            found = [self.to_pinned_cpu(one) for one in tensors]
            if post_event is not None:
                stream.record_event(post_event)
        return found

    def _by_table(self, numbers: Tensor) -> list[tuple[int, Tensor, np.ndarray]]:
        """Rows numbered through all tables: of each table, which entries are its, and their rows in it."""
        found, begin, given = [], 0, numbers.cpu().numpy()
        for table, spec in enumerate(self.tables.specs):
            mine = (given >= begin) & (given < begin + spec.rows)
            if mine.any():
                found.append((table, torch.from_numpy(mine), given[mine] - begin))
            begin += spec.rows
        return found

    def evict(
        self,
        rows: Tensor,
        indices_cpu: Tensor,
        actions_count_cpu: Tensor,
        stream: torch.cuda.Stream | None,
        pre_event: torch.cuda.Event | None,
        post_event: torch.cuda.Event | None,
        is_rows_uvm: bool,
        name: str | None = "",
        is_bwd: bool = True,
    ) -> None:
        """Write rows to their tables.

        Args:
            rows: (count, columns at least); of narrower tables, the first columns count.
            indices_cpu: (count,) numbers of the rows, through all tables; those below 0 are left out.
            actions_count_cpu: (1,), how many of the first count.
            stream: nothing is queued on it; rows are written at once.
            pre_event: is waited for.
            post_event: is recorded when it is done.
            is_rows_uvm: whether rows are in managed memory.
            name: for profiles.
            is_bwd: whether it is in a backward pass.
        """
        with torch.profiler.record_function(f"ssd_evict_{name}"):
            if pre_event is not None:
                pre_event.synchronize()
            count = int(actions_count_cpu)
            with self.tables.lock:
                for table, mine, of_table in self._by_table(indices_cpu[:count]):
                    values = rows[:count][mine][:, : self.tables.specs[table].columns]
                    self.tables.write_part(table, self.tables.rows_of(table, of_table), 0, values)
            if post_event is not None:
                post_event.record()

    def stream_rows_to(self, consumer: Callable[[int, Tensor, Tensor], None]) -> None:
        """Give rows that are streamed to a function: the table, the ids and the rows.

        Args:
            consumer: that function.
        """
        self._consumers.append(consumer)

    def raw_embedding_stream(
        self,
        rows: Tensor,
        indices_cpu: Tensor,
        actions_count_cpu: Tensor,
        stream: torch.cuda.Stream | None,
        pre_event: torch.cuda.Event | None,
        post_event: torch.cuda.Event | None,
        is_rows_uvm: bool,
        blocking_tensor_copy: bool = True,
        name: str | None = "",
    ) -> None:
        """Give rows to those who take part by `stream_rows_to`; nothing without `enable_raw_embedding_streaming`.

        Args:
            rows: as for `evict`, and the rest likewise.
            indices_cpu: see there.
            actions_count_cpu: see there.
            stream: see there.
            pre_event: see there.
            post_event: see there.
            is_rows_uvm: see there.
            blocking_tensor_copy: whether rows are copied before it returns; they are given as they are else.
            name: for profiles.
        """
        if not self._streaming:
            return
        if pre_event is not None:
            pre_event.synchronize()
        count = int(actions_count_cpu)
        for table, mine, of_table in self._by_table(indices_cpu[:count]):
            values = rows[:count][mine][:, : self.tables.specs[table].columns]
            for consumer in self._consumers:
                consumer(table, torch.from_numpy(of_table), values.clone() if blocking_tensor_copy else values)
        if post_event is not None:
            post_event.record()

    def raw_embedding_stream_sync(
        self,
        stream: torch.cuda.Stream | None,
        pre_event: torch.cuda.Event | None,
        post_event: torch.cuda.Event | None,
        name: str | None = "",
    ) -> None:
        """Wait until rows are streamed: they are when `raw_embedding_stream` returns, events aside.

        Args:
            stream: nothing is queued on it.
            pre_event: is waited for.
            post_event: is recorded.
            name: for profiles.
        """
        if pre_event is not None:
            pre_event.synchronize()
        if post_event is not None:
            post_event.record()

    def fetch_from_l1_sp_w_row_ids(
        self, row_ids: Tensor, only_get_optimizer_states: bool = False
    ) -> tuple[list[Tensor], Tensor]:
        """Rows as they are in the cache.

        Args:
            row_ids: (count,) numbers of rows, through all tables.
            only_get_optimizer_states: whether states are wanted, rather than rows.

        Returns:
            Rows, as a list of one tensor (count, columns of the widest table), or each state likewise; those that are
            not cached are zero. And which are: (count,) bool.
        """
        states = len(self.tables.forms[0].states)
        parts = range(1, states + 1) if only_get_optimizer_states else range(1)
        dtype = self.tables.forms[0].dtype
        sizes = [[form.columns, *form.states] for form in self.tables.forms]
        found = [
            torch.zeros(row_ids.numel(), max(size[part] for size in sizes), dtype=torch.float32 if part else dtype)
            for part in parts
        ]
        cached = torch.zeros(row_ids.numel(), dtype=torch.bool)
        with self.tables.lock:
            for table, mine, of_table in self._by_table(row_ids):
                known = self.tables.ids.get(table)
                rows = of_table if known is None else known.find(of_table)
                there = np.zeros(len(rows), np.bool_)
                numbers = self.tables.numbers(table, rows)
                there[rows >= 0] = self.tables.region(table).slots(numbers[rows >= 0]) >= 0
                places = mine.nonzero().view(-1)[torch.from_numpy(there)]
                cached[places] = True
                for out, part in zip(found, parts, strict=True):
                    out[places, : sizes[table][part]] = self.tables.read_part(table, rows[there], part)
        return found, cached

    @torch.no_grad()
    def direct_write_embedding(self, indices: Tensor, offsets: Tensor, weights: Tensor) -> None:
        """Overwrite the rows of a batch's indices; of an index that comes up twice, the last one counts.

        Args:
            indices: (L,), feature-major.
            offsets: (features * B + 1,).
            weights: (L, columns at least).
        """
        features = len(self.feature_table_map)
        if (offsets.numel() - 1) % max(features, 1):
            raise OptionError(f"offsets has {offsets.numel()} entries for {features} features.")
        ends = offsets[:: (offsets.numel() - 1) // features].tolist() if offsets.numel() > 1 else [0] * (features + 1)
        with self.tables.lock:
            for feature, table in enumerate(self.feature_table_map):
                mine = slice(ends[feature], ends[feature + 1])
                ids = indices[mine].cpu().numpy()[::-1]
                distinct, last = np.unique(ids, return_index=True)
                rows = self.tables.rows_of(table, distinct)
                values = weights[mine].flip(0)[torch.from_numpy(last)][:, : self.tables.specs[table].columns]
                self.tables.write_part(table, rows, 0, values)

    def reset_inference_mode(self) -> None:
        """Look up only: ids that are new are given no rows, and none are trained."""
        self.eval()
