"""Files on file systems that iopath knows. Needs the package iopath."""

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


def path_manager(pathmgr: Any, handler: Any) -> Any:
    """The given path manager, or a new one that knows HTTP and, as far as their packages are there, other schemes.

    Raises:
        ModuleNotFoundError: iopath is not installed.
    """
    try:
        from iopath.common.file_io import HTTPURLHandler, OneDrivePathHandler, PathManager
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "these pipes read with iopath; install it: pip install 'flambeau-data[iopath]'"
        ) from error
    if pathmgr is None:
        pathmgr = PathManager()
        for known in (HTTPURLHandler(), OneDrivePathHandler()):
            pathmgr.register_handler(known, allow_override=True)
    if handler is not None:
        pathmgr.register_handler(handler, allow_override=True)
    return pathmgr


class _ByIoPath:
    """Mixin: the path manager."""

    pathmgr: Any

    def register_handler(self, handler: Any, allow_override: bool = False) -> None:
        """Let the path manager know another kind of path."""
        self.pathmgr.register_handler(handler, allow_override=allow_override)


@functional_datapipe("list_files_by_iopath")
class IoPathFileListerIterDataPipe(_ByIoPath, Expanding[str]):
    """Paths of the files in folders, sorted (functional name: `list_files_by_iopath`).

    Args:
        root: folder or one file, several, or a pipe of them.
        masks: shell pattern for names, or several.
        pathmgr: a path manager; a new one when None.
        handler: a path handler to register with it.
    """

    def __init__(
        self,
        root: str | Sequence[str] | IterDataPipe[str],
        masks: str | list[str] = "",
        *,
        pathmgr: Any = None,
        handler: Any = None,
    ) -> None:
        self.pathmgr = path_manager(pathmgr, handler)
        self.datapipe = as_pipe(root)
        self.source_datapipe = self.datapipe
        self.masks = masks

    def _expand(self, item: str) -> Iterator[str]:
        if self.pathmgr.isfile(item):
            yield item
            return
        for name in sorted(self.pathmgr.ls(item)):
            if matches(self.masks, name):
                yield posixpath.join(item, name)


@functional_datapipe("open_files_by_iopath")
class IoPathFileOpenerIterDataPipe(_ByIoPath, IterDataPipe[tuple[str, StreamWrapper]]):
    """Opens files (functional name: `open_files_by_iopath`).

    Args:
        source_datapipe: source of paths.
        mode: as for `open`.
        pathmgr, handler: as for `list_files_by_iopath`.

    Yields:
        `(path, stream)`.
    """

    state_fields = ()

    def __init__(
        self, source_datapipe: IterDataPipe[str], mode: str = "r", pathmgr: Any = None, handler: Any = None
    ) -> None:
        self.pathmgr = path_manager(pathmgr, handler)
        self.source_datapipe = source_datapipe
        self.mode = mode

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for path in self.source_datapipe:
            yield path, StreamWrapper(self.pathmgr.open(path, self.mode), name=path)

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


@functional_datapipe("save_by_iopath")
class IoPathSaverIterDataPipe(_ByIoPath, IterDataPipe[str]):
    """Writes data to files (functional name: `save_by_iopath`).

    Args:
        source_datapipe: source of `(metadata, data)`, data being bytes or a string.
        mode: "w" for strings, "wb" for bytes.
        filepath_fn: from metadata to path; the metadata itself when None.
        pathmgr, handler: as for `list_files_by_iopath`.

    Yields:
        The paths.
    """

    state_fields = ()

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[Any, bytes | bytearray | str]],
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        pathmgr: Any = None,
        handler: Any = None,
    ) -> None:
        if filepath_fn is not None:
            check_function(filepath_fn)
        self.pathmgr = path_manager(pathmgr, handler)
        self.source_datapipe = source_datapipe
        self.mode = writing_mode(mode)
        self.filepath_fn = filepath_fn

    def __iter__(self) -> Iterator[str]:
        for metadata, data in self.source_datapipe:
            path = metadata if self.filepath_fn is None else self.filepath_fn(metadata)
            with self.pathmgr.open(path, self.mode) as file:
                file.write(data)
            yield path

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]
