"""The server: its models, its ports, and how it starts and ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn

from flambeau.serve.engine.models import Models
from flambeau.serve.engine.observer import Observer
from flambeau.serve.engine.settings import VersionSettings
from flambeau.serve.errors import RequestError, StartError
from flambeau.serve.http.apps import inference_app, management_app
from flambeau.serve.http.guard import HostGuard
from flambeau.serve.http.limits import Limits
from flambeau.serve.sources import Source, Sources

__all__ = ["ServeOptions", "Server"]

log = logging.getLogger("flambeau.serve")

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MOST_HEADER = 64 * 1024


@dataclass(frozen=True)
class ServeOptions:
    """How a server listens, and how its models are run.

    Attributes:
        host: the address that is listened on.
        port: of predictions; 0 for any that is free.
        management_port: of the management API; None for none, 0 for any that is free.
        workers: of each model.
        device, dtype: of registered weights; dtype None for the builder's.
        settings: how models are run.
        limits: of requests and answers.
        drain_timeout: how long accepted requests may still take when the server ends, in seconds.
        threads: of all workers together; None for as many as there are cores.
        insecure: whether to listen beyond loopback without tokens.
        may_change: whether the management API may register and remove models.
        store: folder of archives.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    management_port: int | None = None
    workers: int = 1
    device: str = "cpu"
    dtype: str | None = None
    settings: VersionSettings = field(default_factory=VersionSettings)
    limits: Limits = field(default_factory=Limits)
    drain_timeout: float = 30.0
    threads: int | None = None
    insecure: bool = False
    may_change: bool = False
    store: Path | None = None


class Server:
    """Serves models while its context is open; `run` serves until a signal.

    ::

        with Server(["vision/digit_cnn:DEFAULT"], port=0) as server:
            requests.post(f"{server.url}/predictions/digit_cnn", data=open("three.png", "rb"))

    Args:
        models: names of weights, each maybe with a name to serve it under before it: `alias=NAME`.
        options: how; further keywords replace its fields.

    Raises:
        StartError: a name is unknown, an address cannot be had, or a model cannot be loaded; nothing is left running.
    """

    def __init__(self, models: Sequence[str], options: ServeOptions | None = None, **changes: Any) -> None:
        from dataclasses import replace

        self.options = replace(options or ServeOptions(), **changes)
        if self.options.host not in _LOOPBACK and not self.options.insecure:
            raise StartError(
                f"{self.options.host} can be reached from other machines, and no tokens are set; "
                "listen on 127.0.0.1, or say that this is meant: --insecure."
            )
        self._sources = Sources(
            self.options.settings,
            workers=self.options.workers,
            device=self.options.device,
            dtype=self.options.dtype,
            store=self.options.store,
            decode_input=self.options.limits.decode_input,
        )
        self._wanted = [self._source(name) for name in models]
        self._ports: list[int] = []
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._signals = 0

    @property
    def url(self) -> str:
        """Of predictions, once it serves."""
        return f"http://{_bracketed(self.options.host)}:{self._ports[0]}"

    @property
    def management_url(self) -> str | None:
        """Of the management API; None where there is none."""
        return f"http://{_bracketed(self.options.host)}:{self._ports[1]}" if len(self._ports) > 1 else None

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT, answer what was accepted, return 0; a second signal ends at once with 1."""
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(self._serve(signals=True))

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._in_thread, name="flambeau-serve", daemon=True)
        self._thread.start()
        self._up.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()

    def _in_thread(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._serve(signals=False))
        except BaseException as error:
            self._failure = error
        finally:
            self._up.set()

    def _source(self, name: str) -> Source:
        alias, separator, rest = name.partition("=")
        wanted = rest if separator else name
        if self.options.store is not None and (self.options.store / wanted).exists():
            try:
                return self._sources.archive(wanted, {"model_name": alias} if separator else {})
            except RequestError as error:
                raise StartError(str(error)) from error
        return self._sources.weights(wanted, alias=alias if separator else None)

    async def _serve(self, *, signals: bool) -> int:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        sockets = self._listen()
        models = Models(Observer(), threads=self.options.threads)
        try:
            if signals:
                for number in (signal.SIGTERM, signal.SIGINT):
                    self._loop.add_signal_handler(number, self._signalled)
            models.parent.start()
            if not await self._load(models):
                return 0
            return await self._until_stopped(models, sockets)
        finally:
            for one in sockets:
                one.close()
            await models.close(0.0 if self._signals > 1 else self.options.drain_timeout)

    async def _load(self, models: Models) -> bool:
        """Load every model; whether all are there before anybody asked to stop."""
        assert self._stop is not None
        loading = asyncio.gather(*(_register(models, source) for source in self._wanted))
        stopping = asyncio.ensure_future(self._stop.wait())
        either: set[asyncio.Future[Any]] = {loading, stopping}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not loading.done():
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            return False
        await loading
        return True

    async def _until_stopped(self, models: Models, sockets: list[socket.socket]) -> int:
        assert self._stop is not None
        apps: list[Any] = [inference_app(models, self.options.limits)]
        if len(sockets) > 1:
            apps.append(management_app(models, self._sources, self.options.limits, may_change=self.options.may_change))
        servers = [_Listener(self._config(app)) for app in apps]
        serving = [
            asyncio.ensure_future(server.serve(sockets=[one])) for server, one in zip(servers, sockets, strict=True)
        ]
        while not all(server.started for server in servers):
            await asyncio.sleep(0.005)
        log.info("serving at %s", self.url)
        self._up.set()
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({stopping, *serving}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for server in servers:
            server.should_exit = True  # listeners are closed, what was accepted is answered
        ending = asyncio.gather(*serving)
        try:
            async with asyncio.timeout(self.options.drain_timeout):
                while not ending.done() and self._signals < 2:
                    await asyncio.wait({ending}, timeout=0.05)
        except TimeoutError:
            log.warning("requests were still running when the time to drain was over")
        for server in servers:
            server.force_exit = True
        await ending
        return 1 if self._signals > 1 else 0

    def _config(self, app: Any) -> uvicorn.Config:
        loopback = self.options.host in _LOOPBACK
        guarded = HostGuard(app, (*_LOOPBACK, "[::1]") if loopback else None)
        return uvicorn.Config(
            guarded, http="httptools", ws="websockets-sansio", lifespan="off", log_config=None, access_log=False,
            timeout_keep_alive=75, h11_max_incomplete_event_size=_MOST_HEADER, server_header=False,
        )  # fmt: skip

    def _listen(self) -> list[socket.socket]:
        """The ports, taken before anything else is started.

        Raises:
            StartError: one of them is in use, or may not be taken.
        """
        wanted = [self.options.port]
        if self.options.management_port is not None:
            wanted.append(self.options.management_port)
        family = socket.AF_INET6 if ":" in self.options.host else socket.AF_INET
        found: list[socket.socket] = []
        for port in wanted:
            # Without the protocol's number asyncio leaves Nagle's algorithm on, which costs 40 ms an answer.
            one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((self.options.host, port))
                one.listen(2048)
            except OSError as error:
                for other in (*found, one):
                    other.close()
                raise StartError(
                    f"port {port} of {self.options.host} cannot be listened on: {error.strerror or error}. "
                    "Choose another with --port."
                ) from error
            one.setblocking(False)
            found.append(one)
        self._ports = [one.getsockname()[1] for one in found]
        return found

    def _signalled(self) -> None:
        self._signals += 1
        if self._stop is not None:
            self._stop.set()


class _Listener(uvicorn.Server):
    """A uvicorn server that leaves signals to us."""

    def install_signal_handlers(self) -> None:
        """Ours are there already."""

    def capture_signals(self) -> Any:
        """Ours are there already."""
        from contextlib import nullcontext

        return nullcontext()


async def _register(models: Models, source: Source) -> None:
    try:
        await models.register(
            source.name, source.version, source.spec, source.settings_with({}, source.workers), url=source.url,
            source=source.facts, workers=source.workers, at_start=True, order=source.order,
        )  # fmt: skip
    except StartError as error:
        raise StartError(f"{source.url.removeprefix('weights:')} cannot be served: {error}") from error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop's loops take about half of asyncio's time; None, where there is none, means asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
