"""Iterable data sets in workers: logical shards, whatever number of workers reads them.

An epoch of an iterable data set is cut by the number of workers it began with: each reads what `get_worker_info()` says
is its own. When it is resumed with another number of workers, those shards stay what they are until the epoch ends, and
the workers there are share them. So no data set has to know how to be cut anew.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch.utils.data._utils.worker as torch_worker
from torch.utils.data import IterableDataset, IterDataPipe, get_worker_info
from torch.utils.data.graph_settings import apply_random_seed, apply_sharding

from flambeau.data._deltas import Encoder
from flambeau.data._stateful import Stateful
from flambeau.data.stateful_dataloader._batches import COUNTED, Failed, Traced


class Plan:
    """How an epoch is read.

    Args:
        count: logical shards; 0: one that knows of no workers.
        turn: the shard whose batch comes first.
        states: shard -> where it stands.
        batch_size: None: the data set's items are batches.
        pipe_seed: of torch's data pipes, common to all shards.
        ranks: number of ranks and this one's, for torch's data pipes.
    """

    # No dataclass: making one takes a third of this package's time to import.
    def __init__(
        self,
        count: int,
        batch_size: int | None,
        drop_last: bool,
        collate_fn: Callable[[Any], Any],
        every: int,
        turn: int = 0,
        states: dict[int, Any] | None = None,
        pipe_seed: int | None = None,
        ranks: tuple[int, int] = (1, 0),
    ) -> None:
        self.count, self.turn = count, turn
        self.batch_size, self.drop_last, self.collate_fn, self.every = batch_size, drop_last, collate_fn, every
        self.states: dict[int, Any] = states or {}
        self.pipe_seed, self.ranks = pipe_seed, ranks


class ShardedIterable(IterableDataset[Any]):
    """The batches of a data set, each with the state behind it; what DataLoader's workers are given."""

    def __init__(self, dataset: Any, plan: Plan, workers: int) -> None:
        self._dataset = dataset
        self._plan = plan
        self._workers = workers
        self._here: list[_Shard] | None = None

    def __iter__(self) -> Iterator[Traced]:
        plan = self._plan
        # Workers that are kept read the next epoch with a fresh plan, cut by their own number.
        fresh = {"count": self._workers, "turn": 0, "states": {}}
        self._plan = Plan(**{**vars(plan), **fresh})
        info = get_worker_info()
        place, workers = (0, 1) if info is None else (info.id, info.num_workers)
        count = max(1, plan.count)
        in_turn = [(plan.turn + step) % count for step in range(count)]
        own = in_turn[place::workers]
        datasets = itertools.chain([self._dataset], (copy.deepcopy(self._dataset) for _ in own[1:]))
        shards = [_Shard(dataset, shard, plan) for shard, dataset in zip(own, datasets, strict=False)]
        self._here = shards if info is None else None
        return _in_turn(list(shards))

    def states(self) -> dict[int, Any]:
        """Shard -> where it stands, of shards in this process that only count."""
        return {shard.number: shard.counts for shard in self._here or () if shard.counts is not None}


def _in_turn(shards: list[_Shard]) -> Iterator[Traced]:
    while shards:
        for shard in list(shards):
            traced = shard.next_batch()
            if traced is None:
                shards.remove(shard)
            else:
                yield traced


class _Shard:
    """One logical shard: the data set as the worker of this number would read it."""

    def __init__(self, dataset: Any, number: int, plan: Plan) -> None:
        # torch's loader wraps a pipe to pickle it; the pipe itself is what has a state.
        self._dataset = getattr(dataset, "_datapipe", dataset)
        self.number = number
        # Set where counting is all there is to the state, and only when a batch is whole: an error loses none.
        self.counts: dict[str, Any] | None = None
        self._plan = plan
        self._encoder = Encoder()
        self._since = 0
        self._items = 0
        self._failures = 0
        self._ended = False
        self._iterator: Any = None
        self._as_worker(self._open)

    def next_batch(self) -> Traced | None:
        """A batch with its state, None at the end."""
        try:
            found, batch = self._as_worker(self._read)
        except Exception as error:  # raised again where batches are given out; other shards, and this one, go on
            found, batch = True, Failed(error)
        if not found:
            return None
        failed = type(batch) is Failed
        if self.counts is not None:
            if not failed:
                self.counts = self._counted()
            return Traced(batch, self.number, COUNTED)
        message = None
        self._since += 1
        if self._since >= self._plan.every or failed:  # what failed is not read again after loading
            message, self._since = self._encoder.encode(self.state()), 0
        return Traced(batch, self.number, message)

    def _open(self) -> None:
        state = self._plan.states.get(self.number) or {}
        self._prepare_pipe()
        if state.get("dataset") is not None:
            self._dataset.load_state_dict(state["dataset"])
        self._iterator = iter(self._dataset)
        self._stateful_iterator = isinstance(self._iterator, Stateful)
        self._stateful_dataset = not self._stateful_iterator and isinstance(self._dataset, Stateful)
        if self._stateful_iterator and state.get("iterator") is not None:
            self._iterator.load_state_dict(state["iterator"])
        elif state.get("dataset") is None:
            self._drop(state.get("items", 0), state.get("failures", 0))
        self._items = state.get("items", 0)
        self._failures = state.get("failures", 0)
        self._ended = state.get("ended", False)
        for _ in range(state.get("batches", 0)):  # given since the snapshot
            self._read_samples()
        if get_worker_info() is None and not (self._stateful_iterator or self._stateful_dataset):
            self.counts = self._counted()

    def _drop(self, items: int, failures: int) -> None:
        """Read what was read before, and raised what was raised before."""
        if not failures:
            next(itertools.islice(self._iterator, items, items), None)
            return
        for _ in range(items + failures):
            try:
                next(self._iterator)
            except StopIteration:
                return
            except Exception:
                if not failures:
                    raise
                failures -= 1

    def _counted(self) -> dict[str, Any]:
        counts: dict[str, Any] = {"items": self._items, "ended": self._ended, "batches": 0}
        return {**counts, "failures": self._failures} if self._failures else counts

    def _prepare_pipe(self) -> None:
        if isinstance(self._dataset, IterDataPipe):
            import torch

            generator = torch.Generator()
            generator.manual_seed(self._plan.pipe_seed or 0)
            apply_random_seed(self._dataset, generator)
            ranks, rank = self._plan.ranks
            apply_sharding(self._dataset, max(1, self._plan.count) * ranks, self.number * ranks + rank)

    def _read(self) -> tuple[bool, Any]:
        found, samples = self._read_samples()
        return found, self._plan.collate_fn(samples) if found else None

    def _read_samples(self) -> tuple[bool, Any]:
        if self._ended:
            return False, None
        size = self._plan.batch_size
        samples: list[Any] = []
        try:
            samples.extend(itertools.islice(self._iterator, 1 if size is None else size))
        except Exception:
            self._failures += 1
            raise
        finally:
            self._items += len(samples)
        self._ended = len(samples) < (size or 1)
        if size is None:
            return (True, samples[0]) if samples else (False, None)
        return bool(samples) and not (self._ended and self._plan.drop_last), samples

    def state(self) -> dict[str, Any]:
        """Where it stands behind the last batch."""
        state = self._counted()
        if self._stateful_iterator:
            state["iterator"] = self._iterator.state_dict()
        elif self._stateful_dataset:
            state["dataset"] = self._dataset.state_dict()
        return state

    def _as_worker(self, action: Callable[[], Any]) -> Any:
        """Run something with `get_worker_info()` saying what it said when the epoch began."""
        info = torch_worker._worker_info
        if self._plan.count == 0:
            if info is None:
                return action()
            pretended = None
        elif info is not None and (info.id, info.num_workers) == (self.number, self._plan.count):
            return action()
        else:
            seed = 0 if info is None else info.seed
            pretended = torch_worker.WorkerInfo(
                id=self.number, num_workers=self._plan.count, seed=seed, dataset=self._dataset
            )
        torch_worker._worker_info = pretended
        try:
            return action()
        finally:
            torch_worker._worker_info = info
