"""Listings of object stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flambeau.data.storage.engine import Entry
from flambeau.data.storage.errors import ObjectMissingError, StorageError
from flambeau.data.storage.locations import Location, is_remote, locate
from flambeau.data.storage.process import engine


@dataclass(frozen=True)
class StoredObject:
    """One object of a store.

    Attributes:
        url: what opens it.
        size: bytes.
        last_modified: when it was written, None where the store does not say.
        e_tag: the store's tag of this content, None where it has none.
    """

    url: str
    size: int
    last_modified: datetime | None = None
    e_tag: str | None = None


def list_objects(
    url: str,
    *,
    region: str = "",
    request_timeout_ms: int = -1,
    endpoint_url: str | None = None,
    anonymous: bool | None = None,
    options: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """The URLs of all objects that begin with `url`, folders below included, in the store's (key) order.

    Args:
        url: `s3://bucket`, `s3://bucket/`, `s3://bucket/folder`, `s3://bucket/folder/` or `s3://bucket/pre`;
            `gs://` and `az://` likewise; other schemes go to fsspec where that is installed. Without a slash at its
            end it is a beginning of keys: `s3://bucket/pre` finds `prefix/a` and `pre.txt`.
        region: of the bucket; "" takes the environment's or the configuration file's.
        request_timeout_ms: time for one request, > 0; -1 for the default.
        endpoint_url: an S3-compatible server.
        anonymous: True sends unsigned requests, for public buckets.
        options: further settings of the store by obstore's names.

    Yields:
        URLs. Keys that end in a slash (markers of folders) are left out. The pages of 1,000 keys are requested as the
        iterator gets to them.

    Raises:
        StorageError: the store refused, or cannot list.
    """
    described = describe_objects(
        url, region=region, request_timeout_ms=request_timeout_ms, endpoint_url=endpoint_url, anonymous=anonymous,
        options=options,
    )  # fmt: skip
    return (one.url for one in described)


def describe_objects(url: str, **settings: Any) -> Iterator[StoredObject]:
    """As `list_objects`, with each object's size, time and tag.

    Args:
        url: where to look.
        settings: the keywords of `list_objects`.

    Raises:
        StorageError: the store refused, or cannot list.
    """
    if "://" in url and not is_remote(url):
        return _by_fsspec(url)
    location = locate(url, **settings)
    if location.store.kind == "http":
        raise StorageError(f"{url}: a web server has no listing; pass the URLs of the objects.", url=url)
    return _matching(location)


def _matching(location: Location) -> Iterator[StoredObject]:
    folder, _, stem = location.key.rpartition("/")
    base = location.base
    prefix = location.key
    for page in engine().pages(location.store, folder, _offset(prefix, stem)):
        for entry in page:
            if entry.key.startswith(prefix):
                if entry.size or not _is_marker(location, entry):
                    yield StoredObject(base + entry.key, entry.size, entry.last_modified, entry.e_tag)
            elif stem and entry.key > prefix and not location.store.root.endswith("--x-s3"):
                return  # keys come in order, except from S3's directory buckets


def _offset(prefix: str, stem: str) -> str | None:
    """A key a little before the first that begins with `prefix`: stores list whole folders, or what follows a key."""
    if not stem or not (stem[-1].isascii() and stem[-1].isalnum()) or len(stem) < 2:
        return None
    return f"{prefix[:-1]}{chr(ord(prefix[-1]) - 1)}~"


def _is_marker(location: Location, entry: Entry) -> bool:
    """Whether an empty object is a folder's marker, whose slash the engine takes off."""
    try:
        engine().size(location.store, entry.key)
    except ObjectMissingError:
        return True
    return False


def _by_fsspec(url: str) -> Iterator[StoredObject]:
    try:
        import fsspec
    except ImportError as error:
        raise StorageError(
            f"{url}: this scheme is listed by fsspec, which is not installed. Run: pip install fsspec", url=url
        ) from error
    files, path = fsspec.core.url_to_fs(url)
    for name, about in sorted(files.find(path, detail=True).items()):
        yield StoredObject(files.unstrip_protocol(name), int(about.get("size") or 0))
