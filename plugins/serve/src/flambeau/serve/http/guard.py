"""Who may ask: hosts and origins, so that a page of a stranger cannot make a browser ask this server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from flambeau.serve.http.answers import error_body

__all__ = ["HostGuard"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


class HostGuard:
    """ASGI middleware. A loopback server answers requests for loopback names only, since another name in `Host` means
    that a stranger's DNS points here (rebinding); and posts from pages of another origin are refused.

    Args:
        app: what is guarded.
        hosts: names that are answered; None for any, where the server listens beyond loopback.
        origins: origins whose pages may post, `scheme://host[:port]`; "*" for all.
    """

    def __init__(self, app: App, hosts: Iterable[str] | None = _LOOPBACK, origins: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] in ("http", "websocket"):
            host = origin = ""
            for key, value in scope["headers"]:
                if key == b"host":
                    host = value.decode("latin-1")
                elif key == b"origin":
                    origin = value.decode("latin-1")
            if (why := self._refusal(host, origin, scope)) is not None:
                await _refuse(scope, send, why)
                return
        await self._app(scope, receive, send)

    def _refusal(self, host: str, origin: str, scope: Scope) -> str | None:
        if self._hosts is not None and _name(host) not in self._hosts:
            return "This server does not answer for the host that the request names."
        safe = scope["type"] == "http" and scope["method"] in ("GET", "HEAD", "OPTIONS")
        foreign = origin == "null" or urlsplit(origin).netloc.lower() != host.lower()
        if origin and foreign and not safe and "*" not in self._origins and origin not in self._origins:
            return "Pages of another origin may not send requests here."
        return None


def _name(host: str) -> str:
    """A host without its port."""
    host = host.lower().strip()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and ":" in host else host


async def _refuse(scope: Scope, send: Send, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why})
        return
    body = error_body(403, "ForbiddenException", why)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
