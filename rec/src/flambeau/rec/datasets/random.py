"""Random batches, for benchmarks and examples that need no files."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from flambeau.rec.datasets.utils import Batch
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["RandomRecDataset"]

_HASH_SIZE = 100
_IDS = 2


class _RandomRecBatch:
    """Random batches, of which the first ones come again."""

    def __init__(
        self,
        keys: list[str],
        batch_size: int,
        hash_sizes: list[int],
        ids_per_features: list[int],
        num_dense: int,
        manual_seed: int | None,
        num_batches: int | None,
        num_generated_batches: int,
        min_ids_per_features: list[int],
    ) -> None:
        self.keys = keys
        self.batch_size = batch_size
        self.hash_sizes = hash_sizes
        self.ids_per_features = ids_per_features
        self.min_ids_per_features = min_ids_per_features
        self.num_dense = num_dense
        self.num_batches = num_batches
        self.num_generated_batches = num_generated_batches
        self.generator = None if manual_seed is None else torch.Generator().manual_seed(manual_seed)
        self._generated = [self._batch() for _ in range(max(num_generated_batches, 0))]

    def __iter__(self) -> Iterator[Batch]:
        numbers = itertools.count() if self.num_batches is None else range(self.num_batches)
        for number in numbers:
            yield self._generated[number % len(self._generated)] if self._generated else self._batch()

    def _batch(self) -> Batch:
        values: list[Tensor] = []
        lengths: list[Tensor] = []
        columns = zip(self.hash_sizes, self.ids_per_features, self.min_ids_per_features, strict=True)
        for rows, most, least in columns:
            length = torch.empty(self.batch_size, dtype=torch.int32)
            lengths.append(length.random_(least, most + 1, generator=self.generator))
            size = (int(length.sum()),)
            values.append(torch.randint(high=rows, size=size, generator=self.generator))
        return Batch(
            dense_features=torch.randn(self.batch_size, self.num_dense, generator=self.generator),
            sparse_features=KeyedJaggedTensor.from_lengths_sync(
                keys=self.keys, values=torch.cat(values), lengths=torch.cat(lengths)
            ),
            labels=torch.randint(low=0, high=2, size=(self.batch_size,), generator=self.generator),
        )


class RandomRecDataset(IterableDataset[Batch]):
    """Batches of random features and labels.

    A few batches are made in advance and come again and again, so that making them costs nothing while a model is
    measured.

    Args:
        keys: names of the sparse features.
        batch_size: examples of a batch.
        hash_size: ids of every feature are below it; 100 by default.
        hash_sizes: or a bound for each feature.
        ids_per_feature: ids that each example has of every feature; 0 to 2 by default.
        ids_per_features: or how many of each feature.
        num_dense: dense features, from a normal distribution.
        manual_seed: makes the batches the same each time.
        num_batches: batches of one pass; without end by default.
        num_generated_batches: batches made in advance; each one is new if it is 0 or below.
        min_ids_per_feature: an example has this many ids at least; as many as at most, where `ids_per_feature` is
            given.
        min_ids_per_features: or how many of each feature.

    Raises:
        ValueError: a list is not as long as `keys`, or there are fewer ids at most than at least.

    Example:
        >>> dataset = RandomRecDataset(["user", "item"], batch_size=2, hash_size=10, num_dense=3, num_batches=1)
        >>> [batch.dense_features.shape for batch in dataset]
        [torch.Size([2, 3])]
    """

    def __init__(
        self,
        keys: list[str],
        batch_size: int,
        hash_size: int | None = None,
        hash_sizes: list[int] | None = None,
        ids_per_feature: int | None = None,
        ids_per_features: list[int] | None = None,
        num_dense: int = 50,
        manual_seed: int | None = None,
        num_batches: int | None = None,
        num_generated_batches: int = 10,
        min_ids_per_feature: int | None = None,
        min_ids_per_features: list[int] | None = None,
    ) -> None:
        super().__init__()
        bounds = _each("hash_sizes", hash_sizes, _HASH_SIZE if hash_size is None else hash_size, keys)
        most = _each("ids_per_features", ids_per_features, _IDS if ids_per_feature is None else ids_per_feature, keys)
        if min_ids_per_features is None and min_ids_per_feature is None:
            # One number for all features is meant; others are bounds.
            least = [0] * len(keys) if ids_per_feature is None or ids_per_features is not None else list(most)
        else:
            least = _each("min_ids_per_features", min_ids_per_features, min_ids_per_feature or 0, keys)
        for key, low, high in zip(keys, least, most, strict=True):
            if low > high:
                raise OptionError(f"Feature {key!r} is to have {low} ids at least and {high} at most; swap them.")
        self.num_batches = num_batches
        self.batch_generator = _RandomRecBatch(
            keys, batch_size, bounds, most, num_dense, manual_seed, num_batches, num_generated_batches, least
        )

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batch_generator)

    def __len__(self) -> int:
        return sys.maxsize if self.num_batches is None else self.num_batches


def _each(name: str, values: list[int] | None, every: int, keys: list[str]) -> list[int]:
    if values is None:
        return [every] * len(keys)
    if len(values) != len(keys):
        raise OptionError(f"{name} has {len(values)} entries for {len(keys)} keys; give one for each.")
    return list(values)
