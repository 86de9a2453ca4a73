"""Pipes that put samples together, and take them apart."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from flambeau.data.datapipes._columns import check_function
from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[DataChunk[Any]]):
    """Lists of consecutive samples (functional name: `batch`).

    Args:
        datapipe: source.
        batch_size: samples of a batch, > 0.
        drop_last: leave out a last batch that is smaller.
        wrapper_class: called with each list; `DataChunk` is a list itself.
    """

    state_fields = ("_batch",)

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[..., Any] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise ValueError(f"batch_size has to be > 0, got {batch_size}.")
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def reset(self) -> None:
        """Go back to the beginning."""
        self._batch: list[Any] = []

    def __iter__(self) -> Iterator[DataChunk[Any]]:
        size, wrap = self.batch_size, self.wrapper_class
        batch = self._batch
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == size:
                full, self._batch = batch, []
                batch = self._batch
                yield wrap(full)
        if batch and not self.drop_last:
            self._batch = []
            yield wrap(batch)

    def __len__(self) -> int:
        length = len(self.datapipe)  # type: ignore[arg-type]
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(Expanding[Any]):
    """Single samples out of batches (functional name: `unbatch`).

    Args:
        datapipe: source of lists, nested as deep as wanted.
        unbatch_level: how many levels are taken apart, >= 1; -1 for all levels of lists.

    Raises:
        IndexError: while iterating, for a batch with fewer levels.
    """

    def __init__(self, datapipe: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        if unbatch_level < -1 or unbatch_level == 0:
            raise ValueError(f"unbatch_level has to be >= 1, or -1 for all levels; got {unbatch_level}.")
        self.datapipe = datapipe
        self.source_datapipe = datapipe
        self.unbatch_level = unbatch_level

    def _expand(self, item: Any) -> Iterable[Any]:
        return _flat(item) if self.unbatch_level == -1 else _apart(item, self.unbatch_level)


def _flat(item: Any) -> Iterator[Any]:
    if not isinstance(item, list):
        yield item
        return
    for inner in item:
        yield from _flat(inner)


def _apart(item: Any, levels: int) -> Iterable[Any]:
    if not isinstance(item, list):
        raise IndexError(f"unbatch: {levels} more levels are to be taken apart, but {str(item)[:60]!r} is no list.")
    if levels == 1:
        return iter(item)
    return (sample for inner in item for sample in _apart(inner, levels - 1))


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Groups of samples with the same key (functional name: `groupby`).

    A group is given out when it is full; when the buffer is full, the largest one; the rest at the end.

    Args:
        datapipe: source.
        group_key_fn: from a sample to its key.
        keep_key: yield `(key, group)`.
        buffer_size: samples kept at most.
        group_size: samples of a full group; only the end and the buffer end groups when None.
        guaranteed_group_size: the smallest group that a full buffer may give out; needs `group_size`.
        drop_remaining: leave groups below `guaranteed_group_size` out when the buffer is full, instead of failing.

    Raises:
        RuntimeError: while iterating, when the buffer is full and no group has the guaranteed size.
    """

    state_fields = ("_groups", "_kept")

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        check_function(group_key_fn)
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise ValueError(f"group_size has to be from 1 to buffer_size={buffer_size}, got {group_size}.")
        if guaranteed_group_size is not None and (group_size is None or not 0 < guaranteed_group_size <= group_size):
            raise ValueError(
                f"guaranteed_group_size has to be from 1 to group_size={group_size}, got {guaranteed_group_size}."
            )
        self.datapipe = datapipe
        self.group_key_fn = group_key_fn
        self.keep_key = keep_key
        self.max_buffer_size = buffer_size
        self.group_size = group_size
        self.guaranteed_group_size = guaranteed_group_size if guaranteed_group_size is not None else group_size
        self.drop_remaining = drop_remaining
        self.wrapper_class = DataChunk

    def reset(self) -> None:
        """Go back to the beginning."""
        self._groups: dict[Any, list[Any]] = {}
        self._kept = 0

    def get_state(self) -> dict[str, Any]:
        """The groups as pairs, in their order."""
        return {"_groups": [[key, group] for key, group in self._groups.items()], "_kept": self._kept}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over the groups."""
        self._groups = {key: list(group) for key, group in state["_groups"]}
        self._kept = state["_kept"]

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            group = self._groups.setdefault(key, [])
            group.append(sample)
            self._kept += 1
            if self.group_size is not None and len(group) == self.group_size:
                yield self._given(key)
            elif self._kept == self.max_buffer_size:
                largest = self._largest()
                if largest is not None:
                    yield self._given(largest)
        while self._groups:
            yield self._given(next(iter(self._groups)))

    def _given(self, key: Any) -> Any:
        group = self._groups.pop(key)
        self._kept -= len(group)
        chunk = self.wrapper_class(group)
        return (key, chunk) if self.keep_key else chunk

    def _largest(self) -> Any:
        largest = max(self._groups, key=lambda key: len(self._groups[key]))
        size = len(self._groups[largest])
        if self.guaranteed_group_size is None or size >= self.guaranteed_group_size:
            return largest
        if not self.drop_remaining:
            raise RuntimeError(
                f"groupby: the buffer of {self.max_buffer_size} samples is full, and the largest group "
                f"has {size}, below the "
                f"guaranteed {self.guaranteed_group_size}. Use a larger buffer_size, or drop_remaining=True."
            )
        self._kept -= len(self._groups.pop(largest))
        return None


@functional_datapipe("bucketbatch")
class BucketBatcherIterDataPipe(IterDataPipe[DataChunk[Any]]):
    """Batches of samples that are alike, such as sentences of about one length (functional name: `bucketbatch`).

    Pools of `batch_size * batch_num * bucket_num` samples are shuffled and cut into buckets of `batch_size *
    batch_num`, each bucket is sorted and cut into batches, and every `bucket_num` batches are shuffled. With a
    `sort_key` and one bucket nothing is shuffled, as upstream. Calling it builds that pipeline.

    Args:
        datapipe: source.
        batch_size: samples of a batch, > 0.
        drop_last: leave out a last batch that is smaller.
        batch_num: batches of a bucket, > 0.
        bucket_num: buckets of a pool, > 0.
        sort_key: sorts a bucket, a list, and gives a list.
        use_in_batch_shuffle: shuffle within pools, and batches among each other; False shuffles with buffers, of a pool
            for samples and of a bucket's number of samples for batches.
    """

    def __new__(  # type: ignore[misc]  # upstream: calling the class gives the last pipe of what it built
        cls,
        datapipe: IterDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        batch_num: int = 100,
        bucket_num: int = 1,
        sort_key: Callable[[list[Any]], list[Any]] | None = None,
        use_in_batch_shuffle: bool = True,
    ) -> IterDataPipe[DataChunk[Any]]:
        """Build the pipes that the class stands for."""
        for name, value in (("batch_size", batch_size), ("batch_num", batch_num), ("bucket_num", bucket_num)):
            if value <= 0:
                raise ValueError(f"{name} has to be > 0, got {value}.")
        bucket = batch_size * batch_num
        pool = bucket * bucket_num
        if bucket_num > 1 or sort_key is None:
            if use_in_batch_shuffle:
                datapipe = datapipe.batch(pool).in_batch_shuffle().unbatch()
            else:
                datapipe = datapipe.shuffle(buffer_size=pool)
        if sort_key is None:
            return datapipe.batch(batch_size, drop_last=drop_last)
        check_function(sort_key)
        batches = datapipe.batch(bucket).map(sort_key).unbatch().batch(batch_size, drop_last=drop_last)
        if use_in_batch_shuffle:
            return batches.batch(bucket_num).in_batch_shuffle().unbatch()
        return batches.shuffle(buffer_size=bucket)

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        batch_num: int = 100,
        bucket_num: int = 1,
        sort_key: Callable[[list[Any]], list[Any]] | None = None,
        use_in_batch_shuffle: bool = True,
    ) -> None:
        """Never called: `__new__` gives another class's object."""


def _default_len_fn(sample: Any) -> int:
    return len(sample)


@functional_datapipe("max_token_bucketize")
class MaxTokenBucketizerIterDataPipe(IterDataPipe[DataChunk[Any]]):
    """Batches of about equal numbers of tokens, of samples of about one length (functional name:
    `max_token_bucketize`).

    Args:
        datapipe: source.
        max_token_count: tokens of a batch at most.
        len_fn: from a sample to its number of tokens.
        min_len, max_len: samples outside are left out; `max_len` is `max_token_count` when None.
        buffer_size: samples among which the shortest is taken next.
        include_padding: count every sample as long as the batch's longest.
    """

    state_fields = ("_heap", "_batch", "_tokens", "_longest", "_number")

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        max_token_count: int,
        len_fn: Callable[[Any], int] = _default_len_fn,
        min_len: int = 0,
        max_len: int | None = None,
        buffer_size: int = 1000,
        include_padding: bool = False,
    ) -> None:
        check_function(len_fn)
        most = max_token_count if max_len is None else max_len
        if not 0 <= min_len < most:
            raise ValueError(f"min_len has to be >= 0 and below max_len={most}, got {min_len}.")
        if most > max_token_count:
            raise ValueError(f"max_token_count={max_token_count} has to be at least max_len={most}.")
        if buffer_size <= 0:
            raise ValueError(f"buffer_size has to be > 0, got {buffer_size}.")
        self.datapipe = datapipe
        self.max_token_count = max_token_count
        self.len_fn = len_fn
        self.min_len = min_len
        self.max_len = most
        self.buffer_size = buffer_size
        self.include_padding = include_padding

    def reset(self) -> None:
        """Go back to the beginning."""
        self._heap: list[Any] = []
        self._batch: list[Any] = []
        self._tokens = 0
        self._longest = 0
        self._number = 0

    def __iter__(self) -> Iterator[DataChunk[Any]]:
        for sample in self.datapipe:
            length = self.len_fn(sample)
            if not self.min_len <= length <= self.max_len:
                continue
            # The running number keeps samples of one length in their order, and the heap from comparing samples.
            self._number += 1
            heapq.heappush(self._heap, (length, self._number, sample))
            if len(self._heap) == self.buffer_size:
                full = self._take()
                if full is not None:
                    yield full
        while self._heap:
            full = self._take()
            if full is not None:
                yield full
        if self._batch:
            last, self._batch = self._batch, []
            yield DataChunk(last)

    def _take(self) -> DataChunk[Any] | None:
        """Move the shortest sample into the batch; the batch before, where it did not fit into that."""
        length, _, sample = heapq.heappop(self._heap)
        longest = max(self._longest, length)
        tokens = (len(self._batch) + 1) * longest if self.include_padding else self._tokens + length
        if tokens <= self.max_token_count:
            self._batch.append(sample)
            self._tokens, self._longest = self._tokens + length, longest
            return None
        full, self._batch = self._batch, [sample]
        self._tokens, self._longest = length, length
        return DataChunk(full)


@functional_datapipe("rows2columnar")
class Rows2ColumnarIterDataPipe(IterDataPipe[dict[Any, list[Any]]]):
    """Dicts of columns out of batches of rows (functional name: `rows2columnar`).

    Args:
        source_datapipe: source of lists of rows, each a list or a dict.
        column_names: names of the columns; of dicts those to keep, all when None.
    """

    state_fields = ()

    def __init__(self, source_datapipe: IterDataPipe[list[Any]], column_names: list[str] | None = None) -> None:
        self.source_datapipe = source_datapipe
        self.column_names = column_names or []

    def __iter__(self) -> Iterator[dict[Any, list[Any]]]:
        for batch in self.source_datapipe:
            columns: defaultdict[Any, list[Any]] = defaultdict(list)
            for row in batch:
                for name, value in self._named(row):
                    columns[name].append(value)
            yield columns

    def _named(self, row: Any) -> Iterable[tuple[Any, Any]]:
        if isinstance(row, dict):
            return [(name, row[name]) for name in self.column_names] if self.column_names else row.items()
        if not self.column_names:
            raise ValueError("rows2columnar: rows that are lists need column_names.")
        return zip(self.column_names, row, strict=True)

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


def _default_line_join(lines: list[str]) -> str:
    return "\n".join(lines)


@functional_datapipe("lines_to_paragraphs")
class ParagraphAggregatorIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Joins the lines between empty lines, file by file (functional name: `lines_to_paragraphs`).

    Args:
        source_datapipe: source of `(path, line)`.
        joiner: from the list of a paragraph's lines to what is yielded with the path.
    """

    state_fields = ("_path", "_lines")

    def __init__(
        self, source_datapipe: IterDataPipe[tuple[str, Any]], joiner: Callable[[list[Any]], Any] = _default_line_join
    ) -> None:
        check_function(joiner)
        self.source_datapipe = source_datapipe
        self.joiner = joiner

    def reset(self) -> None:
        """Go back to the beginning."""
        self._path: str | None = None
        self._lines: list[Any] = []

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, line in self.source_datapipe:
            ended = None
            if self._lines and (path != self._path or not line):
                ended = (self._path, self.joiner(self._lines))
                self._lines = []
            self._path = path
            if line:
                self._lines.append(line)
            if ended is not None:
                yield ended  # type: ignore[misc]  # there were lines, so there was a path
        if self._lines:
            lines, self._lines = self._lines, []
            yield self._path, self.joiner(lines)  # type: ignore[misc]


@functional_datapipe("webdataset")
class WebDatasetIterDataPipe(IterDataPipe[dict[str, Any]]):
    """Samples out of consecutive files that share a name up to the first dot (functional name: `webdataset`).

    Args:
        source_datapipe: source of `(path, data)`, as archives give them; read the data (`map`) before files move on.

    Yields:
        Dicts with `__key__`, the path up to the first dot of the file's name, and one entry for each file under the
        rest of its name, with the dot: `{"__key__": "d/000", ".cls": ..., ".seg.png": ...}`. Names without a dot are
            left out.
    """

    state_fields = ("_sample",)

    def __init__(self, source_datapipe: IterDataPipe[list[Any]]) -> None:
        self.source_datapipe = source_datapipe

    def reset(self) -> None:
        """Go back to the beginning."""
        self._sample: dict[str, Any] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for path, data in self.source_datapipe:
            folder, slash, name = path.rpartition("/")
            stem, dot, extension = name.partition(".")
            if not dot or not stem:
                continue
            key, whole = folder + slash + stem, None
            if self._sample and self._sample["__key__"] != key:
                whole, self._sample = self._sample, {}
            self._sample.setdefault("__key__", key)
            self._sample[dot + extension] = data
            if whole is not None:
                yield whole
        if self._sample:
            whole, self._sample = self._sample, {}
            yield whole
