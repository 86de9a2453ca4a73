"""Files on servers: HTTP, Google Drive, data sets of the Hugging Face hub."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from flambeau.core.errors import DownloadError
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.utils.streams import StreamWrapper

_TIMEOUT_S = 60.0
_ATTEMPTS = 3
_DRIVE = "https://drive.usercontent.google.com/download"
_DRIVE_HOSTS = frozenset({"drive.google.com", "docs.google.com", "drive.usercontent.google.com"})


class _Body(io.RawIOBase):
    """The body of an answer as a file; goes on where it was when the connection breaks, if the server can."""

    def __init__(self, url: str, timeout: float | None, headers: dict[str, str]) -> None:
        from flambeau.core.hub.transport import Client

        self._client = Client(url, headers, _TIMEOUT_S if timeout is None else timeout)
        self._url = url
        self._answer = self._client.get(url)
        try:
            self._answer.raise_for_status()
        except DownloadError:
            self._answer.close()
            raise
        self.headers = self._answer.headers
        length = self.headers.get("Content-Length")
        self._length = int(length) if length and length.isdigit() else None
        self._position = 0
        self._left = b""
        self._attempts = _ATTEMPTS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = self._more()
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def _more(self) -> bytes:
        while True:
            try:
                block = self._answer.read()
            except DownloadError:
                self._again()
                continue
            if block:
                self._position += len(block)
                return block
            if self._length is None or self._position >= self._length:
                return b""
            self._again()

    def _again(self) -> None:
        """Ask for what is missing."""
        self._answer.close()
        self._attempts -= 1
        mark = self.headers.get("ETag") or self.headers.get("Last-Modified")
        if self._attempts < 0 or mark is None:
            raise DownloadError(
                f"{self._url}: the connection broke after {self._position} of {self._length} bytes; try again.",
                url=self._url,
            )
        self._answer = self._client.get(self._url, {"Range": f"bytes={self._position}-", "If-Range": mark})
        self._answer.raise_for_status()
        if self._answer.status != 206:
            raise DownloadError(
                f"{self._url}: the connection broke after {self._position} bytes, and the server has no "
                "way to go on from "
                "there; try again.",
                url=self._url,
            )

    def close(self) -> None:
        if not self.closed:
            self._answer.close()
        super().close()


def open_url(url: str, timeout: float | None, headers: dict[str, str]) -> io.BufferedReader:
    """A URL as a file: the recipe of streams that `read_from_http` gives."""
    return io.BufferedReader(_Body(url, timeout, headers), 1 << 16)


class _Remote(IterDataPipe[tuple[str, StreamWrapper]]):
    """Base: one stream for each URL."""

    state_fields = ()

    def _set(
        self, source_datapipe: IterDataPipe[str], timeout: float | None, skip_on_error: bool, kwargs: dict[str, Any]
    ) -> None:
        unknown = sorted(set(kwargs) - {"headers"})
        if unknown:
            raise TypeError(f"{type(self).__name__} takes headers=... as a further argument, got {', '.join(unknown)}.")
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout has to be > 0 seconds, got {timeout}.")
        self.source_datapipe = source_datapipe
        self.timeout = timeout
        self.skip_on_error = skip_on_error
        self.headers = dict(kwargs.get("headers") or {})

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for url in self.source_datapipe:
            try:
                made = self._open(url)
            except (DownloadError, ValueError) as error:
                if not self.skip_on_error:
                    raise
                warnings.warn(f"{url} is left out: {error}", stacklevel=2)
                continue
            yield made

    def _open(self, url: str) -> tuple[str, StreamWrapper]:
        return _opened(url, self.timeout, self.headers)

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


def _opened(url: str, timeout: float | None, headers: dict[str, str]) -> tuple[str, StreamWrapper]:
    recipe = (open_url, url, timeout, headers)
    return url, StreamWrapper(open_url(url, timeout, headers), name=url, recipe=recipe)


@functional_datapipe("read_from_http")
class HTTPReaderIterDataPipe(_Remote):
    """Streams of what HTTP servers have (functional name: `read_from_http`).

    A broken connection is taken up again where it broke, where the server can.

    Args:
        source_datapipe: source of URLs.
        timeout: seconds to wait for a connection and for each piece of an answer; 60 when None.
        skip_on_error: warn about URLs that cannot be read, and leave them out.
        **kwargs: `headers`, a dict of fields of the request.

    Yields:
        `(url, stream of bytes)`.

    Raises:
        DownloadError: while iterating, for a URL that cannot be read.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe[str],
        timeout: float | None = None,
        skip_on_error: bool = False,
        **kwargs: Any,
    ) -> None:
        self._set(source_datapipe, timeout, skip_on_error, kwargs)


@functional_datapipe("read_from_gdrive")
class GDriveReaderDataPipe(_Remote):
    """Streams of files on Google Drive (functional name: `read_from_gdrive`).

    Args:
        source_datapipe: source of links to files, such as `https://drive.google.com/uc?id=...`.
        timeout, skip_on_error, **kwargs: as for `read_from_http`.

    Yields:
        `(name of the file, stream of bytes)`.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe[str],
        *,
        timeout: float | None = None,
        skip_on_error: bool = False,
        **kwargs: Any,
    ) -> None:
        self._set(source_datapipe, timeout, skip_on_error, kwargs)

    def _open(self, url: str) -> tuple[str, StreamWrapper]:
        return open_drive(url, self.timeout, self.headers)


def open_drive(url: str, timeout: float | None, headers: dict[str, str]) -> tuple[str, StreamWrapper]:
    """Name and stream of a file on Google Drive.

    Raises:
        ValueError: the link names no file.
        DownloadError: the file is not public, or its quota is used up.
    """
    query = urlencode({"id": _drive_id(url), "export": "download", "confirm": "t"})
    _, stream = _opened(f"{_DRIVE}?{query}", timeout, headers)
    field = stream.raw.headers.get("Content-Disposition")
    name = _file_name(field or "")
    if name is None:
        stream.close()
        raise DownloadError(
            f"{url}: Google Drive answered with a page in place of the file; it is not public, or was "
            "fetched too often today.",
            url=url,
        )
    return name, stream


def _drive_id(url: str) -> str:
    parts = urlsplit(url)
    found = re.search(r"/d/([\w-]+)", parts.path)
    if found:
        return found.group(1)
    ids = parse_qs(parts.query).get("id")
    if not ids:
        raise ValueError(f"{url!r} names no file of Google Drive; a link has /d/<id> or ?id=<id> in it.")
    return ids[0]


def _file_name(field: str) -> str | None:
    encoded = re.search(r"filename\*=UTF-8''([^;]+)", field, re.IGNORECASE)
    if encoded:
        return unquote(encoded.group(1))
    plain = re.search(r'filename="?([^";]+)"?', field, re.IGNORECASE)
    return plain.group(1) if plain else None


@functional_datapipe("read_from_remote")
class OnlineReaderIterDataPipe(_Remote):
    """Streams of HTTP URLs and of files on Google Drive (functional name: `read_from_remote`).

    Args:
        source_datapipe: source of URLs.
        timeout, skip_on_error, **kwargs: as for `read_from_http`.

    Yields:
        `(url, stream of bytes)`; for Google Drive the file's name in place of the URL.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe[str],
        *,
        timeout: float | None = None,
        skip_on_error: bool = False,
        **kwargs: Any,
    ) -> None:
        self._set(source_datapipe, timeout, skip_on_error, kwargs)

    def _open(self, url: str) -> tuple[str, StreamWrapper]:
        drive = urlsplit(url).hostname in _DRIVE_HOSTS
        return (open_drive if drive else _opened)(url, self.timeout, self.headers)


class HuggingFaceHubReaderIterDataPipe(IterDataPipe[Any]):
    """Samples of a data set of the Hugging Face hub, streamed. Needs the package datasets.

    Args:
        dataset: name of the data set.
        **config_kwargs: as for `datasets.load_dataset`, such as `split` ("train" by default), `revision`, `name`.

    Yields:
        Samples as the package gives them, dicts.
    """

    state_fields = ("_position", "_inner")
    transient = ("_data",)

    def __init__(self, dataset: str, **config_kwargs: Any) -> None:
        self.dataset = dataset
        self.config_kwargs = {"split": "train", "streaming": True, **config_kwargs}

    def reset(self) -> None:
        """Go back to the beginning."""
        self._position = 0
        self._inner: dict[str, Any] | None = None
        self._data: Any = None

    def get_state(self) -> dict[str, Any]:
        """The data set's own state where it has one, and how many samples were read."""
        data: Any = self.__dict__.get("_data")
        inner = data.state_dict() if hasattr(data, "state_dict") and self._position else self._inner
        return {"_position": self._position, "_inner": inner}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on behind the samples that were read."""
        self._data = None
        super().set_state(state)

    def __iter__(self) -> Iterator[Any]:
        try:
            import datasets
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "HuggingFaceHubReader reads with datasets; install it: pip install datasets"
            ) from error
        self._data = data = datasets.load_dataset(self.dataset, **self.config_kwargs)
        if self._inner is not None:
            data.load_state_dict(self._inner)
            samples = iter(data)
        else:
            samples = iter(data.skip(self._position) if self._position else data)
        for sample in samples:
            self._position += 1
            yield sample

    def __len__(self) -> int:
        data: Any = self.__dict__.get("_data")
        with contextlib.suppress(TypeError):
            return len(data)
        raise TypeError(f"the data set {self.dataset!r} is streamed, its length is not known.")
