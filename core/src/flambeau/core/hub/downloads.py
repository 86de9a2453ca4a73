"""Bringing one file in: resumed through cuts and stalls, from one mirror or the next, verified before it is visible."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from flambeau.core.errors import DiskFullError, DownloadError, GatedError, HashMismatchError
from flambeau.core.hub.cache import Expected, cache_size, clear_corrupt, inspect, unwritable, write_sidecar
from flambeau.core.hub.partial_files import Origin, Partial, adopt, remove_abandoned
from flambeau.core.hub.transport import Client, Response, TransferError, check_url
from flambeau.core.progress import progress

_LONGEST_PAUSE_S = 30.0
# A server that asks for more than this will not be waited for.
_LONGEST_WAIT_S = 300.0
_DISK_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_NUMBER = r"[0-9]{1,18}"  # bytes; a number that no file reaches is none
_CONTENT_RANGE = re.compile(rf"bytes (?:({_NUMBER})-{_NUMBER}|\*)/({_NUMBER}|\*)")

pause = time.sleep


def sources(url: str, mirrors: Iterable[str]) -> list[str]:
    """All URLs to ask for a file, in order: what `FLAMBEAU_MIRRORS` makes of one comes before it.

    Raises:
        ValueError: the URL itself cannot be fetched, or a malformed variable. A mirror that cannot is passed over when
            its turn comes.
    """
    rules = []
    for pair in filter(None, os.environ.get("FLAMBEAU_MIRRORS", "").split(";")):
        prefix, equals, replacement = pair.strip().partition("=")
        if not equals or not prefix:
            raise ValueError(f"FLAMBEAU_MIRRORS holds {pair!r}; expected prefix=replacement pairs separated by ';'.")
        rules.append((prefix, replacement))
    urls: dict[str, None] = {}
    for each in (url, *mirrors):
        urls |= {to + each.removeprefix(prefix): None for prefix, to in rules if each.startswith(prefix)}
        urls[each] = None
    check_url(url)
    return list(urls)


class Download:
    """One file on its way into the cache; used once, by `fetch`, which documents the arguments."""

    def __init__(
        self, final: Path, urls: list[str], expected: Expected, client: Client, *, retries: int, show: bool
    ) -> None:
        self.final, self.urls, self.expected, self.client = final, urls, expected, client
        self.retries, self.show = retries, show
        self.partial: Partial | None = None
        self._advance: Callable[[int], object] | None = None

    def run(self) -> Path:
        """Fetch, verify and publish the file.

        Raises:
            DownloadError: or one of its kinds, as `fetch` says. Whatever is worth resuming is left for a later call.
        """
        clear_corrupt(self.final)
        with ExitStack() as self.stack:
            try:
                self._adopt()
                return self._from_any()
            except OSError as error:
                if error.errno in _DISK_FULL:
                    raise self._disk_full() from error
                if (refusal := unwritable(self.final.parent, error)) is not None:
                    raise refusal from error
                raise
            finally:
                if self._position == 0:
                    self._drop()
                if self.partial is not None:
                    self.partial.close()

    def _from_any(self) -> Path:
        """Ask one URL after the other. Wrong content is asked for once more, from zero, of the next."""
        failures: list[DownloadError] = []
        mismatch: HashMismatchError | None = None
        pending = list(self.urls)
        while pending:
            url = pending.pop(0)
            try:
                self._fetch_from(url)
                return self._publish(url)
            except HashMismatchError as error:
                self._drop()
                if mismatch is not None:
                    raise
                mismatch = error
                pending = pending or [url]
            except (TransferError, GatedError) as error:
                failures.append(error)
        if mismatch is not None:
            raise mismatch
        raise self._summary(failures)

    def _fetch_from(self, url: str) -> None:
        """Complete the partial file from one URL. Only attempts that brought nothing new count against it."""
        futile, furthest = 0, self._position
        while True:
            try:
                return self._attempt(url)
            except TransferError as error:
                futile = 0 if self._position > furthest else futile + 1
                furthest = max(furthest, self._position)
                if not error.again or futile > self.retries or (error.wait_s or 0) > _LONGEST_WAIT_S:
                    raise
                backoff = min(_LONGEST_PAUSE_S, 0.5 * 2**futile) * random.uniform(0.5, 1.0)
                pause(backoff if error.wait_s is None else error.wait_s)

    def _attempt(self, url: str) -> None:
        partial = self.partial
        if partial and self.expected.sha256 and partial.size == partial.origin.total:
            return  # all there, only the verification was missing
        self._require_space(self.expected.size)
        if (response := self._open(url)) is None:
            return
        with response:
            if response.status == 206 and self.partial is not None:
                total = _content_range(response)[1]
            else:
                total = self._begin(response, url)
            self._require_space(total)
            self._receive(response, total)

    def _open(self, url: str) -> Response | None:
        """An answer that continues the partial file or holds the whole file; None where nothing is left to come."""
        fields: dict[str, str] | None = {}
        if self.partial is not None:
            fields = _range_fields(self.partial, url, self.expected)
            if fields is None:
                self._drop()
        response = self.client.get(url, fields)
        if self.partial is None or response.status not in (206, 416):
            return response
        if response.status == 206 and _continues(response, self.partial, self.expected):
            return response
        response.close()
        if response.status == 416 and _content_range(response)[1] == self.partial.size:
            return None
        self._drop()
        return self._open(url)

    def _begin(self, response: Response, url: str) -> int | None:
        """Start a partial file for an answer with the whole file; returns its size where that is announced."""
        if response.status in (401, 403):
            raise _refused(url, response.status)
        response.raise_for_status()
        if response.status == 206:
            raise TransferError(f"{url}: the server sent a part though the whole was asked for.", url=url)
        encoding = (response.headers.get("Content-Encoding") or "identity").lower()
        # Some servers call a .tar.gz a gzip-encoded tar: then the bytes on the wire are the file.
        if encoding != "identity" and not self.final.name.endswith((".gz", ".tgz", ".bz2", ".xz", ".zst")):
            raise TransferError(f"{url}: the server compresses ({encoding}) though asked not to.", url=url)
        self._drop()
        total = _length(response)
        if total is not None:
            self.expected.check(url, None, total, note=_kept_nothing(response))
        etag, modified = response.headers.get("ETag"), response.headers.get("Last-Modified")
        self.partial = Partial(self.final, Origin(url, etag, modified, total, self.expected.sha256))
        return total

    def _receive(self, response: Response, total: int | None) -> None:
        """Append the body to the partial file, and insist on all of it."""
        partial, url = self.partial, response.url
        if partial is None:
            return
        most = total if total is not None else self.expected.size
        advance = self._progress(most)
        while block := response.read():
            partial.append(block)
            advance(len(block))
            if most is not None and partial.size > most:
                self.expected.check(url, None, partial.size, note=_kept_nothing(response, partial))
                self._drop()
                raise TransferError(f"{url}: more came than the {most:,} bytes announced.", url=url, again=True)
        if total is not None and partial.size < total:
            message = f"{url}: the connection ended after {partial.size:,} of {total:,} bytes."
            raise TransferError(message, url=url, again=True)

    def _publish(self, url: str) -> Path:
        partial = self.partial
        if partial is None:
            raise TransferError(f"{url}: nothing came.", url=url)
        self.expected.check(url, partial.digest, partial.size, note=_kept_nothing(None, partial))
        try:
            stat = partial.publish(self.final)
        except (FileNotFoundError, PermissionError) as error:
            # Another process took this one for dead and tidied up; or, on Windows, has the finished file mapped.
            self._drop()
            if not inspect(self.final, self.expected):
                raise TransferError(f"{url}: {self.final} could not be put in place ({error}).", url=url) from error
            return self.final
        write_sidecar(self.final, stat, partial.digest, self.expected, url=self.client.home)
        return self.final

    def _adopt(self) -> None:
        try:
            self.partial = adopt(self.final, self._matches)
        except OSError as error:
            if error.errno not in _DISK_FULL:
                raise
            remove_abandoned(self.final)  # there is no room for two copies: start anew

    def _matches(self, origin: Origin) -> bool:
        if self.expected.sha256:
            return origin.sha256 == self.expected.sha256
        return origin.url in self.urls and origin.validator is not None

    def _drop(self) -> None:
        if self.partial is not None:
            if self._advance is not None:
                self._advance(-self.partial.size)
            self.partial.discard()
            self.partial = None

    @property
    def _position(self) -> int:
        return self.partial.size if self.partial is not None else 0

    def _progress(self, total: int | None) -> Callable[[int], object]:
        if self._advance is None:
            bar = progress(self.final.name, total, done=self._position, unit="B", show=self.show)
            self._advance = self.stack.enter_context(bar)
        return self._advance

    def _require_space(self, total: int | None) -> None:
        if total is not None and total - self._position > shutil.disk_usage(self.final.parent).free:
            raise self._disk_full(total)

    def _disk_full(self, total: int | None = None) -> DiskFullError:
        """The error to raise; what was fetched stays, unless it takes more than it leaves."""
        partial, free = self.partial, shutil.disk_usage(self.final.parent).free
        if total is None:
            total = self.expected.size if partial is None else partial.origin.total
        needed = None if total is None else total - self._position
        if partial is not None and partial.size > free:
            self._drop()
        return DiskFullError(
            f"{self.final.name} needs {'more' if needed is None else f'{needed:,} bytes'} and {self.final.parent} has "
            f"{free:,} bytes left; the cache holds {cache_size():,}. Make room, for example with "
            "`flambeau weights purge`, or point FLAMBEAU_HOME to another disk.",
            url=self.client.home, needed=needed, free=free,
        )  # fmt: skip

    def _summary(self, failures: list[DownloadError]) -> DownloadError:
        kind = next((GatedError for failure in failures if isinstance(failure, GatedError)), DownloadError)
        status = next((failure.status for failure in reversed(failures) if failure.status), None)
        reasons = "".join(f"\n  {failure}" for failure in failures)
        return kind(
            f"{self.final.name} could not be fetched:{reasons}\nTry again later, name a mirror in FLAMBEAU_MIRRORS, or "
            f"place the file by hand as {self.final} ({self.expected}).",
            url=self.client.home, status=status,
        )  # fmt: skip


def _range_fields(partial: Partial, url: str, expected: Expected) -> dict[str, str] | None:
    """How to ask for the rest; None where nothing would tell whether it belongs to what is there."""
    if partial.size == 0:
        return None
    fields = {"Range": f"bytes={partial.size}-"}
    if partial.origin.url == url and (validator := partial.origin.validator):
        return fields | {"If-Range": validator}
    return fields if expected.sha256 else None


def _continues(response: Response, partial: Partial, expected: Expected) -> bool:
    start, total = _content_range(response)
    totals = {known for known in (total, partial.origin.total, expected.size) if known is not None}
    etags = {etag for etag in (response.headers.get("ETag"), partial.origin.etag) if etag}
    same = len(etags) < 2 or partial.origin.url != response.url
    return start == partial.size and len(totals) < 2 and same


def _content_range(response: Response) -> tuple[int | None, int | None]:
    """First byte and total size from `Content-Range`, each None where it is not stated."""
    match = _CONTENT_RANGE.fullmatch((response.headers.get("Content-Range") or "").strip())
    if match is None:
        return None, None
    start, total = match[1], match[2]
    return int(start) if start else None, None if total == "*" else int(total)


def _length(response: Response) -> int | None:
    """The size of the body, None where it is not announced.

    Raises:
        TransferError: what is announced is no number, so that nobody could tell whether all of it came.
    """
    text = (response.headers.get("Content-Length") or "").strip()
    if not text or response.headers.get("Transfer-Encoding"):
        return None
    if not re.fullmatch(_NUMBER, text):
        raise TransferError(
            f"{response.url}: the server announces a Content-Length of {text[:40]!r}, expected a number of bytes.",
            url=response.url,
        )
    return int(text)


def _refused(url: str, status: int) -> GatedError:
    return GatedError(
        f"{url}: the server refused with {status}. Where access has to be asked for, do so at its owner's page and put "
        "your token into the file that FLAMBEAU_TOKEN_FILE names.",
        url=url, status=status,
    )  # fmt: skip


def _kept_nothing(response: Response | None, partial: Partial | None = None) -> str:
    """The end of the sentence about content that is wrong, with a likely reason."""
    page = response is not None and (response.headers.get("Content-Type") or "").startswith("text/html")
    page = page or (partial is not None and partial.head.lstrip().lower().startswith((b"<!doctype html", b"<html")))
    reason = " The server sent a web page, perhaps a login or a notice, in place of the file." if page else ""
    return f"{reason} Nothing of it was kept."
