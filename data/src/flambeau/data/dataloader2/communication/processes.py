"""Starting worker processes, ending them whatever happens, and reading what they send."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import defaultdict, deque
from multiprocessing.connection import wait
from typing import Any, NoReturn

from flambeau.data.dataloader2.communication.dispatcher import dispatch
from flambeau.data.dataloader2.communication.messages import End, Failure, State, Stop
from flambeau.data.dataloader2.communication.worker import Pipeline, WorkerInfo, work

_JOIN_S = 5.0


class Processes:
    """The workers of one loader, and the thread that reads their messages.

    Args:
        context: of torch.multiprocessing.
        pipeline: what each worker runs.
        count: number of workers.
        dispatched: what the dispatching process runs; None for no such process.
    """

    def __init__(self, context: Any, pipeline: Pipeline, count: int, dispatched: Pipeline | None) -> None:
        pairs = [context.Pipe() for _ in range(count)]
        feeds = [context.Pipe() for _ in range(count)] if dispatched is not None else []
        central = context.Pipe() if dispatched is not None else None
        method = context.get_start_method()
        forked = method == "fork"
        # The server is the parent of the processes that it forks.
        parent = None if method == "forkserver" else os.getpid()
        ends = [end for pair in (*pairs, *feeds, *([central] if central else [])) for end in pair]
        self.connections = [mine for mine, _ in pairs]
        self.central = central[0] if central else None
        self.processes = []
        for number, (_, theirs) in enumerate(pairs):
            feed = feeds[number][0] if feeds else None
            others = [end for end in ends if end not in (theirs, feed)] if forked else []
            arguments = (theirs, feed, others, pipeline, WorkerInfo(count, number), parent)
            self.processes.append(context.Process(target=work, args=arguments, daemon=True))
        if dispatched is not None and central is not None:
            served = [theirs for _, theirs in feeds]
            others = [end for end in ends if end not in (*served, central[1])] if forked else []
            arguments = (central[1], served, others, dispatched, parent)  # type: ignore[assignment]
            self.processes.append(context.Process(target=dispatch, args=arguments, daemon=True))
        for process in self.processes:
            process.start()
        for end in ends:
            if end not in (*self.connections, self.central):
                end.close()
        self.inbox = _Inbox(self.connections, self.processes)
        self._finalizer = weakref.finalize(self, _end, self.connections, self.central, self.processes, self.inbox)

    def close(self) -> None:
        """End the processes."""
        self._finalizer()


def _end(connections: list[Any], central: Any, processes: list[Any], inbox: _Inbox) -> None:
    inbox.closing = True
    for connection in (*connections, *([central] if central else [])):
        with contextlib.suppress(OSError):  # the process is gone already
            connection.send(Stop())
    # A worker may be at a long sample, or wait for room in a pipe that nobody reads any more.
    for process in processes:
        process.join(0.05)
        if process.is_alive():
            process.terminate()
            process.join(_JOIN_S)
        if process.is_alive():
            process.kill()
            process.join()
    inbox.thread.join()
    for connection in (*connections, *([central] if central else [])):
        connection.close()


class _Inbox:
    """What the workers have sent, by shard. A thread reads the connections, so that workers never wait for the user."""

    def __init__(self, connections: list[Any], processes: list[Any]) -> None:
        self._connections = connections
        self._processes = processes
        self._changed = threading.Condition()
        self._queues: defaultdict[int, deque[Any]] = defaultdict(deque)
        self._states: dict[int, Any] = {}
        self._broken: Failure | str | None = None
        self.epoch = 0
        self.closing = False
        self.thread = threading.Thread(target=self._read, daemon=True, name="flambeau-workers")
        self.thread.start()

    def begin(self, epoch: int) -> None:
        """Forget everything that belongs to earlier passes."""
        with self._changed:
            self.epoch = epoch
            self._queues.clear()
            self._states.clear()

    def next(self, shard: int) -> tuple[Any] | End:
        """The next sample of a shard, in a tuple, or the shard's end.

        Raises:
            RuntimeError: a worker has died.
            Exception: what was raised in the worker.
        """
        queue = self._queues[shard]
        if not queue:
            with self._changed:
                self._changed.wait_for(lambda: queue or self._broken is not None)
        if not queue:
            self._raise(self._broken)
        found = queue.popleft()
        if isinstance(found, Failure):
            queue.append(found)  # whoever reads on is told again
            found.raise_()
        return found  # type: ignore[no-any-return]

    def state(self, shard: int) -> State:
        """The state of a shard that was asked for."""
        with self._changed:
            self._changed.wait_for(lambda: shard in self._states or self._broken is not None)
            found = self._states.pop(shard, self._broken)
        if not isinstance(found, State):
            self._raise(found)
        return found

    def raise_end(self) -> NoReturn:
        """Say how the worker ended that takes no more messages.

        Raises:
            RuntimeError: always, with its exit code once that is known.
            Exception: what was raised in the worker.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._broken is not None, timeout=2 * _JOIN_S)
        self._raise(self._broken or "a worker process ended unexpectedly.")

    def _raise(self, found: Any) -> NoReturn:
        if isinstance(found, Failure):
            found.raise_()
        raise RuntimeError(str(found))

    def _read(self) -> None:
        live = dict(zip(self._connections, self._processes, strict=False))
        while live and not self.closing:
            ready: list[Any] = wait(list(live), timeout=0.5)
            for connection in ready:
                try:
                    message = connection.recv()
                except (EOFError, OSError):
                    self._lost(live.pop(connection))
                    continue
                self._put(message)

    def _put(self, message: Any) -> None:
        with self._changed:
            if type(message) is tuple:
                epoch, shard, sample = message
                if epoch == self.epoch:
                    self._queues[shard].append((sample,))
            elif isinstance(message, Failure) and message.shard < 0:
                self._broken = message
            elif message.epoch == self.epoch:
                if isinstance(message, State):
                    self._states[message.shard] = message
                else:
                    self._queues[message.shard].append(message)
            self._changed.notify_all()

    def _lost(self, process: Any) -> None:
        if self.closing:
            return
        process.join(_JOIN_S)
        with self._changed:
            if self._broken is None:
                self._broken = (
                    f"worker process {process.pid} ended unexpectedly with exit code {process.exitcode}; "
                    + (
                        "it was killed, perhaps for lack of memory."
                        if (process.exitcode or 0) < 0
                        else "see its messages above."
                    )
                )
            self._changed.notify_all()
