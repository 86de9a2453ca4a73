"""The main function of the process that reads the part of a pipeline that must exist once."""

from __future__ import annotations

import os
import signal
from collections import defaultdict, deque
from collections.abc import Iterator
from multiprocessing.connection import wait
from typing import Any

from flambeau.data.dataloader2.communication.messages import Batch, Dispatch, Failure, Fetch, Stop
from flambeau.data.dataloader2.communication.worker import Pipeline, end_with_parent, seed_libraries
from flambeau.data.dataloader2.graph import clone, list_dps, set_datapipes_seed, traverse_dps
from flambeau.data.dataloader2.random import SeedGenerator


class _Dispatcher:
    def __init__(self, main: Any, workers: list[Any], pipeline: Pipeline) -> None:
        self.main = main
        self.workers = workers
        self.original = pipeline.pipe
        self.epoch = 0
        self.count = 1
        self.number = 0
        self.start: dict[int, int] = {}
        self.waiting: defaultdict[int, deque[Any]] = defaultdict(deque)
        self.samples: Iterator[Any] = iter(())
        self.ended = False
        self.failed: Failure | None = None
        self.asked: list[tuple[Any, Fetch]] = []

    def run(self) -> None:
        while True:
            ready: list[Any] = wait([self.main, *self.workers])
            for connection in ready:
                try:
                    message = connection.recv()
                except (EOFError, ConnectionResetError):
                    if connection is self.main:
                        return
                    self.workers.remove(connection)
                    continue
                if isinstance(message, Stop):
                    return
                if isinstance(message, Dispatch):
                    self._begin(message)
                else:
                    self.asked.append((connection, message))
            self._serve()

    def _begin(self, message: Dispatch) -> None:
        self.epoch, self.count, self.start = message.epoch, message.shard_count, message.start
        self.number, self.ended, self.failed = 0, False, None
        self.waiting.clear()
        try:
            pipe = clone(self.original)
            if message.seeds is not None:
                seeds = SeedGenerator(0)
                seeds.load_state_dict(message.seeds)
                seed_libraries(seeds, shared=True)
                set_datapipes_seed(list_dps(traverse_dps(pipe)), seeds, distributed_shared=True)
                if message.reset_fn is not None:
                    pipe = message.reset_fn(pipe)
            if message.origin is not None:
                pipe.load_state_dict(message.origin)
            origin = pipe.state_dict()
            self.samples = iter(pipe)
            # With the seeds that the pass begins with, drawn or given.
            self.main.send(origin)
        except Exception as error:  # raised again in the main process
            self.main.send(Failure.of(self.epoch, -1, error, self._name()))

    def _serve(self) -> None:
        later = []
        for connection, message in self.asked:
            if message.epoch > self.epoch:
                later.append((connection, message))  # this process has not been told of that pass yet
            else:
                connection.send(self._answer(message))
        self.asked = later

    def _answer(self, message: Fetch) -> Any:
        queue = self.waiting[message.shard]
        while len(queue) < message.most and not self.ended and self.failed is None:
            try:
                sample = next(self.samples)
            except StopIteration:
                self.ended = True
                break
            except Exception as error:  # raised again in the worker, and from there in the main process
                self.failed = Failure.of(self.epoch, message.shard, error, self._name())
                break
            shard, turn = self.number % self.count, self.number // self.count
            self.number += 1
            if turn >= self.start.get(shard, 0):
                self.waiting[shard].append(sample)
        if self.failed is not None and not queue:
            return self.failed
        samples = [queue.popleft() for _ in range(min(message.most, len(queue)))]
        return Batch(samples, ended=self.ended and not queue)

    def _name(self) -> str:
        return f"the dispatching process ({os.getpid()})"


def dispatch(main: Any, workers: list[Any], others: list[Any], pipeline: Pipeline, parent: int | None) -> None:
    """Read the part and give its samples to the shards in turn, as workers ask, until the main process says stop.

    Args:
        main: connection to the main process.
        workers: connections to the workers.
        others: connections of other processes that a fork has left open here.
        pipeline: the last pipe of the part.
        parent: as for `end_with_parent`.
    """
    import torch

    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in others:
        other.close()
    torch.set_num_threads(1)
    try:
        _Dispatcher(main, list(workers), pipeline).run()
    except BrokenPipeError:
        return  # the main process is gone
