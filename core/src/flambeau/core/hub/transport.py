"""One GET, with redirects followed by our rules: urllib3 where it is installed, the standard library otherwise.

Nothing here retries. What a server does wrong comes out as `TransferError`, which says whether asking again can help.
"""

from __future__ import annotations

import contextlib
import email.utils
import os
import re
import string
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urljoin, urlsplit

from flambeau.core.errors import DownloadError
from flambeau.core.hub.addresses import split_web
from flambeau.core.hub.tokens import bearer_token

if TYPE_CHECKING:
    import ssl

USER_AGENT = "flambeau-core"  # how requests introduce themselves
_MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
# What a caller's headers may tell any host; every other one may be a credential.
_HARMLESS = frozenset({"accept", "accept-language", "user-agent"})
_BLOCK = 1 << 20


class TransferError(DownloadError):
    """One request failed.

    Attributes:
        again: whether the same request may succeed later.
        wait_s: seconds the server asked to wait, None where it did not.
    """

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        status: int | None = None,
        again: bool = False,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(message, url=url, status=status)
        self.again, self.wait_s = again, wait_s


class Headers(Protocol):
    """Header fields, looked up without regard to case."""

    def get(self, name: str, /) -> str | None:
        """The value of a field, None where there is none."""
        ...


@dataclass
class Response:
    """An answer whose body has not been read yet."""

    url: str
    status: int
    headers: Headers
    receive: Callable[[int], bytes]
    close: Callable[[], None]

    def read(self) -> bytes:
        """What has arrived, at least one byte and at most a mebibyte; empty at the end of the body.

        Raises:
            TransferError: the connection broke or stalled.
        """
        with _translated(self.url):
            return self.receive(_BLOCK)

    def raise_for_status(self) -> None:
        """Raise a `TransferError` for any status but 200 and 206."""
        if self.status in (200, 206):
            return
        wait_s = _seconds(self.headers.get("Retry-After"))
        again = self.status in _TRY_AGAIN
        raise TransferError(
            f"{self.url}: the server answered {self.status}.", url=self.url, status=self.status, again=again,
            wait_s=wait_s,
        )  # fmt: skip

    def __enter__(self) -> Response:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Client:
    """How to ask for a file.

    Args:
        home: the URL that the caller gave.
        headers: the caller's. What may be a credential goes to the scheme, host and port of `home` alone.
        timeout: seconds to wait for a connection, and for each further piece of an answer.
    """

    home: str
    headers: Mapping[str, str]
    timeout: float

    def get(self, url: str, extra: Mapping[str, str] | None = None) -> Response:
        """Ask for a URL, with fields of the protocol such as `Range` that any host may see.

        Raises:
            TransferError: no answer, or a redirect that must not be followed.
        """
        try:
            url = first = check_url(url)
        except ValueError as error:  # of a mirror: the next one may do
            raise TransferError(str(error), url=url) from error
        for _ in range(_MOST_REDIRECTS + 1):
            response = _send(url, self._fields(first, url) | dict(extra or {}), self.timeout)
            target = response.headers.get("Location") if response.status in _REDIRECTS else None
            if not target:
                return response
            response.close()
            url = redirect(url, target)
        raise TransferError(f"{first}: more than {_MOST_REDIRECTS} redirects.", url=first)

    def _fields(self, first: str, url: str) -> dict[str, str]:
        at_home = _origin(url) == _origin(self.home)
        fields = {"User-Agent": USER_AGENT}
        fields |= {name.title(): value for name, value in self.headers.items() if at_home or name.lower() in _HARMLESS}
        # A token is for the host that was asked. After a redirect elsewhere none is sent, not even one for that place:
        # a server must not be able to make us use it.
        token = bearer_token(url) if _origin(url) == _origin(first) and "Authorization" not in fields else None
        if token:
            fields["Authorization"] = f"Bearer {token}"
        # The bytes of the file are wanted; a compressed body would break ranges, length and hash.
        return fields | {"Accept-Encoding": "identity"}


def check_url(url: str) -> str:
    """Return an http or https URL in the form that is sent, percent-encoded.

    Raises:
        ValueError: malformed, another scheme, no host, or a user name and password inside.
    """
    split_web(url)
    return quote(url, safe=string.punctuation)


def redirect(url: str, location: str) -> str:
    """Where a redirect leads.

    Raises:
        TransferError: from https to http, to another scheme, or to a URL with a user name.
    """
    try:
        # http.client hands header bytes over as Latin-1.
        target = urljoin(url, quote(location, encoding="iso-8859-1", safe=string.punctuation)).partition("#")[0]
        target = check_url(target)
    except ValueError as error:  # also of `urljoin`, for what it cannot take apart
        raise TransferError(f"{url}: refused a redirect. {error}", url=url) from error
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme == "http":
        raise TransferError(f"{url}: refused a redirect from https to http, {target}.", url=url)
    return target


def _origin(url: str) -> tuple[str, str]:
    return urlsplit(url)[:2]


def _send(url: str, headers: Mapping[str, str], timeout: float) -> Response:
    with _translated(url):
        try:
            import urllib3
        except ImportError:
            return _send_stdlib(url, headers, timeout)
        pool = _pool(url, urllib3)
        answer = pool.request(
            "GET", url, headers=headers, preload_content=False, decode_content=False, redirect=False, retries=False,
            enforce_content_length=False,
            timeout=urllib3.Timeout(connect=timeout, read=timeout),
        )  # fmt: skip

        def receive(amount: int) -> bytes:
            return answer.read1(amount, decode_content=False) or b""

        def close() -> None:
            answer.close()
            pool.clear()

        return Response(url, answer.status, answer.headers, receive, close)


def _pool(url: str, urllib3: Any) -> Any:
    """A connection pool for one URL. It lives for one answer: nothing has to be shared, locked or survive a fork."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    options = {"ssl_context": _tls()} if parts.scheme == "https" else {}
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc):
        return urllib3.PoolManager(**options)
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    login = urlsplit(proxy)
    if login.username:
        options["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=f"{login.username}:{login.password or ''}")
    return urllib3.ProxyManager(proxy, **options)


def _send_stdlib(url: str, headers: Mapping[str, str], timeout: float) -> Response:
    import urllib.error
    import urllib.request

    class Refuse(urllib.request.HTTPRedirectHandler):
        def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
            """Leave the redirect alone: it comes out as an `HTTPError`."""

        http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    handlers: list[urllib.request.BaseHandler] = [Refuse()]
    if url.startswith("https:"):
        handlers.append(urllib.request.HTTPSHandler(context=_tls()))
    try:
        answer = urllib.request.build_opener(*handlers).open(
            urllib.request.Request(url, headers=dict(headers)), timeout=timeout
        )
    except urllib.error.HTTPError as error:  # an answer like any other
        return Response(url, error.code, error.headers, lambda amount: b"", error.close)
    return Response(url, answer.status, answer.headers, answer.read1, answer.close)


def _tls() -> ssl.SSLContext:
    import ssl

    bundle = os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE")
    if not bundle:
        return ssl.create_default_context()
    folder = os.path.isdir(bundle)  # noqa: PTH112
    return ssl.create_default_context(cafile=None if folder else bundle, capath=bundle if folder else None)


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    """Turn what either library raises into `TransferError`."""
    import http.client
    import ssl

    try:
        import urllib3.exceptions

        kinds: tuple[type[Exception], ...] = (urllib3.exceptions.HTTPError, OSError, http.client.HTTPException)
    except ImportError:
        kinds = (OSError, http.client.HTTPException)
    try:
        yield
    except TransferError:
        raise
    except kinds as error:
        causes = [error, error.__cause__, *error.args, getattr(error, "reason", None)]
        hopeless = any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes)
        hint = " Point SSL_CERT_FILE at your organisation's certificates." if hopeless else ""
        raise TransferError(f"{url}: {type(error).__name__}: {error}.{hint}", url=url, again=not hopeless) from error


def _seconds(retry_after: str | None) -> float | None:
    """A `Retry-After` field in seconds from now; it may also be a date."""
    if not retry_after:
        return None
    if re.fullmatch(r"\s*[0-9]{1,18}\s*", retry_after):
        return float(retry_after)
    try:
        moment = email.utils.parsedate_to_datetime(retry_after)
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, OverflowError):  # no date, or one beyond the calendar
        return None
