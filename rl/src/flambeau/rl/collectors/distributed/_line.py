"""Workers on this machine or others: a socket carries commands, torch.distributed carries batches and weights."""

from __future__ import annotations

import os
import pickle
import secrets
import socket
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from multiprocessing.connection import Client, Listener
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch.multiprocessing as mp

from flambeau.rl._comm.makers import dumps
from flambeau.rl.collectors._runner import Desk, Job, _main_async_collector, by_value, fits
from flambeau.rl.collectors._worker import Worker, _end_all, ready
from flambeau.rl.envs._batched.worker import default_method, timeout_s
from flambeau.rl.errors import CollectorWorkerError
from flambeau.rl.weight_update._distributed import open_group

_TAG = 3


# At a worker


def run_node(host: str, port: int, key: bytes, number: int) -> None:
    """What a worker does, on whatever machine it was started.

    Args:
        host: where the collector is that started it.
        port: where it listens.
        key: what both show one another first, so that nobody else is listened to.
        number: of the worker.
    """
    line = Client((host, port), authkey=key)
    line.send_bytes(str(number).encode())
    job, facts = pickle.loads(line.recv_bytes())
    if not Path(job.notes).parent.is_dir():
        job.notes = str(Path(tempfile.mkdtemp(prefix="flambeau-node-")) / "notes.txt")
    _main_async_collector(line, job, [], lambda *given: NodeDesk(*given, host=host, **facts))


class NodeDesk(Desk):
    """Answers of a worker that has a rank in a process group.

    Args:
        line: where commands come from.
        collector: what carries them out.
        job: what it is for.
        host: where rank 0 is.
        port: of its store.
        size: number of ranks.
        backend: of torch.distributed.
        schemes: what brings weights, by model.
    """

    def __init__(
        self, line: Any, collector: Any, job: Job, *, host: str, port: int, size: int, backend: str, schemes: Any
    ) -> None:
        super().__init__(line, collector, job)
        self._rank = job.number + 1
        self._schemes = schemes
        self._place = (backend, host, port, self._rank, size)
        self._device = "cuda" if backend == "nccl" else "cpu"
        self._group: Any = None
        self._sent: Any = None

    def _join(self) -> tuple[str, Any]:
        store, group = open_group(*self._place, timeout_s())
        self._store, self._group = store, group()
        for model_id, scheme in self._schemes.items():
            scheme.init_on_receiver(
                model_id=model_id,
                context=self.collector,
                worker_idx=self.job.number,
                store=store,
                group=self._group,
                weights_buffer=scheme.strategy_weights(self.collector.get_model(model_id)),
            )
        self.collector.register_scheme_receiver(self._schemes, synchronize_weights=False)
        return "value", None

    def _collect(self, slot: Any, random: bool, version: Any) -> tuple[str, Any]:
        frames, batch = self.batch(random, version)
        if batch is None:
            return "batch", (frames, None, False)
        if slot and self.slot is None:
            self.slot = self._sent
        if self.slot is not None and fits(self.slot, batch):
            self._sent = batch
            return "batch", (frames, None, True)
        if self.slot is None:
            self._sent = batch
        return "batch", (frames, batch, False)

    def answered(self, kind: str, value: Any) -> None:
        """A batch of a known layout goes through the group, and weights are taken meanwhile.

        Whoever waits for these to be taken does not wait for the batch.
        """
        if kind == "batch" and value[2]:
            sends = threading.Thread(target=self._send, args=(self._sent,), daemon=True)
            sends.start()
            while sends.is_alive():
                sends.join(0.005)
                self.collector.take_weights()

    def _send(self, batch: Any) -> None:
        for leaf in batch.values(True, True):
            self._group.send([leaf.contiguous().to(self._device)], 0, _TAG).wait()


# At the collector


class NodeWorker(Worker):
    """A worker at the other end of a socket.

    Args:
        job: what it does.
        line: the socket.
        process: what runs there, as far as it is known here.
    """

    def __init__(self, job: Job, line: Any, process: Any) -> None:
        self.job, self.number, self.line, self.process = job, job.number, line, process
        self.is_busy = False
        self.batches: deque[Any] = deque()
        self.slot: Any = None
        self.slot_is_sent = False
        self.group: Any = None

    def collect(self, random: bool, version: Any) -> None:
        """Let it collect a batch."""
        self.is_busy = True
        self.tell("collect", self.slot is not None, random, version)

    def tell(self, command: str, *value: Any) -> None:
        """Send a command."""
        try:
            self.line.send_bytes(dumps((command, value)))
        except (EOFError, OSError) as error:
            self._raise_dead(error)

    def hear(self) -> tuple[str, Any]:
        """The next answer, which is there or coming."""
        kind, value = super().hear()
        if kind == "batch" and value[2]:
            try:
                for leaf in self.slot.values(True, True):
                    self.group.recv([leaf], self.number + 1, _TAG).wait()
            except RuntimeError as error:
                self._raise_dead(error)
        return kind, value

    def taken(self) -> tuple[int, Any]:
        """Number of steps and data of the batch that came first."""
        frames, batch, in_slot = self.batches.popleft()
        if in_slot:
            return frames, self.slot
        if batch is not None and self.slot is None and type(batch).__name__ == "TensorDict":
            self.slot = batch.clone()
        return frames, batch


class Nodes:
    """All workers of a collector, at the other ends of sockets.

    Args:
        owner: the collector; its end is theirs.
        launch: starts worker `number`: launch(number, host, port, key) returns what runs there.
        host: name of this machine, as workers know it.
        port: where the store listens; 0 lets the system choose one.
        backend: of torch.distributed.
        schemes: what brings weights, by model.
    """

    def __init__(
        self,
        owner: Any,
        launch: Callable[[int, str, int, bytes], Any],
        host: str,
        port: int,
        backend: str,
        schemes: dict[str, Any],
    ) -> None:
        self.launch, self.host, self.backend, self.schemes = launch, host, backend, schemes
        self.notes = tempfile.TemporaryDirectory(prefix="flambeau-collector-")
        self.workers: list[Any] = []
        self._port = port
        self._end = Finalize(owner, _end_all, (self.workers, os.getpid(), self.notes), exitpriority=20)
        self.store: Any = None
        self.group: Any = None

    def start(self, jobs: list[Job]) -> None:
        """Start a worker for each job, and wait until all are ready."""
        key = secrets.token_bytes(32)
        size = len(jobs) + 1
        self.store, group = open_group(self.backend, self.host, self._port, 0, size, timeout_s())
        facts = {"port": self.store.port, "size": size, "backend": self.backend, "schemes": self.schemes}
        address = "127.0.0.1" if self.host == "localhost" else ""
        processes: list[Any] = []
        try:
            with Listener((address, 0), authkey=key, backlog=size) as listener:
                port = listener.address[1]
                processes.extend(self.launch(job.number, self.host, port, key) for job in jobs)
                lines = _accepted(listener, processes)
            for job, process in zip(jobs, processes, strict=True):
                job.notes = str(Path(self.notes.name) / f"{job.number}.txt")
                self.workers.append(NodeWorker(job, lines[job.number], process))
                lines[job.number].send_bytes(dumps((by_value(job), facts)))
            for worker in self.workers:
                worker.answer("being made")
            for worker in self.workers:
                worker.tell("join")
            self.group = group()
            for worker in self.workers:
                worker.answer("joining the group")
                worker.group = self.group
        except BaseException:
            for process in processes[len(self.workers) :]:
                process.kill()
                process.join()
            self.end(0.0)
            raise

    def ready(self, workers: Iterable[Any], doing: str) -> list[Any]:
        """Those of several workers from which something comes, or who died; waits for the first."""
        return ready(workers, doing)

    def end(self, timeout: float) -> None:
        """End all workers: they are told to, and killed where they do not within `timeout` seconds."""
        if self._end.still_active():
            self._end.cancel()
            _end_all(self.workers, os.getpid(), self.notes, timeout)
        self.group = self.store = None


def _accepted(listener: Listener, processes: list[Any]) -> dict[int, Any]:
    """The sockets of all workers, by number."""
    lines: dict[int, Any] = {}
    sock = listener._listener._socket  # type: ignore[attr-defined]  # it has no timeout of its own
    sock.settimeout(0.2)
    deadline = time.monotonic() + timeout_s()
    while len(lines) < len(processes):
        try:
            line = listener.accept()
        except TimeoutError:
            dead = [number for number, each in enumerate(processes) if number not in lines and not each.is_alive()]
            if dead or time.monotonic() > deadline:
                number = dead[0] if dead else min(set(range(len(processes))) - set(lines))
                raise CollectorWorkerError(
                    f"Worker {number} did not reach this machine; look at what it printed, and whether it can connect "
                    f"to port {listener.address[1]} here.",
                    number,
                ) from None
            continue
        lines[int(line.recv_bytes())] = line
    return lines


def launch_process(number: int, host: str, port: int, key: bytes) -> Any:
    """Start a worker on this machine."""
    method = default_method()
    context: Any = mp.get_context("spawn" if method == "fork" else method)  # gloo's threads outlive no fork
    process = context.Process(target=run_node, args=(host, port, key, number), name=f"flambeau-node-{number}")
    process.start()
    return process


def this_host(launcher: str) -> str:
    """The name by which workers reach this machine."""
    return "localhost" if launcher == "mp" else socket.gethostname()
