"""Requests of other processes of this machine."""

from __future__ import annotations

from typing import Any

import torch.multiprocessing as mp

from flambeau.rl._comm.mailbox import MailboxClient
from flambeau.rl._comm.queues import PickledQueue
from flambeau.rl.modules.inference_server._fan_in import FanIn
from flambeau.rl.modules.inference_server._queue_transport import QueueBasedTransport

__all__ = ["MPTransport"]


class MPTransport(QueueBasedTransport):
    """Carries requests between processes, through a pipe each way for each client.

    A client that is killed holds up nobody else. Clients are made before the processes start that they are for.

    Args:
        ctx: a context of multiprocessing; default: "spawn".
        use_manager: queues in a process of their own, through which clients can be handed on by other processes.
    """

    kind = "process"

    def __init__(self, ctx: Any = None, *, use_manager: bool = False) -> None:
        super().__init__()
        self._context = mp.get_context("spawn") if ctx is None else ctx
        self._manager = self._context.Manager() if use_manager else None
        self._is_managed = use_manager
        if self._manager is not None:
            self._request_queue = self._manager.Queue()
            self._peer_alive = self._manager.Event()
        else:
            self._request_queue = FanIn(self._context)
            self._peer_alive = self._context.Event()
        self._peer_alive.set()  # requests may come before the server begins
        self._ends: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_context": None, "_manager": None, "_box": None, "_ends": {}}

    def _make_response_queue(self) -> Any:
        if self._is_managed:
            if self._manager is None:
                raise RuntimeError("clients are made in the process that made the transport.")
            return self._manager.Queue()
        if self._context is None:
            raise RuntimeError("clients are made in the process that made the transport, before others start.")
        return PickledQueue(self._context)

    def _requests_of(self, client: MailboxClient) -> Any:
        return self._request_queue if self._is_managed else self._request_queue.end()

    def serving_ended(self) -> None:
        """Let clients know that nobody answers any more."""
        super().serving_ended()
        if not self._is_managed:
            for each in self._response_queues.values():  # what a dead client did not read keeps no process
                each.cancel_join_thread()

    def close(self) -> None:
        """End the manager's process; without one, there is nothing to do."""
        if self._manager is not None:
            self._manager.shutdown()
            self._manager = None
