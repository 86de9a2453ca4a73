"""Whether the parts of a `KeyedJaggedTensor` fit together, and its ids fit the tables."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from flambeau.rec.sparse._errors import SparseError
from flambeau.rec.sparse._keyed_jagged import KeyedJaggedTensor

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["validate_keyed_jagged_tensor"]

_logger = logging.getLogger(__name__)


class Table(Protocol):
    """The configuration of a table."""

    name: str
    num_embeddings: int
    feature_names: list[str]


def validate_keyed_jagged_tensor(kjt: KeyedJaggedTensor, configs: Sequence[Table] | None = None) -> bool:
    """Check sparse features; it reads all values, so that an accelerator has to be waited for.

    Args:
        kjt: the features.
        configs: of the tables that they are looked up in.

    Returns:
        Whether each id lies within its tables, and the batches of keys are as many as lengths; what does not fit is
        told by a warning in the log, by feature.

    Raises:
        SparseError: keys come twice, lengths or offsets do not fit the values or each other, or there are not as many
            weights as values.
    """
    keys, values = kjt.keys(), kjt.values()
    if len(set(keys)) != len(keys):
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise SparseError(f"keys must be unique, but {', '.join(map(repr, twice))} come more than once.")
    lengths, offsets = kjt.lengths_or_none(), kjt.offsets_or_none()
    if lengths is not None:
        _check_lengths(lengths, values)
    if offsets is not None:
        _check_offsets(offsets, values)
    if lengths is not None and offsets is not None and not bool((offsets.diff() == lengths).all()):
        raise SparseError(
            "offsets and lengths disagree: offsets must be 0, then the running totals of lengths; give one of them."
        )
    weights = kjt.weights_or_none()
    if weights is not None and len(weights) != len(values):
        raise SparseError(
            f"weights has {len(weights)} entries for {len(values)} values; give one weight for each value."
        )
    count = len(kjt.lengths())
    if not keys and count:
        raise SparseError(f"keys is empty but there are {count} lengths.")
    if kjt.variable_stride_per_key():
        if sum(kjt.stride_per_key()) != count:
            _logger.warning("batches of the keys have %d bags, expected %d lengths", sum(kjt.stride_per_key()), count)
            return False
    elif keys and count % len(keys):
        raise SparseError(
            f"lengths has {count} entries, which {len(keys)} keys cannot share; give each key one for each example."
        )
    return configs is None or _within(kjt, configs)


def _check_lengths(lengths: Tensor, values: Tensor) -> None:
    if bool((lengths < 0).any()):
        raise SparseError(f"lengths must be at least 0, but got {int(lengths.min())}.")
    if int(lengths.sum()) != len(values):
        raise SparseError(
            f"lengths add up to {int(lengths.sum())}, but there are {len(values)} values; "
            "each value must lie in one bag."
        )


def _check_offsets(offsets: Tensor, values: Tensor) -> None:
    if not len(offsets) or int(offsets[0]) != 0:
        raise SparseError(f"offsets begins with {offsets[:1].tolist() or 'nothing'}; it must begin with 0.")
    if bool((offsets.diff() < 0).any()):
        raise SparseError("offsets must not fall.")
    if int(offsets[-1]) != len(values):
        raise SparseError(
            f"offsets ends with {int(offsets[-1])}, but there are {len(values)} values; it must end with their number."
        )


def _within(kjt: KeyedJaggedTensor, configs: Sequence[Table]) -> bool:
    keys, good = kjt.keys(), True
    for table in configs:
        for feature in table.feature_names:
            ids = kjt[feature].values() if feature in keys else kjt.values()[:0]
            if not len(ids):
                continue
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= table.num_embeddings:
                good = False
                _logger.warning(
                    "feature %r has ids from %d to %d, and table %r has the rows 0 to %d",
                    feature,
                    low,
                    high,
                    table.name,
                    table.num_embeddings - 1,
                )
    return good
