"""What lies in the cache: names, proofs of integrity, looking up and clearing out.

Beside a file `name` there may be

- `name.ok`, its sidecar: size, time of change and SHA-256 of what was verified, so that nothing is hashed twice;
- `name.<host>.<pid>.<random>.part` with a `.json`: a download in progress (see `partial_files`);
- `name.corrupt-<time>`: a damaged copy that was set aside, kept for a day;
- `name.lock`: the advisory lock.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

from flambeau.core.environment import home
from flambeau.core.errors import DownloadError, HashMismatchError, HubWarning
from flambeau.core.files import safe_name, write_atomic
from flambeau.core.hub.addresses import FILE, check, local_path
from flambeau.core.hub.temporary_files import in_progress, siblings

_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
_CORRUPT_KEPT_S = 24 * 3600.0
_FETCHED = ("files", "unpacked")
_LEFTOVER = re.compile(r"\.(part|part\.json|corrupt-\d+|tmp)$")


@dataclass(frozen=True)
class Expected:
    """What is known of a file before it is there: SHA-256 (all 64 hex digits, or the first 8 and more) and size."""

    sha256: str | None = None
    size: int | None = None

    @classmethod
    def of(cls, sha256: str | None, size: int | None) -> Expected:
        """Normalise what a caller gave.

        Raises:
            ValueError: not a digest, or a negative size.
        """
        if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{8,64}", sha256):
            raise ValueError(f"sha256={sha256!r} is not a SHA-256; expected 64 hex digits, or at least the first 8.")
        if size is not None and size < 0:
            raise ValueError(f"size={size} is not a number of bytes; expected 0 or more, or None where it is unknown.")
        return cls(sha256.lower() if sha256 else None, size)

    def check(self, where: str, digest: str | None, size: int, *, note: str = "") -> None:
        """Compare with what came; `digest=None` compares sizes alone.

        Raises:
            HashMismatchError: with both values.
        """
        if self.size not in (None, size):
            problem = f"{size:,} bytes, expected {self.size:,}"
        elif digest is not None and self.sha256 is not None and not digest.startswith(self.sha256):
            problem = f"sha256 is {digest}, expected {self.sha256}"
        else:
            return
        raise HashMismatchError(f"{where}: {problem}.{note}", url=where, expected=self.sha256, actual=digest, size=size)

    def verified(self, path: Path) -> Path:
        """Return a file after reading it, and leave nothing beside it.

        Raises:
            HashMismatchError: it is something else.
        """
        self.check(str(path), file_digest(path) if self.sha256 else None, path.stat().st_size)
        return path

    def __str__(self) -> str:
        known = [f"sha256 {self.sha256}"] if self.sha256 else []
        known += [f"{self.size:,} bytes"] if self.size is not None else []
        return ", ".join(known) or "unknown hash and size"


def cache_dir(*parts: str) -> Path:
    """A folder of the cache, below `FLAMBEAU_HOME`. It need not exist yet.

    Raises:
        ValueError: a part is not a plain name.
    """
    return home().joinpath(*(safe_name(part) for part in parts))


def final_path(url: str, expected: Expected, filename: str | None, root: str | os.PathLike[str] | None) -> Path:
    """Where the file of a URL belongs.

    Raises:
        ValueError: `filename` is more than a file name.
    """
    folder = cache_dir("files") if root is None else Path(root)
    if filename is not None:
        return folder / safe_name(filename)
    prefix = f"{expected.sha256[:16]}-" if expected.sha256 else ""
    return folder / (prefix + safe_name(url_name(url), most_bytes=200 - len(prefix)))


def unwritable(folder: Path, error: OSError) -> DownloadError | None:
    """What to raise where a folder cannot be made or written; None for an error of another kind."""
    if isinstance(error, DownloadError) or error.errno not in _UNWRITABLE:
        return None
    return DownloadError(
        f"{folder} cannot be written ({error.strerror or error}). Set FLAMBEAU_HOME to a folder that you may write to, "
        "or pass root=."
    )


def url_name(url: str) -> str:
    """The last component of a URL's path, free of separators; `download` where there is none."""
    name = re.split(r"[/\\]", unquote(urlsplit(url).path))[-1].replace("\0", "_").replace(":", "_")
    return "download" if name in ("", ".", "..") else name


def inspect(path: Path, expected: Expected, *, url: str | None = None) -> bool:
    """Whether a file is there, intact, and what was asked for. Hashes at most once per state of the file.

    Args:
        path: the file.
        expected: what is known of it.
        url: what it should have come from. Files without a hash and with a name taken from the URL could be mixed up
            otherwise; None where the caller chose the name.

    Raises:
        HashMismatchError: the file is there and is something else.
    """
    try:
        stat = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    expected.check(str(path), None, stat.st_size)
    record = read_sidecar(path, stat)
    if expected.sha256 is None:
        return url is None or record.get("url", url) == url
    digest = record.get("sha256")
    if digest is None:
        digest = file_digest(path)
        expected.check(str(path), digest, stat.st_size)
        write_sidecar(path, stat, digest, expected)
    expected.check(str(path), digest, stat.st_size)
    return True


def usable(path: Path, expected: Expected, *, url: str | None = None) -> bool:
    """As `inspect`, but a damaged file is set aside, with a warning, to make room for a good one."""
    try:
        before = path.stat()
        return inspect(path, expected, url=url)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except HashMismatchError as error:
        now = path.stat() if path.exists() else None
        # While this process was hashing, another may have put a good file in its place: that one stays.
        if now is not None and (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns):
            warnings.warn(f"{error} It {_set_aside(path)}.", HubWarning, stacklevel=3)
        return False


def _set_aside(path: Path) -> str:
    aside = path.with_name(f"{path.name}.corrupt-{int(time.time())}")
    try:
        path.replace(aside)
        sidecar(path).unlink(missing_ok=True)
    except OSError as error:  # in a folder that is read-only, or mapped by another process on Windows
        return f"could not be set aside ({error})"
    return f"was set aside as {aside.name}"


def sidecar(path: Path) -> Path:
    """Where the proof of a file's integrity is kept."""
    return path.with_name(f"{path.name}.ok")


def read_sidecar(path: Path, stat: os.stat_result) -> Mapping[str, str]:
    """What is proven of a file in its present state; empty where nothing is."""
    try:
        record = json.loads(sidecar(path).read_bytes())
        proven = (record["size"], record["mtime_ns"]) == (stat.st_size, stat.st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return record if proven else {}


def write_sidecar(path: Path, stat: os.stat_result, digest: str, expected: Expected, *, url: str | None = None) -> None:
    """Record that a file was verified in the state `stat`; where that cannot be written the next look-up hashes."""
    record: dict[str, object] = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": digest}
    if expected.sha256 and len(expected.sha256) < 64:
        record["prefix"] = expected.sha256
    if url is not None:
        record["url"] = url
    with contextlib.suppress(OSError):
        write_atomic(sidecar(path), json.dumps(record))


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """The digest of a whole file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def verify(path: str | os.PathLike[str], *, sha256: str | None = None, size: int | None = None) -> str:
    """Read a file and compare it with what is announced, trusting no earlier result.

    Args:
        path: the file.
        sha256: expected digest in hex, whole or its first 8 digits and more.
        size: expected number of bytes.

    Returns:
        The file's SHA-256 in hex.

    Raises:
        HashMismatchError: it is something else; the message has both values.
        FileNotFoundError: there is no such file.
    """
    path, expected = Path(path), Expected.of(sha256, size)
    expected.check(str(path), None, path.stat().st_size)
    digest = file_digest(path)
    expected.check(str(path), digest, path.stat().st_size)
    return digest


def cached(
    url: str,
    *,
    sha256: str | None = None,
    filename: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Path | None:
    """The file that `fetch` with the same arguments would return without a connection, or None.

    A file that is there without being what was asked for counts as absent, and is left alone.
    """
    from flambeau.core.hub import embedded, huggingface

    expected = Expected.of(sha256, None)
    check(url)
    try:
        if url.startswith(FILE) and filename is None and root is None:
            local = local_path(url)
            return expected.verified(local) if local.is_file() else None
        if embedded.is_embedded(url) or huggingface.is_hugging_face(url):
            there = embedded.find(url) if embedded.is_embedded(url) else huggingface.find(url)
            return there and expected.verified(there)
        path = final_path(url, expected, filename, root)
        return path if inspect(path, expected, url=url if filename is None else None) else None
    except HashMismatchError:
        return None


def purge(*, older_than: float | timedelta | None = None, partial_only: bool = False) -> int:
    """Remove fetched files, and what was unpacked from them, from the cache.

    Downloads that a running process is writing are left alone, and so are files that the system will not give up
    (mapped by another process, on Windows).

    Args:
        older_than: seconds, or a timedelta; keep what was used or changed since. None removes everything.
        partial_only: remove only what interrupted or damaged downloads left.

    Returns:
        Bytes freed.
    """
    age_s = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
    freed = 0
    for entry in [
        entry for folder in _FETCHED if cache_dir(folder).is_dir() for entry in sorted(cache_dir(folder).iterdir())
    ]:
        companion = entry.suffix in (".ok", ".lock")
        if in_progress(entry) or (partial_only and not _LEFTOVER.search(entry.name)):
            continue
        if companion and entry.with_suffix("").exists():  # goes with its file, and its file stays
            continue
        if age_s is not None and not companion and _last_used(entry) > time.time() - age_s:
            continue
        freed += _remove(entry)
    return freed


def cache_size() -> int:
    """Bytes of fetched files and of what was unpacked from them."""
    return sum(disk_size(cache_dir(folder)) for folder in _FETCHED)


def disk_size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; what vanishes meanwhile counts nothing."""
    total = 0
    for entry in path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]:
        with contextlib.suppress(OSError):
            total += 0 if entry.is_dir() else entry.lstat().st_size
    return total


def clear_corrupt(path: Path) -> None:
    """Remove copies of a file that were set aside more than a day ago."""
    for aside in siblings(path, "corrupt-"):
        with contextlib.suppress(OSError):
            if aside.stat().st_mtime < time.time() - _CORRUPT_KEPT_S:
                aside.unlink()


def _last_used(path: Path) -> float:
    try:
        stat = path.lstat()
    except FileNotFoundError:
        return 0.0
    return max(stat.st_atime, stat.st_mtime)


def _remove(entry: Path) -> int:
    size = disk_size(entry)
    try:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    except OSError:  # in use on Windows, or gone already
        size -= disk_size(entry)
    return size
