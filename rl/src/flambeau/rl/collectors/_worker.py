"""The processes of a collector, as those who started them see them."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

from flambeau.data.tensordict import TensorDict
from flambeau.rl.collectors._runner import Job, _main_async_collector
from flambeau.rl.envs._batched.worker import timeout_s
from flambeau.rl.errors import CollectorWorkerError

_GRACE_S = 5.0
"""How long to wait for what a dead or silent worker leaves behind."""


class Worker:
    """One process.

    Args:
        job: what it does.
        context: of multiprocessing.
        strange: ends of lines to other workers, which a fork copies.

    Raises:
        CollectorWorkerError: from what waits for it, it raised, died, or does not answer.
    """

    def __init__(self, job: Job, context: Any, strange: list[Connection]) -> None:
        self.job, self.number = job, job.number
        self.line, theirs = context.Pipe()
        forks = context.get_start_method() == "fork"
        self.process = context.Process(
            target=_main_async_collector,
            args=(theirs, job, [*strange, self.line] if forks else []),
            name=f"flambeau-collector-{job.number}",
        )
        self.process.start()
        theirs.close()
        self.is_busy = False
        self.batches: deque[Any] = deque()
        self.slot: Any = None
        self.slot_is_sent = False

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return bool(self.process.is_alive())

    def tell(self, command: str, *value: Any) -> None:
        """Send a command."""
        try:
            self.line.send((command, value))
        except (EOFError, OSError) as error:
            self._raise_dead(error)

    def collect(self, random: bool, version: Any) -> None:
        """Let it collect a batch."""
        slot = None if self.slot_is_sent else self.slot
        self.slot_is_sent = self.slot is not None
        self.is_busy = True
        self.tell("collect", slot, random, version)

    def hear(self) -> tuple[str, Any]:
        """The next answer, which is there or coming."""
        try:
            kind, value = pickle.loads(self.line.recv_bytes())
        except (EOFError, OSError) as error:
            self._raise_dead(error)
        if kind == "error":
            self.is_busy = False
            raise raised(self.number, value)
        if kind == "batch":
            self.is_busy = False
            self.batches.append(value)
        return kind, value

    def ask(self, command: str, *value: Any) -> Any:
        """What it answers to a command; a batch that comes before is kept."""
        self.tell(command, *value)
        return self.answer()

    def answer(self, doing: str = "answering a call") -> Any:
        """The next answer that is no batch."""
        while True:
            ready([self], doing)
            kind, value = self.hear()
            if kind != "batch":
                return value

    def taken(self) -> tuple[int, Any]:
        """Number of steps and data of the batch that came first; the data is None where it went to a replay buffer.

        What is in shared memory is there until the worker collects again.
        """
        frames, batch, in_slot = self.batches.popleft()
        if in_slot:
            return frames, self.slot
        if batch is not None and self.slot is None and _is_plain(batch):
            self.slot = batch.clone().share_memory_()
        return frames, batch

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.line.close()

    def _raise_dead(self, error: BaseException) -> Any:
        self.is_busy = False
        self.process.join(_GRACE_S)
        code = self.process.exitcode
        how = "ended" if code is None else f"ended with code {code}"
        if code is not None and code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        text = self.note()
        raise CollectorWorkerError(
            f"The process of worker {self.number} {how} without a word. "
            + (
                f"Where it was then:\n{text}"
                if text
                else "It left no traceback here: look at what it printed, and whether memory ran out."
            ),
            self.number,
        ) from error

    def silent(self, doing: str) -> CollectorWorkerError:
        """What to raise where it has not answered for too long; it is killed."""
        text = ""
        if hasattr(signal, "SIGUSR1") and hasattr(faulthandler, "register"):
            with suppress(OSError):
                os.kill(self.process.pid, signal.SIGUSR1)
                until = time.monotonic() + _GRACE_S
                while not (text := self.note()) and time.monotonic() < until:
                    time.sleep(0.01)
        self.process.kill()
        self.is_busy = False
        return CollectorWorkerError(
            f"Worker {self.number} has not answered for {timeout_s():g} s while {doing}, and was ended. If it may take "
            f"longer, set the environment variable BATCHED_PIPE_TIMEOUT to more seconds. Where it was:\n{text}",
            self.number,
        )

    def note(self) -> str:
        """The traceback that the process left."""
        with suppress(OSError):
            return Path(self.job.notes).read_text().strip()
        return ""


def _is_plain(batch: Any) -> bool:
    return type(batch) is TensorDict and all(type(value) is torch.Tensor for value in batch.values(True, True))


def ready(workers: Iterable[Worker], doing: str, timeout: float | None = None) -> list[Worker]:
    """Those of several workers from which something comes, or who died; waits for the first.

    Args:
        workers: whom to wait for.
        doing: what they are at, for messages.
        timeout: seconds after which nobody is waited for any more; default: until they count as silent.

    Raises:
        CollectorWorkerError: nobody answers in time.
    """
    lines: dict[Any, Worker] = {}
    for worker in workers:
        lines[worker.line] = worker
        if worker.process.sentinel is not None:
            lines[worker.process.sentinel] = worker
    found = wait(list(lines), timeout_s() if timeout is None else timeout)
    if not found and timeout is None:
        raise next(iter(lines.values())).silent(doing)
    return list({lines[each].number: lines[each] for each in found}.values())


def raised(number: int, told: tuple[str, str, bytes]) -> CollectorWorkerError:
    """The error of a worker, by what it told: in short, its traceback, and a pickle of it."""
    short, text, cause = told
    error = CollectorWorkerError(f"Worker {number} raised {short}\n\nIn its process:\n{text}", number)
    if cause:
        with suppress(Exception):
            error.__cause__ = pickle.loads(cause)
    return error


class Crew:
    """All processes of a collector.

    Args:
        owner: the collector; its end is theirs.
        method: how processes start: "fork", "spawn" or "forkserver".
    """

    def __init__(self, owner: Any, method: str) -> None:
        self.context: Any = mp.get_context(method)
        self.notes = tempfile.TemporaryDirectory(prefix="flambeau-collector-")
        self.workers: list[Worker] = []
        self._end = Finalize(owner, _end_all, (self.workers, os.getpid(), self.notes), exitpriority=20)

    def start(self, jobs: list[Job]) -> list[Any]:
        """Start a process for each job, and wait until all are ready.

        Returns:
            What each said.
        """
        try:
            for job in jobs:
                job.notes = str(Path(self.notes.name) / f"{job.number}.txt")
                self.workers.append(Worker(job, self.context, [each.line for each in self.workers]))
            return [worker.answer("being made") for worker in self.workers]
        except BaseException:
            self.end(0.0)
            raise

    def ready(self, workers: Iterable[Worker], doing: str) -> list[Worker]:
        """Those of several workers from which something comes, or who died; waits for the first.

        Args:
            workers: whom to wait for.
            doing: what they are at, for messages.

        Raises:
            CollectorWorkerError: nobody answers in time.
        """
        return ready(workers, doing)

    def replace(self, worker: Worker, job: Job) -> Worker:
        """Start a process anew; it waits until that is ready."""
        worker.kill()
        others = [each.line for each in self.workers if each is not worker]
        new = Worker(job, self.context, others)
        new.batches, new.slot = worker.batches, worker.slot
        self.workers[worker.number] = new
        new.answer("being made")
        return new

    def end(self, timeout: float) -> None:
        """End all processes: they are told to, and killed where they do not within `timeout` seconds."""
        if self._end.still_active():
            self._end.cancel()
            _end_all(self.workers, os.getpid(), self.notes, timeout)


def _end_all(workers: list[Worker], owner: int, notes: Any, seconds: float = 2.0) -> None:
    if os.getpid() != owner:  # a child that was forked has copies of all this
        return
    for worker in workers:
        with suppress(EOFError, OSError):
            worker.line.send(("end", ()))
    deadline = time.monotonic() + seconds
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
    for worker in workers:
        if worker.process.is_alive():
            worker.process.terminate()
    for worker in workers:
        worker.process.join(0.5)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.line.close()
    notes.cleanup()
