"""A table of `TieredTables`, or what an optimizer keeps of it, as `PartiallyMaterializedTensor` wraps it."""

from __future__ import annotations

import json

import numpy as np
import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.tbe.ssd._blocks import Rows
from flambeau.rec.fbgemm_gpu.tbe.ssd._tiers import TieredTables

__all__ = ["StoredTensor"]


class StoredTensor:
    """Rows of a table as they are now.

    Args:
        tables: which the table is one of.
        table: its number.
        part: 0 for rows, else a state of the optimizer.
        ids: of a virtual table, those whose rows these are; by default those that have rows now.
    """

    def __init__(self, tables: TieredTables, table: int, part: int = 0, ids: Tensor | None = None) -> None:
        self._tables, self.table, self.part = tables, table, part
        form = tables.forms[table]
        self.columns = form.columns if part == 0 else form.states[part - 1]
        self.dtype = form.dtype if part == 0 else torch.float32
        self._of = tables.ids.get(table)
        self._ids: Rows | None = None
        if self._of is not None:
            self._ids = self._of.facts["id"][self._of.rows()] if ids is None else ids.numpy()
        self.rows = tables.specs[table].rows if self._ids is None else len(self._ids)

    @property
    def is_virtual(self) -> bool:
        """Whether rows are those of ids."""
        return self._ids is not None

    @property
    def shape(self) -> list[int]:
        """[rows, columns]."""
        return [self.rows, self.columns]

    @property
    def dtype_str(self) -> str:
        """The name of the element type."""
        return str(self.dtype).removeprefix("torch.")

    def _numbers(self, dim: int, start: int, length: int) -> Rows:
        if dim != 0:
            raise OptionError(f"dim is {dim}; a table on disk is narrowed by rows, dim=0.")
        if not 0 <= start <= start + length <= self.rows:
            raise OptionError(f"rows {start} to {start + length} are asked for; the table has {self.rows}.")
        return np.arange(start, start + length)

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """Some rows, in memory."""
        rows = self._numbers(dim, start, length)
        if self._ids is None:
            return self._tables.read_part(self.table, rows, self.part)
        return self.get_weights_by_ids(torch.from_numpy(self._ids[rows]))

    def set_range(self, dim: int, start: int, length: int, values: Tensor) -> None:
        """Overwrite some rows."""
        rows = self._numbers(dim, start, length)
        if self._ids is None:
            self._tables.write_part(self.table, rows, self.part, values)
        else:
            self.set_weights_and_ids(values, torch.from_numpy(self._ids[rows]))

    def set_weights_and_ids(self, weights: Tensor, ids: Tensor) -> None:
        """Overwrite the rows of ids, each once; of a table with fixed rows these are their numbers."""
        with self._tables.lock:
            self._tables.write_part(self.table, self._tables.rows_of(self.table, ids.numpy()), self.part, weights)

    def get_weights_by_ids(self, ids: Tensor) -> Tensor:
        """The rows of ids; those that have none read as they would begin."""
        return self._tables.read_ids(self.table, ids.numpy(), self.part)

    def get_kvtensor_serializable_metadata(self) -> list[str]:
        """The folder, the table, the part, the element type and the shape, as text."""
        facts = [self.table, self.part, self.dtype_str, self.shape]
        return [str(self._tables.store.folder), *(json.dumps(fact) for fact in facts)]
