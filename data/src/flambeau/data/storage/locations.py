"""URLs of objects, and the stores they lie in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flambeau.data.storage.errors import StorageError

# Scheme of a URL -> the kind of store that serves it.
KINDS = {
    "s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az", "abfs": "az", "abfss": "az",
    "http": "http", "https": "http",
}  # fmt: skip


@dataclass(frozen=True)
class StoreSpec:
    """How to reach one bucket, container or host; hashable and picklable, and the key of the table of open stores.

    Attributes:
        kind: one of `s3`, `gs`, `az`, `http`.
        root: bucket or container; for `http` the URL itself, query included.
        region: of an S3 bucket, "" for what environment and configuration files say.
        endpoint_url: an S3-compatible server, "" for the cloud's own.
        timeout_ms: time for one request, -1 for the default.
        anonymous: whether requests go unsigned; None leaves it to the environment.
        options: further settings of the store by obstore's names, sorted pairs.
    """

    kind: str
    root: str
    region: str = ""
    endpoint_url: str = ""
    timeout_ms: int = -1
    anonymous: bool | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Location:
    """A place in a store: an object's key, or the beginning of keys."""

    url: str
    store: StoreSpec
    key: str

    @property
    def base(self) -> str:
        """What has to stand before a key to make it a URL again."""
        return self.url[: len(self.url) - len(self.key)] if self.key else self.url.rstrip("/") + "/"


def is_remote(path: object) -> bool:
    """Whether a path is the URL of an object in a store, rather than a file of this machine."""
    return isinstance(path, str) and path.partition("://")[0] in KINDS and "://" in path


def locate(
    url: str,
    *,
    region: str = "",
    request_timeout_ms: int = -1,
    endpoint_url: str | None = None,
    anonymous: bool | None = None,
    options: Mapping[str, str] | None = None,
) -> Location:
    """Take a URL apart.

    Raises:
        StorageError: no scheme that is known here, or no bucket.
        ValueError: a time-out of zero.
    """
    scheme, mark, rest = url.partition("://")
    kind = KINDS.get(scheme) if mark else None
    if kind is None:
        raise StorageError(
            f"{url!r} is not the URL of an object; expected it to start with {', '.join(f'{s}://' for s in KINDS)}.",
            url=url,
        )
    if request_timeout_ms == 0 or request_timeout_ms < -1:
        raise ValueError(
            f"request_timeout_ms is {request_timeout_ms}, expected a positive number, or -1 for the default."
        )
    root, _, key = rest.partition("/")
    if not root:
        raise StorageError(f"{url!r} names no {'host' if kind == 'http' else 'bucket'}.", url=url)
    given = tuple(sorted((options or {}).items()))
    if kind == "http":
        return Location(url, StoreSpec(kind, url, timeout_ms=request_timeout_ms, options=given), "")
    if kind == "az" and "@" in root:  # abfss://container@account.dfs.core.windows.net/key
        root, _, host = root.partition("@")
        given = tuple(sorted({"account_name": host.partition(".")[0], **dict(given)}.items()))
    spec = StoreSpec(kind, root, region, endpoint_url or "", request_timeout_ms, anonymous, given)
    return Location(url, spec, key)
