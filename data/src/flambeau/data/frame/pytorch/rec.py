"""Conversions to the tensors that recommender models take.

Dense features are a frame of numbers; a sparse feature is a column of lists of ids, weighted where it is one of lists
of (id, score) records or of maps from id to score; sparse features together are a frame of such columns.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from flambeau.core.registry import TENSOR_TYPES
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import kernels
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import physical
from flambeau.data.frame._plan import Apply, Term
from flambeau.data.frame.batches import bits_of, list_parts, values_of
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.execution import compute
from flambeau.data.frame.pytorch.jagged import parts
from flambeau.data.frame.pytorch.sharing import numbers, presence, small
from flambeau.data.frame.pytorch.tensors import TensorConversion, WithPresence

__all__ = [
    "CombineOption",
    "Dense",
    "Embedding",
    "IndividualSparse",
    "JaggedSparse",
    "PackOption",
    "PackedSparse",
    "Scalar",
]

KEYED = "rec/keyed_jagged"
"""Name in the registry of tensor types of the class that `JaggedSparse` makes where it is installed."""


class Dense(TensorConversion):
    """A frame of numbers as one tensor of the first column's type.

    Args:
        batch_first: (rows, columns) rather than (columns, rows).
        with_presence: also tell which values are there; without it missing values are zero.
    """

    def __init__(self, *, batch_first: bool = False, with_presence: bool = False) -> None:
        self.batch_first = batch_first
        self.with_presence = with_presence

    def to_tensor(self, df: Any) -> Any:
        """A tensor, or `WithPresence` of two tensors of one shape.

        Raises:
            TypeError: the frame has no columns, or others than numbers.
        """
        fields = _fields(df)
        if bad := [one.name for one in fields if not dt.is_boolean_or_numerical(one.dtype)]:
            raise FrameTypeError(f"Dense is for columns of numbers; {bad[0]!r} is {df.dtype.get(bad[0])}.")
        kind = fields[0].dtype
        if dt.is_int64(kind) and df._valid is None and all(dt.is_integer(one.dtype) for one in fields):
            return self._hashed(df)
        columns = df.to_polars()
        whole = columns.select(pl.all().cast(physical(kind)).fill_null(kind.default_value()))
        values = self._tensor(whole)
        return (
            WithPresence(values, self._tensor(columns.select(pl.all().is_not_null()))) if self.with_presence else values
        )

    def _hashed(self, df: Any) -> Any:
        """Whole numbers in one pass, each hashed on its way into the tensor rather than in a column of its own."""
        terms: dict[str, Term] = df._fields
        hashes = {name: one for name, one in terms.items() if _is_hash(one) and one not in df._rows.computed}
        held = compute(df._rows, {**terms, **{name: one.inputs[0] for name, one in hashes.items()}})
        options = [hashes[name].options if name in hashes else {} for name in terms]
        columns = [
            kernels.HashedColumn(values_of(series), *bits_of(series), **of)
            for series, of in zip(held, options, strict=True)
        ]
        order: Literal["C", "F"] = "C" if self.batch_first else "F"
        result = np.empty((held.height, held.width), np.int64, order)
        kernels.hash_rows(columns, result, torch.get_num_threads())
        values = torch.from_numpy(result if self.batch_first else result.T)
        return WithPresence(values, self._tensor(held.select(pl.all().is_not_null()))) if self.with_presence else values

    def _tensor(self, columns: pl.DataFrame) -> Tensor:
        if self.batch_first:
            return torch.from_numpy(columns.to_numpy(order="c", writable=True))
        return torch.from_numpy(columns.to_numpy(order="fortran", writable=True).T)


def _is_hash(term: Term) -> TypeGuard[Apply]:
    return isinstance(term, Apply) and term.operation == "sigrid_hash"


def _fields(df: Any) -> list[dt.Field]:
    if not isinstance(df.dtype, dt.Struct) or not df.dtype.fields:
        raise FrameTypeError(f"expected a frame with columns, got {df.dtype}.")
    return df.dtype.fields


class IndividualSparse(TensorConversion):
    """One sparse feature: (offsets, lengths, ids), and scores where weighted.

    offsets (rows + 1,) and lengths (rows,) are int32.
    """

    def __init__(self, *, weighted: bool) -> None:
        self.weighted = weighted

    def to_tensor(self, col: Any) -> tuple[Tensor, ...]:
        """The feature's tensors."""
        offsets, values, weights = parts(col, weighted=self.weighted)
        made = (small(offsets), small(np.diff(offsets)), values)
        return made if weights is None else (*made, weights)


class PackOption(Enum):
    """How `PackedSparse` gives features.

    Attributes:
        AS_PYDICT: a dictionary by name of (offsets, lengths, ids), and scores where weighted.
        AS_PYLIST: a list of lengths, ids, and scores where weighted, feature after feature.
    """

    AS_PYDICT = 1
    AS_PYLIST = 2


class PackedSparse(TensorConversion):
    """Sparse features, each in tensors of its own. `JaggedSparse` puts them into one, as accelerators like it."""

    def __init__(self, *, weighted: bool, pack_option: PackOption = PackOption.AS_PYDICT) -> None:
        self.weighted = weighted
        self.pack_option = pack_option

    def to_tensor(self, df: Any) -> dict[str, tuple[Tensor, ...]] | list[Tensor]:
        """The features' tensors."""
        one = IndividualSparse(weighted=self.weighted)
        held = _held(df)
        made = {name: one.to_tensor(held[name]) for name in held.columns}
        if self.pack_option is PackOption.AS_PYDICT:
            return made
        return [tensor for feature in made.values() for tensor in feature[1:]]


def _held(df: Any) -> Any:
    """The frame with all columns computed, in one go."""
    _fields(df)
    return df.collect()


class CombineOption(Enum):
    """How `JaggedSparse` gives features; ids and scores are those of all features, feature after feature.

    Attributes:
        JAGGED: (names, items in each feature, lengths, ids, and scores where weighted); where flambeau-rec is
            installed, its KeyedJaggedTensor. lengths (features * rows,) are int32.
        COMBINED: (lengths (features, rows), ids, and scores where weighted).
        JAGGED_WITH_OFFSET: (lengths, ids, scores where weighted, items in each feature, where each feature begins).
    """

    JAGGED = 1
    COMBINED = 2
    JAGGED_WITH_OFFSET = 3


class JaggedSparse(TensorConversion):
    """Sparse features in one tensor of ids and one of lengths; see `CombineOption`."""

    def __init__(self, *, weighted: bool, combine_option: CombineOption = CombineOption.JAGGED) -> None:
        self.weighted = weighted
        self.combine_option = combine_option

    def to_tensor(self, df: Any) -> Any:
        """The features' tensors.

        Raises:
            TypeError: a column that is no sparse feature; features of ids of different types.
        """
        held = _held(df)
        names = held.columns
        taken = [parts(held[name], weighted=self.weighted) for name in names]
        if len({values.dtype for _, values, _ in taken}) > 1:
            kinds = {name: values.dtype for name, (_, values, _) in zip(names, taken, strict=True)}
            raise FrameTypeError(f"ids of all features are of one type, got {kinds}; cast them.")
        lengths = small(np.concatenate([np.diff(offsets) for offsets, _, _ in taken]))
        values = torch.cat([values for _, values, _ in taken])
        weights = [torch.cat([one for _, _, one in taken if one is not None])] if self.weighted else []
        per_key = [int(offsets[-1]) for offsets, _, _ in taken]
        if self.combine_option is CombineOption.COMBINED:
            return (lengths.view(len(names), -1), values, *weights)
        if self.combine_option is CombineOption.JAGGED_WITH_OFFSET:
            starts = [0, *np.cumsum(per_key)[:-1].tolist()]
            return (lengths, values, *weights, per_key, starts)
        if KEYED in TENSOR_TYPES:
            make = TENSOR_TYPES.resolve(KEYED)
            return make(keys=names, values=values, lengths=lengths, weights=weights[0] if weights else None)
        return (names, per_key, lengths, values, *weights)


class Embedding(TensorConversion):
    """Lists of numbers of one length as a tensor (rows, length), over the column's memory."""

    def to_tensor(self, col: Any) -> Tensor:
        """The tensor.

        Raises:
            TypeError: the column is none of lists of numbers.
            ValueError: lists are missing, or differ in length.
        """
        if not isinstance(col.dtype, dt.List) or not dt.is_numerical(col.dtype.item_dtype):
            raise FrameTypeError(f"Embedding is for lists of numbers, got {col.dtype}.")
        series = col._series()
        offsets, items = list_parts(series)
        lengths = np.diff(offsets)
        if series.null_count() or (len(lengths) and (lengths != lengths[0]).any()):
            raise FrameValueError("Embedding: lists are missing or differ in length; PadSequence fills them up.")
        return numbers(items).view(len(lengths), -1 if len(lengths) else 0)


class Scalar(TensorConversion):
    """One number in each row as a tensor (rows,).

    Args:
        with_presence: also tell which values are there; without it missing values are zero.
    """

    def __init__(self, *, with_presence: bool = False) -> None:
        self.with_presence = with_presence

    def to_tensor(self, col: Any) -> Any:
        """The tensor, or `WithPresence`.

        Raises:
            TypeError: the column is none of numbers.
        """
        if not dt.is_boolean_or_numerical(col.dtype):
            raise FrameTypeError(f"Scalar is for columns of numbers, got {col.dtype}.")
        series = col._series()
        return WithPresence(numbers(series), presence(series)) if self.with_presence else numbers(series)
