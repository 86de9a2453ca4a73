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

from flambeau.rec.datasets.utils import Batch
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["frame_to_batch", "jagged_features"]


def jagged_features(columns: Mapping[str, Any]) -> KeyedJaggedTensor:
    """Columns of ids as sparse features.

    Args:
        columns: feature -> its ids: a tensor (examples,) of one id an example, or anything that has `values()` and
            `lengths()`, such as what `flambeau.data.frame` collates a column of lists to.

    Raises:
        ValueError: there are no columns, or they have different numbers of examples.

    Example:
        >>> from flambeau.data.jagged import JaggedValues
        >>> items = JaggedValues(torch.tensor([5, 6, 7]), lengths=torch.tensor([2, 1]))
        >>> features = jagged_features({"user": torch.tensor([1, 2]), "items": items})
        >>> features["items"].to_dense()
        [tensor([5, 6]), tensor([7])]
    """
    if not columns:
        raise OptionError("There are no columns; name one or more sparse features.")
    values, lengths = [], []
    for column in columns.values():
        if isinstance(column, Tensor):
            values.append(column.reshape(-1))
            lengths.append(torch.ones(column.numel(), dtype=torch.int32, device=column.device))
        else:
            values.append(column.values())
            lengths.append(column.lengths().to(torch.int32))
    sizes = {name: len(length) for name, length in zip(columns, lengths, strict=True)}
    if len(set(sizes.values())) > 1:
        raise OptionError(f"The columns have {sizes} examples; they must have as many.")
    single = len(values) == 1
    return KeyedJaggedTensor(
        keys=list(columns),
        values=values[0] if single else torch.cat(values),
        lengths=lengths[0] if single else torch.cat(lengths),
    )


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
