"""Reading services: where a pipeline runs, and who gets which samples."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from flambeau.data.dataloader2.communication.iter import WorkersIterDataPipe
from flambeau.data.dataloader2.communication.worker import FromDispatcherIterDataPipe, Pipeline, WorkerInfo
from flambeau.data.dataloader2.graph import (
    is_random,
    replace_dp,
    set_graph_random_seed,
    traverse_dps,
)
from flambeau.data.dataloader2.random import SeedGenerator, dist_share_seed
from flambeau.data.datapipes._graph import sources, upstream
from flambeau.data.datapipes.iter.fullsync import FullSyncIterDataPipe
from flambeau.data.datapipes.iter.sharding import (
    SHARDING_PRIORITIES,
    ShardingFilterIterDataPipe,
    ShardingRoundRobinDispatcherIterDataPipe,
    is_sharding,
)

ResetFn = Callable[[Any], Any]


class ReadingServiceInterface(ABC):
    """What DataLoader2 asks of a reading service.

    `initialize` comes once before the first pass, `initialize_iteration` before each, `finalize_iteration` after each,
    `finalize` at the end.
    """

    @abstractmethod
    def initialize(self, datapipe: Any) -> Any:
        """Adapt the pipeline; returns the last pipe of the adapted one."""

    def finalize(self) -> None:  # noqa: B027  # nothing to do for most
        """Give back what `initialize` took; called at shutdown."""

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: ResetFn | None = None
    ) -> ResetFn | None:
        """Prepare a pass.

        Args:
            seed_generator: the loader's; seeds that are drawn here follow from the loader's seed.
            iter_reset_fn: called with the pipeline where it runs, by services that run it elsewhere.

        Returns:
            A function from pipeline to pipeline that the loader, or the next service, has to call; or None.
        """
        return None

    def finalize_iteration(self) -> None:  # noqa: B027
        """Clean up after a pass."""

    def __del__(self) -> None:
        self.finalize()


class CheckpointableReadingServiceInterface(ReadingServiceInterface):
    """A reading service with a state of its own beside the pipeline's."""

    @abstractmethod
    def checkpoint(self) -> bytes:
        """The state."""

    @abstractmethod
    def restore(self, datapipe: Any, serialized_state: bytes) -> Any:
        """As `initialize`, from a state."""


class InProcessReadingService(ReadingServiceInterface):
    """Reads the pipeline in this process.

    Args:
        prefetch_cnt: samples to read ahead in a thread; 0 for none.
        init_fn: from pipeline to pipeline, called once.
        reset_fn: `reset_fn(pipeline, WorkerInfo(1, 0), seed_generator)`, from pipeline to pipeline, before each pass.
    """

    def __init__(
        self,
        prefetch_cnt: int = 0,
        init_fn: Callable[[Any], Any] | None = None,
        reset_fn: Callable[[Any, WorkerInfo, SeedGenerator], Any] | None = None,
    ) -> None:
        self.prefetch_cnt = prefetch_cnt
        self.init_fn = init_fn
        self.reset_fn = reset_fn
        self._end: Any = None

    def initialize(self, datapipe: Any) -> Any:
        """Call `init_fn`, read ahead if that is wanted."""
        if self.init_fn is not None:
            datapipe = self.init_fn(datapipe)
        self._end = datapipe.prefetch(self.prefetch_cnt) if self.prefetch_cnt > 0 else datapipe
        return self._end

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: ResetFn | None = None
    ) -> ResetFn | None:
        """Seed the pipeline, call `reset_fn`."""
        if self._end is None:
            raise RuntimeError("the reading service has no pipeline yet; initialize comes first.")
        set_graph_random_seed(self._end, seed_generator)
        if self.reset_fn is None:
            return None
        return functools.partial(_called, self.reset_fn, seed_generator)

    def finalize(self) -> None:
        """End the thread that reads ahead."""
        end = getattr(self, "_end", None)
        if end is not None and self.prefetch_cnt > 0:
            end.shutdown()


def _called(function: Callable[..., Any], seed_generator: SeedGenerator, datapipe: Any) -> Any:
    return function(datapipe, WorkerInfo(1, 0), seed_generator)


class MultiProcessingReadingService(ReadingServiceInterface):
    """Reads the pipeline in several processes, each with its shard of every `sharding_filter`.

    Samples come from the workers in turn. Where a pipeline does the same to single samples after its sharding, the
    order is that of one process. What lies before a
    `sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)` runs once, in a process of its own that gives
    samples to the workers in turn.

    A loader's state is exact at every sample. It can be continued with another number of workers.

    Args:
        num_workers: processes; 0 reads in this process.
        multiprocessing_context: "fork", "spawn" or "forkserver"; the platform's own when None.
        worker_prefetch_cnt: samples that each worker reads ahead at most.
        main_prefetch_cnt: samples that wait in this process at most, in addition, divided among the workers.
        worker_init_fn: `worker_init_fn(pipeline, WorkerInfo)`, from pipeline to pipeline, once in each worker.
        worker_reset_fn: `worker_reset_fn(pipeline, WorkerInfo, seed_generator)`, from pipeline to pipeline, in each
            worker before each pass.
    """

    def __init__(
        self,
        num_workers: int = 0,
        multiprocessing_context: str | None = None,
        worker_prefetch_cnt: int = 10,
        main_prefetch_cnt: int = 10,
        worker_init_fn: Callable[[Any, WorkerInfo], Any] | None = None,
        worker_reset_fn: Callable[[Any, WorkerInfo, SeedGenerator], Any] | None = None,
    ) -> None:
        import torch.multiprocessing

        for name, value in (
            ("num_workers", num_workers),
            ("worker_prefetch_cnt", worker_prefetch_cnt),
            ("main_prefetch_cnt", main_prefetch_cnt),
        ):
            if value < 0:
                raise ValueError(f"{name} has to be >= 0, got {value}.")
        known = torch.multiprocessing.get_all_start_methods()
        if multiprocessing_context is not None and multiprocessing_context not in known:
            raise ValueError(f"multiprocessing_context has to be one of {known}, got {multiprocessing_context!r}.")
        self.num_workers = num_workers
        self.multiprocessing_context = multiprocessing_context
        self.worker_prefetch_cnt = worker_prefetch_cnt
        self.main_prefetch_cnt = main_prefetch_cnt
        self.worker_init_fn = worker_init_fn
        self.worker_reset_fn = worker_reset_fn
        self._workers: WorkersIterDataPipe | None = None
        self._end: Any = None
        self._shared_seeds = 0

    def initialize(self, datapipe: Any) -> Any:
        """Start the processes when the first sample is asked for; returns the pipe that gives theirs."""
        if self.num_workers == 0:
            self._end = datapipe
            return datapipe
        import torch.multiprocessing

        synced = datapipe if isinstance(datapipe, FullSyncIterDataPipe) else None
        inner = datapipe.datapipe if synced is not None else datapipe
        length = _length(inner)
        groups = _groups(inner)
        inner, dispatched = _divided(inner)
        self._shared_seeds = _shared_seed_count(inner)
        self._workers = WorkersIterDataPipe(
            Pipeline(inner, self.worker_init_fn, self.worker_reset_fn),
            self.num_workers,
            torch.multiprocessing.get_context(self.multiprocessing_context),
            self.worker_prefetch_cnt + -(-self.main_prefetch_cnt // self.num_workers),
            None if dispatched is None else Pipeline(dispatched),
            groups,
            length,
        )
        self._end = self._workers if synced is None else self._workers.fullsync(synced.timeout)
        return self._end

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: ResetFn | None = None
    ) -> ResetFn | None:
        """Give the workers their seeds; the loader's generator goes on as if the pipeline had been read here."""
        if self._end is None:
            raise RuntimeError("the reading service has no pipeline yet; initialize comes first.")
        if self._workers is None:
            set_graph_random_seed(self._end, seed_generator)
            if self.worker_reset_fn is None:
                return iter_reset_fn
            own = functools.partial(_called, self.worker_reset_fn, seed_generator)
            return own if iter_reset_fn is None else functools.partial(_chained, [own, iter_reset_fn])
        self._workers.begin_pass(seed_generator.clone(), iter_reset_fn)
        # Upstream's workers draw from copies, and every epoch has the order of the first.
        for _ in range(max(self._shared_seeds, 1)):
            seed_generator.generate_shared_seed()
        seed_generator.generate_seed()
        return None

    def finalize(self) -> None:
        """End the processes."""
        workers = getattr(self, "_workers", None)
        if workers is not None:
            workers.close()


PrototypeMultiProcessingReadingService = MultiProcessingReadingService


def _chained(functions: Sequence[ResetFn], datapipe: Any) -> Any:
    for function in functions:
        datapipe = function(datapipe)
    return datapipe


def _length(datapipe: Any) -> int | None:
    try:
        return len(datapipe)
    except (TypeError, NotImplementedError):
        return None


def _groups(datapipe: Any) -> list[tuple[int, int, int]]:
    """Shardings that were applied already, as by ranks."""
    found: dict[int, tuple[int, int]] = {}
    for pipe in upstream(datapipe):
        if isinstance(pipe, ShardingFilterIterDataPipe):
            found |= pipe.groups
    return [(group, count, index) for group, (count, index) in sorted(found.items())]


def _shared_seed_count(datapipe: Any) -> int:
    """How many shared seeds one pass of the pipeline takes."""
    shardings = [pipe for pipe in upstream(datapipe) if is_sharding(pipe)]
    before = {id(pipe): pipe for sharding in shardings for pipe in upstream(sharding)}
    return sum(is_random(pipe) for pipe in before.values())


def _divided(datapipe: Any) -> tuple[Any, Any]:
    """The part for the workers, and the part that runs once (None where there is none)."""
    marks = [pipe for pipe in upstream(datapipe) if isinstance(pipe, ShardingRoundRobinDispatcherIterDataPipe)]
    if not marks:
        return datapipe, None
    border = _border(datapipe, marks)
    inside = [pipe for pipe in upstream(border) if is_sharding(pipe)]
    if inside:
        raise RuntimeError(
            "the dispatched part has a sharding_filter, which would shard what is divided among workers already."
        )
    receiver = FromDispatcherIterDataPipe(_length(border))
    graph = replace_dp(traverse_dps(datapipe), border, receiver)
    return next(iter(graph.values()))[0], border


def _border(datapipe: Any, marks: list[Any]) -> Any:
    """The pipe nearest to the sources that has all marks behind it, and whose inside nobody else reads."""
    everything = upstream(datapipe)
    wanted = {id(mark) for mark in marks}
    candidates = sorted((pipe for pipe in everything), key=lambda pipe: len(upstream(pipe)))
    for pipe in candidates:
        inside = {id(behind) for behind in upstream(pipe)}
        if not wanted <= inside:
            continue
        outside = [other for other in everything if id(other) not in inside]
        readers = [source for other in outside for source in sources(other) if id(source) in inside]
        if all(source is pipe for source in readers):
            return pipe
    raise RuntimeError("no pipe has all dispatched parts behind it; end them in one pipe, such as a zip.")


class DistributedReadingService(ReadingServiceInterface):
    """Gives every rank its shard, the same shared seeds, and the same number of samples.

    Put it before a `MultiProcessingReadingService` in a `SequentialReadingService`.

    Args:
        timeout: seconds to wait for other ranks.

    Raises:
        RuntimeError: torch.distributed is not available, or its process group is not initialized.
    """

    def __init__(self, timeout: int = 1800) -> None:
        import torch.distributed as dist

        if not dist.is_available():
            raise RuntimeError("DistributedReadingService needs torch.distributed, which this torch was built without.")
        self.timeout = timeout
        self._rank = 0
        self._world_size = 1
        self._group: Any = None
        self._end: Any = None

    def initialize(self, datapipe: Any) -> Any:
        """Shard by rank, and end on all ranks together."""
        import torch.distributed as dist

        if not dist.is_initialized():
            raise RuntimeError(
                "DistributedReadingService needs a process group; call torch.distributed.init_process_group."
            )
        self._rank, self._world_size = dist.get_rank(), dist.get_world_size()
        self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self.timeout))
        for pipe in upstream(datapipe):
            if is_sharding(pipe):
                pipe.apply_sharding(self._world_size, self._rank, sharding_group=SHARDING_PRIORITIES.DISTRIBUTED)
        if not isinstance(datapipe, FullSyncIterDataPipe):
            datapipe = datapipe.fullsync(self.timeout)
        self._end = datapipe
        return datapipe

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: ResetFn | None = None
    ) -> ResetFn | None:
        """Take rank 0's shared seed on all ranks, other seeds by rank."""
        if self._end is None:
            raise RuntimeError("the reading service has no pipeline yet; initialize comes first.")
        seed_generator.seed(dist_share_seed(seed_generator.generate_shared_seed(), self._group))
        seed_generator.spawn(self._rank, inplace=True)
        set_graph_random_seed(self._end, seed_generator)
        return None

    def finalize(self) -> None:
        """Give the process group back."""
        group, self._group = getattr(self, "_group", None), None
        if group is not None:
            import torch.distributed as dist

            if dist.is_initialized():
                dist.destroy_process_group(group)


class SequentialReadingService(CheckpointableReadingServiceInterface):
    """Several reading services one after the other.

    Args:
        *reading_services: the first gets the pipeline, each further one what the one before made of it.
    """

    def __init__(self, *reading_services: ReadingServiceInterface) -> None:
        self.reading_services = reading_services

    def initialize(self, datapipe: Any) -> Any:
        """Initialize them in order."""
        for service in self.reading_services:
            datapipe = service.initialize(datapipe)
        return datapipe

    def finalize(self) -> None:
        """Finalize them in the opposite order."""
        for service in reversed(getattr(self, "reading_services", ())):
            service.finalize()

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: ResetFn | None = None
    ) -> ResetFn | None:
        """Prepare a pass of each; a function that one gives is called by the next, or by the loader."""
        for service in self.reading_services:
            iter_reset_fn = service.initialize_iteration(seed_generator, iter_reset_fn)
        return iter_reset_fn

    def finalize_iteration(self) -> None:
        """Clean up in the opposite order."""
        for service in reversed(self.reading_services):
            service.finalize_iteration()

    def checkpoint(self) -> bytes:
        """The states of those services that have one."""
        import pickle

        return pickle.dumps(
            [
                service.checkpoint() if isinstance(service, CheckpointableReadingServiceInterface) else None
                for service in self.reading_services
            ]
        )

    def restore(self, datapipe: Any, serialized_state: bytes) -> Any:
        """Restore those that have a state, initialize the others, in order."""
        import pickle

        for service, state in zip(self.reading_services, pickle.loads(serialized_state), strict=True):
            if isinstance(service, CheckpointableReadingServiceInterface) and state is not None:
                datapipe = service.restore(datapipe, state)
            else:
                datapipe = service.initialize(datapipe)
        return datapipe
