"""Requests of other processes, each of which has a row of shared memory of its own."""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch
import torch.multiprocessing as mp

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._comm.mailbox import UNSENDABLE, MailboxPeerClosedError, NoAnswerYet, as_text
from flambeau.rl._comm.queues import PickledQueue
from flambeau.rl.modules.inference_server._banks import Bank, refuse_devices
from flambeau.rl.modules.inference_server._owners import Owners
from flambeau.rl.modules.inference_server._stamps import STAMP, stamped
from flambeau.rl.modules.inference_server._transport import InferenceTransport

__all__ = ["ProcessSlotTransport"]

_IDLE, _ASKED, _TAKEN, _ANSWERED, _FAILED = range(5)
"""What a slot is: each state is written by one side alone, which hands the slot over with it."""

_LOOK_S = 0.1


class ProcessSlotTransport(InferenceTransport):
    """Carries requests between processes without queues: the server looks at rows of shared memory, in turns.

    Only semaphores pass between processes. Keys that the specifications do not name are left out. Each client has one
    request on its way at most. Whether a client's process lives, the server sees by a lock that ends with it.

    Args:
        request_spec: what a request is like: keys, shapes, dtypes, of one environment, on the CPU.
        response_spec: what an answer is like, with what the server adds, such as "policy_version".
        num_slots: how many clients there can be.
        ctx: a context of multiprocessing; default: "spawn".
        copy_result: answers are copies; else the row itself, which is written again by the next answer.

    Raises:
        ValueError: num_slots < 1, or a specification is not on the CPU.
        TypeError: one has leaves that are no tensors.
    """

    kind = "process_slot"

    def __init__(
        self,
        request_spec: TensorDictBase,
        response_spec: TensorDictBase,
        *,
        num_slots: int,
        ctx: Any = None,
        copy_result: bool = True,
    ) -> None:
        if num_slots < 1:
            raise ValueError(f"num_slots is {num_slots}, expected 1 or more.")
        context: Any = mp.get_context("spawn") if ctx is None else ctx
        self.num_slots, self.copy_result = num_slots, copy_result
        self._asked = Bank(stamped(request_spec, None), num_slots, "request_spec")
        self._answered = Bank(response_spec, num_slots, "response_spec")
        self._states = torch.zeros(num_slots, dtype=torch.int8).share_memory_()
        self._sent = torch.zeros(num_slots, dtype=torch.float64).share_memory_()
        self._owners = Owners(num_slots)
        self._work = context.Semaphore(0)
        self._bells = [context.Semaphore(0) for _ in range(num_slots)]
        self._errors = [PickledQueue(context) for _ in range(num_slots)]
        self._peer_alive = context.Event()
        self._peer_alive.set()  # requests may come before the server begins
        self._given = 0
        self._next = 0
        self._known_gone: set[int] = set()

    def client(self) -> ProcessSlotClient:
        """What asks, for one process.

        Raises:
            RuntimeError: there are as many as slots.
        """
        if self._given >= self.num_slots:
            raise RuntimeError(f"all {self.num_slots} slots have a client; give the transport more of them.")
        self._given += 1
        return ProcessSlotClient(self, self._given - 1)

    def submit(self, td: TensorDictBase, *, metadata: Mapping[str, Any] | None = None) -> NoReturn:
        """Not possible: a slot belongs to a client.

        Raises:
            RuntimeError: in any case.
        """
        raise RuntimeError("ProcessSlotTransport has a slot for each client; ask with its client().")

    # The server's side

    def wait_for_work(self, timeout: float) -> None:
        """Wait until there is a request, at most `timeout` seconds."""
        if not self._is_asked() and self._work.acquire(timeout=timeout):
            while self._work.acquire(block=False):  # one bell for each request, and all are looked at
                pass

    def _is_asked(self) -> bool:
        return bool((self._states == _ASKED).any())

    def drain_slots(self, max_items: int) -> tuple[list[int], list[float]]:
        """Slots whose requests are there, at most so many, in turns, and when they were sent; nothing is copied."""
        asked = (self._states == _ASKED).nonzero().flatten().tolist()
        asked = [*(slot for slot in asked if slot >= self._next), *(slot for slot in asked if slot < self._next)]
        slots = asked[:max_items]
        for slot in slots:
            self._states[slot] = _TAKEN
        if slots:
            self._next = (slots[-1] + 1) % self.num_slots
        return slots, [float(self._sent[slot]) for slot in slots]

    def drain(self, max_items: int) -> tuple[list[TensorDictBase], list[Any]]:
        """Requests that are there, at most so many, and their slots."""
        requests, slots, _ = self.drain_with_timing(max_items)
        return requests, slots

    def drain_with_timing(self, max_items: int) -> tuple[list[TensorDictBase], list[Any], list[float | None]]:
        """As `drain`, with the times at which they were sent."""
        slots, sent = self.drain_slots(max_items)
        return [self._asked.read(slot, copy=False) for slot in slots], list(slots), list(sent)

    def request_batch(self, capacity: int) -> TensorDictBase:
        """Private memory for so many requests, for `gather_requests`."""
        return self._asked.like(capacity)

    def response_batch(self, capacity: int) -> TensorDictBase:
        """Private memory for so many answers, as `resolve_batch` takes them."""
        return self._answered.like(capacity)

    def gather_requests(self, slots: Sequence[int], out: TensorDictBase) -> None:
        """Copy the requests of slots into the first rows of `out`: one copy a leaf."""
        self._asked.gather(slots, out)

    def resolve_batch(self, slots: Sequence[int], results: TensorDictBase) -> None:
        """Answer several requests: one copy a leaf.

        Args:
            slots: their slots.
            results: an answer in each row, in the same order.

        Raises:
            KeyError: they lack what `response_spec` has.
        """
        self._answered.scatter(slots, results)
        for slot in slots:
            self._hand_back(slot, _ANSWERED)

    def resolve(self, callback: int, result: TensorDictBase) -> None:
        """Answer a request.

        Raises:
            KeyError: the answer lacks what `response_spec` has.
        """
        self._answered.write(callback, result, where="the policy's answer")
        self._hand_back(callback, _ANSWERED)

    def resolve_exception(self, callback: int, exc: BaseException) -> None:
        """Let a request fail."""
        try:
            self._errors[callback].put(exc)
        except UNSENDABLE:
            self._errors[callback].put(as_text(exc))
        self._hand_back(callback, _FAILED)

    def _hand_back(self, slot: int, state: int) -> None:
        self._states[slot] = state
        self._bells[slot].release()

    def gone_clients(self) -> list[int]:
        """Slots of processes that ended without a word, since the last time."""
        gone = [slot for slot in self._owners.gone() if slot not in self._known_gone]
        self._known_gone.update(gone)
        for slot in gone:
            self._owners.free(slot)
        return gone

    def serving_ended(self) -> None:
        """Let clients know that nobody answers any more."""
        super().serving_ended()
        self._peer_alive.clear()
        for each in self._errors:  # what a dead client did not read keeps no process
            each.cancel_join_thread()

    def serving_began(self) -> None:
        """Let clients know that somebody answers again."""
        super().serving_began()
        self._peer_alive.set()


class ProcessSlotClient:
    """Asks an inference server through a slot. It can be sent to another process, and belongs to one thread.

    Args:
        transport: what has the slot.
        slot: its number.
    """

    def __init__(self, transport: ProcessSlotTransport, slot: int) -> None:
        self._slot = slot
        self._asked, self._answered = transport._asked, transport._answered
        self._states, self._sent, self._owners = transport._states, transport._sent, transport._owners
        self._work, self._bell = transport._work, transport._bells[slot]
        self._errors, self._peer_alive = transport._errors[slot], transport._peer_alive
        self._copy = transport.copy_result
        self._future: ProcessSlotFuture | None = None
        self._is_owner = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_future": None, "_is_owner": False}

    @property
    def client_id(self) -> int:
        """The number of its slot."""
        return self._slot

    def submit(self, td: TensorDictBase) -> ProcessSlotFuture:
        """Ask, and do not wait.

        Raises:
            RuntimeError: a request is on its way.
            KeyError: the request lacks a key.
            ValueError: a tensor has another shape, or is not on the CPU.
            MailboxPeerClosedError: the server has ended.
        """
        if int(self._states[self._slot]) != _IDLE and self._peer_alive.is_set():
            raise RuntimeError(f"slot {self._slot} has a request on its way; read its answer before you ask again.")
        if not self._peer_alive.is_set():
            raise MailboxPeerClosedError("the server has ended; start it again, and ask again.")
        refuse_devices(td)
        if not self._is_owner:
            self._owners.take(self._slot)
            self._is_owner = True
        self._asked.write(self._slot, stamped(td, None) if td.get(STAMP, None) is None else td, where="the request")
        self._sent[self._slot] = time.monotonic()
        self._states[self._slot] = _ASKED
        self._work.release()
        self._future = ProcessSlotFuture(self)
        return self._future

    def __call__(self, td: TensorDictBase, timeout: float | None = None) -> TensorDictBase:
        """Ask, and wait for the answer; see `ProcessSlotFuture.result`."""
        return self.submit(td).result(timeout)

    def outcome(self, timeout: float | None) -> tuple[bool, Any] | None:
        """Whether the request went well, and what came of it; None where it is not answered in time."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK_S if until is None else min(_LOOK_S, max(until - time.monotonic(), 0.0))
            alive = self._peer_alive.is_set()
            if self._bell.acquire(timeout=left):
                return self._taken()
            if not alive:
                self._states[self._slot] = _IDLE
                return False, MailboxPeerClosedError("the server ended before it answered; start it, and ask again.")
            if until is not None and time.monotonic() >= until:
                return None

    def _taken(self) -> tuple[bool, Any]:
        state = int(self._states[self._slot])
        if state == _FAILED:
            try:
                answer: Any = self._errors.get(timeout=5.0)
            except queue.Empty:
                answer = MailboxPeerClosedError("the server ended while it sent an error.")
        else:
            answer = self._answered.read(self._slot, self._copy)
        self._states[self._slot] = _IDLE
        return state != _FAILED, answer


class ProcessSlotFuture:
    """The answer to one request, which holds the slot until it is read.

    Args:
        client: who asked.
    """

    def __init__(self, client: ProcessSlotClient) -> None:
        self._client = client
        self._outcome: tuple[bool, Any] | None = None

    def done(self) -> bool:
        """Whether the answer is there, or none can come any more."""
        if self._outcome is None:
            self._outcome = self._client.outcome(0.0)
        return self._outcome is not None

    def result(self, timeout: float | None = None) -> TensorDictBase:
        """The answer.

        Args:
            timeout: seconds to wait; None for no end.

        Raises:
            queue.Empty: it did not come in time; also a `TimeoutError`. It can be asked for again.
            MailboxPeerClosedError: the server ended without it.
        """
        if self._outcome is None:
            self._outcome = self._client.outcome(timeout)
        if self._outcome is None:
            raise NoAnswerYet(f"slot {self._client.client_id} was not answered within {timeout} s.")
        fine, answer = self._outcome
        if not fine:
            raise answer
        found: TensorDictBase = answer
        return found
