"""Many clients ask one server through queues, and each gets its own answers."""

from __future__ import annotations

import itertools
import pickle
import queue
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

from flambeau.core.errors import FlambeauError

__all__ = [
    "Mailbox",
    "MailboxClient",
    "MailboxFuture",
    "MailboxPeerClosedError",
    "MailboxTransportError",
    "watch_process_liveness",
]

_LOOK_S = 0.1
"""How often somebody who waits looks whether the other side is alive."""

Callback = tuple[int, int]
"""Who asked, and the number of the request."""


class MailboxTransportError(FlambeauError, RuntimeError):
    """What carries requests or answers failed."""


class MailboxPeerClosedError(MailboxTransportError):
    """The other side ended before it answered."""


UNSENDABLE = (pickle.PicklingError, AttributeError, TypeError, RuntimeError)
"""What pickling raises of objects that cannot be sent."""


def as_text(error: BaseException) -> RuntimeError:
    """An error that can be sent, with the text of one that cannot."""
    return RuntimeError(f"{type(error).__name__}: {error}")


class NoAnswerYet(queue.Empty, TimeoutError):
    """No answer came in time; the request is still on its way, and its result can be asked for again."""


def watch_process_liveness(process_sentinel: Any, alive_event: Any) -> None:
    """Wait until a process ends, then clear an event; to be run in a thread beside the process's owner.

    Clients that were given the event as `peer_alive` stop waiting then.

    Args:
        process_sentinel: `Process.sentinel`.
        alive_event: an event that is set.
    """
    wait([process_sentinel])
    alive_event.clear()


class MailboxFuture:
    """The answer to one request.

    Args:
        client: who asked.
        request_id: the request's number.
    """

    def __init__(self, client: MailboxClient, request_id: int) -> None:
        self._client = client
        self._request_id = request_id
        self._outcome: tuple[bool, Any] | None = None

    def done(self) -> bool:
        """Whether the answer is there, or none can come any more."""
        if self._outcome is None:
            self._outcome = self._client.outcome(self._request_id, 0.0)
        return self._outcome is not None or not self._client.peer_is_alive()

    def result(self, timeout: float | None = None) -> Any:
        """The answer; what the server raised is raised here.

        Args:
            timeout: seconds to wait; None for no end.

        Raises:
            queue.Empty: it did not come in time; also a `TimeoutError`. It can be asked for again.
            MailboxPeerClosedError: the server ended without it.
        """
        if self._outcome is None:
            self._outcome = self._client.outcome(self._request_id, timeout)
        if self._outcome is None:
            raise NoAnswerYet(f"request {self._request_id} was not answered within {timeout:g} s.")
        fine, answer = self._outcome
        if not fine:
            raise answer
        return answer

    def __del__(self) -> None:
        if self._outcome is None:
            self._client.forget(self._request_id)


class MailboxClient:
    """Puts requests into a mailbox. It can be sent to another process, and belongs to one thread.

    Args:
        request_queue: where requests go.
        response_queue: where this client's answers come from.
        client_id: its number.
        peer_alive: what tells, by `is_set()`, whether the server is alive; None where nothing does.
    """

    def __init__(self, request_queue: Any, response_queue: Any, client_id: int, *, peer_alive: Any = None) -> None:
        self._requests, self._responses = request_queue, response_queue
        self._client_id = client_id
        self._peer_alive = peer_alive
        self._numbers = itertools.count()
        self._early: dict[int, tuple[bool, Any]] = {}
        self._forgotten: set[int] = set()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_early": {}, "_forgotten": set()}

    @property
    def client_id(self) -> int:
        """The number that the mailbox gave it."""
        return self._client_id

    def peer_is_alive(self) -> bool:
        """Whether the server is, as far as is known."""
        return self._peer_alive is None or bool(self._peer_alive.is_set())

    def submit(self, payload: Any) -> MailboxFuture:
        """Ask, and do not wait.

        Raises:
            MailboxPeerClosedError: the server has ended.
        """
        if not self.peer_is_alive():
            raise _closed()
        number = next(self._numbers)
        self._requests.put((self._client_id, number, time.monotonic(), payload))
        return MailboxFuture(self, number)

    def __call__(self, payload: Any, timeout: float | None = None) -> Any:
        """Ask, and wait for the answer; see `MailboxFuture.result`."""
        return self.submit(payload).result(timeout)

    def outcome(self, number: int, timeout: float | None) -> tuple[bool, Any] | None:
        """Whether a request went well, and its answer or error; None where none came in time.

        Answers to other requests are kept for those who ask for them.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while number not in self._early:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            alive = self.peer_is_alive()
            try:
                found, fine, answer = self._next(left if alive else 0.0)
            except queue.Empty:
                if not alive:  # it may have answered just before it ended, so what is there was read first
                    return False, _closed()
                if left is not None and left <= _LOOK_S:
                    return None
                continue
            if found in self._forgotten:
                self._forgotten.discard(found)
            else:
                self._early[found] = (fine, answer)
        return self._early.pop(number)

    def forget(self, number: int) -> None:
        """Nobody asks for this answer any more."""
        if self._early.pop(number, None) is None:
            self._forgotten.add(number)

    def _next(self, left: float | None) -> tuple[int, bool, Any]:
        if left == 0.0:
            return self._responses.get(block=False)  # type: ignore[no-any-return]
        patience = left
        if self._peer_alive is not None:
            patience = _LOOK_S if left is None else min(_LOOK_S, left)
        return self._responses.get(timeout=patience)  # type: ignore[no-any-return]


def _closed() -> MailboxPeerClosedError:
    return MailboxPeerClosedError("the server ended before it answered; start it again, and ask again.")


class Mailbox:
    """Takes requests of many clients in the order they come, and brings each its answers.

    Args:
        request_queue: has `put(item)`, and `get(timeout=)` and `get(block=False)`, which raise `queue.Empty`.
        response_queue_factory: makes such a queue for each client.
        response_queues: queues by client, where they are kept elsewhere.
        peer_alive: given to clients, see `MailboxClient`.
    """

    def __init__(
        self,
        request_queue: Any,
        response_queue_factory: Callable[[], Any],
        *,
        response_queues: dict[int, Any] | None = None,
        peer_alive: Any = None,
    ) -> None:
        self._requests = request_queue
        self._make_queue: Callable[[], Any] | None = response_queue_factory
        self._responses: dict[int, Any] = {} if response_queues is None else response_queues
        self._peer_alive = peer_alive
        self._looked_at: Any = None  # taken from the queue while waiting, and given out next

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_make_queue": None}

    def client(self) -> MailboxClient:
        """A new client, with a queue of its own. Those of processes have to be made before these start.

        Raises:
            RuntimeError: this is a copy, in another process than the one that made the mailbox.
        """
        if self._make_queue is None:
            raise RuntimeError("clients are made in the process that made the mailbox, before others start.")
        number = len(self._responses)
        responses = self._make_queue()
        self._responses[number] = responses
        return MailboxClient(self._requests, responses, number, peer_alive=self._peer_alive)

    def wait_for_work(self, timeout: float) -> None:
        """Wait until there is a request, at most `timeout` seconds."""
        if self._looked_at is None:
            try:
                self._looked_at = self._requests.get(timeout=timeout)
            except queue.Empty:
                return

    def drain(self, max_items: int) -> tuple[list[Any], list[Callback], list[float | None]]:
        """Requests that are there, at most so many: what is asked, whom to answer, and when it was sent.

        Times are those of `time.monotonic`.
        """
        payloads: list[Any] = []
        callbacks: list[Callback] = []
        times: list[float | None] = []
        while len(payloads) < max_items:
            item, self._looked_at = self._looked_at, None
            if item is None:
                try:
                    item = self._requests.get(block=False)
                except queue.Empty:
                    break
            client, number, sent, payload = item
            payloads.append(payload)
            callbacks.append((client, number))
            times.append(sent)
        return payloads, callbacks, times

    def resolve(self, callback: Callback, result: Any) -> bool:
        """Answer a request; False where the client is not known."""
        return self._answer(callback, True, result)

    def reject(self, callback: Callback, error: BaseException) -> bool:
        """Let a request fail; False where the client is not known."""
        try:
            return self._answer(callback, False, error)
        except UNSENDABLE:
            return self._answer(callback, False, as_text(error))

    def _answer(self, callback: Callback, fine: bool, answer: Any) -> bool:
        client, number = callback
        responses = self._responses.get(client)
        if responses is None:
            return False
        responses.put((number, fine, answer))
        return True
