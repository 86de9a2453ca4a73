"""Columns of frames as batches of sparse features: what is preprocessed by `flambeau.data.frame` goes into a model.

Lists of ids become rows of a `KeyedJaggedTensor` without a copy of a single feature's memory; several features are
joined
once, which their layout asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.data.jagged import Jagged
from flambeau.rec.datasets.utils import Batch
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["frame_to_batch", "jagged_features"]


def jagged_features(columns: Mapping[str, Any]) -> KeyedJaggedTensor:
    """Columns of ids as sparse features.

    Args:
        columns: feature -> its ids: a tensor (examples,) of one id an example, what `to_tensor()` gives of a frame's
            column
            of lists, or anything else that has `flambeau.data.jagged.Jagged`'s methods.

    Raises:
        ValueError: there are no columns, they have different numbers of examples, or values are missing.

    Example:
        >>> from flambeau.data.jagged import JaggedValues
        >>> items = JaggedValues(torch.tensor([5, 6, 7]), lengths=torch.tensor([2, 1]))
        >>> features = jagged_features({"user": torch.tensor([1, 2]), "items": items})
        >>> features["items"].to_dense()
        [tensor([5, 6]), tensor([7])]
    """
    if not columns:
        raise OptionError("There are no columns; name one or more sparse features.")
    parts = {name: _values_and_lengths(name, column) for name, column in columns.items()}
    values, lengths = [one[0] for one in parts.values()], [one[1] for one in parts.values()]
    sizes = {name: len(length) for name, length in zip(columns, lengths, strict=True)}
    if len(set(sizes.values())) > 1:
        raise OptionError(f"The columns have {sizes} examples; they must have as many.")
    single = len(values) == 1
    return KeyedJaggedTensor(
        keys=list(columns),
        values=values[0] if single else torch.cat(values),
        lengths=lengths[0] if single else torch.cat(lengths),
    )


def _values_and_lengths(name: str, column: Any) -> tuple[Tensor, Tensor]:
    if isinstance(column, Tensor):
        return column.reshape(-1), torch.ones(column.numel(), dtype=torch.int32, device=column.device)
    if isinstance(column, Jagged):
        return column.values(), column.lengths().to(torch.int32)
    values, offsets = getattr(column, "values", None), getattr(column, "offsets", None)
    if not isinstance(values, Tensor) or not isinstance(offsets, Tensor):
        raise OptionError(
            f"Column {name!r} is {type(column).__name__}; expected ids or lists of ids, none of them missing. Fill the "
            f"missing ones first, as by `frame[{name!r}].fill_null(...)`."
        )
    return values[int(offsets[0]) : int(offsets[-1])], offsets.diff().to(torch.int32)


def frame_to_batch(frame: Any, *, dense: Sequence[str], sparse: Sequence[str], label: str) -> Batch:
    """A frame's rows as a batch.

    Args:
        frame: a `flambeau.data.frame` data frame, or tensors by the columns' names.
        dense: columns of numbers, (examples,) each.
        sparse: columns of ids, or of lists of ids.
        label: column of the labels.

    Raises:
        KeyError: there is no such column.
    """
    columns = (
        frame if isinstance(frame, Mapping) else {name: frame[name].to_tensor() for name in (*dense, *sparse, label)}
    )
    features = [columns[name].float().reshape(-1, 1) for name in dense]
    labels = columns[label]
    return Batch(
        dense_features=torch.cat(features, dim=1) if features else torch.zeros(len(labels), 0),
        sparse_features=jagged_features({name: columns[name] for name in sparse}),
        labels=labels,
    )
