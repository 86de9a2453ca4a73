"""Files of this machine: listing, opening, reading in blocks, saving."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flambeau.data.datapipes._columns import check_function
from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.utils.listing import local_files
from flambeau.data.datapipes.utils.streams import StreamWrapper


def as_pipe(roots: Any) -> IterDataPipe[str]:
    """A pipe of roots out of one, several, or a pipe."""
    from flambeau.data.datapipes.iter.sources import IterableWrapperIterDataPipe

    if isinstance(roots, (str, os.PathLike)):
        roots = [os.fspath(roots)]
    return roots if isinstance(roots, IterDataPipe) else IterableWrapperIterDataPipe(list(roots))


class SizedByHand:
    """Mixin: `len()` is a number that the user gave, or unknown when it is -1."""

    length: int

    def __len__(self) -> int:
        if self.length < 0:
            raise TypeError(f"{type(self).__name__} has no length; pass length=... where it is known.")
        return self.length


@functional_datapipe("list_files")
class FileListerIterDataPipe(SizedByHand, Expanding[str]):
    """Paths of the files in folders, sorted by name within each folder (functional name: `list_files`).

    Args:
        root: folder, several, or a pipe of them. The path of a file stands for itself.
        masks: shell pattern for names, or several.
        recursive: go into folders, too.
        abspath: absolute paths.
        non_deterministic: give paths as the file system lists them, without sorting.
        length: what `len()` says; unknown when negative.

    Raises:
        FileNotFoundError: while iterating, where there is no such folder.
    """

    def __init__(
        self,
        root: str | Sequence[str] | IterDataPipe[str] = ".",
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        self.datapipe = as_pipe(root)
        self.source_datapipe = self.datapipe
        self.masks = masks
        self.recursive = recursive
        self.abspath = abspath
        self.non_deterministic = non_deterministic
        self.length = length

    def _expand(self, item: str) -> Iterable[str]:
        return local_files(
            item, self.masks, recursive=self.recursive, abspath=self.abspath, in_order=not self.non_deterministic
        )


def open_file(path: str, mode: str, encoding: str | None) -> Any:
    """`open` by path, mode and encoding: the recipe of streams that `open_files` gives."""
    return Path(path).open(mode, encoding=encoding)


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(SizedByHand, IterDataPipe[tuple[str, StreamWrapper]]):
    """Opens files (functional name: `open_files`).

    Args:
        datapipe: source of paths.
        mode: as for `open`; `"r"`, `"t"` and `"rt"` read text, `"rb"` and `"b"` bytes.
        encoding: of text.
        length: what `len()` says; unknown when negative.

    Yields:
        `(path, stream)`.
    """

    state_fields = ()

    def __init__(self, datapipe: Iterable[str], mode: str = "r", encoding: str | None = None, length: int = -1) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"open_files reads: mode has to be 'r', 'rt', 't', 'rb' or 'b', got {mode!r}.")
        if "b" in mode and encoding is not None:
            raise ValueError(f"mode={mode!r} reads bytes, which have no encoding; got encoding={encoding!r}.")
        self.datapipe = datapipe
        self.mode = mode if "r" in mode else f"r{mode}"
        self.encoding = encoding
        self.length = length

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for path in self.datapipe:
            if not isinstance(path, (str, os.PathLike)):
                raise TypeError(f"open_files opens paths, got {type(path).__name__}.")
            path = os.fspath(path)
            recipe = (open_file, path, self.mode, self.encoding)
            yield path, StreamWrapper(open_file(path, self.mode, self.encoding), name=path, recipe=recipe)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(Expanding[tuple[str, Any]]):
    """What streams contain, whole or in blocks (functional name: `read_from_stream`).

    Args:
        datapipe: source of `(path, stream)`; streams are closed when they are read.
        chunk: bytes, or characters, of a block; everything at once when None.

    Yields:
        `(path, content)`; an empty stream gives one empty content when read at once, and nothing in blocks.
    """

    def __init__(self, datapipe: Iterable[tuple[str, Any]], chunk: int | None = None) -> None:
        self.datapipe = datapipe
        self.source_datapipe = datapipe
        self.chunk = chunk

    def _expand(self, item: tuple[str, Any]) -> Iterator[tuple[str, Any]]:
        path, stream = item
        try:
            if self.chunk is None:
                yield path, stream.read()
                return
            while block := stream.read(self.chunk):
                yield path, block
        finally:
            stream.close()


@functional_datapipe("save_to_disk")
class SaverIterDataPipe(IterDataPipe[str]):
    """Writes data to files (functional name: `save_to_disk`). A file appears when it is complete.

    Args:
        source_datapipe: source of `(metadata, data)`, data being bytes or a string.
        mode: `"w"`, `"t"` or `"wt"` for strings, `"wb"` or `"b"` for bytes; `"a"` in place of `"w"` appends.
        filepath_fn: from metadata to path; the metadata itself when None. Folders are made.

    Yields:
        The paths.
    """

    state_fields = ()

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[Any, bytes | bytearray | str]],
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
    ) -> None:
        if filepath_fn is not None:
            check_function(filepath_fn)
        self.source_datapipe = source_datapipe
        self.mode = writing_mode(mode)
        self.filepath_fn = filepath_fn

    def __iter__(self) -> Iterator[str]:
        for metadata, data in self.source_datapipe:
            path = os.fspath(metadata if self.filepath_fn is None else self.filepath_fn(metadata))
            save(path, data, self.mode)
            yield path

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


def writing_mode(mode: str) -> str:
    """The mode to open a file with; "b" and "t" alone write.

    Raises:
        ValueError: it is no mode of writing.
    """
    if not mode or not set(mode) <= set("wabt"):
        raise ValueError(f"a mode that writes is needed, such as 'w' or 'wb'; got {mode!r}.")
    return mode if set(mode) & set("wa") else f"w{mode}"


def save(path: str, data: bytes | bytearray | str, mode: str) -> None:
    """Write, or append to, one file; a new one appears when it is complete."""
    from flambeau.core.files import write_atomic

    binary = isinstance(data, (bytes, bytearray, memoryview))
    if binary != ("b" in mode):
        kind = "bytes" if binary else type(data).__name__
        raise TypeError(f"{path}: mode={mode!r} takes {'bytes' if 'b' in mode else 'strings'}, got {kind}.")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if "a" in mode:
        with Path(path).open(mode) as file:
            file.write(data)
    else:
        write_atomic(Path(path), bytes(data) if binary else data)  # type: ignore[arg-type]
