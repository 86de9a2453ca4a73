"""The loader itself: adapters, a reading service, seeds, and a state at any sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Self, TypeVar

from flambeau.data.dataloader2.error import PauseIteration
from flambeau.data.dataloader2.graph import clone, deserialize_datapipe, serialize_datapipe, set_graph_random_seed
from flambeau.data.dataloader2.random import SeedGenerator
from flambeau.data.dataloader2.reading_service import CheckpointableReadingServiceInterface, ReadingServiceInterface
from flambeau.data.datapipes.datapipe import IterDataPipe, MapDataPipe

T_co = TypeVar("T_co", covariant=True)
SCHEMA = 1
_LIMIT = 1 << 64


class DataLoader2Iterator(Iterator[T_co], Generic[T_co]):
    """One pass over a loader; a new one makes it invalid.

    Attributes and methods of the pipe that is read are reachable.

    Args:
        dataloader: the loader.
        iterator_id: number of the pass.
    """

    def __init__(self, dataloader: DataLoader2[T_co], iterator_id: int) -> None:
        self.dataloader = dataloader
        self.iterator_id = iterator_id
        self.limit_counter: int | None = None
        self.limit_threshold: int | None = None

    def __next__(self) -> T_co:
        loader = self.dataloader
        if self.iterator_id != loader.valid_iterator_id:
            loader._finish_pass()
            raise RuntimeError(
                "this iterator of the DataLoader2 is invalid: another one was made since, and a loader "
                "has one at a time."
            )
        if self.limit_threshold is not None:
            if self.limit_counter is not None and self.limit_counter >= self.limit_threshold:
                raise PauseIteration(f"limit({self.limit_threshold}) was reached; resume() goes on.")
            self.limit_counter = (self.limit_counter or 0) + 1
        try:
            sample = next(loader._samples)
        except StopIteration:
            loader._finish_pass()
            raise
        loader._yielded += 1
        return sample  # type: ignore[no-any-return]

    def limit(self, num_batches: int | None) -> None:
        """Stop after so many samples from now on, until `resume()`; None for no limit."""
        self.limit_counter = 0
        self.limit_threshold = num_batches

    def resume(self) -> None:
        """Go on after a limit was reached, to the same number of samples again."""
        self.limit_counter = 0

    def __getattr__(self, name: str) -> Any:
        if name == "dataloader":  # not set yet
            raise AttributeError(name)
        return getattr(self.dataloader.datapipe, name)


class DataLoader2(Generic[T_co]):
    """Reads a pipeline.

    Args:
        datapipe: the last pipe. It is copied, so that the original stays as it is; a map pipe is read in the order of
            its indices.
        datapipe_adapter_fn: adapters, called one after the other with the pipeline.
        reading_service: where the pipeline runs; in this process when None.

    Example:
        >>> from flambeau.data.datapipes.iter import IterableWrapper
        >>> loader = DataLoader2(IterableWrapper(range(6)).shuffle().sharding_filter().batch(2))
        >>> loader.seed(0)
        >>> samples = iter(loader)
        >>> first = next(samples)
        >>> state = loader.state_dict()
        >>> rest = list(samples)
        >>> again = DataLoader2.from_state(state, None)
        >>> list(again) == rest
        True
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any] | MapDataPipe[Any] | None,
        datapipe_adapter_fn: Iterable[Callable[[Any], Any]] | Callable[[Any], Any] | None = None,
        reading_service: ReadingServiceInterface | None = None,
    ) -> None:
        self.training = True
        self.datapipe: Any = None if datapipe is None else _iterable(clone(datapipe))
        if datapipe_adapter_fn is not None and self.datapipe is not None:
            adapters = datapipe_adapter_fn if isinstance(datapipe_adapter_fn, Iterable) else [datapipe_adapter_fn]
            for adapter in adapters:
                self.datapipe = adapter(self.datapipe)
        self._datapipe_before_reading_service_adapt = self.datapipe
        self.reading_service = reading_service
        self.valid_iterator_id: int | None = None
        self._adapted = False
        self._terminated = False
        self._in_pass = False
        self._seed_generator = SeedGenerator()
        self._seed: int | None = None
        self._reset_seed = True
        self._samples: Iterator[Any] = iter(())
        self._yielded = 0
        self._loaded: dict[str, Any] | None = None
        self._service_state: bytes | None = None

    def seed(self, seed: int) -> None:
        """Let the next passes follow from a seed: each has another order, the same in every run.

        Args:
            seed: from 0 to 2**64 - 1.

        Raises:
            ValueError: it is not.
        """
        if not 0 <= seed < _LIMIT:
            raise ValueError(f"a seed is from 0 to 2**64 - 1, got {seed}.")
        self._seed = seed
        self._reset_seed = True

    def __iter__(self) -> DataLoader2Iterator[T_co]:
        if self._terminated:
            raise RuntimeError("this DataLoader2 was shut down; make another one.")
        if self.datapipe is None:
            raise RuntimeError("this DataLoader2 has no pipeline: give it one, or a state by load_state_dict.")
        self._adapt()
        if self._in_pass:
            self._finish_pass()
        if self._loaded is None:
            self._begin_pass()
        else:
            self._resume_pass(self._loaded)
        self._in_pass = True
        self.valid_iterator_id = (self.valid_iterator_id or 0) + 1
        return DataLoader2Iterator(self, self.valid_iterator_id)

    def _adapt(self) -> None:
        if self._adapted or self.datapipe is None:
            return
        # Reading services change pipes; the copy is what states are made of.
        self._datapipe_before_reading_service_adapt = clone(self.datapipe)
        service = self.reading_service
        if self._service_state is not None and isinstance(service, CheckpointableReadingServiceInterface):
            self.datapipe = service.restore(self.datapipe, self._service_state)
        elif service is not None:
            self.datapipe = service.initialize(self.datapipe)
        self._adapted = True

    def _begin_pass(self) -> None:
        if self._reset_seed and self._seed is not None:
            self._seed_generator.seed(self._seed)
            self._reset_seed = False
        elif self._seed is None:
            self._seed_generator.seed()
        self._prepare(self._seed_generator)
        self._samples = iter(self.datapipe)
        self._yielded = 0

    def _prepare(self, seed_generator: SeedGenerator) -> None:
        if self.reading_service is None:
            # Upstream: without a service and a seed, pipes draw theirs from torch's generator themselves.
            if self._seed is not None:
                set_graph_random_seed(self.datapipe, seed_generator)
            return
        reset_fn = self.reading_service.initialize_iteration(seed_generator)
        if reset_fn is not None:
            self.datapipe = reset_fn(self.datapipe)

    def _resume_pass(self, state: dict[str, Any]) -> None:
        self._loaded = None
        # The pass has its seeds already; the loader's own generator stands behind them.
        self._prepare(self._seed_generator.clone())
        self.datapipe.load_state_dict(state["pipeline"])
        self._samples = iter(self.datapipe)
        self._yielded = state["num_yielded"]

    def _finish_pass(self) -> None:
        self._in_pass = False
        if self.reading_service is not None:
            self.reading_service.finalize_iteration()

    def shutdown(self) -> None:
        """End the pass and the reading service's processes and threads; the loader cannot be used again."""
        if self.__dict__.get("_terminated", True):
            return
        self._terminated = True
        if self._in_pass:
            self._finish_pass()
        close = getattr(self._samples, "close", None)
        if close is not None:
            close()
        if self.reading_service is not None:
            self.reading_service.finalize()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()

    def __del__(self) -> None:
        self.shutdown()

    def __len__(self) -> int:
        return len(self.datapipe)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, exactly: also in the middle of a pass, with processes and samples read ahead.

        Returns:
            `serialized_datapipe`: the pipeline as bytes (as a pickle: load states only from sources that you trust),
                None
            where it cannot be pickled; `reading_service_state`; `randomness_state`; `pipeline`: the state of the pass,
            None between passes; `num_yielded`: samples of the pass so far; `schema`: version of this form.
        """
        if self._loaded is not None:
            return self._loaded
        service = self.reading_service
        checkpointed = self._adapted and isinstance(service, CheckpointableReadingServiceInterface)
        return {
            "schema": SCHEMA,
            "serialized_datapipe": self._serialized(),
            "reading_service_state": service.checkpoint() if checkpointed else None,  # type: ignore[union-attr]
            "randomness_state": {
                "seed": self._seed,
                "reset_seed": self._reset_seed,
                "generator": self._seed_generator.state_dict(),
            },
            "pipeline": self.datapipe.state_dict() if self._in_pass else None,
            "num_yielded": self._yielded if self._in_pass else 0,
        }

    def _serialized(self) -> bytes | None:
        try:
            return serialize_datapipe(self._datapipe_before_reading_service_adapt)
        except RuntimeError:
            return None  # load_state_dict of a loader with the same pipeline does not need it

    @classmethod
    def from_state(
        cls, state: dict[str, Any], reading_service: ReadingServiceInterface | None = None
    ) -> DataLoader2[T_co]:
        """A loader that goes on where another one was when `state_dict()` was called.

        Args:
            state: from `state_dict()`; its pickled pipeline is loaded, which runs code.
            reading_service: of the new loader; may have another number of workers.

        Raises:
            ValueError: the state has no pipeline, because it could not be pickled; build it and use `load_state_dict`.
        """
        if state.get("serialized_datapipe") is None:
            raise ValueError(
                "the state has no pipeline in it; build the pipeline, and use load_state_dict of its loader."
            )
        loader = cls(deserialize_datapipe(state["serialized_datapipe"]), reading_service=reading_service)
        loader.load_state_dict(state)
        return loader

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another loader was when `state_dict()` was called; before the first iteration.

        Args:
            state_dict: from `state_dict()` of a loader of the same pipeline; with a `MultiProcessingReadingService`
                the number of workers may differ.

        Raises:
            RuntimeError: an iterator was made already.
            ValueError: the state is of another version.
        """
        if self._adapted or self.valid_iterator_id is not None:
            raise RuntimeError("load_state_dict comes before the first iterator; make a new loader for the state.")
        if state_dict.get("schema") != SCHEMA:
            raise ValueError(f"the state has schema {state_dict.get('schema')!r}, this release reads {SCHEMA}.")
        if self.datapipe is None:
            self.datapipe = deserialize_datapipe(state_dict["serialized_datapipe"])
        randomness = state_dict["randomness_state"]
        self._seed, self._reset_seed = randomness["seed"], randomness["reset_seed"]
        self._seed_generator.load_state_dict(randomness["generator"])
        self._service_state = state_dict["reading_service_state"]
        self._loaded = dict(state_dict) if state_dict["pipeline"] is not None else None

    def restore(self, state: dict[str, Any]) -> None:
        """Upstream's earlier name of `load_state_dict`."""
        self.load_state_dict(state)


def _iterable(datapipe: Any) -> Any:
    return datapipe.to_iter_datapipe() if isinstance(datapipe, MapDataPipe) else datapipe
