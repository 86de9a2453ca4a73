"""Results of programs by keys."""

from __future__ import annotations

import abc
import json
import posixpath

__all__ = ["FsspecResultTracker", "KeyType", "ResultTracker", "ResultType"]

KeyType = int | str
ResultType = int | float | str


class ResultTracker(abc.ABC):
    """Holds results by keys; a program puts them there, and whoever launched it gets them."""

    def __getitem__(self, key: KeyType) -> dict[str, ResultType]:
        return self.get(key)

    def __setitem__(self, key: KeyType, results: dict[str, ResultType]) -> None:
        self.put(key, **results)

    @abc.abstractmethod
    def put(self, key: KeyType, **results: ResultType) -> None:
        """Put the results of a key, over those that it had."""

    @abc.abstractmethod
    def get(self, key: KeyType) -> dict[str, ResultType]:
        """The results of a key; empty where there are none."""


class FsspecResultTracker(ResultTracker):
    """Results in one JSON file for each key.

    Args:
        tracker_base: folder, or an address that fsspec writes to.

    Example:
        >>> import tempfile
        >>> tracker = FsspecResultTracker(tempfile.mkdtemp())
        >>> tracker["trial"] = {"loss": 0.5}
        >>> tracker["trial"], tracker["other"]
        ({'loss': 0.5}, {})
    """

    def __init__(self, tracker_base: str) -> None:
        self._tracker_base = tracker_base

    def put(self, key: KeyType, **results: ResultType) -> None:
        """Put the results of a key."""
        import fsspec

        text = json.dumps(results, indent=2)
        fs, path = fsspec.core.url_to_fs(self._file(key))
        fs.makedirs(posixpath.dirname(path), exist_ok=True)
        # Whoever waits for the file must not read half of it.
        temporary = f"{path}.tmp"
        with fs.open(temporary, "w") as file:
            file.write(text)
        fs.mv(temporary, path)

    def get(self, key: KeyType) -> dict[str, ResultType]:
        """The results of a key."""
        import fsspec

        fs, path = fsspec.core.url_to_fs(self._file(key))
        if not fs.exists(path):
            return {}
        with fs.open(path, "r") as file:
            results: dict[str, ResultType] = json.load(file)
        return results

    def _file(self, key: KeyType) -> str:
        return posixpath.join(self._tracker_base, str(key))
