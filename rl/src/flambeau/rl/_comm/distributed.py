"""Tensordicts of known layouts between machines, over torch.distributed.

Each client has a process group of its own with the server, which it finds through a store: the program's own process
group is not touched. As everything of torch.distributed, this is for networks that are trusted: nobody is asked who he
is, and errors travel as pickles.
"""

from __future__ import annotations

import itertools
import math
import pickle
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl._comm.mailbox import MailboxPeerClosedError, NoAnswerYet
from flambeau.rl._comm.request_reply import (
    Message,
    MessageMetadata,
    MetadataSpec,
    RequestReplyTransport,
)
from flambeau.rl._utils import logger

__all__ = ["TorchDistributedTransport"]

_REQUEST, _REPLY, _ERROR, _GOODBYE, _CLOSED = range(1, 6)
_TO_SERVER, _TO_CLIENT = 1, 2
"""Tags of messages, by their way."""
_SERVER, _CLIENT = 0, 1
"""Ranks in the group of two."""
_LOOK_S = 0.02
_FOR_EVER = timedelta(days=365)
"""A receive that waits for the next request may wait for long; one that runs out of time ends the connection."""


class Layout:
    """How a tensordict lies in bytes.

    Args:
        spec: what it is like.
        name: of the specification, for messages.

    Raises:
        TypeError: a leaf is no tensor.
    """

    def __init__(self, spec: TensorDictBase, name: str) -> None:
        self.name, self.batch_size = name, spec.batch_size
        self.leaves: list[tuple[Any, torch.Size, torch.dtype, int]] = []
        self.nbytes = 0
        for key, leaf in spec.items(True, True):
            if not isinstance(leaf, Tensor):
                raise TypeError(f"{name} has a {type(leaf).__name__} at {key!r}; what travels are tensors alone.")
            self.leaves.append((key, leaf.shape, leaf.dtype, self.nbytes))
            self.nbytes += math.ceil(leaf.numel() * leaf.element_size() / 8) * 8

    def write(self, values: TensorDictBase, buffer: Tensor, where: str) -> None:
        """Write a tensordict into bytes; keys that the layout does not have are left out.

        Raises:
            KeyError: a key is missing.
            ValueError: a tensor has another shape.
        """
        for key, shape, dtype, first in self.leaves:
            value = values.get(key, None)
            if value is None:
                raise KeyError(f"{where} has no {key!r}, as {self.name} has; it has {list(values.keys(True, True))}.")
            if value.shape != shape:
                raise ValueError(f"{where} is {tuple(value.shape)} at {key!r}, expected {tuple(shape)}.")
            self._part(buffer, shape, dtype, first).copy_(value)

    def read(self, buffer: Tensor) -> TensorDict:
        """The tensordict in bytes, as a copy."""
        found = TensorDict(batch_size=self.batch_size)
        for key, shape, dtype, first in self.leaves:
            found.set(key, self._part(buffer, shape, dtype, first).clone())
        return found

    @staticmethod
    def _part(buffer: Tensor, shape: torch.Size, dtype: torch.dtype, first: int) -> Tensor:
        nbytes = math.prod(shape) * dtype.itemsize
        return buffer[first : first + nbytes].view(dtype).view(shape)


class _Pair:
    """One end of the connection between a client and the server.

    Args:
        store: where both meet.
        prefix: of their names in it.
        rank: `_SERVER` or `_CLIENT`.
        out: the layout of what this end sends.
        into: the layout of what it receives.
        words: numbers in the header beside its two own.
        backend: "gloo" or "nccl".
        device: of tensors.
    """

    def __init__(
        self,
        store: Any,
        prefix: str,
        rank: int,
        out: Layout,
        into: Layout,
        words: int,
        backend: str,
        device: torch.device,
    ) -> None:
        dist: Any = import_module("torch.distributed")
        self.peer = 1 - rank
        self._tags = (_TO_CLIENT, _TO_SERVER) if rank == _SERVER else (_TO_SERVER, _TO_CLIENT)
        self._out, self._into = out, into
        self._group: Any = dist.ProcessGroupGloo(dist.PrefixStore(f"{prefix}/gloo", store), rank, 2, _FOR_EVER)
        self._data: Any = None
        header = 8 * (2 + words)
        if backend == "nccl":  # headers by gloo, so that no receive of nccl waits for long
            self._data = dist.ProcessGroupNCCL(dist.PrefixStore(f"{prefix}/nccl", store), rank, 2)
            self._payloads = [torch.zeros(each.nbytes, dtype=torch.uint8, device=device) for each in (out, into)]
            self._sent, self._received = (torch.zeros(header, dtype=torch.uint8) for _ in range(2))
        else:
            self._sent, self._received = (torch.zeros(header + each.nbytes, dtype=torch.uint8) for each in (out, into))
        self._header = header
        self._turn = threading.Lock()

    def send(
        self,
        kind: int,
        number: int,
        words: list[int] | None = None,
        values: TensorDictBase | None = None,
        where: str = "",
    ) -> None:
        """Send a message; tensors with those kinds alone that have some."""
        with self._turn:
            header = self._sent[: self._header].view(torch.int64)
            header.copy_(torch.tensor([kind, number, *(words or [0] * (len(header) - 2))]))
            if values is not None:
                place = self._sent[self._header :] if self._data is None else self._payloads[0]
                self._out.write(values, place, where)
            self._group.send([self._sent], self.peer, self._tags[0]).wait()
            if values is not None and self._data is not None:
                self._data.send([self._payloads[0]], self.peer, 0).wait()

    def receive(self) -> tuple[int, int, list[int], TensorDict | None]:
        """The next message, as soon as it is there.

        Raises:
            RuntimeError: the other end is gone.
        """
        self._group.recv([self._received], self.peer, self._tags[1]).wait()
        kind, number, *words = self._received[: self._header].view(torch.int64).tolist()
        values = None
        if kind in (_REQUEST, _REPLY):
            place = self._received[self._header :]
            if self._data is not None:
                place = self._payloads[1]
                self._data.recv([place], self.peer, 0).wait()
            values = self._into.read(place)
        return kind, number, words, values


# Groups with a receive that waits outlive their owners: freeing one would wait for it.
_kept: list[Any] = []


class TorchDistributedTransport(RequestReplyTransport):
    """Carries requests and answers of known layouts between machines.

    Clients can be sent to any process that reaches the store; they connect with their first request, which waits until
    the server runs. Keys that the specifications do not name are left out.

    Args:
        request_spec: what a request is like.
        response_spec: what an answer is like.
        backend: "gloo", for tensors on the CPU, or "nccl", for tensors on GPUs.
        timeout: seconds to wait for the store.
        host: of the store; default: this machine's address.
        port: of the store; default: one that is free.
        metadata_spec: which numbers stand beside each request.
        channel_name: of this channel, where one store has several.

    Raises:
        ValueError: there is no such backend.
        TypeError: a specification has leaves that are no tensors.
    """

    kind = "distributed"

    def __init__(
        self,
        request_spec: TensorDictBase,
        response_spec: TensorDictBase,
        *,
        backend: Literal["gloo", "nccl"] = "gloo",
        timeout: float = 300.0,
        host: str | None = None,
        port: int | None = None,
        metadata_spec: MetadataSpec | None = None,
        channel_name: str = "default",
        _store_info: tuple[str, int] | None = None,
        _store: Any = None,
    ) -> None:
        if backend not in ("gloo", "nccl"):
            raise ValueError(f"backend is {backend!r}, expected 'gloo' or 'nccl'.")
        self._asked, self._answered = Layout(request_spec, "request_spec"), Layout(response_spec, "response_spec")
        self._backend, self._timeout = backend, timeout
        self._device = torch.device("cuda" if backend == "nccl" else "cpu")
        self._metadata = MetadataSpec() if metadata_spec is None else metadata_spec
        self._prefix = f"flambeau/{channel_name}"
        if _store_info is None:
            dist: Any = import_module("torch.distributed")
            host = _this_address() if host is None else host
            _store = dist.TCPStore(
                host, port or 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=timeout)
            )
            _store_info = (host, _store.port)
        self._store_info, self._store = _store_info, _store
        self._fresh()

    def _fresh(self) -> None:
        self._pairs: dict[int, _Pair] = {}
        self._known: set[int] = set()
        self._gone: list[int] = []
        self._waiting: deque[tuple[Message, tuple[int, int], float]] = deque()
        self._changed = threading.Condition()
        self._acceptor: threading.Thread | None = None
        self._stop = threading.Event()

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_store", "_pairs", "_known", "_gone", "_waiting", "_changed", "_acceptor", "_stop")
        return {key: value for key, value in self.__dict__.items() if key not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._store = None
        self._fresh()

    @property
    def store(self) -> Any:
        """The store, to which a process that got the transport connects when it first needs it."""
        if self._store is None:
            self._store = _connected(self._store_info, self._timeout)
        return self._store

    def client(self) -> _DistributedClient:
        """What asks, from any process that reaches the store."""
        number = self.store.add(f"{self._prefix}/clients", 1) - 1
        return self._client_of(number)

    def _client_of(self, number: int) -> _DistributedClient:
        return _DistributedClient(
            self._store_info,
            number,
            self._asked,
            self._answered,
            self._backend,
            self._timeout,
            self._device,
            self._metadata,
            self._prefix,
        )

    def submit(self, td: TensorDictBase, *, metadata: MessageMetadata | None = None) -> Any:
        """Not possible: answers go to clients.

        Raises:
            RuntimeError: in any case.
        """
        raise RuntimeError(f"{type(self).__name__} brings answers to clients; ask with its client().")

    # The server's side

    def serving_began(self) -> None:
        """Let clients connect from now on."""
        super().serving_began()
        if self._acceptor is None:
            self._stop.clear()
            self._acceptor = threading.Thread(target=self._accept, daemon=True, name="flambeau-accepts")
            self._acceptor.start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                count = self.store.add(f"{self._prefix}/clients", 0)
                for number in set(range(count)) - self._known:
                    if self.store.check([f"{self._prefix}/{number}/comes"]):
                        self._known.add(number)
                        threading.Thread(target=self._connect, args=(number,), daemon=True).start()
            except RuntimeError:  # the store is gone, and nobody can come any more
                return
            self._stop.wait(_LOOK_S)

    def _connect(self, number: int) -> None:
        # With a connection of its own: others may use the store while the two ends look for each other.
        store = _connected(self._store_info, self._timeout)
        pair = _Pair(
            store, f"{self._prefix}/{number}", _SERVER, self._answered, self._asked,
            len(self._metadata.fields), self._backend, self._device,
        )  # fmt: skip
        _kept.append(pair)
        self._pairs[number] = pair
        try:
            while True:
                kind, request, words, values = pair.receive()
                if kind == _GOODBYE:
                    break
                payload: Any = values
                message = Message(payload, self._metadata.decode(words))
                with self._changed:
                    if self._ended:
                        self._tell_closed(pair)
                        break
                    self._waiting.append((message, (number, request), time.monotonic()))
                    self._changed.notify()
        except RuntimeError:
            logger.warning("Client %d ended without a word.", number)
            self._gone.append(number)
        self._pairs.pop(number, None)

    def gone_clients(self) -> list[int]:
        """Numbers of clients that ended without a word, since the last time."""
        gone, self._gone = self._gone, []
        return gone

    def wait_for_work(self, timeout: float) -> None:
        """Wait until there is a request, at most `timeout` seconds."""
        with self._changed:
            if not self._waiting:
                self._changed.wait(timeout)

    def drain(self, max_items: int) -> tuple[list[TensorDictBase], list[tuple[int, int]]]:
        """Requests that are there, at most so many, and who asked."""
        messages, callbacks, _ = self.drain_messages_with_timing(max_items)
        return [message.payload for message in messages], callbacks

    def drain_with_timing(self, max_items: int) -> tuple[list[TensorDictBase], list[Any], list[float | None]]:
        """As `drain`, with the times at which they came: clocks of machines differ."""
        messages, callbacks, times = self.drain_messages_with_timing(max_items)
        return [message.payload for message in messages], callbacks, times

    def drain_messages_with_timing(self, max_items: int) -> tuple[list[Message], list[Any], list[float | None]]:
        """As `drain_with_timing`, with what stands beside the requests."""
        with self._changed:
            taken = [self._waiting.popleft() for _ in range(min(max_items, len(self._waiting)))]
        return [each[0] for each in taken], [each[1] for each in taken], [each[2] for each in taken]

    def resolve(self, callback: tuple[int, int], result: TensorDictBase) -> None:
        """Answer a request.

        Raises:
            KeyError: the answer lacks what `response_spec` has.
        """
        number, request = callback
        self._to(number, lambda pair: pair.send(_REPLY, request, None, result, "the answer"))

    def resolve_exception(self, callback: tuple[int, int], exc: BaseException) -> None:
        """Let a request fail; the error goes through the store."""
        number, request = callback
        self.store.set(f"{self._prefix}/{number}/error/{request}", _pickled(exc))
        self._to(number, lambda pair: pair.send(_ERROR, request))

    def _to(self, number: int, send: Callable[[_Pair], None]) -> None:
        pair = self._pairs.get(number)
        if pair is None:  # it has gone meanwhile
            return
        try:
            send(pair)
        except RuntimeError:
            logger.warning("Client %d ended before it was answered.", number)

    def serving_ended(self) -> None:
        """Let clients know that nobody answers any more."""
        with self._changed:
            super().serving_ended()
        self._stop.set()
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None and acceptor is not threading.current_thread():
            acceptor.join(1.0)
        self._say_closed()

    def _say_closed(self) -> None:
        """Answer what waits with an error, and all clients with the end."""
        with self._changed:
            callbacks = [callback for _, callback, _ in self._waiting]
            self._waiting.clear()
        for callback in callbacks:
            self.resolve_exception(callback, _closed())
        for number, pair in list(self._pairs.items()):
            self._tell_closed(pair)
            self._pairs.pop(number, None)

    def _tell_closed(self, pair: _Pair) -> None:
        try:
            pair.send(_CLOSED, 0)
        except RuntimeError:  # it has gone before
            return

    def close(self) -> None:
        """End connections; what clients wait for fails."""
        self.serving_ended()


_DistributedTransport = TorchDistributedTransport


class _DistributedClient:
    """Asks a server. It can be sent to other processes, and connects with the first request.

    Args:
        store_info: host and port of the store.
        number: of the client.
        asked: the layout of requests.
        answered: the layout of answers.
        backend: "gloo" or "nccl".
        timeout: seconds to wait for the store.
        device: of tensors.
        metadata: which numbers stand beside requests.
        prefix: of names in the store.
        peer_alive: what tells, by `is_set()`, whether the server is alive.
    """

    def __init__(
        self,
        store_info: tuple[str, int],
        number: int,
        asked: Layout,
        answered: Layout,
        backend: str,
        timeout: float,
        device: torch.device,
        metadata: MetadataSpec,
        prefix: str,
        peer_alive: Any = None,
    ) -> None:
        self._store_info, self._number = store_info, number
        self._asked, self._answered = asked, answered
        self._backend, self._timeout, self._device = backend, timeout, device
        self._metadata, self._prefix = metadata, prefix
        self._peer_alive = peer_alive
        self._fresh()

    def _fresh(self) -> None:
        self._pair: _Pair | None = None
        self._store: Any = None
        self._numbers = itertools.count()
        self._outcomes: dict[int, tuple[bool, Any]] = {}
        self._changed = threading.Condition()
        self._guard = threading.Lock()
        self._is_closed = False

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_pair", "_store", "_numbers", "_outcomes", "_changed", "_guard", "_is_closed")
        return {key: value for key, value in self.__dict__.items() if key not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._fresh()

    @property
    def client_id(self) -> int:
        """Its number."""
        return self._number

    @property
    def supports_metadata(self) -> bool:
        """Whether numbers stand beside requests."""
        return bool(self._metadata.fields)

    def _connected(self) -> _Pair:
        with self._guard:
            if self._pair is None:
                self._store = _connected(self._store_info, self._timeout)
                self._store.set(f"{self._prefix}/{self._number}/comes", b"1")
                self._pair = _Pair(
                    self._store, f"{self._prefix}/{self._number}", _CLIENT, self._asked, self._answered,
                    len(self._metadata.fields), self._backend, self._device,
                )  # fmt: skip
                _kept.append(self._pair)
                threading.Thread(target=self._receive, daemon=True, name="flambeau-hears").start()
            return self._pair

    def _receive(self) -> None:
        assert self._pair is not None
        try:
            while True:
                kind, number, _, values = self._pair.receive()
                if kind == _CLOSED:
                    break
                outcome = (True, values) if kind == _REPLY else (False, self._error_of(number))
                with self._changed:
                    self._outcomes[number] = outcome
                    self._changed.notify_all()
        except RuntimeError:  # the server is gone
            logger.info("The server of client %d is gone.", self._number)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _error_of(self, number: int) -> Any:
        return pickle.loads(self._store.get(f"{self._prefix}/{self._number}/error/{number}"))

    def submit(self, td: TensorDictBase, *, metadata: MessageMetadata | None = None) -> _DistributedFuture:
        """Ask, and do not wait.

        Args:
            td: the request.
            metadata: numbers beside it.

        Raises:
            KeyError: the request lacks a key.
            ValueError: a tensor has another shape, or numbers are missing.
            MailboxPeerClosedError: the server has ended.
        """
        words = self._metadata.encode(metadata or {})
        pair = self._connected()
        number = next(self._numbers)
        if self._is_closed:
            raise _closed()
        try:
            pair.send(_REQUEST, number, words, td, "the request")
        except RuntimeError as error:
            raise _closed() from error
        return _DistributedFuture(self, number)

    def __call__(
        self, td: TensorDictBase, timeout: float | None = None, *, metadata: MessageMetadata | None = None
    ) -> TensorDictBase:
        """Ask, and wait for the answer; see `_DistributedFuture.result`."""
        return self.submit(td, metadata=metadata).result(timeout)

    def outcome(self, number: int, timeout: float | None) -> tuple[bool, Any] | None:
        """Whether a request went well, and what came of it; None where it is not answered in time."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while number not in self._outcomes:
                if self._is_closed:
                    return False, _closed()
                left = 0.5 if until is None else min(0.5, until - time.monotonic())
                if left <= 0:
                    return None
                self._changed.wait(left)
                if self._peer_alive is not None and not self._peer_alive.is_set() and number not in self._outcomes:
                    self._is_closed = True
            return self._outcomes.pop(number)

    def close(self) -> None:
        """Tell the server that nothing more comes."""
        if self._pair is not None and not self._is_closed:
            self._is_closed = True
            try:
                self._pair.send(_GOODBYE, 0)
            except RuntimeError:  # it has gone before
                return


class _DistributedFuture:
    """The answer to one request.

    Args:
        client: who asked.
        number: of the request.
    """

    def __init__(self, client: _DistributedClient, number: int) -> None:
        self._client, self._number = client, number
        self._outcome: tuple[bool, Any] | None = None

    def done(self) -> bool:
        """Whether the answer is there, or none can come any more."""
        if self._outcome is None:
            self._outcome = self._client.outcome(self._number, 0.0)
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
            self._outcome = self._client.outcome(self._number, timeout)
        if self._outcome is None:
            raise NoAnswerYet(f"request {self._number} was not answered within {timeout} s.")
        fine, answer = self._outcome
        if not fine:
            raise answer
        found: TensorDictBase = answer
        return found


def _closed() -> MailboxPeerClosedError:
    return MailboxPeerClosedError("the server ended before it answered; start it, and ask with a new client.")


def _pickled(error: BaseException) -> bytes:
    """A pickle of an error; of its text, where it has none."""
    try:
        return pickle.dumps(error)
    except (pickle.PicklingError, AttributeError, TypeError):
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))


def _connected(info: tuple[str, int], timeout: float) -> Any:
    dist: Any = import_module("torch.distributed")
    host, port = info
    return dist.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=timeout))


def _this_address() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
