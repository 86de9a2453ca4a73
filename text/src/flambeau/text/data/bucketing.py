"""Batches of texts of similar length: little padding, and still in random order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flambeau.data.dataloader2.graph import find_dps, traverse_dps
from flambeau.data.datapipes.iter import IterableWrapper, IterDataPipe, ShardingFilter

__all__ = ["bucket_batch"]


def bucket_batch(
    datapipe_or_dataset: IterDataPipe[Any] | Iterable[Any] | Any,
    batch_size: int,
    sort_key: Callable[[Any], Any] = len,
    pool: int = 100,
    max_tokens: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
) -> IterDataPipe[list[Any]]:
    """Batches of samples of similar length, as `BucketIterator` gave them.

    Samples are shuffled, sorted in pools of `pool` batches, cut into batches, and the batches of a pool shuffled. The
    samples are shared among workers and ranks that a data loader or a reading service names (a pipe that is shared
    among them already stays so); ranks have the same number of samples, give or take one, and `.fullsync()` ends them
    together.

    Args:
        datapipe_or_dataset: a pipe, an iterable, or a data set with length and `[]`.
        batch_size: most samples of a batch, > 0.
        sort_key: the length of a sample; for samples that are tuples, for example, `lambda sample: len(sample[1])`
            (a named function, if the pipe is to be pickled).
        pool: batches of a pool, > 0; more means less padding and less randomness.
        max_tokens: a batch has at most so many tokens, padding included: samples times the longest `sort_key`, which
            then must be an int. A longer sample is a batch of its own.
        shuffle: False keeps the order of the pools, and sorts within each.
        seed: of the first pass; later passes go on from there, each in another order.

    Returns:
        A pipe of lists.

    Raises:
        ValueError: `batch_size`, `pool` or `max_tokens` is not above 0.

    Example:
        >>> texts = ["a b c d", "a", "a b", "a b c"]
        >>> list(bucket_batch(texts, 2, shuffle=False))
        [['a', 'a b'], ['a b c', 'a b c d']]
    """
    for name, value in (("batch_size", batch_size), ("pool", pool), ("max_tokens", max_tokens)):
        if value is not None and value <= 0:
            raise ValueError(f"{name} is {value}; expected more than 0.")
    pipe: Any = datapipe_or_dataset
    if not isinstance(pipe, IterDataPipe):
        pipe = IterableWrapper(pipe if isinstance(pipe, Iterable) else _Indexed(pipe), deepcopy=False)
    if shuffle:
        pipe = pipe.shuffle(buffer_size=batch_size * pool).set_seed(seed)
    if not find_dps(traverse_dps(pipe), ShardingFilter):
        pipe = pipe.sharding_filter()
    pools = pipe.batch(batch_size * pool).map(_Buckets(sort_key, batch_size, max_tokens))
    if shuffle:
        pools = pools.in_batch_shuffle().set_seed(seed + 1)
    batches: IterDataPipe[list[Any]] = pools.unbatch()
    return batches


class _Indexed(Sequence[Any]):
    """A data set with length and `[]` alone."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[index]


class _Buckets:
    """Cuts a pool into batches of samples of similar length."""

    def __init__(self, sort_key: Callable[[Any], Any], batch_size: int, max_tokens: int | None) -> None:
        self.sort_key, self.batch_size, self.max_tokens = sort_key, batch_size, max_tokens

    def __call__(self, samples: list[Any]) -> list[list[Any]]:
        return list(self._cut(sorted(samples, key=self.sort_key)))

    def _cut(self, samples: list[Any]) -> Iterator[list[Any]]:
        if self.max_tokens is None:
            yield from (samples[at : at + self.batch_size] for at in range(0, len(samples), self.batch_size))
            return
        batch: list[Any] = []
        for sample in samples:  # the longest so far is always this one
            if len(batch) == self.batch_size or (batch and (len(batch) + 1) * self.sort_key(sample) > self.max_tokens):
                yield batch
                batch = []
            batch.append(sample)
        if batch:
            yield batch
