"""The buffer of any items."""

from __future__ import annotations

import json
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from flambeau.core.folders import recover_folder, replaced_folder
from flambeau.data.tensordict import is_tensor_collection, lazy_stack
from flambeau.rl.data.replay_buffers._transforms import BufferTransforms
from flambeau.rl.data.replay_buffers.query import filter_trajectories
from flambeau.rl.data.replay_buffers.replay_buffers._placing import Placed
from flambeau.rl.data.replay_buffers.replay_buffers._updates import InPlaceUpdates
from flambeau.rl.data.replay_buffers.sample_units import SampleUnit
from flambeau.rl.data.replay_buffers.samplers.base import Sampler
from flambeau.rl.data.replay_buffers.samplers.consuming import ConsumingSampler
from flambeau.rl.data.replay_buffers.samplers.random import RandomSampler
from flambeau.rl.data.replay_buffers.storages import _rows
from flambeau.rl.data.replay_buffers.storages.base import Storage
from flambeau.rl.data.replay_buffers.storages.compressed import CompressedListStorage
from flambeau.rl.data.replay_buffers.storages.list import LazyStackStorage, ListStorage
from flambeau.rl.data.replay_buffers.writers.base import Writer
from flambeau.rl.data.replay_buffers.writers.round_robin import RoundRobinWriter

__all__ = ["ReplayBuffer"]

_MOST_DRAWS = 100


class ReplayBuffer(InPlaceUpdates, metaclass=Placed):
    """Items that a writer puts into a storage, and a sampler draws batches from. Threads may use it at the same time.

    Args:
        storage: where items are kept, or a function that makes it; by default a `ListStorage` of 1000.
        sampler: what is drawn, or a function that makes it; by default a `RandomSampler`.
        sample_unit: what a drawn item stands for in a batch: by default itself; see `Sequence`.
        writer: where items go, or a function that makes it; by default a `RoundRobinWriter`.
        collate_fn: makes a batch of what the storage gives; by default a stack of a list's items.
        pin_memory: whether batches are copied to pinned memory.
        prefetch: how many batches a thread draws ahead; they do not know of later items and priorities.
        transform: changes batches, and where it has a method `inv`, what is added.
        transform_factory: makes the transform; instead of `transform`.
        batch_size: how many items a batch has; else `sample` must be told.
        dim_extend: the dimension of data in `extend` that counts items: the last of the storage's by default.
        checkpointer: how the storage is written to disk, or a function that makes it; by default as the storage says.
        generator: of random draws; torch's own by default.
        consume_after_n_samples: how many times an item is drawn before it is used up; see `ConsumingSampler`.
        shared: whether processes share the buffer.
        compilable: kept for upstream's signature.
        delayed_init: kept for upstream's signature: parts are made at once.
        service_backend: where the buffer is: "direct", in this process, or "ray", in an actor, see `RayReplayBuffer`.
            By default as `service_backend(...)` around says, else "direct".
        service_backend_options: of an actor: `ray_init_config` and `remote_config`.
        transport: what carries data to it: "auto", "direct", "ray" or "distributed".
        transport_options: of the transport.

    Raises:
        TypeError: both `transform` and `transform_factory`, both `sampler` and `consume_after_n_samples`, or parts of
            other kinds.
        ValueError: a sampler that drops the last batch, or `prefetch`, and no batch size.
    """

    _default_writer: ClassVar[type[Writer]] = RoundRobinWriter

    def __init__(
        self,
        *,
        storage: Storage | Callable[[], Storage] | None = None,
        sampler: Sampler | Callable[[], Sampler] | None = None,
        sample_unit: SampleUnit | None = None,
        writer: Writer | Callable[[], Writer] | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        prefetch: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_factory: Callable[[], Callable[[Any], Any]] | None = None,
        batch_size: int | None = None,
        dim_extend: int | None = None,
        checkpointer: Any = None,
        generator: torch.Generator | None = None,
        consume_after_n_samples: int | None = None,
        shared: bool = False,
        compilable: bool | None = None,
        delayed_init: bool | None = None,
        service_backend: Literal["direct", "ray"] | None = None,
        service_backend_options: dict[str, Any] | None = None,
        transport: Literal["auto", "direct", "ray", "distributed"] = "auto",
        transport_options: dict[str, Any] | None = None,
    ) -> None:
        if consume_after_n_samples is not None:
            if sampler is not None:
                raise TypeError(
                    "consume_after_n_samples makes a ConsumingSampler; leave `sampler` out, or give the number to it."
                )
            sampler = ConsumingSampler(consume_after_n_samples)
        self._consume_after_n_samples = consume_after_n_samples
        if transform is not None and transform_factory is not None:
            raise TypeError("transform and transform_factory are mutually exclusive; give one of them.")
        self._lock = threading.RLock()
        self._storage: Any = _made(storage, Storage, "storage", lambda: ListStorage(1000))
        self._sampler: Any = _made(sampler, Sampler, "sampler", RandomSampler)
        self._writer: Any = _made(writer, Writer, "writer", self._default_writer)
        if sample_unit is not None and not isinstance(sample_unit, SampleUnit):
            raise TypeError(f"sample_unit must be a SampleUnit, got {type(sample_unit).__name__}.")
        self._sample_unit = sample_unit
        if checkpointer is not None:
            self._storage.checkpointer = checkpointer if hasattr(checkpointer, "dumps") else checkpointer()
        self._writer.register_storage(self._storage)
        self._storage.attach(self)
        if hasattr(self._sampler, "_storage"):
            self._sampler._storage = self._storage
        self._collate_fn = collate_fn or _collate_of(self._storage)
        self._pin_memory = pin_memory
        self._batch_size = batch_size
        if prefetch and batch_size is None:
            raise ValueError("Batches are prefetched of a size that is known; give batch_size to the buffer.")
        self._prefetch = prefetch or 0
        self._waiting: deque[Future[Any]] = deque()
        self._waiting_lock = threading.RLock()
        self._pool: ThreadPoolExecutor | None = None
        self._ran_out = False
        self._iterator: Iterator[Any] | None = None
        if getattr(self._sampler, "drop_last", False) and batch_size is None:
            raise ValueError(
                "Samplers with drop_last=True need a batch size that is known; give batch_size to the buffer."
            )
        if dim_extend is not None and dim_extend < 0:
            raise ValueError(f"dim_extend is {dim_extend}, expected at least 0.")
        self._dim_extend = self._storage.ndim - 1 if dim_extend is None else dim_extend
        self._transform = BufferTransforms()
        made = transform_factory() if transform_factory is not None else transform
        if made is not None:
            self.append_transform(made)
        self._rng: torch.Generator | None = None
        self.set_rng(generator)
        self.shared = False
        if shared:
            self.share()

    # Parts

    @property
    def storage(self) -> Storage:
        """Where items are kept."""
        found: Storage = self._storage
        return found

    @property
    def sampler(self) -> Sampler:
        """What is drawn."""
        found: Sampler = self._sampler
        return found

    @property
    def writer(self) -> Writer:
        """Where items go."""
        found: Writer = self._writer
        return found

    @property
    def transform(self) -> BufferTransforms:
        """What changes batches."""
        return self._transform

    @property
    def batch_size(self) -> int | None:
        """How many items a batch has, None where `sample` must be told."""
        return self._batch_size

    @property
    def dim_extend(self) -> int:
        """The dimension of data in `extend` that counts items."""
        return self._dim_extend

    @property
    def write_count(self) -> int:
        """How many items were written so far."""
        return int(getattr(self._writer, "_write_count", 0))

    def set_rng(self, generator: torch.Generator | None) -> None:
        """Draw with this generator from now on."""
        self._rng = generator
        self._storage._rng = self._sampler._rng = self._writer._rng = generator

    def append_transform(self, transform: Callable[[Any], Any], *, invert: bool = False) -> ReplayBuffer:
        """Change batches by one more transform, after the others.

        Args:
            transform: a module or function; its method `inv`, where it has one, changes what is added.
            invert: whether its two directions change places.
        """
        self._transform.append(transform, invert=invert)
        return self

    def insert_transform(self, index: int, transform: Callable[[Any], Any], *, invert: bool = False) -> ReplayBuffer:
        """The same at a position among the others."""
        self._transform.insert(index, transform, invert=invert)
        return self

    # Writing

    def add(self, data: Any) -> Any:
        """Add one item; its place."""
        if len(self._transform):
            data = self._transform.inv(data)
            if data is None:
                return None
        with self._lock:
            freed = self._sampler._freed(1)
            index = self._write_at(freed, data, single=True) if freed else self._writer.add(data)
            if index is not None:
                with self._weighing():
                    self._sampler.add(index)
        return index

    def extend(self, data: Any, *, update_priority: bool | None = None) -> Tensor:
        """Add the rows of data, or a list's items; their places.

        Args:
            data: a tensordict, tensor or pytree with rows in dimension `dim_extend`, or a list of items.
            update_priority: for prioritized buffers.

        Raises:
            RuntimeError: no rows, or rows that do not fit what is stored.
        """
        if self._dim_extend > 0 and not isinstance(data, list):
            data = _swapped(data, self._dim_extend)
        if len(self._transform):
            data = self._transform.inv(data)
            if data is None:
                return torch.zeros(0, dtype=torch.int64)
        with self._lock:
            freed = self._sampler._freed(_rows.row_count(data))
            index: Tensor = self._write_at(freed, data) if freed else self._writer.extend(data)
            with self._weighing():
                self._sampler.extend(index)
        return index

    def _write_at(self, freed: list[int], data: Any, *, single: bool = False) -> Tensor:
        """Write to places whose items were used up, then to those that come next in the ring; the places."""
        writer, size = self._writer, self._storage._max_size_along_dim0
        places, used, next_ = list(freed), set(freed), writer._cursor
        count = 1 if single else _rows.row_count(data)
        if count > size:
            raise RuntimeError(f"{count} items do not fit into {size} places at once; extend the buffer with fewer.")
        while len(places) < count:
            if next_ not in used:
                places.append(next_)
            next_ = (next_ + 1) % size
        index = torch.tensor(places)
        writer.write_at(places[0] if single else index, data)
        writer._cursor = next_
        writer._write_count += count
        return index[0] if single else index

    def update_priority(self, index: Any, priority: Any) -> None:
        """Weigh items anew; nothing with samplers that do not weigh. See `PrioritizedSampler.update_priority`."""
        with self._lock, self._weighing():
            self._sampler.update_priority(index, priority, storage=self._storage)

    def mark_update(self, index: Any) -> None:
        """Tell the sampler that items were changed."""
        with self._lock, self._weighing():
            self._sampler.mark_update(index, storage=self._storage)

    def _weighing(self) -> AbstractContextManager[None]:
        """Let no other process change what the samplers of all processes know of the items."""
        publication = self._storage.publication
        if publication is None or not self._sampler._weighs:
            return nullcontext()
        guard: AbstractContextManager[None] = publication.weighing(self._sampler._mend)
        return guard

    def empty(self, empty_write_count: bool = True) -> None:
        """Forget all items; the storage keeps its memory."""
        with self._waiting_lock:
            self._waiting.clear()
        with self._lock:
            self._writer._empty(empty_write_count)
            self._sampler._empty()
            self._storage._empty()

    # Reading

    def __len__(self) -> int:
        """How many items can be drawn."""
        left = self._sampler._left(len(self._storage))
        return len(self._storage) if left is None else left

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """A batch.

        Args:
            batch_size: how many items; by default as the buffer was told.
            return_info: whether what the sampler knows of them comes with it: a dictionary with "index".

        Raises:
            RuntimeError: no batch size, or nothing to draw from.
        """
        size = self._batch_size if batch_size is None else batch_size
        if size is None:
            raise RuntimeError("batch_size not specified. Give it to the buffer, or to sample.")
        if self._is_shut_down:
            raise RuntimeError("the replay buffer was shut down, and gives no more batches.")
        if self._prefetch and size == self._batch_size:
            data, info, self._ran_out = self._next_prefetched(size)
        else:
            data, info, self._ran_out = self._batch(size)
        return (data, info) if return_info else data

    def _next_prefetched(self, size: int) -> tuple[Any, dict[Any, Any], bool]:
        """The batch that was asked for first; another is asked for in its place."""
        with self._waiting_lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="replay-prefetch")
            while len(self._waiting) <= self._prefetch:
                self._waiting.append(self._pool.submit(self._batch, size))
            first = self._waiting.popleft()
        batch: tuple[Any, dict[Any, Any], bool] = first.result()
        return batch

    def _batch(self, size: int) -> tuple[Any, dict[Any, Any], bool]:
        """A batch, what is known of it, and whether it ended a pass over the items."""
        with self._lock:
            index, info = self._draw(size)
            data = info.pop("_data")
            if self._writer.tracks_generations and isinstance(index, Tensor):
                info["index_generation"] = self._writer.generations_of(index)
            ran_out = bool(self._sampler.ran_out)
        info["index"] = index
        if isinstance(data, list) or self._collate_fn is not _same:
            data = self._collate_fn(data)
        if len(self._transform):
            data = self._transformed(data)
        if self._pin_memory:
            data = data.pin_memory() if hasattr(data, "pin_memory") else tree_map(lambda leaf: leaf.pin_memory(), data)
        return data, info, ran_out

    def _draw(self, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Places, and what is known of them, with the items under "_data"."""
        publication = self._storage.publication
        if publication is None:
            index, info = self._places(batch_size)
            info["_data"] = self._storage.take(index)
            return index, info
        counters = self._writer._counters
        for _ in range(_MOST_DRAWS):
            written, cursor = int(counters[1]), int(counters[0])
            with self._weighing():
                index, info = self._places(batch_size)
            rows = (index[0] if isinstance(index, tuple) else index).cpu().numpy()
            versions, whole = publication.settled(rows)
            if not whole.all():
                index = self._without(index, whole, info)
                if index is None:
                    continue
                rows = (index[0] if isinstance(index, tuple) else index).cpu().numpy()
                versions = versions[whole]
                if len(versions) != len(rows):
                    versions, _ = publication.settled(rows)
            data = self._storage.take(index)
            if not publication.unchanged(rows, versions):
                continue
            if self._sampler._draws_sequences or self._sample_unit is not None:
                size = self._storage._max_size_along_dim0
                if (((rows - cursor) % size) < int(counters[1]) - written).any():
                    continue
            info["_data"] = data
            return index, info
        raise RuntimeError(
            f"No batch of whole rows in {_MOST_DRAWS} draws: others write over them faster than they are read. "
            "Make the storage larger, or the batch smaller."
        )

    def _places(self, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Places that are read, and what is known of them."""
        index, info = self._sampler.sample(self._storage, batch_size)
        return (index, info) if self._sample_unit is None else self._sample_unit.expand(index, info, self._storage)

    def _without(self, index: Any, whole: Any, info: dict[Any, Any]) -> Any:
        """Places with those that were left half written replaced by others of the batch; None to draw again."""
        if isinstance(index, tuple) or info or not whole.any():
            return None
        good = index[torch.from_numpy(whole)]
        filled = index.clone()
        broken = ~torch.from_numpy(whole)
        filled[broken] = good[torch.randint(len(good), (int(broken.sum()),), generator=self._rng)]
        return filled

    def _transformed(self, data: Any) -> Any:
        if is_tensor_collection(data) and data.is_locked:
            data = data.copy()  # of the storage's tensors; transforms add entries
        return self._transform(data)

    def can_sample(self, batch_size: int | None = None) -> bool:
        """Whether there is something to draw from."""
        return bool(self._sampler.can_sample(self._storage, batch_size or self._batch_size))

    def __getitem__(self, index: Any) -> Any:
        """Items at places, transformed as batches are."""
        with self._lock:
            if self._dim_extend > 0:
                data = _swapped(self._storage[:], self._dim_extend)[index]
            else:
                data = self._storage[index]
        if isinstance(data, list):
            data = self._collate_fn(data)
        if len(self._transform):
            data = self._transformed(data)
        return data

    def __setitem__(self, index: Any, value: Any) -> None:
        if len(self._transform):
            value = self._transform.inv(value)
        with self._lock:
            if self._dim_extend > 0:
                view = _swapped(self._storage[:], self._dim_extend)
                view[index] = value
                self._storage._note_any()
                self._sampler.mark_update(index, storage=self._storage)
            else:
                self._storage[index] = value

    def __iter__(self) -> Iterator[Any]:
        """Batches, until the sampler ran out; without end for samplers that draw with replacement.

        Raises:
            RuntimeError: no batch size.
        """
        if self._batch_size is None:
            raise RuntimeError(
                "Cannot iterate over the replay buffer. Batch_size was not specified during construction of the buffer."
            )
        self._ran_out = False
        while True:
            yield self.sample()
            if self._ran_out:
                return

    def query(self, predicate: Callable[[Any], bool] | None = None, *, trajectory_key: Any = None) -> list[Any]:
        """The stored trajectories for which a condition holds, the oldest first, transformed as batches are.

        Args:
            predicate: made of `traj`, as `traj.reward.sum() > 100`, or a function of a `Trajectory`; all for None.
            trajectory_key: the entry that numbers trajectories; see `iter_trajectories`.

        Raises:
            ValueError: more than one dimension of places.
        """
        with self._lock:
            if not len(self._storage):
                return []
            steps = self._storage[:]
            if self._storage._is_full and isinstance(getattr(self._writer, "_cursor", None), int):
                steps = _from(steps, self._writer._cursor)
        if len(self._transform):
            steps = self._transformed(steps)
        return filter_trajectories(steps, predicate, trajectory_key=trajectory_key)

    def register_save_hook(self, hook: Callable[..., Any]) -> None:
        """Have a function change the data before the storage is written to disk."""
        self._storage.register_save_hook(hook)

    def register_load_hook(self, hook: Callable[..., Any]) -> None:
        """Have a function change the data after the storage was read from disk."""
        self._storage.register_load_hook(hook)

    def set_sampler(self, sampler: Sampler) -> Sampler:
        """Draw by another sampler from now on; the one before.

        Raises:
            ValueError: one that drops the last batch, and no batch size.
        """
        if getattr(sampler, "drop_last", False) and self._batch_size is None:
            raise ValueError("Samplers with drop_last=True need a batch size that is known; give it to the buffer.")
        with self._lock:
            former: Sampler = self._sampler
            self._sampler = sampler
            if hasattr(sampler, "_storage"):
                sampler._storage = self._storage
            sampler._rng = self._rng
        return former

    def set_storage(self, storage: Storage, collate_fn: Callable[[Any], Any] | None = None) -> Storage:
        """Keep items in another storage from now on; the one before.

        Args:
            storage: the other one.
            collate_fn: makes a batch of what it gives; by default a stack of a list's items.
        """
        with self._lock:
            former: Storage = self._storage
            self._storage = storage
            storage.attach(self)
            storage._rng = self._rng
            self._writer.register_storage(storage)
            if hasattr(self._sampler, "_storage"):
                self._sampler._storage = storage
            self._collate_fn = collate_fn or _collate_of(storage)
        return former

    def set_writer(self, writer: Writer) -> Writer:
        """Write by another writer from now on; the one before."""
        with self._lock:
            former: Writer = self._writer
            self._writer = writer
            writer.register_storage(self._storage)
            writer._rng = self._rng
        return former

    def next(self) -> Any:
        """The next batch of an iteration over the buffer; None when it ended, and the one after begins anew."""
        if self._iterator is None:
            self._iterator = iter(self)
        batch = next(self._iterator, None)
        if batch is None:
            self._iterator = None
        return batch

    # State

    def state_dict(self) -> dict[str, Any]:
        """Content and state of all parts, for `load_state_dict`."""
        return {
            "_storage": self._storage.state_dict(),
            "_sampler": self._sampler.state_dict(),
            "_writer": self._writer.state_dict(),
            "_transforms": self._transform.state_dict(),
            "_batch_size": self._batch_size,
            "_consume_after_n_samples": self._consume_after_n_samples,
            "_rng": None if self._rng is None else (self._rng.get_state().clone(), str(self._rng.device)),
            "_prefetch_state": {"version": 1, "capacity": 0, "queue": ()},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another buffer's `state_dict` was made."""
        with self._lock:
            self._storage.load_state_dict(state_dict["_storage"])
            self._sampler.load_state_dict(state_dict["_sampler"])
            self._writer.load_state_dict(state_dict["_writer"])
            self._transform.load_state_dict(state_dict["_transforms"])
            self._batch_size = state_dict["_batch_size"]
            if state_dict.get("_rng") is not None:
                state, device = state_dict["_rng"]
                generator = torch.Generator(device=device)
                generator.set_state(state)
                self.set_rng(generator)

    def dumps(self, path: Any) -> None:
        """Write content and state to a folder, which appears, or is replaced, when all of it has been written.

        Args:
            path: the folder; what it held before is removed.

        Raises:
            RuntimeError: a storage that cannot be written, or has no items yet.
        """
        with self._lock, replaced_folder(path) as folder:
            self._storage.dumps(folder / "storage")
            self._writer.dumps(folder / "writer")
            self._sampler.dumps(folder / "sampler")
            described = {"batch_size": self._batch_size, "consume_after_n_samples": self._consume_after_n_samples}
            (folder / "buffer_metadata.json").write_text(json.dumps(described), encoding="utf-8")
            # Upstream reads this file; nothing is ever waiting in it.
            waiting = {"version": 1, "capacity": 0, "queue": ()}
            (folder / "prefetch.pkl").write_bytes(pickle.dumps(waiting))
            if len(self._transform) and self._transform.state_dict():
                torch.save(self._transform.state_dict(), folder / "transform.t")

    def loads(self, path: Any) -> None:
        """Go on where `dumps` wrote another buffer.

        Raises:
            FileNotFoundError: no complete checkpoint there.
            RuntimeError: a damaged one, or one that does not fit.
        """
        folder = Path(path).absolute()
        recover_folder(folder)
        described = folder / "buffer_metadata.json"
        if not described.exists():
            raise FileNotFoundError(f"{folder} has no buffer_metadata.json: it is no whole checkpoint of a buffer.")
        with self._lock:
            self._storage.loads(folder / "storage")
            self._writer.loads(folder / "writer")
            self._sampler.loads(folder / "sampler")
            self._batch_size = json.loads(described.read_text(encoding="utf-8"))["batch_size"]
            state = folder / "transform.t"
            if state.exists():
                self._transform.load_state_dict(torch.load(state, weights_only=True))

    dump = save = dumps
    load = loads

    # Processes

    def share(self, shared: bool = True) -> ReplayBuffer:
        """Keep content and state where processes share them, so that the buffer can be sent to others.

        Raises:
            RuntimeError: a storage whose items cannot be shared.
        """
        if shared and not self.shared:
            if not hasattr(self._storage, "share_"):
                raise RuntimeError(
                    f"A {type(self._storage).__name__} cannot be shared by processes: each would have its own items. "
                    "Use a LazyMemmapStorage, or a LazyTensorStorage, whose memory they share."
                )
            self._storage.share_()
            self._writer.share_()
            self._storage.ring_counters = getattr(self._writer, "_counters", None)
            self._sampler.share_()
        self.shared = shared
        return self

    def __getstate__(self) -> dict[str, Any]:
        if get_spawning_popen() is not None:
            self.share()
        state = self.__dict__.copy()
        state["_lock"] = state["_rng"] = state["_waiting_lock"] = state["_pool"] = None
        state["_waiting"], state["_iterator"] = deque(), None
        state["_updates"] = state["_last_update"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._waiting_lock = threading.RLock(), threading.RLock()

    def __repr__(self) -> str:
        parts = ("storage", "sampler", "writer", "batch_size", "collate_fn")
        lines = [f"    {name}={getattr(self, f'_{name}')}".replace("\n", "\n    ") for name in parts]
        return f"{type(self).__name__}(\n" + ", \n".join(lines) + ")"


def _made(given: Any, kind: type, name: str, default: Callable[[], Any]) -> Any:
    if given is None:
        return default()
    if not isinstance(given, kind) and callable(given):
        given = given()
    if not isinstance(given, kind):
        raise TypeError(f"{name} must be a {kind.__name__} or a callable that makes one, got {type(given).__name__}.")
    return given


def _same(data: Any) -> Any:
    return data


def _stack(items: Sequence[Any]) -> Any:
    """A batch of a list's items: tensordicts and tensors are stacked, tuples and dictionaries leaf by leaf.

    Raises:
        TypeError: items that cannot be stacked.
    """
    first = items[0]
    if isinstance(first, Tensor) or is_tensor_collection(first):
        return torch.stack(list(items))
    if isinstance(first, (tuple, dict, list)):
        return tree_map(lambda *leaves: torch.stack(leaves), *items)
    raise TypeError(f"Items of type {type(first).__name__} cannot be stacked; give the buffer a collate_fn.")


def _stack_lazily(items: Sequence[Any]) -> Any:
    return lazy_stack(list(items)) if is_tensor_collection(items[0]) else _stack(items)


def _collate_of(storage: Storage) -> Callable[[Any], Any]:
    if isinstance(storage, CompressedListStorage):
        return _stack_lazily
    if isinstance(storage, ListStorage) and not isinstance(storage, LazyStackStorage):
        return _stack
    return _same


def _from(steps: Any, first: int) -> Any:
    """Rows of a ring in the order in which they were written."""
    return steps if not first else steps[torch.arange(first, first + len(steps)) % len(steps)]


def _swapped(data: Any, dim: int) -> Any:
    if isinstance(data, Tensor) or is_tensor_collection(data):
        return data.transpose(0, dim)
    return tree_map(lambda leaf: leaf.transpose(0, dim), data)
