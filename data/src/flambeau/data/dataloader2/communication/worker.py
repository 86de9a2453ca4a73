"""The main function of a worker process."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau.data.dataloader2.communication.messages import (
    Begin,
    End,
    Failure,
    Fetch,
    More,
    ShardPlan,
    State,
    Stop,
    TellState,
)
from flambeau.data.dataloader2.communication.shard import Shard
from flambeau.data.dataloader2.graph import clone, deserialize_datapipe, serialize_datapipe, set_graph_random_seed
from flambeau.data.dataloader2.random import SeedGenerator
from flambeau.data.datapipes._graph import upstream
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.data.datapipes.iter.sharding import SHARDING_PRIORITIES, is_sharding

_FETCH = 8
_LOOK_S = 0.001


class WorkerInfo(NamedTuple):
    """Which worker a function runs in."""

    num_workers: int
    worker_id: int


class Pipeline:
    """A pipeline on its way to another process: handed over by fork, or pickled (with cloudpickle where needed)."""

    def __init__(self, pipe: Any, *functions: Callable[..., Any] | None) -> None:
        self.pipe = pipe
        self.functions = functions

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        return _unpacked, (serialize_datapipe((self.pipe, self.functions)),)


def _unpacked(data: bytes) -> Pipeline:
    pipe, functions = deserialize_datapipe(data)
    return Pipeline(pipe, *functions)


def end_with_parent(parent: int | None) -> None:
    """Let this process end when the main process is gone (Linux; elsewhere a closed connection tells).

    Args:
        parent: number of the main process; None where the main process is not this one's parent, as with forkserver.
    """
    if sys.platform != "linux":
        return
    if parent is None:
        threading.Thread(target=_end_with_main_process, daemon=True, name="flambeau-end").start()
        return
    import ctypes

    def check(*_: object) -> None:
        # The signal also comes when only the thread ends that made this process.
        if os.getppid() != parent:
            os._exit(1)

    signal.signal(signal.SIGHUP, check)
    set_death_signal = 1
    ctypes.CDLL(None, use_errno=True).prctl(set_death_signal, signal.SIGHUP)
    check()


def _end_with_main_process() -> None:
    main = multiprocessing.parent_process()
    if main is not None:
        main.join()
        os._exit(1)


def seed_libraries(seeds: SeedGenerator, shared: bool = False) -> None:
    """Seed Python's, torch's and, where it is loaded, numpy's generator."""
    import torch

    draw = seeds.generate_shared_seed if shared else seeds.generate_seed
    random.seed(draw())
    torch.manual_seed(draw())
    number = draw()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number >> 32)


class FromDispatcherIterDataPipe(IterDataPipe[Any]):
    """In a worker: the samples that the dispatching process has for a shard.

    Args:
        length: what `len()` says; None where it is not known.
    """

    state_fields = ("count",)
    transient = ("connection", "shard", "epoch")
    connection: Any
    shard: int
    epoch: int

    def __init__(self, length: int | None = None) -> None:
        self.length = length
        self.count = 0

    def reset(self) -> None:
        """Go back to the beginning."""
        self.count = 0

    def __iter__(self) -> Any:
        while True:
            self.connection.send(Fetch(self.epoch, self.shard, _FETCH))
            answer = self.connection.recv()
            if isinstance(answer, Failure):
                answer.raise_()
            for sample in answer.samples:
                self.count += 1
                yield sample
            if answer.ended:
                return

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError("the length of the dispatched part is not known.")
        return self.length


class _Worker:
    def __init__(self, connection: Any, dispatcher: Any, pipeline: Pipeline, info: WorkerInfo) -> None:
        self.connection = connection
        self.dispatcher = dispatcher
        self.info = info
        init_fn, self.reset_fn = pipeline.functions
        self.pipe = pipeline.pipe if init_fn is None else init_fn(pipeline.pipe, info)
        self.shards: dict[int, Shard] = {}
        self.epoch = 0
        self.turn = 0
        self.looked = 0.0

    def run(self) -> None:
        while True:
            shard = self._next_shard()
            if shard is None or self._has_message():
                message = self.connection.recv()
                if isinstance(message, Stop):
                    return
                self._answer(message)
            else:
                self._produce(shard)

    def _has_message(self) -> bool:
        """Whether the main process has sent something; asked the system at most every millisecond."""
        now = time.monotonic()
        if now - self.looked < _LOOK_S:
            return False
        self.looked = now
        return bool(self.connection.poll())

    def _next_shard(self) -> Shard | None:
        shards = list(self.shards.values())
        for offset in range(len(shards)):
            shard = shards[(self.turn + offset) % len(shards)]
            if shard.ready:
                self.turn = (self.turn + offset + 1) % len(shards)
                return shard
        return None

    def _produce(self, shard: Shard) -> None:
        try:
            sample = shard.produce()
        except StopIteration:
            shard.ended = True
            self.connection.send(End(self.epoch, shard.number))
            return
        except Exception as error:  # every exception is raised again in the main process
            shard.ended = True
            self.connection.send(Failure.of(self.epoch, shard.number, error, self._name()))
            return
        self.connection.send((self.epoch, shard.number, sample))

    def _name(self) -> str:
        return f"worker {self.info.worker_id} of {self.info.num_workers} (process {os.getpid()})"

    def _answer(self, message: Any) -> None:
        if isinstance(message, Begin):
            self._begin(message)
        elif isinstance(message, More):
            shard = self.shards[message.shard]
            shard.credit += message.count
            shard.taken(message.taken)
        elif isinstance(message, TellState):
            try:
                state, skip = self.shards[message.shard].state(message.taken)
                answer: Any = State(self.epoch, message.shard, state, skip)
            except Exception as error:  # raised again in the main process
                answer = Failure.of(self.epoch, message.shard, error, self._name())
            self.connection.send(answer)

    def _begin(self, message: Begin) -> None:
        self.shards.clear()
        self.epoch = message.epoch
        for plan in message.shards:
            try:
                pipe = self._prepared(plan, message)
                self.shards[plan.number] = Shard(plan.number, pipe, plan.skip, message.credit)
            except Exception as error:  # raised again in the main process
                self.connection.send(Failure.of(self.epoch, plan.number, error, self._name()))

    def _prepared(self, plan: ShardPlan, message: Begin) -> Any:
        pipe = clone(self.pipe)
        for one in upstream(pipe):
            if is_sharding(one):
                for group, count, index in _own_groups(one, plan):
                    one.apply_sharding(count, index, sharding_group=SHARDING_PRIORITIES(group))
            if isinstance(one, FromDispatcherIterDataPipe):
                one.connection, one.shard, one.epoch = self.dispatcher, plan.number, message.epoch
        if plan.seeds is not None:
            seeds = SeedGenerator(0)
            seeds.load_state_dict(plan.seeds)
            seed_libraries(seeds)
            set_graph_random_seed(pipe, seeds)
            info = WorkerInfo(message.shard_count, plan.number)
            if self.reset_fn is not None:
                pipe = self.reset_fn(pipe, info, seeds)
            if message.reset_fn is not None:
                pipe = message.reset_fn(pipe)
        if plan.state is not None:
            pipe.load_state_dict(plan.state)
        return pipe


def _own_groups(pipe: Any, plan: ShardPlan) -> list[tuple[int, int, int]]:
    """The shardings that a pipe applies: what comes from the dispatcher has been divided among the workers already."""
    if not any(isinstance(one, FromDispatcherIterDataPipe) for one in upstream(pipe)):
        return plan.groups
    return [group for group in plan.groups if group[0] != SHARDING_PRIORITIES.MULTIPROCESSING]


def work(
    connection: Any, dispatcher: Any, others: list[Any], pipeline: Pipeline, info: WorkerInfo, parent: int | None
) -> None:
    """Read shards as the main process says, until it says stop or is gone.

    Args:
        connection: to the main process.
        dispatcher: to the dispatching process, or None.
        others: connections of other processes that a fork has left open here.
        pipeline: the last pipe, the function that is called once, and the one that is called for each pass.
        info: which worker this is.
        parent: as for `end_with_parent`.
    """
    import torch

    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process tells when to end
    for other in others:
        other.close()
    torch.set_num_threads(1)
    try:
        _Worker(connection, dispatcher, pipeline, info).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the main process is gone
    except Exception as error:  # of the function that is called once: raised again in the main process
        connection.send(
            Failure.of(-1, -1, error, f"worker {info.worker_id} of {info.num_workers} (process {os.getpid()})")
        )
