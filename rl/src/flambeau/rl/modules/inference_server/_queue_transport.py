"""Requests that go through queues, of processes or of other machines."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NoReturn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._comm.mailbox import Callback, Mailbox, MailboxClient
from flambeau.rl.modules.inference_server._transport import InferenceTransport

__all__ = ["QueueBasedTransport"]


class QueueInferenceClient(MailboxClient):
    """Asks an inference server through queues. It can be sent to another process, and belongs to one thread."""


class QueueBasedTransport(InferenceTransport):
    """Carries requests through one queue, and answers through one for each client.

    Subclasses set `_request_queue`, which has `put(item)`, and `get(timeout=)` and `get(block=False)` that raise
    `queue.Empty`; and make queues of the same kind in `_make_response_queue`. They may set `_peer_alive`, by whose
    `is_set()` clients see whether the server is alive.
    """

    _request_queue: Any
    _peer_alive: Any = None

    def __init__(self) -> None:
        self._response_queues: dict[int, Any] = {}
        self._box: Mailbox | None = None

    @abstractmethod
    def _make_response_queue(self) -> Any:
        """A queue for the answers of one client."""

    @property
    def _mailbox(self) -> Mailbox:
        if self._box is None:
            self._box = Mailbox(
                self._request_queue,
                self._make_response_queue,
                response_queues=self._response_queues,
                peer_alive=self._peer_alive,
            )
        return self._box

    def client(self) -> Any:
        """What asks, with a queue of its own. It has to be made before the process starts that it is for."""
        made = self._mailbox.client()
        return QueueInferenceClient(
            self._requests_of(made), made._responses, made.client_id, peer_alive=self._peer_alive
        )

    def _requests_of(self, client: MailboxClient) -> Any:
        """Where a client puts its requests."""
        return self._request_queue

    def submit(self, td: TensorDictBase, *, metadata: Mapping[str, Any] | None = None) -> NoReturn:
        """Not possible: answers go to clients.

        Raises:
            RuntimeError: in any case.
        """
        raise RuntimeError(f"{type(self).__name__} brings answers to clients; ask with its client().")

    def drain(self, max_items: int) -> tuple[list[TensorDictBase], list[Any]]:
        """Requests that are there, at most so many, and who asked."""
        requests, callbacks, _ = self.drain_with_timing(max_items)
        return requests, callbacks

    def drain_with_timing(self, max_items: int) -> tuple[list[TensorDictBase], list[Any], list[float | None]]:
        """As `drain`, with the times at which they were sent."""
        return self._mailbox.drain(max_items)

    def wait_for_work(self, timeout: float) -> None:
        """Wait until there is a request, at most `timeout` seconds."""
        self._mailbox.wait_for_work(timeout)

    def resolve(self, callback: Callback, result: TensorDictBase) -> None:
        """Answer a request."""
        self._mailbox.resolve(callback, result)

    def resolve_exception(self, callback: Callback, exc: BaseException) -> None:
        """Let a request fail."""
        self._mailbox.reject(callback, exc)

    def serving_ended(self) -> None:
        """Let clients know that nobody answers any more."""
        super().serving_ended()
        if self._peer_alive is not None:
            self._peer_alive.clear()

    def serving_began(self) -> None:
        """Let clients know that somebody answers again."""
        super().serving_began()
        if self._peer_alive is not None:
            self._peer_alive.set()


class CarryingClient(QueueInferenceClient):
    """Asks an inference server, and sends along with each request the queue for its answer."""

    def submit(self, payload: Any) -> Any:
        """Ask, and do not wait; see `MailboxClient.submit`."""
        return super().submit((payload, self._responses))


class QueueCarryingTransport(QueueBasedTransport):
    """A transport whose queues can be sent anywhere at any time: clients may be made after the server was started."""

    def client(self) -> Any:
        """What asks, with a queue of its own; of a number that no copy of this transport gives to another one."""
        number = secrets.randbits(62)
        responses = self._make_response_queue()
        self._response_queues[number] = responses
        return CarryingClient(self._request_queue, responses, number, peer_alive=self._peer_alive)

    def drain_with_timing(self, max_items: int) -> tuple[list[TensorDictBase], list[Any], list[float | None]]:
        """Requests that are there, at most so many, who asked, and when."""
        asked, callbacks, times = self._mailbox.drain(max_items)
        for (_, responses), (number, _) in zip(asked, callbacks, strict=True):
            self._response_queues.setdefault(number, responses)
        return [request for request, _ in asked], callbacks, times
