"""Which of a dataset's files are in place and intact.

Hashing 100 GB at every start would make the check useless, so a file that was verified once is remembered with its
size and time of change in one small JSON file below the root, and hashed again only when either differs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flambeau.core.datasets.info import Content, DatasetFile, DatasetInfo
from flambeau.core.files import safe_name, write_atomic

_BLOCK = 1 << 20


@dataclass(frozen=True)
class FileStatus:
    """What was found where a dataset's file belongs.

    Args:
        path: where it belongs, below the root.
        state: "ok": there and as announced, or no longer needed because everything unpacked from it is; "missing";
            "damaged": there, but not as announced; "packed": the archive is intact and has not been unpacked.
        detail: for a person, empty where there is nothing to add.
    """

    path: str
    state: Literal["ok", "missing", "damaged", "packed"]
    detail: str = ""


def digests(path: Path, kinds: Iterable[str]) -> dict[str, str]:
    """Hexadecimal digests of a file by algorithm ("sha256", "md5"), read once for all of them."""
    hashes = {kind: hashlib.new(kind, usedforsecurity=False) for kind in kinds}
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            for state in hashes.values():
                state.update(block)
    return {kind: state.hexdigest() for kind, state in hashes.items()}


def fault(path: Path, expected: DatasetFile | Content) -> str | None:
    """None where the file at `path` has the size and digests announced, else one line that says what differs."""
    size = path.stat().st_size
    if expected.size is not None and size != expected.size:
        return f"size is {size:,} bytes, expected {expected.size:,}"
    wanted = {kind: digest for kind in ("sha256", "md5") if (digest := getattr(expected, kind))}
    for kind, actual in digests(path, wanted).items():
        if actual != wanted[kind]:
            return f"{kind} is {actual}, expected {wanted[kind]}"
    return None


class Stamps:
    """The memory of what was verified below one root, kept in a hidden file there.

    A root that cannot be written is verified anew each time, which is slower and otherwise the same.
    """

    def __init__(self, root: Path, dataset: str) -> None:
        self.root = root
        self.path = root / f".{safe_name(f'flambeau-{dataset}.json')}"
        self._records: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):  # absent, or damaged: then nothing is known to be verified
            loaded = json.loads(self.path.read_text(encoding="utf-8"))
            self._records = loaded if isinstance(loaded, dict) else {}

    def fault(self, expected: DatasetFile | Content) -> str | None:
        """As `fault`, for a file below the root, from memory where the file has not changed since."""
        stamp = self._stamp(expected)
        if self._records.get(expected.path) == stamp:
            return None
        found = fault(self.root / expected.path, expected)
        if found is None:
            self._records[expected.path] = stamp
        else:
            self._records.pop(expected.path, None)
        return found

    def trust(self, file: DatasetFile) -> None:
        """Remember a file that has just been verified elsewhere and moved into place."""
        self._records[file.path] = self._stamp(file)

    def unpacked(self, archive: DatasetFile) -> bool:
        """Whether this very archive was unpacked to the end."""
        return bool(self._records.get(f"{archive.path} unpacked") == self._stamp(archive))

    def mark_unpacked(self, archive: DatasetFile) -> None:
        """Remember that the archive was unpacked to the end."""
        self._records[f"{archive.path} unpacked"] = self._stamp(archive)

    def save(self) -> None:
        """Write the memory back, where the root lets itself be written."""
        with contextlib.suppress(OSError):
            write_atomic(self.path, json.dumps(self._records, indent=1, sort_keys=True) + "\n")

    def _stamp(self, expected: DatasetFile | Content) -> dict[str, Any]:
        stat = (self.root / expected.path).stat()
        known = {"sha256": expected.sha256, "md5": expected.md5}
        return {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, **{k: v for k, v in known.items() if v}}


def statuses(
    info: DatasetInfo, root: Path, *, splits: Iterable[str] | None = None, extract: bool = True
) -> list[FileStatus]:
    """The state of every file below `root` that these splits need (all for None), in the order of `info.files`.

    With `extract` False an archive counts as it is, whether or not it has been unpacked.
    """
    stamps = Stamps(root, info.name)
    found = [status(file, stamps, extract=extract) for file in info.files_of(splits)]
    if any(item.state != "missing" for item in found):
        stamps.save()
    return found


def status(file: DatasetFile, stamps: Stamps, *, extract: bool = True) -> FileStatus:
    """The state of one file, or of what it unpacks to."""
    to_unpack = extract and file.extract_to is not None
    lacking = _contents_fault(file, stamps) if to_unpack else None
    if to_unpack and file.contents and lacking is None:
        return FileStatus(file.path, "ok")  # the archive may have been removed, and is not hashed for nothing
    if not (stamps.root / file.path).is_file():
        return FileStatus(file.path, "missing", lacking or "")
    if damage := stamps.fault(file):
        return FileStatus(file.path, "damaged", damage)
    if to_unpack and (lacking or not stamps.unpacked(file)):
        return FileStatus(file.path, "packed", lacking or "")
    return FileStatus(file.path, "ok")


def _contents_fault(file: DatasetFile, stamps: Stamps) -> str | None:
    for content in file.contents:
        announced = content.sha256 or content.md5 or content.size is not None
        if not (stamps.root / content.path).exists():
            return f"{content.path} is missing"
        if announced and (damage := stamps.fault(content)):
            return f"{content.path}: {damage}"
    return None
