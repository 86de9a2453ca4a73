"""Workers that methods are called of: objects in other processes, by RPC or as Ray's actors."""

from __future__ import annotations

import os
import pickle
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from multiprocessing.util import Finalize
from typing import Any

import torch

from flambeau.rl._comm.makers import dumps
from flambeau.rl.collectors._runner import Desk, Job, by_value
from flambeau.rl.collectors._worker import raised
from flambeau.rl.envs._batched.worker import timeout_s
from flambeau.rl.errors import CollectorWorkerError
from flambeau.rl.weight_update._inbox import Inbox


class Host:
    """A collector where it works, and what is called of it.

    Args:
        data: a pickled job and schemes that bring weights, by model.
    """

    def __init__(self, data: bytes) -> None:
        self.job, self._schemes = pickle.loads(data)
        self._inboxes = {model_id: Inbox() for model_id in self._schemes}
        # Commands are carried out one after the other; weights are delivered meanwhile.
        self._turn = threading.Lock()
        self._desk: Desk | None = None

    def begin(self) -> bytes:
        """Make the collector."""
        return self._told(self._begin)

    def _begin(self) -> None:
        torch.set_num_threads(self.job.threads)
        collector = self.job.made()
        self._desk = Desk(None, collector, self.job)
        for model_id, scheme in self._schemes.items():
            scheme.init_on_receiver(
                model_id=model_id, context=collector, worker_idx=self.job.number, inbox=self._inboxes[model_id]
            )
        collector.register_scheme_receiver(self._schemes, synchronize_weights=False)

    def do(self, command: str, value: tuple[Any, ...]) -> bytes:
        """Carry out a command of `Desk`; a pickle of what it gave, or of what went wrong."""
        return self._told(lambda: getattr(self._desk, f"_{command}")(*value))

    def deliver(self, model_id: str, weights: Any) -> None:
        """Leave new weights for the collector, which takes them between two steps."""
        self._inboxes[model_id].deliver(weights)

    def end(self) -> None:
        """Shut the collector down."""
        with self._turn:
            if self._desk is not None:
                self._desk.collector.shutdown(raise_on_error=False)

    def _told(self, function: Any) -> bytes:
        try:
            with self._turn:
                return dumps(("value", function()))
        except BaseException as error:
            text = "".join(traceback.format_exception(error))
            try:
                cause = dumps(error)
                pickle.loads(cause)
            except Exception:  # whatever cannot make the journey stays here; its text goes
                cause = b""
            return dumps(("error", (f"{type(error).__name__}: {error}", text, cause)))


class Driver(ABC):
    """How hosts are started and called."""

    @abstractmethod
    def start(self, number: int, data: bytes) -> Any:
        """Start a host; a handle of it."""

    @abstractmethod
    def call(self, handle: Any, method: str, *args: Any) -> Any:
        """Begin a call of a host's method; a future."""

    @abstractmethod
    def wait(self, futures: list[Any], timeout: float) -> list[Any]:
        """Those of several futures that are done; waits for the first, for `timeout` seconds at most."""

    @abstractmethod
    def result(self, future: Any) -> Any:
        """What a call returned.

        Raises:
            Exception: the host is dead, or cannot be reached.
        """

    @abstractmethod
    def kill(self, handle: Any) -> None:
        """End a host at once."""

    def close(self) -> None:
        """End what hosts needed; nothing by default."""
        return


class HostWorker:
    """A host, as a `MultiCollector` knows its workers.

    Args:
        job: what it does.
        driver: how it is called.
        handle: of the host.
    """

    def __init__(self, job: Job, driver: Driver, handle: Any) -> None:
        self.job, self.number, self.driver, self.handle = job, job.number, driver, handle
        self.is_busy, self.is_alive = False, True
        self.batches: deque[Any] = deque()
        self.future: Any = None

    def collect(self, random: bool, version: Any) -> None:
        """Let it collect a batch."""
        self.is_busy = True
        self.future = self.driver.call(self.handle, "do", "collect", (None, random, version))

    def hear(self) -> None:
        """Take the batch that is there."""
        self.is_busy = False
        future, self.future = self.future, None
        self.batches.append(self._result(future)[1])

    def tell(self, command: str, *value: Any) -> None:
        """Begin a command; `answer` waits for it."""
        self._asked = self.driver.call(self.handle, "do", command, value)

    def answer(self, doing: str = "answering a call") -> Any:
        """What it gave."""
        return self._waited(self._asked, doing)[1]

    def ask(self, command: str, *value: Any) -> Any:
        """What a command gives."""
        self.tell(command, *value)
        return self.answer()

    def begun(self) -> None:
        """Wait until it is ready."""
        self._waited(self.driver.call(self.handle, "begin"), "being made")

    def taken(self) -> tuple[int, Any]:
        """Number of steps and data of the batch that came first."""
        frames, batch, _ = self.batches.popleft()
        return frames, batch

    def _waited(self, future: Any, doing: str) -> Any:
        if not self.driver.wait([future], timeout_s()):
            raise CollectorWorkerError(
                f"Worker {self.number} has not answered for {timeout_s():g} s while {doing}. If it may take longer, "
                "set the environment variable BATCHED_PIPE_TIMEOUT to more seconds.",
                self.number,
            )
        return self._result(future)

    def _result(self, future: Any) -> Any:
        try:
            kind, value = pickle.loads(self.driver.result(future))
        except Exception as error:  # each driver has errors of its own for hosts that are gone
            self.is_alive = False
            raise CollectorWorkerError(
                f"Worker {self.number} ended, or cannot be reached: {type(error).__name__}: {error}", self.number
            ) from error
        if kind == "error":
            raise raised(self.number, value)
        return value


class Hosts:
    """All workers of a collector.

    Args:
        owner: the collector; its end is theirs.
        driver: how they are started and called.
        schemes: what brings weights, by model.
    """

    def __init__(self, owner: Any, driver: Driver, schemes: dict[str, Any]) -> None:
        self.driver, self.schemes = driver, schemes
        self.workers: list[Any] = []
        self._end = Finalize(owner, _end_all, (self.workers, driver, os.getpid()), exitpriority=20)

    def start(self, jobs: list[Job]) -> None:
        """Start a host for each job, and wait until all are ready."""
        try:
            for job in jobs:
                handle = self.driver.start(job.number, dumps((by_value(job), self.schemes)))
                self.workers.append(HostWorker(job, self.driver, handle))
            calls = [self.driver.call(worker.handle, "begin") for worker in self.workers]
            for worker, call in zip(self.workers, calls, strict=True):
                worker._waited(call, "being made")
        except BaseException:
            self.end(0.0)
            raise

    def ready(self, workers: Iterable[Any], doing: str) -> list[Any]:
        """Those of several workers whose batches are there, or who died; waits for the first."""
        busy = [worker for worker in workers if worker.future is not None]
        deadline = time.monotonic() + timeout_s()
        done = self.driver.wait([worker.future for worker in busy], max(0.0, deadline - time.monotonic()))
        if not done:
            raise CollectorWorkerError(
                f"Worker {busy[0].number} has not answered for {timeout_s():g} s while {doing}. If it may take longer, "
                "set the environment variable BATCHED_PIPE_TIMEOUT to more seconds.",
                busy[0].number,
            )
        return [worker for worker in busy if any(worker.future is each for each in done)]

    def end(self, timeout: float) -> None:
        """End all workers: they are told to, and killed where they do not within `timeout` seconds."""
        if self._end.still_active():
            self._end.cancel()
            _end_all(self.workers, self.driver, os.getpid(), timeout)


def _end_all(workers: list[Any], driver: Driver, owner: int, timeout: float = 2.0) -> None:
    if os.getpid() != owner:
        return
    if timeout > 0:
        calls = [driver.call(worker.handle, "end") for worker in workers if worker.is_alive and not worker.is_busy]
        deadline = time.monotonic() + timeout
        while calls and time.monotonic() < deadline:
            done = driver.wait(calls, max(0.0, deadline - time.monotonic()))
            calls = [call for call in calls if not any(call is each for each in done)]
    for worker in workers:
        driver.kill(worker.handle)
    # What refers to hosts must be gone before those who answer for them are.
    workers.clear()
    driver.close()
