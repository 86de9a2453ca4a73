"""Requests of threads, each of which has a place of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._comm.mailbox import MailboxPeerClosedError, NoAnswerYet
from flambeau.rl.modules.inference_server._banks import _zeros
from flambeau.rl.modules.inference_server._transport import InferenceTransport

__all__ = ["SlotTransport"]

_LOOK_S = 0.1


class _Slot:
    """One thread's request, and what came of it."""

    def __init__(self) -> None:
        self.request: TensorDictBase | None = None
        self.sent = 0.0
        self.answer: Any = None
        self.fine = True
        self.answered = threading.Event()
        self.is_free = threading.Lock()  # held while a request is on its way


class SlotTransport(InferenceTransport):
    """Carries requests between threads without a queue: the server looks at places that it knows, in turns.

    Args:
        num_slots: how many threads, each of which has one request on its way at most.
        preallocate: keep requests in one block of memory, into which they are copied.

    Raises:
        ValueError: num_slots < 1.
    """

    kind = "slot"

    def __init__(self, num_slots: int, *, preallocate: bool = False) -> None:
        if num_slots < 1:
            raise ValueError(f"num_slots is {num_slots}, expected 1 or more.")
        self.num_slots, self.preallocate = num_slots, preallocate
        self._slots = [_Slot() for _ in range(num_slots)]
        self._given = 0
        self._next = 0
        self._work = threading.Event()
        self._block: Any = None
        self._guard = threading.Lock()

    def client(self) -> SlotClient:
        """What asks, for one thread.

        Raises:
            RuntimeError: there are as many as slots.
        """
        with self._guard:
            if self._given >= self.num_slots:
                raise RuntimeError(f"all {self.num_slots} slots have a client; give the transport more of them.")
            self._given += 1
            return SlotClient(self, self._given - 1)

    def submit(self, td: TensorDictBase, *, metadata: Mapping[str, Any] | None = None) -> NoReturn:
        """Not possible: a slot belongs to a client.

        Raises:
            NotImplementedError: in any case.
        """
        raise NotImplementedError("SlotTransport has a slot for each client; ask with its client().")

    def put(self, number: int, request: TensorDictBase) -> None:
        """Write a request into a slot, which waits while one is on its way.

        Raises:
            MailboxPeerClosedError: the server has ended.
        """
        slot = self._slots[number]
        slot.is_free.acquire()
        if self._ended:
            slot.is_free.release()
            raise MailboxPeerClosedError("the server has ended; start it again, and ask again.")
        if self.preallocate:
            request = self._copied(number, request)
        slot.answered.clear()
        slot.sent = time.monotonic()
        slot.request = request  # last: the server takes it as soon as it is there
        self._work.set()

    def _copied(self, number: int, request: TensorDictBase) -> TensorDictBase:
        with self._guard:
            if self._block is None:
                self._block = _zeros(request, self.num_slots)
        row: TensorDictBase = self._block[number]
        return row.update_(request)

    def take(self, number: int, timeout: float | None) -> tuple[bool, Any] | None:
        """Whether a slot's request went well, and what came of it; None where it is not answered in time."""
        slot = self._slots[number]
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK_S if until is None else min(_LOOK_S, max(until - time.monotonic(), 0.0))
            if slot.answered.wait(left):
                return slot.fine, slot.answer
            if self._ended and not slot.answered.is_set():
                return False, MailboxPeerClosedError("the server ended before it answered; start it, and ask again.")
            if until is not None and time.monotonic() >= until:
                return None

    def free(self, number: int) -> None:
        """The next request may come."""
        slot = self._slots[number]
        slot.request, slot.answer = None, None
        slot.is_free.release()

    def drain(self, max_items: int) -> tuple[list[TensorDictBase], list[Any]]:
        """Requests that are there, at most so many, and their slots."""
        requests, slots, _ = self.drain_with_timing(max_items)
        return requests, slots

    def drain_with_timing(self, max_items: int) -> tuple[list[TensorDictBase], list[Any], list[float | None]]:
        """As `drain`, with the times at which they were sent."""
        self._work.clear()  # before looking: what comes meanwhile sets it again
        requests: list[TensorDictBase] = []
        numbers: list[Any] = []
        times: list[float | None] = []
        first = self._next
        for step in range(self.num_slots):
            number = (first + step) % self.num_slots
            slot = self._slots[number]
            request = slot.request
            if request is None:
                continue
            if len(requests) == max_items:
                self._work.set()
                break
            slot.request = None
            requests.append(request)
            numbers.append(number)
            times.append(slot.sent)
            self._next = number + 1
        return requests, numbers, times

    def wait_for_work(self, timeout: float) -> None:
        """Wait until there is a request, at most `timeout` seconds."""
        self._work.wait(timeout)

    def resolve(self, callback: Any, result: TensorDictBase) -> None:
        """Answer a request."""
        self._answer(callback, True, result)

    def resolve_exception(self, callback: Any, exc: BaseException) -> None:
        """Let a request fail."""
        self._answer(callback, False, exc)

    def _answer(self, number: int, fine: bool, answer: Any) -> None:
        slot = self._slots[number]
        slot.fine, slot.answer = fine, answer
        slot.answered.set()


class SlotClient:
    """Asks an inference server, for one thread.

    Args:
        transport: what has the slot.
        slot_id: its number.
    """

    def __init__(self, transport: SlotTransport, slot_id: int) -> None:
        self._transport, self.slot_id = transport, slot_id

    def submit(self, td: TensorDictBase) -> SlotFuture:
        """Ask, and do not wait, unless a request is on its way: then for its answer to be read."""
        self._transport.put(self.slot_id, td)
        return SlotFuture(self._transport, self.slot_id)

    def __call__(self, td: TensorDictBase, timeout: float | None = None) -> TensorDictBase:
        """Ask, and wait for the answer; see `SlotFuture.result`."""
        return self.submit(td).result(timeout)


class SlotFuture:
    """The answer to one request, which holds the slot until it is read.

    Args:
        transport: what has the slot.
        slot_id: its number.
    """

    def __init__(self, transport: SlotTransport, slot_id: int) -> None:
        self._transport, self._slot_id = transport, slot_id
        self._outcome: tuple[bool, Any] | None = None

    def done(self) -> bool:
        """Whether the answer is there."""
        return self._outcome is not None or self._look(0.0)

    def _look(self, timeout: float | None) -> bool:
        if self._outcome is None:
            self._outcome = self._transport.take(self._slot_id, timeout)
            if self._outcome is not None:
                self._transport.free(self._slot_id)
        return self._outcome is not None

    def result(self, timeout: float | None = None) -> TensorDictBase:
        """The answer.

        Args:
            timeout: seconds to wait; None for no end.

        Raises:
            queue.Empty: it did not come in time; also a `TimeoutError`. It can be asked for again.
            MailboxPeerClosedError: the server ended without it.
        """
        if not self._look(timeout):
            raise NoAnswerYet(f"slot {self._slot_id} was not answered within {timeout} s.")
        assert self._outcome is not None
        fine, answer = self._outcome
        if not fine:
            raise answer
        found: TensorDictBase = answer
        return found
