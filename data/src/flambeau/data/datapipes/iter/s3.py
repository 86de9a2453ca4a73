"""Objects of S3 and of stores like it: listing and streaming. Needs the package obstore."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.utils.listing import matches
from flambeau.data.datapipes.utils.streams import StreamWrapper


@functional_datapipe("list_files_by_s3")
class S3FileListerIterDataPipe(Expanding[str]):
    """URLs of the objects below prefixes, sorted (functional name: `list_files_by_s3`).

    Args:
        source_datapipe: source of prefixes: `s3://bucket`, `s3://bucket/folder/`, `s3://bucket/prefix`; also `gs://`, `az://`.
        length: what `len()` says; unknown when negative.
        request_timeout_ms: milliseconds a request may take; the engine's own limit when negative.
        region: of the bucket; from the environment when empty.
        masks: shell pattern for the last part of names, or several.
        endpoint_url: of a server that is not Amazon's.

    Note:
        Keys that end with `/`, which stand for folders, are left out.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe[str],
        length: int = -1,
        request_timeout_ms: int = -1,
        region: str = "",
        masks: str | list[str] = "",
        *,
        endpoint_url: str | None = None,
    ) -> None:
        self.source_datapipe: IterDataPipe[str] = source_datapipe
        self.length = length
        self.request_timeout_ms = request_timeout_ms
        self.region = region
        self.masks = masks
        self.endpoint_url = endpoint_url

    def _expand(self, item: str) -> Iterator[str]:
        from flambeau.data.storage import list_objects

        options = _options(self.region, self.request_timeout_ms, self.endpoint_url)
        for url in list_objects(item, **options):
            if not url.endswith("/") and matches(self.masks, posixpath.basename(url)):
                yield url

    def __len__(self) -> int:
        if self.length < 0:
            raise TypeError("S3FileLister has no length; pass length=... where it is known.")
        return self.length


def _options(region: str, request_timeout_ms: int, endpoint_url: str | None) -> dict[str, Any]:
    return {"region": region, "request_timeout_ms": request_timeout_ms, "endpoint_url": endpoint_url}


def open_s3(url: str, buffer_size: int | None, multi_part_download: bool | None, options: dict[str, Any]) -> Any:
    """An object as a file: the recipe of streams that `load_files_by_s3` gives."""
    from flambeau.data.storage import open_object

    return open_object(url, buffer_size=buffer_size, multi_part_download=multi_part_download, **options)


@functional_datapipe("load_files_by_s3")
class S3FileLoaderIterDataPipe(IterDataPipe[tuple[str, StreamWrapper]]):
    """Streams of objects (functional name: `load_files_by_s3`). Reading begins with the first part.

    Args:
        source_datapipe: source of URLs.
        request_timeout_ms: milliseconds a request may take; the engine's own limit when negative.
        region: of the bucket; from the environment when empty.
        buffer_size: bytes of a part.
        multi_part_download: read several parts at the same time.
        endpoint_url: of a server that is not Amazon's.

    Yields:
        `(url, stream of bytes)`; the streams can be sought.
    """

    state_fields = ()

    def __init__(
        self,
        source_datapipe: IterDataPipe[str],
        request_timeout_ms: int = -1,
        region: str = "",
        buffer_size: int | None = None,
        multi_part_download: bool | None = None,
        *,
        endpoint_url: str | None = None,
    ) -> None:
        self.source_datapipe = source_datapipe
        self.request_timeout_ms = request_timeout_ms
        self.region = region
        self.buffer_size = buffer_size
        self.multi_part_download = multi_part_download
        self.endpoint_url = endpoint_url

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        options = _options(self.region, self.request_timeout_ms, self.endpoint_url)
        for url in self.source_datapipe:
            arguments = (url, self.buffer_size, self.multi_part_download, options)
            yield url, StreamWrapper(open_s3(*arguments), name=url, recipe=(open_s3, *arguments))

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]
