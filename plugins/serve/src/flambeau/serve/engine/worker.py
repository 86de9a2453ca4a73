"""One worker of a version: started, loaded, given batches, and started again when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from flambeau.serve.engine.output import Output
from flambeau.serve.errors import FrameError, StartError
from flambeau.serve.wire.frames import Frame, FrameReader, frame_bytes
from flambeau.serve.wire.messages import Answer, pack_batch, unpack_answers

if TYPE_CHECKING:
    from flambeau.serve.engine.parent import Ended, ParentProcess
    from flambeau.serve.engine.pool import Pool
    from flambeau.serve.engine.work import Work

__all__ = ["Batch", "Worker"]

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 60.0
_KILL_AFTER_S = 5.0
# So many ends in a row without an answer are no accident.
_MANY_IDLE_ENDS = 8


class Batch:
    """Requests that one call of the model answers."""

    __slots__ = ("begun", "number", "timer", "works")

    def __init__(self, number: int, works: list[Work]) -> None:
        self.number = number
        self.works = works
        self.begun = time.monotonic()
        self.timer: asyncio.TimerHandle | None = None


class _Connection(asyncio.Protocol):
    """The front's end of a worker's socket."""

    def __init__(self, heard: Callable[[Frame], None], lost: Callable[[str], None]) -> None:
        self._reader = FrameReader()
        self._heard = heard
        self._lost = lost
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of asyncio's

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._heard(frame)
        except (FrameError, KeyError, TypeError, ValueError) as error:
            self._lost(f"it broke the protocol: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost("")


class Worker:
    """A worker's life. `state` is one of "starting", "loading", "ready", "busy", "ending" (killed, or to be replaced),
    "waiting" (for its next start) and "gone".

    Args:
        pool: whose requests it answers.
        parent: where it is forked from.
        number: TorchServe's name for it: 9000 and up.
    """

    def __init__(self, pool: Pool, parent: ParentProcess, number: int) -> None:
        self.number = number
        self.state = "starting"
        self.info: dict[str, Any] = {}
        self.started_at = datetime.now(UTC)
        self.rss = 0
        self.batches = self.requests = self.restarts = 0
        self.cause: str | None = None  # of the last end
        self.next_start: float | None = None  # of time.time
        self.load_seconds = 0.0
        self.batch: Batch | None = None
        self._served = 0  # requests since its start
        self._refused = False  # whether it said that it cannot load, or took too long to
        self._fails = False  # whether nobody should wait for it
        self._pool = pool
        self._parent = parent
        self._key: int | None = None
        self._connection: _Connection | None = None
        self._ended: asyncio.Future[Ended] | None = None
        self._loaded: asyncio.Future[dict[str, Any]] | None = None
        self._output: Output | None = None
        self._leaving = asyncio.Event()
        self._death = ""  # why the front ended it
        self._free = asyncio.Event()
        self._free.set()
        self.task = asyncio.get_running_loop().create_task(self._live())

    @property
    def pid(self) -> int | None:
        """Of its process; None while it has none."""
        return None if self._key is None else self._parent.pid_of(self._key)

    @property
    def comes_back(self) -> bool:
        """Whether it has ended and another is being started in its place, as it was before."""
        restarts = self.state in ("starting", "loading", "ending", "waiting")
        return restarts and bool(self.info) and not self._fails and not self._leaving.is_set()

    @property
    def last_lines(self) -> list[str]:
        """What its process printed last."""
        return [] if self._output is None else list(self._output.last)

    def execute(self, batch: Batch) -> None:
        """Give it a batch; it is "ready"."""
        assert self._connection is not None and self._connection.transport is not None
        self.state, self.batch = "busy", batch
        self._free.clear()
        message, parts = pack_batch(batch.number, [work.item for work in batch.works])
        for work in batch.works:
            work.started = batch.begun
        self._connection.transport.writelines(frame_bytes(message, parts))
        timeout = self._pool.settings.response_timeout
        if timeout > 0:
            batch.timer = asyncio.get_running_loop().call_later(timeout, self._too_slow, batch)

    def cancel(self, request: str) -> None:
        """Tell it that nobody waits for a request of its batch any more."""
        if self._connection is not None and self._connection.transport is not None:
            self._connection.transport.writelines(frame_bytes({"kind": "cancel", "requests": [request]}))

    def kill(self, why: str) -> None:
        """End its process and all that it started, at once."""
        self._death, self.state = why, "ending"
        if self._key is not None:
            self._parent.signal(self._key, signal.SIGKILL, group=True)

    async def leave(self, timeout_s: float = 120.0) -> None:
        """No new batch; the one that runs ends; then its process does.

        Args:
            timeout_s: how long to wait for the batch.
        """
        self._leaving.set()
        self._pool.forget(self)
        try:
            async with asyncio.timeout(timeout_s):
                await self._free.wait()
        except TimeoutError:
            self.kill("it was still busy when its time to leave was over")
        await self.task

    # --- its life ---------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        idle_ends, first_failure = 0, None
        while not self._leaving.is_set():
            try:
                await self._start()
                first_failure, self._fails = None, False
                self._pool.ready(self)
                await self._until_end()
            except StartError as error:
                self.cause = str(error)
                first_failure = first_failure or time.monotonic()
                # One that ended while it loaded may have been killed by somebody; one that says why will say it again.
                self._fails = self._refused or idle_ends >= _MANY_IDLE_ENDS
            finally:
                await self._clean()
            if self._leaving.is_set():
                break
            self.restarts += 1
            self._pool.restarted(self)
            if first_failure is not None and time.monotonic() - first_failure > self._pool.settings.max_retry_timeout:
                self._pool.gave_up(self)
                break
            idle_ends = 0 if self._served > 0 else idle_ends + 1
            if self._refused or idle_ends > 1:
                wait = min(_FIRST_WAIT_S * 2 ** max(0, idle_ends - 2), _LONGEST_WAIT_S)
                await self._wait(wait * random.uniform(0.75, 1.25))
        self.state = "gone"

    async def _start(self) -> None:
        """Fork, connect, load.

        Raises:
            StartError: it did not load the model; the message says why.
        """
        loop = asyncio.get_running_loop()
        self.state, self.started_at, self._death, self._served = "starting", datetime.now(UTC), "", 0
        self._refused = False
        begun = time.monotonic()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._output = Output(lambda line: self._pool.say(self, line))
        self._key, self._ended = self._parent.spawn(theirs, self._output.descriptor, self._pool.order)
        self._loaded = loop.create_future()
        _, self._connection = await loop.create_connection(lambda: _Connection(self._heard, self._lost), sock=ours)
        assert self._connection.transport is not None
        self.state = "loading"
        self._connection.transport.writelines(frame_bytes({"kind": "load", "spec": self._pool.spec}))
        leaving = loop.create_task(self._leaving.wait())
        try:
            both: set[asyncio.Future[Any]] = {self._loaded, leaving}
            await asyncio.wait(
                both,
                timeout=self._pool.settings.startup_timeout or None,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            leaving.cancel()
        if self._leaving.is_set():
            raise StartError("it was taken away while it loaded.")
        if not self._loaded.done():
            self._refused = True
            raise StartError(f"it did not load within {self._pool.settings.startup_timeout:g} s.")
        message = self._loaded.result()
        if message["kind"] == "failed":
            self._refused = True
            raise StartError(message["error"])
        if message["kind"] == "lost":
            raise StartError(await self._how_it_ended())
        self.info, self.load_seconds = message["info"], time.monotonic() - begun
        self.cause = None
        self.state = "ready"

    async def _until_end(self) -> None:
        """Until its process ends, or it is to leave and has nothing to do."""
        assert self._ended is not None
        loop = asyncio.get_running_loop()
        leaving = loop.create_task(self._leaving.wait())
        try:
            await _first(self._ended, leaving)
        finally:
            leaving.cancel()
        if not self._ended.done():
            free = loop.create_task(self._free.wait())
            await _first(self._ended, free)
            free.cancel()
        if self._ended.done():
            self.cause = await self._how_it_ended()
        self._pool.forget(self)

    async def _clean(self) -> None:
        """End what is left of its process, and give back its batch."""
        self._pool.forget(self)
        if self._connection is not None and self._connection.transport is not None:
            self._connection.transport.abort()
        self._connection = None
        if self._ended is not None:
            if not self._ended.done() and self._key is not None:
                self._parent.signal(self._key, signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_KILL_AFTER_S):
                        await asyncio.shield(self._ended)
            if not self._ended.done() and self._key is not None:
                self._parent.signal(self._key, signal.SIGKILL, group=True)
                await self._ended
        self._key = None
        if self._output is not None:
            self._output.close()
        batch, self.batch = self.batch, None
        if batch is not None:
            self._stop_timer(batch)
            how = self._ended.result() if self._ended is not None else None
            self._pool.died(batch, how.status if how is not None else None, self._death)
        self._free.set()

    async def _wait(self, seconds: float) -> None:
        self.state, self.next_start = "waiting", time.time() + seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._leaving.wait()
        self.next_start = None

    async def _how_it_ended(self) -> str:
        assert self._ended is not None
        how = await self._ended
        if self._output is not None:
            self._output.close()
        last = f"; it printed last: {self.last_lines[-1]}" if self.last_lines else ""
        return f"{self._death or how}{last}"

    # --- what it says -----------------------------------------------------------------------------------------------

    def _heard(self, frame: Frame) -> None:
        kind = frame.message["kind"]
        if kind in ("ready", "failed"):
            if self._loaded is not None and not self._loaded.done():
                self._loaded.set_result(frame.message)
        elif kind == "part":
            self._piece(frame)
        elif kind in ("done", "raised"):
            batch = self.batch
            if batch is None or frame.message["batch"] != batch.number:
                raise FrameError("it answered a batch that it was not given.")
            self._done(batch, frame)

    def _piece(self, frame: Frame) -> None:
        for work in self.batch.works if self.batch is not None else ():
            if work.item.id == frame.message["request"]:
                work.piece(frame.parts[0], frame.message["media_type"])

    def _done(self, batch: Batch, frame: Frame) -> None:
        answers: list[Answer] | None = unpack_answers(frame) if frame.message["kind"] == "done" else None
        if answers is not None and len(answers) != len(batch.works):
            raise FrameError("it gave another number of answers than there were requests.")
        self._stop_timer(batch)
        self.batch = None
        self.batches += 1
        self.requests += len(batch.works)
        self._served += len(batch.works)
        self._free.set()
        if answers is not None:
            self.rss = frame.message.get("rss", 0)
            self._pool.answered(self, batch, answers, frame.message)
        else:
            self._pool.raised(batch, frame.message)
        if self._leaving.is_set():
            return
        settings = self._pool.settings
        if 0 < settings.max_requests <= self._served or 0 < settings.max_rss < self.rss:
            self.state = "ending"
            self._parent.signal(self._key or 0, signal.SIGTERM)  # a fresh one takes its place
            return
        self._pool.ready(self)

    def _lost(self, why: str) -> None:
        """Its socket is closed, or it broke the protocol: it must not go on."""
        if self._loaded is not None and not self._loaded.done():
            self._loaded.set_result({"kind": "lost"})
        if why:
            self._death = why
        self._pool.forget(self)
        if self._key is not None and self._ended is not None and not self._ended.done() and not self._leaving.is_set():
            self._parent.signal(self._key, signal.SIGKILL, group=True)

    def _too_slow(self, batch: Batch) -> None:
        if self.batch is batch:
            self._pool.timed_out(batch)
            self.kill(f"a batch took longer than {self._pool.settings.response_timeout:g} s")

    def _stop_timer(self, batch: Batch) -> None:
        if batch.timer is not None:
            batch.timer.cancel()


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Wait until one of them is done."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
