"""Requests of other processes in shared memory; only numbers of rows go through queues."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._comm.mailbox import MailboxClient, MailboxFuture
from flambeau.rl.modules.inference_server._banks import Bank, refuse_devices
from flambeau.rl.modules.inference_server._mp import MPTransport
from flambeau.rl.modules.inference_server._owners import Owners
from flambeau.rl.modules.inference_server._stamps import STAMP, stamped

__all__ = ["SharedMemoryTransport"]


class SharedMemoryTransport(MPTransport):
    """Carries requests between processes in rows of shared memory, so that nothing is pickled.

    Keys that the specifications do not name are left out. A row belongs to a request until its answer is read; clients
    wait for one where there is none. Rows of a process that was killed are given to others.

    Args:
        request_spec: what a request is like: keys, shapes, dtypes, of one environment, on the CPU.
        response_spec: what an answer is like, with what the server adds, such as "policy_version".
        num_slots: how many requests can be on their way.
        ctx: a context of multiprocessing; default: "spawn".
        copy_result: answers are copies; else the row itself, which is written again with a later request.

    Raises:
        ValueError: num_slots < 1, or a specification is not on the CPU.
        TypeError: one has leaves that are no tensors.
    """

    kind = "shared_memory"

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
        super().__init__(ctx)
        self.num_slots, self.copy_result = num_slots, copy_result
        self._asked = Bank(stamped(request_spec, None), num_slots, "request_spec")
        self._answered = Bank(response_spec, num_slots, "response_spec")
        self._owners = Owners(num_slots)

    def client(self) -> SharedMemoryClient:
        """What asks. It has to be made before the process starts that it is for."""
        made = super().client()
        return SharedMemoryClient(made, self._asked, self._answered, self._owners, self.copy_result)

    def drain_with_timing(self, max_items: int) -> tuple[list[TensorDictBase], list[Any], list[float | None]]:
        """Requests that are there, as the rows that they lie in; who asked, and when."""
        rows, callbacks, times = self._mailbox.drain(max_items)
        return (
            [self._asked.read(row, copy=False) for row in rows],
            list(zip(callbacks, rows, strict=True)),
            times,
        )

    def resolve(self, callback: Any, result: TensorDictBase) -> None:
        """Write an answer.

        Raises:
            KeyError: it lacks what `response_spec` has.
        """
        to, row = callback
        self._answered.write(row, result, where="the policy's answer")
        self._mailbox.resolve(to, row)

    def resolve_exception(self, callback: Any, exc: BaseException) -> None:
        """Let a request fail; its client lets go of the row."""
        self._mailbox.reject(callback[0], exc)


class SharedMemoryClient:
    """Asks an inference server through shared memory. It can be sent to another process, and belongs to one thread.

    Args:
        client: what carries numbers of rows.
        asked: where requests are written.
        answered: where answers are.
        owners: who has which row.
        copy: give copies of answers.
    """

    def __init__(self, client: MailboxClient, asked: Bank, answered: Bank, owners: Owners, copy: bool) -> None:
        self._client, self._asked, self._answered, self._owners, self._copy = client, asked, answered, owners, copy

    @property
    def client_id(self) -> int:
        """Its number."""
        return self._client.client_id

    def submit(self, td: TensorDictBase) -> SharedMemoryFuture:
        """Ask, and do not wait, except for a row.

        Raises:
            KeyError: the request lacks a key.
            ValueError: a tensor has another shape, or is not on the CPU.
            MailboxPeerClosedError: the server has ended.
        """
        refuse_devices(td)
        row = self._owners.acquire(self._client.peer_is_alive)
        try:
            if td.get(STAMP, None) is None:
                td = stamped(td, None)
            self._asked.write(row, td, where="the request")
            return SharedMemoryFuture(self, self._client.submit(row), row)
        except BaseException:
            self._owners.free(row)
            raise

    def __call__(self, td: TensorDictBase, timeout: float | None = None) -> TensorDictBase:
        """Ask, and wait for the answer; see `SharedMemoryFuture.result`."""
        return self.submit(td).result(timeout)

    def read(self, row: int) -> TensorDictBase:
        """The answer in a row."""
        return self._answered.read(row, self._copy)

    def free(self, row: int) -> None:
        """Let others have a row."""
        self._owners.free(row)


class SharedMemoryFuture:
    """The answer to one request.

    Args:
        client: who asked.
        future: the number of the row.
        row: the number itself.
    """

    def __init__(self, client: SharedMemoryClient, future: MailboxFuture, row: int) -> None:
        self._client, self._future, self._row = client, future, row
        self._answer: TensorDictBase | None = None
        self._has_row = True

    def done(self) -> bool:
        """Whether the answer is there, or none can come any more."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> TensorDictBase:
        """The answer.

        Args:
            timeout: seconds to wait; None for no end.

        Raises:
            queue.Empty: it did not come in time; also a `TimeoutError`. It can be asked for again.
            MailboxPeerClosedError: the server ended without it.
        """
        if self._answer is None:
            try:
                self._future.result(timeout)
            except TimeoutError:
                raise
            except BaseException:
                self._free()
                raise
            self._answer = self._client.read(self._row)
            self._free()
        return self._answer

    def _free(self) -> None:
        if self._has_row:
            self._has_row = False
            self._client.free(self._row)
