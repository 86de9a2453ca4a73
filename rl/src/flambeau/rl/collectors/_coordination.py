"""Environments and a server of actions, each of which goes on as soon as the other has answered it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from flambeau.data.tensordict.nn import InteractionType
from flambeau.rl.collectors._acting import act
from flambeau.rl.modules.inference_server._stamps import stamped

_LOOK_S = 0.1


class Coordinator:
    """A thread that brings observations to a server and actions to environments; steps that are done are taken from it.

    No environment waits for another. At most twice as many results as environments wait to be taken.

    Args:
        pool: the environments.
        clients: of the server, one for each environment; None where the environments have them.
        kind: how the policy acts.
        chunk: how many steps a result holds, where environments have clients.
        alive: whether the server is.
    """

    def __init__(
        self, pool: Any, clients: list[Any] | None, kind: InteractionType, chunk: int, alive: Callable[[], bool]
    ) -> None:
        self._pool, self._clients, self._kind, self._chunk = pool, clients, kind, chunk
        self._server_alive = alive
        self.results: queue.Queue[tuple[int, Any]] = queue.Queue()
        self._acted: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._roots: dict[int, Any] = {}
        self._waiting: dict[int, Any] = {}  # environments that may go on, with their roots, while nobody takes results
        self._most = 2 * pool.num_envs
        self._failure: BaseException | None = None
        self._end, self._is_parked = threading.Event(), threading.Event()
        self._may_run = threading.Event()
        self._may_run.set()
        self._anew: set[int] = set()
        direct = clients is None or all(_has_callbacks(each) for each in clients)
        self._threads = None if direct else ThreadPoolExecutor(pool.num_envs, "flambeau-asks")
        self._thread = threading.Thread(target=self._run, daemon=True, name="flambeau-coordinator")
        self._thread.start()

    # From outside

    def take(self) -> tuple[int, Any]:
        """A result, as soon as there is one: the number of an environment, and its step (or steps).

        Raises:
            RuntimeError: an environment or the policy failed; the cause is chained.
        """
        while True:
            try:
                found = self.results.get(timeout=_LOOK_S)
            except queue.Empty:
                self.check()
                continue
            self._pool.wake()
            return found

    def check(self) -> None:
        """Look whether it is well.

        Raises:
            RuntimeError: an environment or the policy failed; the cause is chained.
        """
        if self._failure is not None:
            raise RuntimeError(f"collecting failed: {type(self._failure).__name__}: {self._failure}") from self._failure
        if not self._thread.is_alive():
            raise RuntimeError("the collector was shut down.")

    def begin_anew(self) -> None:
        """Let every environment begin a new episode with its next step, and forget the steps that wait."""
        with self.parked(None):
            while not self.results.empty():
                self.results.get_nowait()
            self._anew = set(range(self._pool.num_envs))

    @contextmanager
    def parked(self, timeout: float | None) -> Iterator[None]:
        """A context in which neither environments nor the server do anything.

        Args:
            timeout: seconds to wait for what they are at.

        Raises:
            RuntimeError: it is parked already, or failed.
            TimeoutError: it took longer.
        """
        if not self._may_run.is_set():
            raise RuntimeError("the collector is paused already.")
        self._may_run.clear()
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._is_parked.is_set():
                self._pool.wake()
                if self._is_parked.wait(_LOOK_S):
                    break
                self.check()
                if until is not None and time.monotonic() > until:
                    raise TimeoutError(f"environments and policy took more than {timeout} s for what they are at.")
            yield
        finally:
            self._may_run.set()
            self._pool.wake()

    def end(self, timeout: float | None) -> None:
        """End the thread."""
        self._end.set()
        self._may_run.set()
        if not self._pool.is_closed:
            self._pool.wake()
        self._thread.join(timeout)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    # In the thread

    def _run(self) -> None:
        try:
            for at in range(self._pool.num_envs):
                self._begin(at)
            while not self._end.is_set():
                self._turn()
        except BaseException as error:  # raised by those who take results
            self._failure = error

    def _begin(self, at: int) -> None:
        if self._clients is None:
            self._go_on(at, None)
        else:
            self._pool.give(at, "reset", None)

    def _turn(self) -> None:
        """Hand on what has come."""
        while not self._acted.empty():
            at, future = self._acted.get()
            step = self._roots.pop(at).update(future.result())
            self._pool.give(at, "step_and_maybe_reset", step)
        if not self._may_run.is_set() and not self._pool.__dict__["_busy"] and not self._roots:
            self._park()
            return
        for at, what, data in self._pool.take(_LOOK_S):
            if what == "step_and_maybe_reset":
                step, root = data
                self.results.put((at, step))
            else:
                root = data if what == "reset" else None
                if what == "call":
                    self.results.put((at, data))
            self._waiting[at] = root
        if not self._server_alive() and not self._end.is_set():
            raise RuntimeError("the inference server has ended.")
        self._let_go_on()

    def _let_go_on(self) -> None:
        while self._waiting and self._may_run.is_set() and self.results.qsize() < self._most:
            at = next(iter(self._waiting))
            self._go_on(at, self._waiting.pop(at))

    def _go_on(self, at: int, root: Any) -> None:
        anew = at in self._anew
        self._anew.discard(at)
        if self._clients is None:
            self._pool.give(at, "call", (act, self._chunk, self._kind, anew))
        elif anew:
            self._pool.give(at, "reset", None)
        else:
            self._roots[at] = root
            future = self._asked(at, stamped(root, self._kind))
            future.add_done_callback(lambda done: self._answered(at, done))

    def _asked(self, at: int, request: Any) -> Any:
        client = self._clients[at]  # type: ignore[index]
        return client.submit(request) if self._threads is None else self._threads.submit(client, request)

    def _answered(self, at: int, future: Future[Any]) -> None:
        if not future.cancelled() and not self._end.is_set():
            self._acted.put((at, future))
            self._pool.wake()

    def _park(self) -> None:
        self._is_parked.set()
        self._may_run.wait()
        self._is_parked.clear()
        self._let_go_on()


def _has_callbacks(client: Any) -> bool:
    """Whether a client's futures tell when they are done."""
    from flambeau.rl.modules.inference_server import InferenceClient, ThreadingTransport

    return isinstance(client, InferenceClient) and isinstance(client._transport, ThreadingTransport)
