"""DataLoader with a state."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset, IterDataPipe, Sampler
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _InfiniteConstantSampler,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from flambeau.data._cursor import SCHEMA
from flambeau.data._stateful import Stateful
from flambeau.data.stateful_dataloader._batches import (
    Failed,
    NumberedCollate,
    NumberedDataset,
    Traced,
    View,
    as_it_is,
)
from flambeau.data.stateful_dataloader._progress import MapProgress, ShardProgress
from flambeau.data.stateful_dataloader._shards import Plan, ShardedIterable

_SEED = 2**62 - 1
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class StatefulDataLoader(DataLoader[_T_co]):
    """Torch's DataLoader, with `state_dict` and `load_state_dict`.

    The state is the place behind the last batch that was given out; what workers have read ahead does not count, and
    is read again. A loader that is built alike and loads it gives exactly the batches that remained, in their order,
    and then the epochs that would have followed, whatever its number of workers:

    - Map-style data sets: the state is that of the sampler. The order of torch's random samplers is part of it, with
      and without a generator. With `StatefulDistributedSampler` the number of ranks may change too.
    - Iterable data sets: each worker's iterator, or data set, says where it is if it is `Stateful`; else its items are
      counted, read again and dropped. With another number of workers the shards of the running epoch stay as they were
      cut and are shared among the workers, so each remaining sample still comes exactly once; only the order in which
      shards take turns changes.

    As with torch's loader, reading goes on behind a batch that failed. Until the next batch is asked for, the state
    still leads to the one that failed, so that it can be tried again; from then on it is left out. A worker process
    that died ends the iteration: what only it had read would be lost without a word.

    Workers begin with the same seeds when a state is loaded as when its epoch began.

    Workers send their state with their batches, as what changed since the last; `state_dict` alone puts it together.

    Args:
        dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last, timeout,
            worker_init_fn, multiprocessing_context, generator, prefetch_factor, persistent_workers, pin_memory_device,
            in_order: as torch's.
        snapshot_every_n_steps: batches of a worker between two descriptions of its state; those since the last are
            read again after loading. For data sets whose `state_dict` is slow.

    Raises:
        ValueError: `snapshot_every_n_steps` below 1, and what torch refuses.
    """

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[_T]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        snapshot_every_n_steps: int | None = 1,
    ) -> None:
        if snapshot_every_n_steps is None:
            snapshot_every_n_steps = 1
        if snapshot_every_n_steps < 1:
            raise ValueError(f"snapshot_every_n_steps is {snapshot_every_n_steps}, expected at least 1.")
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self._progress: MapProgress | ShardProgress | None = None
        super().__init__(
            dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last,
            timeout, worker_init_fn, multiprocessing_context, generator, prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers, pin_memory_device=pin_memory_device, in_order=in_order,
        )  # fmt: skip
        self._map_style = self._dataset_kind == _DatasetKind.Map
        if self._map_style:
            self._progress = MapProgress(super()._index_sampler, numbered=num_workers > 0 and not in_order)
        else:
            self._progress = ShardProgress(num_workers)
        self._engine: _BaseDataLoaderIter | None = None
        self._engine_is_new = False
        self._begun = self._broken = False
        self._seed: int | None = None  # of the workers of this epoch
        self._failed: Traced | None = None  # what was raised last, and is not part of the state yet
        self._live: weakref.ref[_Iteration] | None = None
        self._finished = False

    @property
    def _index_sampler(self) -> Any:
        # What torch's iterators draw from. Ours counts.
        return self._progress if isinstance(self._progress, MapProgress) else super()._index_sampler

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if not self._engine_is_new:
            self._start_epoch()
        self._engine_is_new = False
        iteration = _Iteration(self)
        self._live = weakref.ref(iteration)
        return iteration

    def state_dict(self) -> dict[str, Any]:
        """The place behind the last batch given out.

        Returns:
            `schema`, `kind` ("map" or "iterable"), `finished`, `num_yielded` (batches of this epoch), `seed` (of the
            workers) and `place`, plain values if those of data set and sampler are.
        """
        if not self._begun:
            self._start_epoch()
            self._engine_is_new = True
        assert self._progress is not None
        state = {
            "schema": SCHEMA,
            "kind": "map" if self._map_style else "iterable",
            "finished": self._finished,
            "num_yielded": self._progress.num_yielded,
            "seed": self._seed,
            "place": self._progress.state(),
        }
        if self._map_style and isinstance(self.dataset, Stateful):
            state["dataset"] = self.dataset.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state with the next `iter`; from one of a finished epoch, with the next epoch.

        An iterator that was made before raises when it is used again: it would not take up the state.

        Raises:
            ValueError: not a state of such a loader.
        """
        kind = "map" if self._map_style else "iterable"
        found: Any = state_dict
        if not isinstance(found, dict) or (found.get("schema"), found.get("kind")) != (SCHEMA, kind):
            raise ValueError(
                f"StatefulDataLoader.load_state_dict: expected a state of schema {SCHEMA} of a loader over a data set "
                f"of kind {kind!r}, got {repr(state_dict)[:200]}."
            )
        assert self._progress is not None
        self._live = self._failed = None
        self._engine = None  # its workers have gone elsewhere
        self._begun, self._broken, self._engine_is_new = True, False, False
        self._seed = state_dict.get("seed")
        self._progress.load(state_dict["place"])
        if "dataset" in state_dict and isinstance(self.dataset, Stateful):
            self.dataset.load_state_dict(state_dict["dataset"])
        self._finished, self._progress.num_yielded = state_dict["finished"], state_dict["num_yielded"]
        if not self._finished:
            # The workers' seed has been drawn from the generator before the state was taken, and must not be again.
            generator = torch.Generator().manual_seed(torch.initial_seed() & _SEED)
            self._engine = self._make_engine(self._seed, generator=generator)
            self._engine_is_new = True

    def _start_epoch(self) -> None:
        assert self._progress is not None
        self._progress.new_epoch()
        self._begun, self._broken, self._finished, self._failed = True, False, False, None
        if self.persistent_workers and self.num_workers > 0 and self._engine is not None:
            self._engine._reset(self._view())
        else:
            self._engine = None  # workers of the last epoch end before those of the next begin
            self._engine = self._make_engine()

    def _make_engine(self, seed: int | None = None, **replaced: Any) -> _BaseDataLoaderIter:
        view: Any = self._view(**replaced)
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(view)
        self.check_worker_number_rationality()
        workers = _Workers(view, seed)
        self._seed = workers._base_seed
        return workers

    def _view(self, **replaced: Any) -> View:
        if isinstance(self._progress, MapProgress):
            if self.num_workers == 0 or self.in_order:
                return View(self, **replaced)
            numbered = NumberedDataset(self.dataset, self._auto_collation)
            return View(self, dataset=numbered, collate_fn=NumberedCollate(self.collate_fn), **replaced)
        assert self._progress is not None
        plan = Plan(
            count=self._progress.count,
            batch_size=self.batch_size,
            drop_last=self.drop_last,
            collate_fn=self.collate_fn,
            every=self.snapshot_every_n_steps,
            turn=self._progress.turn,
            states=self._progress.states(),
        )
        if isinstance(self.dataset, IterDataPipe):
            plan.pipe_seed = int(torch.empty((), dtype=torch.int64).random_(generator=self.generator).item())
            plan.ranks = _ranks()
        whole = ShardedIterable(self.dataset, plan, self.num_workers)
        self._progress.here = whole.states if self.num_workers == 0 else None
        return View(
            self, dataset=whole, collate_fn=as_it_is, _auto_collation=False,
            _index_sampler=_InfiniteConstantSampler(), **replaced,
        )  # fmt: skip


def _ranks() -> tuple[int, int]:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    return 1, 0


class _Workers(_MultiProcessingDataLoaderIter):
    """Torch's workers, with a seed that was drawn before where one is given."""

    def __init__(self, view: Any, seed: int | None) -> None:
        self._given_seed = seed
        super().__init__(view)

    @property
    def _base_seed(self) -> int:
        return self._seed

    @_base_seed.setter
    def _base_seed(self, drawn: int) -> None:
        self._seed = drawn if self._given_seed is None else self._given_seed

    def lost_one(self) -> bool:
        """Whether a worker has died."""
        return any(worker.exitcode for worker in self._workers)


class _Iteration(Iterator[Any]):
    """What users hold; the loader keeps the workers."""

    def __init__(self, loader: StatefulDataLoader[Any]) -> None:
        self._loader = loader

    def __next__(self) -> Any:
        loader = self._loader
        if loader._live is None or loader._live() is not self:
            raise RuntimeError(
                "A newer iter(loader), or load_state_dict, has taken this iterator's place; use iter(loader) again."
            )
        if loader._broken:
            raise RuntimeError(
                "An error ended this iteration. The state still leads to the batch that failed: load it to try again, "
                "or call iter(loader) for a new epoch."
            )
        progress: Any = loader._progress
        if loader._failed is not None:  # nobody tried again
            _account(progress, loader._failed)
            loader._failed = None
        try:
            found = next(loader._engine)  # type: ignore[arg-type]
        except StopIteration:
            loader._finished = True
            raise
        except Exception:
            loader._broken = isinstance(loader._engine, _Workers) and loader._engine.lost_one()
            loader._failed = _NEXT
            raise
        except BaseException:
            loader._broken = True  # interrupted at any place
            raise
        if type(found) is not Traced:
            # Not an attribute of the loader: DataLoader watches over the setting of its own, at some cost.
            progress.num_yielded += 1
            progress.given(None)
            return found
        if type(found.batch) is Failed:
            loader._failed = found
            found.batch.raise_()
        progress.num_yielded += 1
        _account(progress, found)
        return found.batch

    def __len__(self) -> int:
        return len(self._loader)


# The batch that comes next in its order, whichever that is.
_NEXT = Traced(None, None)


def _account(progress: MapProgress | ShardProgress, found: Traced) -> None:
    if isinstance(progress, MapProgress):
        progress.given(found.origin)
    elif found.origin is not None:
        progress.given(found.origin, found.message)
