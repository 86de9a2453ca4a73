"""Keeping what a part of a pipeline produces as files, so that it runs once."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from flambeau.core.errors import HashMismatchError
from flambeau.core.files import replace
from flambeau.data.datapipes._columns import check_function
from flambeau.data.datapipes._graph import upstream
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.iter.files import writing_mode
from flambeau.data.datapipes.iter.hashing import check_hash_type, file_digest

_BLOCK = 1 << 20


class _Entry:
    """One source sample on its way: its files, and the lock that keeps other processes from making them as well."""

    def __init__(self, paths: list[str], lock: Any | None) -> None:
        self.paths = paths
        self.lock = lock

    @property
    def cached(self) -> bool:
        return self.lock is None

    def done(self) -> None:
        if self.lock is not None:
            self.lock.release()
            with contextlib.suppress(OSError):  # another process waits for it: then it stays
                Path(self.lock.lock_file).unlink()


@functional_datapipe("on_disk_cache")
class OnDiskCacheHolderIterDataPipe(IterDataPipe[Any]):
    """Begins a part of a pipeline whose results are kept as files (functional name: `on_disk_cache`).

    `end_caching` ends it. Only samples whose files are missing, or fail a check, go into the part. Several processes
    may work on the same files: one of them makes each, the others wait; when it dies, the next one takes over.

    Args:
        source_datapipe: source.
        filepath_fn: from a sample to the path of its file, or to an iterable of paths; the sample itself when None.
        hash_dict: path -> digest that the file must have; files that are not in it are not checked.
        hash_type: "sha256" or "md5".
        extra_check_fn: from a path to whether the file is good; it may look at a folder as well.

    Example:
        `urls.on_disk_cache(path_of).read_from_http().end_caching(mode="wb", same_filepath_fn=True)` yields the paths.
    """

    state_fields = ()
    transient = ("entries",)

    def __init__(
        self,
        source_datapipe: IterDataPipe[Any],
        filepath_fn: Callable[..., Any] | None = None,
        hash_dict: dict[str, str] | None = None,
        hash_type: str = "sha256",
        extra_check_fn: Callable[[str], bool] | None = None,
    ) -> None:
        for function in (filepath_fn, extra_check_fn):
            if function is not None:
                check_function(function)
        check_hash_type(hash_type)
        self.source_datapipe = source_datapipe
        self.filepath_fn = filepath_fn
        self.hash_dict = hash_dict
        self.hash_type = hash_type
        self.extra_check_fn = extra_check_fn
        self.timeout = 300.0
        self.ended = False

    def reset(self) -> None:
        """Go back to the beginning."""
        for entry in getattr(self, "entries", ()):
            entry.done()
        self.entries: deque[_Entry] = deque()

    def set_state(self, state: dict[str, Any]) -> None:
        """Begin without entries."""
        self.reset()

    def __iter__(self) -> Iterator[Any]:
        if not self.ended:
            raise RuntimeError("on_disk_cache was not ended; call end_caching() at the end of the part that is kept.")
        for sample in self.source_datapipe:
            paths = self._paths(sample)
            if self.is_cached(paths):
                self.entries.append(_Entry(paths, None))
                continue
            lock = self._locked(paths)
            if self.is_cached(paths):  # another process made them in the meantime
                entry = _Entry(paths, lock)
                entry.done()
                self.entries.append(_Entry(paths, None))
                continue
            self.entries.append(_Entry(paths, lock))
            yield sample

    def _paths(self, sample: Any) -> list[str]:
        found = sample if self.filepath_fn is None else self.filepath_fn(sample)
        return [os.fspath(found)] if isinstance(found, (str, os.PathLike)) else [os.fspath(path) for path in found]

    def is_cached(self, paths: list[str]) -> bool:
        """Whether all files are there and pass the checks."""
        return bool(paths) and all(self._good(path) for path in paths)

    def _good(self, path: str) -> bool:
        if not Path(path).exists():
            return False
        if (
            self.hash_dict
            and path in self.hash_dict
            and file_digest(path, self.hash_type) != self.hash_dict[path].lower()
        ):
            return False
        return self.extra_check_fn is None or bool(self.extra_check_fn(path))

    def _locked(self, paths: list[str]) -> Any:
        import filelock

        first = Path(paths[0])
        first.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(first.with_name(f".{first.name}.promise"), thread_local=False)
        try:
            # The system takes the lock from a process that dies.
            lock.acquire(timeout=self.timeout)
        except filelock.Timeout as error:
            raise TimeoutError(
                f"another process has been making {paths[0]} for more than {self.timeout:g} s; raise the timeout of "
                "end_caching if it may take longer."
            ) from error
        return lock


@functional_datapipe("end_caching")
class EndOnDiskCacheHolderIterDataPipe(IterDataPipe[str]):
    """Ends what `on_disk_cache` began: writes the results, and yields paths (functional name: `end_caching`).

    Paths come in the order of the samples, made now or before. A file appears when it is complete.

    Args:
        datapipe: source of `(metadata, data)`; data is a stream, bytes or a string.
        mode: "wb" or "b" for bytes, "w", "t" or "wt" for strings.
        filepath_fn: from metadata to path; the metadata itself when None.
        same_filepath_fn: use the function of `on_disk_cache`.
        skip_read: data is no stream, and is written as it is.
        timeout: seconds to wait for another process that makes a file.

    Raises:
        RuntimeError: there is no `on_disk_cache` before it, or that was ended already.
        HashMismatchError: while iterating, when a new file does not have its digest.
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        mode: str = "wb",
        filepath_fn: Callable[..., Any] | None = None,
        *,
        same_filepath_fn: bool = False,
        skip_read: bool = False,
        timeout: float = 300,
    ) -> None:
        if filepath_fn is not None and same_filepath_fn:
            raise ValueError("end_caching takes filepath_fn or same_filepath_fn=True, not both.")
        holder = next((pipe for pipe in upstream(datapipe) if isinstance(pipe, OnDiskCacheHolderIterDataPipe)), None)
        if holder is None:
            raise RuntimeError("end_caching ends what on_disk_cache begins; there is none before it.")
        if holder.ended:
            raise RuntimeError("this on_disk_cache was ended already; each needs an end_caching of its own.")
        holder.ended = True
        self.datapipe = datapipe
        self.holder = holder
        self.mode = writing_mode(mode)
        self.filepath_fn = holder.filepath_fn if same_filepath_fn else filepath_fn
        self.skip_read = skip_read
        self.set_timeout(timeout)

    def set_timeout(self, timeout: float) -> None:
        """Wait so many seconds for another process that makes a file."""
        self.holder.timeout = timeout

    def __iter__(self) -> Iterator[str]:
        entries = None
        try:
            for metadata, data in self.datapipe:
                entries = self.holder.entries
                yield from _cached(entries)
                path = os.fspath(metadata if self.filepath_fn is None else self.filepath_fn(metadata))
                self._write(path, data)
                yield path
                self._complete(entries)
            if entries is None:
                entries = self.holder.entries
            while entries:
                entry = entries.popleft()
                entry.done()
                yield from entry.paths if entry.cached else ()
        finally:
            for entry in self.holder.__dict__.get("entries", ()):
                entry.done()

    def _complete(self, entries: deque[_Entry]) -> None:
        if entries and not entries[0].cached and all(map(os.path.exists, entries[0].paths)):
            entries.popleft().done()

    def _write(self, path: str, data: Any) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with part.open(self.mode) as file:
                self._copy(data, file)
            self._check(part, path)
            replace(part, target)
        finally:
            part.unlink(missing_ok=True)

    def _copy(self, data: Any, file: IO[Any]) -> None:
        if self.skip_read or isinstance(data, (bytes, bytearray, str)):
            file.write(data)
            return
        try:
            while block := data.read(_BLOCK):
                file.write(block)
        finally:
            data.close()

    def _check(self, part: Path, path: str) -> None:
        expected = (self.holder.hash_dict or {}).get(path)
        if expected is None:
            return
        found = file_digest(os.fspath(part), self.holder.hash_type)
        if found != expected.lower():
            raise HashMismatchError(
                f"{path}: {self.holder.hash_type} is {found}, expected {expected}; nothing of it was kept.",
                expected=expected,
                actual=found,
            )


def _cached(entries: deque[_Entry]) -> Iterator[str]:
    while entries and entries[0].cached:
        yield from entries.popleft().paths
