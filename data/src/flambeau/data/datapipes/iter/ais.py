"""Objects of an AIStore cluster. Needs the package aistore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.iter.files import SizedByHand
from flambeau.data.datapipes.utils.streams import StreamWrapper


def _client(url: str) -> Any:
    try:
        from aistore.sdk import Client
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("these pipes read with aistore; install it: pip install aistore") from error
    return Client(url)


def _parts(url: str) -> tuple[str, str, str]:
    """Provider, bucket and the rest of `provider://bucket/rest`."""
    provider, separator, path = url.partition("://")
    bucket, _, rest = path.partition("/")
    if not separator or not bucket:
        raise ValueError(f"{url!r} names no bucket; expected provider://bucket/prefix, such as ais://bucket/folder.")
    return provider, bucket, rest


@functional_datapipe("list_files_by_ais")
class AISFileListerIterDataPipe(SizedByHand, Expanding[str]):
    """URLs of the objects below prefixes (functional name: `list_files_by_ais`).

    Args:
        source_datapipe: source of prefixes, `provider://bucket/prefix`.
        url: address of the cluster.
        length: what `len()` says; unknown when negative.
    """

    def __init__(self, source_datapipe: IterDataPipe[str], url: str, length: int = -1) -> None:
        _client(url)
        self.source_datapipe: IterDataPipe[str] = source_datapipe
        self.url = url
        self.length = length

    def _expand(self, item: str) -> Iterator[str]:
        provider, bucket, prefix = _parts(item)
        found = _client(self.url).bucket(bucket, provider=provider).list_objects_iter(prefix=prefix)
        for name in sorted(entry.name for entry in found):
            yield f"{provider}://{bucket}/{name}"


def open_ais(cluster: str, url: str) -> Any:
    """An object as a stream: the recipe of streams that `load_files_by_ais` gives."""
    provider, bucket, name = _parts(url)
    return _client(cluster).bucket(bucket, provider=provider).object(name).get_reader().raw()


@functional_datapipe("load_files_by_ais")
class AISFileLoaderIterDataPipe(SizedByHand, IterDataPipe[tuple[str, StreamWrapper]]):
    """Streams of objects (functional name: `load_files_by_ais`).

    Args:
        source_datapipe: source of URLs, `provider://bucket/name`.
        url: address of the cluster.
        length: what `len()` says; unknown when negative.

    Yields:
        `(url, stream of bytes)`.
    """

    state_fields = ()

    def __init__(self, source_datapipe: IterDataPipe[str], url: str, length: int = -1) -> None:
        _client(url)
        self.source_datapipe = source_datapipe
        self.url = url
        self.length = length

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for url in self.source_datapipe:
            yield url, StreamWrapper(open_ais(self.url, url), name=url, recipe=(open_ais, self.url, url))
