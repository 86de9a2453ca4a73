"""Batches of tables, for those who want to see what is looked up."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from torch import Tensor

from flambeau.rec.errors import OptionError

__all__ = ["TBEInfo", "TBEInputInfo", "TBEInputMultiplexer", "TBEInputMultiplexerConfig"]


@dataclass(frozen=True)
class TBEInfo:
    """Tables that are looked up together, and which parts of whole tables they are.

    Args:
        table_names: of each.
        table_heights: rows of each.
        tbe_uuid: name of the group.
        feature_table_map: table of each feature.
        table_dims: columns of each table.
        full_table_heights: rows of the tables that these are parts of.
        full_table_dims: and columns.
        row_offset: first row of each part in its whole.
        col_offset: and first column.
    """

    table_names: list[str]
    table_heights: list[int]
    tbe_uuid: str
    feature_table_map: list[int]
    table_dims: list[int]
    full_table_heights: list[int]
    full_table_dims: list[int]
    row_offset: list[int]
    col_offset: list[int]


@dataclass(frozen=True)
class TBEInputInfo:
    """A batch.

    Args:
        indices: (L,).
        offsets: (bags + 1,).
        batch_size_per_feature_per_rank: where sizes differ.
    """

    indices: Tensor
    offsets: Tensor
    batch_size_per_feature_per_rank: list[list[int]] | None = None


class TBEInputMultiplexer(abc.ABC):
    """Takes batches of some steps somewhere."""

    @abc.abstractmethod
    def should_run(self, step: int) -> bool:
        """Whether the batch of a step is wanted.

        Args:
            step: its number.
        """

    @abc.abstractmethod
    def run(self, tbe_input_info: TBEInputInfo) -> None:
        """Take a batch.

        Args:
            tbe_input_info: the batch.
        """


@dataclass(frozen=True)
class TBEInputMultiplexerConfig:
    """Which batches are taken.

    Args:
        start_batch: the first; none are where it is negative.
        total_batch: how many.
    """

    start_batch: int = -1
    total_batch: int = 0

    def create_tbe_input_multiplexer(self, tbe_info: TBEInfo) -> TBEInputMultiplexer | None:
        """What takes them; None where none are taken.

        Args:
            tbe_info: the tables.

        Raises:
            ValueError: batches are to be taken, and this class has nothing that takes them; its subclasses have.
        """
        if self.start_batch < 0:
            return None
        raise OptionError(
            f"start_batch is {self.start_batch}, and {type(self).__name__} has nothing that takes batches; use a "
            "subclass whose create_tbe_input_multiplexer gives it."
        )
