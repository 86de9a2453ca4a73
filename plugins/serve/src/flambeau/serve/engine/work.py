"""One request, from the moment it is accepted until its client has an answer."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from flambeau.serve.errors import ClientGone, RequestError
from flambeau.serve.wire.messages import Answer, Item

__all__ = ["Piece", "Work"]


class Piece:
    """A part of an answer that is sent before the answer is whole."""

    __slots__ = ("data", "media_type")

    def __init__(self, data: bytes, media_type: str) -> None:
        self.data = data
        self.media_type = media_type


class Work:
    """A request that waits, or is being answered.

    It is answered exactly once: what comes after the first answer, failure or `abandon` is dropped.

    Args:
        item: the request.
        deadline: of `time.monotonic`, after which nobody waits for it; None for ever.
    """

    __slots__ = (
        "_events", "_waiter", "arrived", "deadline", "deaths", "finished", "item", "most_together", "sent",
        "started", "timer",
    )  # fmt: skip

    def __init__(self, item: Item, deadline: float | None = None) -> None:
        self.item = item
        self.deadline = deadline
        self.arrived = time.monotonic()
        self.started = 0.0  # when a worker got it
        self.most_together = 1 << 30  # the most requests of a batch with it: halved when such a batch fails
        self.deaths = 0  # workers that ended while they had this request alone
        self.sent = False  # whether a part of the answer has gone out, so that it cannot be begun again
        self.finished = False
        self.timer: asyncio.TimerHandle | None = None
        self._events: deque[Piece | Answer | RequestError] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def piece(self, data: bytes, media_type: str) -> None:
        """Hand on a part of the answer."""
        if not self.finished:
            self.sent = True
            self._put(Piece(data, media_type))

    def answer(self, answer: Answer) -> bool:
        """Finish with an answer; whether it was the first."""
        return self._finish(answer)

    def fail(self, error: RequestError) -> bool:
        """Finish with an error; whether it was the first."""
        return self._finish(error)

    def abandon(self) -> None:
        """The client has gone."""
        if self._finish(ClientGone("The client has closed the connection.")):
            self._events = deque([self._events[-1]])

    async def next(self) -> Piece | Answer:
        """The next part of the answer, or the whole of it, or its end.

        Raises:
            RequestError: the request has failed.
        """
        while not self._events:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        event = self._events.popleft()
        if isinstance(event, RequestError):
            raise event
        return event

    def _finish(self, event: Answer | RequestError) -> bool:
        if self.finished:
            return False
        self.finished = True
        self._cancel_timer()
        self._put(event)
        return True

    def _put(self, event: Piece | Answer | RequestError) -> None:
        self._events.append(event)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
