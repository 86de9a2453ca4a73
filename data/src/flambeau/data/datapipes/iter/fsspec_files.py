"""Files on any file system that fsspec knows: S3, GCS, HDFS, SSH, memory and more. Needs the package fsspec."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flambeau.data.datapipes._columns import check_function
from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.iter.files import as_pipe, writing_mode
from flambeau.data.datapipes.utils.listing import matches
from flambeau.data.datapipes.utils.streams import StreamWrapper


def file_system(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """The file system of a URL, and the path in it.

    Raises:
        ModuleNotFoundError: fsspec, or what it needs for this kind of URL, is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("fsspec is not installed: pip install 'flambeau-data[fsspec]'") from error
    return url_to_fs(url, **options)


@functional_datapipe("list_files_by_fsspec")
class FSSpecFileListerIterDataPipe(Expanding[str]):
    """URLs of the files in folders, sorted (functional name: `list_files_by_fsspec`).

    Args:
        root: URL or path of a folder or of one file, several, or a pipe of them.
        masks: shell pattern for names, or several.
        **kwargs: options of the file system.
    """

    def __init__(
        self, root: str | Sequence[str] | IterDataPipe[str], masks: str | list[str] = "", **kwargs: Any
    ) -> None:
        self.datapipe = as_pipe(root)
        self.source_datapipe = self.datapipe
        self.masks = masks
        self.kwargs_for_connection = kwargs

    def _expand(self, item: str) -> Iterator[str]:
        system, path = file_system(item, self.kwargs_for_connection)
        if system.isfile(path):
            yield item
            return
        for entry in sorted(system.ls(path, detail=False)):
            if matches(self.masks, posixpath.basename(entry)):
                yield system.unstrip_protocol(entry) if "://" in item else entry


def open_by_fsspec(url: str, mode: str, for_open: dict[str, Any], options: dict[str, Any]) -> Any:
    """A file of any file system: the recipe of streams that `open_files_by_fsspec` gives."""
    system, path = file_system(url, options)
    return system.open(path, mode, **for_open)


@functional_datapipe("open_files_by_fsspec")
class FSSpecFileOpenerIterDataPipe(IterDataPipe[tuple[str, StreamWrapper]]):
    """Opens files (functional name: `open_files_by_fsspec`).

    Args:
        source_datapipe: source of URLs or paths.
        mode: as for `open`.
        kwargs_for_open: arguments of the file system's `open`.
        **kwargs: options of the file system.

    Yields:
        `(url, stream)`.
    """

    state_fields = ()

    def __init__(
        self,
        source_datapipe: IterDataPipe[str],
        mode: str = "r",
        *,
        kwargs_for_open: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.source_datapipe = source_datapipe
        self.mode = mode
        self.kwargs_for_open = kwargs_for_open or {}
        self.kwargs_for_connection = kwargs

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for url in self.source_datapipe:
            arguments = (url, self.mode, self.kwargs_for_open, self.kwargs_for_connection)
            yield url, StreamWrapper(open_by_fsspec(*arguments), name=url, recipe=(open_by_fsspec, *arguments))

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


@functional_datapipe("save_by_fsspec")
class FSSpecSaverIterDataPipe(IterDataPipe[str]):
    """Writes data to files (functional name: `save_by_fsspec`).

    Args:
        source_datapipe: source of `(metadata, data)`, data being bytes or a string.
        mode: "w" for strings, "wb" for bytes.
        filepath_fn: from metadata to URL or path; the metadata itself when None.
        kwargs_for_open: arguments of the file system's `open`.
        **kwargs: options of the file system.

    Yields:
        The URLs.
    """

    state_fields = ()

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[Any, bytes | bytearray | str]],
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        kwargs_for_open: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if filepath_fn is not None:
            check_function(filepath_fn)
        self.source_datapipe = source_datapipe
        self.mode = writing_mode(mode)
        self.filepath_fn = filepath_fn
        self.kwargs_for_open = kwargs_for_open or {}
        self.kwargs_for_connection = kwargs

    def __iter__(self) -> Iterator[str]:
        for metadata, data in self.source_datapipe:
            url = metadata if self.filepath_fn is None else self.filepath_fn(metadata)
            with open_by_fsspec(url, self.mode, self.kwargs_for_open, self.kwargs_for_connection) as file:
                file.write(data)
            yield url

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]
