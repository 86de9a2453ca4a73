"""Requests to object stores through obstore, one function a request; its errors become ours.

obstore repeats a request that fails or stalls before its answer begins. An answer that breaks off in its body is
repeated here.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from flambeau.data.storage.credentials import s3_settings
from flambeau.data.storage.errors import ObjectMissingError, StorageAccessError, StorageError, StorageTimeoutError
from flambeau.data.storage.locations import StoreSpec

RETRIES = 3
PAGE = 1000  # keys in one answer of a listing: the most that S3 gives
_DEFAULT_TIMEOUT = timedelta(minutes=5)
_STATUS = re.compile(r"status code: (\d{3})")
_READ_TIMEOUT = timedelta(seconds=60)


@dataclass(frozen=True)
class Entry:
    """One object of a listing."""

    key: str
    size: int
    last_modified: datetime | None
    e_tag: str | None


@dataclass(frozen=True)
class Piece:
    """Bytes of an object, with the size of the whole and its entity tag."""

    content: memoryview
    size: int
    e_tag: str | None


class Engine:
    """Requests of this process. A process that was forked after the first one needs another engine (see `relay`)."""

    def __init__(self) -> None:
        self._stores: dict[StoreSpec, Any] = {}
        self._lock = threading.Lock()
        self.process: int | None = None

    def get(self, spec: StoreSpec, key: str, start: int, stop: int | None, tag: str | None = None) -> Piece:
        """The bytes [start, stop) of an object, cut at its end; the whole object where `stop` is None.

        Args:
            spec: the store.
            key: the object's name in it.
            start: first byte, >= 0.
            stop: one behind the last byte.
            tag: the entity tag that the object must still have; None takes any.

        Raises:
            StorageError: the store refused, failed repeatedly, or the object is another one by now.
        """
        obstore = self._obstore()
        store = self._store(spec)
        options: dict[str, Any] = {} if stop is None else {"range": (start, stop)}
        if tag is not None:
            options["if_match"] = tag
        attempt = 0
        while True:
            with _translated(spec, key):
                answer = obstore.get(store, key, options=options)
                try:
                    content = memoryview(answer.bytes())
                    return Piece(content, int(answer.meta["size"]), answer.meta["e_tag"])
                except obstore.exceptions.GenericError:
                    if attempt >= RETRIES:
                        raise
            time.sleep(0.1 * 2**attempt * (0.5 + random.random()))
            attempt += 1

    def size(self, spec: StoreSpec, key: str) -> int:
        """Size of an object in bytes.

        Raises:
            StorageError: as for `get`.
        """
        obstore = self._obstore()
        with _translated(spec, key):
            return int(obstore.head(self._store(spec), key)["size"])

    def pages(self, spec: StoreSpec, folder: str, offset: str | None) -> Iterator[list[Entry]]:
        """Everything below `folder` ("" or a key that ends before its slash), in pages, from behind `offset` on."""
        obstore = self._obstore()
        with _translated(spec, folder):
            stream = obstore.list(self._store(spec), folder or None, offset=offset, chunk_size=PAGE)
        while True:
            with _translated(spec, folder):
                page = next(stream, None)
            if page is None:
                return
            yield [Entry(one["path"], one["size"], one["last_modified"], one["e_tag"]) for one in page]

    def _obstore(self) -> Any:
        try:
            import obstore.exceptions
        except ImportError as error:
            raise StorageError(
                "Object stores are read by obstore, which is not installed. Run: pip install obstore"
            ) from error
        self.process = os.getpid()
        return obstore

    def _store(self, spec: StoreSpec) -> Any:
        with self._lock:
            if spec not in self._stores:
                self._stores[spec] = _open(spec)
            return self._stores[spec]


def _open(spec: StoreSpec) -> Any:
    import obstore.store as stores

    options: dict[str, Any] = dict(spec.options)
    settings: dict[str, Any] = {
        "retry_config": {"max_retries": RETRIES, "backoff": {"init_backoff": timedelta(milliseconds=100)}},
        "client_options": _client_options(spec),
    }
    try:
        if spec.kind == "s3":
            return stores.S3Store(spec.root, **(s3_settings(spec) | options), **settings)
        if spec.kind == "gs":
            return stores.GCSStore(spec.root, **(_unsigned(spec) | options), **settings)
        if spec.kind == "az":
            return stores.AzureStore(spec.root, **(_unsigned(spec) | options), **settings)
        return stores.HTTPStore.from_url(spec.root, **settings)
    except (obstore_errors().BaseError, ValueError, TypeError) as error:
        hint = " Name the account in AZURE_STORAGE_ACCOUNT_NAME, or in options={'account_name': ...}."
        hint = hint if spec.kind == "az" else ""
        raise StorageError(f"{spec.kind}://{spec.root} cannot be opened: {_first_lines(error)}.{hint}") from error


def obstore_errors() -> Any:
    """The module of obstore's exceptions."""
    import obstore.exceptions

    return obstore.exceptions


def _unsigned(spec: StoreSpec) -> dict[str, Any]:
    chosen: dict[str, Any] = {"skip_signature": True} if spec.anonymous else {}
    if spec.endpoint_url:
        chosen["endpoint" if spec.kind == "az" else "base_url"] = spec.endpoint_url
    return chosen


def _client_options(spec: StoreSpec) -> dict[str, Any]:
    # A plain-text connection is only ever made to a server that the caller, or the environment, names that way.
    options: dict[str, Any] = {"allow_http": True, "read_timeout": _READ_TIMEOUT, "timeout": _DEFAULT_TIMEOUT}
    if spec.timeout_ms > 0:
        limit = timedelta(milliseconds=spec.timeout_ms)
        options |= {"timeout": limit, "connect_timeout": limit, "read_timeout": limit}
    return options


@contextlib.contextmanager
def _translated(spec: StoreSpec, key: str) -> Iterator[None]:
    errors = obstore_errors()
    url = spec.root if spec.kind == "http" else f"{spec.kind}://{spec.root}/{key}"
    try:
        yield
    except FileNotFoundError as error:
        if isinstance(error, StorageError):
            raise
        raise _missing(url) from error
    except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
        raise StorageAccessError(
            f"{url}: access refused with the credentials found; set them in the environment or ~/.aws, or pass "
            f"anonymous=True for a public bucket. {_first_lines(error)}",
            url=url,
        ) from error
    except errors.PreconditionError as error:
        raise StorageError(
            f"{url}: the object was replaced while it was being read; open it again.", url=url
        ) from error
    except (errors.BaseError, ValueError) as error:
        raise _plain_error(spec, url, error) from error


def _plain_error(spec: StoreSpec, url: str, error: BaseException) -> StorageError:
    text = _first_lines(error)
    whole = str(error)
    if "TimedOut" in whole or "operation timed out" in whole:
        limit = f"{spec.timeout_ms} ms" if spec.timeout_ms > 0 else "the default time"
        return StorageTimeoutError(
            f"{url}: no answer within {limit} in {RETRIES + 1} attempts; check the endpoint, or raise "
            f"request_timeout_ms. {text}",
            url=url,
        )
    if "169.254." in whole:  # the address where machines of a cloud ask for their role, which is asked last
        return StorageAccessError(
            f"{url}: no credentials were found in the environment, the cloud's files or this machine's role; set them, "
            f"or pass anonymous=True for a public bucket. {text}",
            url=url,
        )
    status = int(found.group(1)) if (found := _STATUS.search(whole)) else None
    if status == 404:
        return _missing(url)
    return StorageError(f"{url}: {text}", url=url, status=status)


def _missing(url: str) -> ObjectMissingError:
    return ObjectMissingError(
        f"{url}: there is no such object or bucket. Check bucket, key, region and endpoint.", url=url, status=404
    )


def _first_lines(error: BaseException) -> str:
    """The message for people: obstore appends its internal structures."""
    return " ".join(str(error).partition("Debug source:")[0].split())[:600]
