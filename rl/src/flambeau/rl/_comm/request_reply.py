"""Tensordicts that are asked and answered, in batches, by one serving loop over any transport."""

from __future__ import annotations

import struct
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._comm.mailbox import MailboxPeerClosedError

__all__ = [
    "ChannelServer",
    "Message",
    "MetadataField",
    "MetadataSpec",
    "RequestReplyClient",
    "RequestReplyTransport",
]

MetadataValue: TypeAlias = bool | int | float | str
MessageMetadata: TypeAlias = Mapping[str, MetadataValue]
MetadataDType: TypeAlias = Literal["bool", "int64", "float64"]

_KINDS: dict[str, tuple[type, ...]] = {"bool": (bool,), "int64": (int,), "float64": (int, float)}
_LOOK_S = 0.05
"""How long the serving loop waits for work at a time, between looks at whether it should end."""


@dataclass(frozen=True)
class MetadataField:
    """One number beside a request.

    Args:
        name: its name.
        dtype: "bool", "int64" or "float64".
    """

    name: str
    dtype: MetadataDType

    def __post_init__(self) -> None:
        if self.dtype not in get_args(MetadataDType):
            raise ValueError(
                f"{self.name} is of dtype {self.dtype!r}, expected one of {', '.join(get_args(MetadataDType))}."
            )


@dataclass(frozen=True)
class MetadataSpec:
    """Which numbers stand beside each request, in the order in which they travel: one word of 64 bits each.

    Args:
        fields: the numbers.

    Raises:
        ValueError: two have the same name.
    """

    fields: tuple[MetadataField, ...] = ()

    def __post_init__(self) -> None:
        names = [each.name for each in self.fields]
        if len(set(names)) < len(names):
            raise ValueError(f"fields have the names {names}, of which some are the same.")

    def validate(self, metadata: MessageMetadata) -> None:
        """Compare what stands beside a request.

        Raises:
            ValueError: there are names too many or too few.
            TypeError: a value is not of its dtype.
        """
        names = {each.name for each in self.fields}
        if set(metadata) != names:
            raise ValueError(f"metadata have the names {sorted(metadata)}, expected {sorted(names)}.")
        for each in self.fields:
            value = metadata[each.name]
            if not isinstance(value, _KINDS[each.dtype]) or (isinstance(value, bool) and each.dtype != "bool"):
                raise TypeError(f"{each.name} is {value!r}, expected a {each.dtype}.")

    def encode(self, metadata: MessageMetadata) -> list[int]:
        """The words that travel; see `validate` for what is raised."""
        self.validate(metadata)
        return [_word(metadata[each.name], each.dtype) for each in self.fields]

    def decode(self, values: Sequence[int]) -> dict[str, MetadataValue]:
        """What words say.

        Raises:
            ValueError: there are not as many as fields.
        """
        if len(values) != len(self.fields):
            raise ValueError(f"there are {len(values)} words for {len(self.fields)} fields.")
        return {each.name: _value(int(word), each.dtype) for each, word in zip(self.fields, values, strict=True)}


def _word(value: Any, dtype: str) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0]) if dtype == "float64" else int(value)


def _value(word: int, dtype: str) -> MetadataValue:
    if dtype == "float64":
        return float(struct.unpack("<d", struct.pack("<q", word))[0])
    return bool(word) if dtype == "bool" else word


@dataclass(frozen=True)
class Message:
    """A request.

    Args:
        payload: what is asked.
        metadata: numbers beside it, which transports carry and do not read.
    """

    payload: TensorDictBase
    metadata: MessageMetadata = field(default_factory=dict)


class RequestReplyTransport(ABC):
    """Carries requests from clients to one server, and answers back."""

    _ended = False

    @abstractmethod
    def submit(self, payload: TensorDictBase, *, metadata: MessageMetadata | None = None) -> Future[TensorDictBase]:
        """Ask, and do not wait."""

    @abstractmethod
    def drain(self, max_items: int) -> tuple[list[TensorDictBase], list[Any]]:
        """Requests that are there, at most so many, and for each whom to answer."""

    @abstractmethod
    def wait_for_work(self, timeout: float) -> None:
        """Wait until there is a request, at most `timeout` seconds."""

    @abstractmethod
    def resolve(self, callback: Any, result: TensorDictBase) -> None:
        """Answer a request."""

    @abstractmethod
    def resolve_exception(self, callback: Any, exc: BaseException) -> None:
        """Let a request fail."""

    def drain_with_timing(self, max_items: int) -> tuple[list[TensorDictBase], list[Any], list[float | None]]:
        """As `drain`, with the times of `time.monotonic` at which they were sent, None where nobody knows."""
        payloads, callbacks = self.drain(max_items)
        return payloads, callbacks, [None] * len(payloads)

    def drain_messages_with_timing(self, max_items: int) -> tuple[list[Message], list[Any], list[float | None]]:
        """As `drain_with_timing`, with what stands beside the requests."""
        payloads, callbacks, times = self.drain_with_timing(max_items)
        return [Message(payload) for payload in payloads], callbacks, times

    def client(self) -> Any:
        """What asks, and can do nothing else."""
        return RequestReplyClient(self)

    def serving_ended(self) -> None:
        """Told by the server when it ends: whoever asks from now on must not wait for an answer."""
        self._ended = True

    def serving_began(self) -> None:
        """Told by the server when it begins."""
        self._ended = False


class RequestReplyClient:
    """Asks a server.

    Args:
        transport: what carries requests.
    """

    def __init__(self, transport: RequestReplyTransport) -> None:
        self._transport = transport

    @property
    def supports_metadata(self) -> bool:
        """Whether numbers can stand beside requests."""
        return True

    def submit(self, payload: TensorDictBase, *, metadata: MessageMetadata | None = None) -> Future[TensorDictBase]:
        """Ask, and do not wait."""
        if metadata is None:
            return self._transport.submit(payload)
        return self._transport.submit(payload, metadata=metadata)

    def __call__(
        self, payload: TensorDictBase, timeout: float | None = None, *, metadata: MessageMetadata | None = None
    ) -> TensorDictBase:
        """Ask, and wait for the answer.

        Args:
            payload: what is asked.
            timeout: seconds to wait; None for no end.
            metadata: numbers beside it.

        Raises:
            TimeoutError: no answer came in time.
        """
        return self.submit(payload, metadata=metadata).result(timeout)


BatchHandler: TypeAlias = Callable[[Sequence[Message]], Sequence[TensorDictBase]]


class ServingStats:
    """How many requests were answered, in how many batches, and how long they waited and took.

    Args:
        window: of how many of the last ones percentiles are computed.
        took: what the time of a batch is called.
    """

    def __init__(self, window: int, took: str = "handler") -> None:
        self._window, self._took = window, took
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self.requests = self.batches = self.errors = 0
        self._since = time.monotonic()
        self._waits: deque[float] = deque(maxlen=self._window)
        self._times: deque[float] = deque(maxlen=self._window)

    def add(self, sent: Sequence[float | None], began: float, ended: float, failed: bool) -> None:
        """Count a batch."""
        with self._lock:
            self.requests += len(sent)
            self.batches += 1
            self.errors += len(sent) if failed else 0
            self._waits.extend(1e3 * (began - at) for at in sent if at is not None)
            self._times.append(1e3 * (ended - began))

    def facts(self, reset: bool) -> dict[str, float | int]:
        """All of them; times in milliseconds, rates by second.

        Args:
            reset: begin anew afterwards.
        """
        with self._lock:
            seconds = max(time.monotonic() - self._since, 1e-9)
            found: dict[str, float | int] = {
                "requests": self.requests,
                "batches": self.batches,
                "errors": self.errors,
                "requests_per_s": self.requests / seconds,
                "batches_per_s": self.batches / seconds,
                "avg_batch_size": self.requests / max(self.batches, 1),
            }
            for name, values in (("queue", self._waits), (self._took, self._times)):
                for share in (50, 95):
                    found[f"p{share}_{name}_ms"] = _percentile(values, share)
            if reset:
                self._clear()
        return found


def _percentile(values: Sequence[float], share: int) -> float:
    ordered = sorted(values)
    return ordered[min(round(share / 100 * (len(ordered) - 1)), len(ordered) - 1)] if ordered else 0.0


class ChannelServer:
    """Answers requests in batches, in a thread.

    A batch is what is there; where that is less than `min_batch_size`, more is waited for, `timeout` seconds at most.
    What the handler raises, each of the batch's clients gets. Requests that are there when the server ends are
    answered with an error.

    Args:
        channel: what carries requests.
        handler: takes a batch of messages and returns an answer to each.
        max_batch_size: requests at a time, 1 or more.
        min_batch_size: requests that are waited for.
        timeout: seconds for which they are.
        before_wait: called between batches.
        collect_stats: count and measure.
        stats_window_size: of how many of the last ones percentiles are computed.
        shutdown_event: ends the server when somebody sets it; default: one of its own.
        name: of the thread.
    """

    def __init__(
        self,
        channel: RequestReplyTransport,
        handler: BatchHandler,
        *,
        max_batch_size: int = 64,
        min_batch_size: int = 1,
        timeout: float = 0.01,
        before_wait: Callable[[], None] | None = None,
        collect_stats: bool = True,
        stats_window_size: int = 1024,
        shutdown_event: Any = None,
        name: str = "ChannelServer",
    ) -> None:
        check_batching(max_batch_size, min_batch_size, timeout, stats_window_size)
        self.channel = channel
        self._handler = handler
        self._most, self._least, self._patience = max_batch_size, min_batch_size, timeout
        self._before_wait = before_wait
        self._statistics = self._made_stats(stats_window_size) if collect_stats else None
        self._end = threading.Event() if shutdown_event is None else shutdown_event
        self._name = name
        self._thread: threading.Thread | None = None

    def _made_stats(self, window: int) -> ServingStats:
        return ServingStats(window)

    def stats(self, *, reset: bool = False) -> dict[str, float | int]:
        """Counts, rates and times; empty where none are collected.

        Args:
            reset: begin anew afterwards.
        """
        return {} if self._statistics is None else self._statistics.facts(reset)

    def start(self) -> ChannelServer:
        """Begin to serve; the server itself.

        Raises:
            RuntimeError: it serves.
        """
        if self.is_alive:
            raise RuntimeError(f"{self._name} is running; shut it down before it is started again.")
        self._end.clear()
        self.channel.serving_began()
        self._thread = threading.Thread(target=self._serve, daemon=True, name=self._name)
        self._thread.start()
        return self

    def shutdown(self, timeout: float | None = 5.0) -> None:
        """End, after the batch that is being answered; requests that wait fail.

        Args:
            timeout: seconds to wait for that; None for no end.
        """
        self._end.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    @property
    def is_alive(self) -> bool:
        """Whether it serves."""
        return self._thread is not None and self._thread.is_alive()

    def client(self) -> Any:
        """What can ask, and do nothing else."""
        return self.channel.client()

    def __enter__(self) -> ChannelServer:
        """The server, which is started, and ends with the block."""
        return self if self.is_alive else self.start()

    def __exit__(self, *exception: object) -> None:
        """End it."""
        self.shutdown()

    # In the thread

    def _serve(self) -> None:
        try:
            while not self._end.is_set():
                if self._before_wait is not None:
                    self._before_wait()
                self.channel.wait_for_work(_LOOK_S)
                self._serve_once()
        finally:
            self.channel.serving_ended()
            self._refuse_rest()

    def _serve_once(self) -> None:
        """Answer a batch, if there is one."""
        messages, callbacks, sent = self._gathered()
        if messages:
            self._answer(messages, callbacks, sent)

    def _gathered(self) -> tuple[list[Message], list[Any], list[float | None]]:
        messages, callbacks, sent = self.channel.drain_messages_with_timing(self._most)
        if not messages:
            return messages, callbacks, sent
        until = time.monotonic() + self._patience
        while len(messages) < min(self._least, self._most) and not self._end.is_set():
            left = until - time.monotonic()
            if left <= 0:
                break
            self.channel.wait_for_work(min(left, _LOOK_S))
            more = self.channel.drain_messages_with_timing(self._most - len(messages))
            messages, callbacks, sent = messages + more[0], callbacks + more[1], sent + more[2]
        return messages, callbacks, sent

    def _answer(self, messages: list[Message], callbacks: list[Any], sent: list[float | None]) -> None:
        began = time.monotonic()
        failure: Exception | None = None
        try:
            replies = self._handler(messages)
            if len(replies) != len(messages):
                raise RuntimeError(f"{len(messages)} requests were answered with {len(replies)} replies.")
        except Exception as error:  # whatever it is, those who asked get it
            failure = error
        for at, callback in enumerate(callbacks):
            if failure is not None:
                self.channel.resolve_exception(callback, failure)
                continue
            try:
                self.channel.resolve(callback, replies[at])
            except Exception as error:  # an answer that this transport cannot carry
                self.channel.resolve_exception(callback, error)
        if self._statistics is not None:
            self._statistics.add(sent, began, time.monotonic(), failure is not None)

    def _refuse_rest(self) -> None:
        while True:
            _, callbacks, _ = self.channel.drain_messages_with_timing(self._most)
            if not callbacks:
                return
            for callback in callbacks:
                self.channel.resolve_exception(
                    callback, MailboxPeerClosedError("the server ended before it answered; start it, and ask again.")
                )


def check_batching(most: int, least: int, timeout: float, window: int) -> None:
    """Look at how a server gathers batches.

    Raises:
        ValueError: a number is too small.
    """
    for name, value in (("max_batch_size", most), ("min_batch_size", least), ("stats_window_size", window)):
        if value < 1:
            raise ValueError(f"{name} is {value}, expected 1 or more.")
    if timeout < 0:
        raise ValueError(f"timeout is {timeout}, expected seconds, 0 or more.")
