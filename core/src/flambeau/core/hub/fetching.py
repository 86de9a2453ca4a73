"""`fetch`: the one way in. Which file is wanted, whether it is there already, and where to ask for it.

The order of questions: is it in the cache and intact; does torch's own cache hold it; may the network be used; is
another thread or process fetching it already. Only then `downloads` takes over.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flambeau.core.environment import flag
from flambeau.core.errors import DownloadError, HashMismatchError, OfflineError
from flambeau.core.files import lock, safe_name
from flambeau.core.hub import embedded, huggingface
from flambeau.core.hub.addresses import FILE, check, local_path
from flambeau.core.hub.cache import (
    Expected,
    file_digest,
    final_path,
    unwritable,
    url_name,
    usable,
    verify,
    write_sidecar,
)
from flambeau.core.progress import wanted

_in_process: weakref.WeakValueDictionary[Path, _Turn] = weakref.WeakValueDictionary()
_guard = threading.Lock()


def fetch(
    url: str | os.PathLike[str],
    *,
    sha256: str | None = None,
    size: int | None = None,
    filename: str | None = None,
    root: str | os.PathLike[str] | None = None,
    mirrors: Iterable[str] = (),
    progress: bool = True,
    offline: bool | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 30.0,
    retries: int = 5,
) -> Path:
    """Return a verified local copy of a file, fetching it if it is not there yet.

    A broken connection is resumed, also by a later call or another process after a crash. What comes is checked before
    it becomes visible; a file that is already there is checked once and then known by its size and time of change.

    Args:
        url: http or https; `package:importable.package/file` for a file that an installed package carries;
            `hf://owner/name/file[@revision]` through `huggingface_hub`; `file:///path`. A file of this machine, which a
            path object means too, is verified and returned, or copied where `root` or `filename` is given.
        sha256: expected digest in hex, whole or its first 8 digits and more.
        size: expected number of bytes.
        filename: the name to store it under; default: the URL's, after the first 16 digits of a known digest.
        root: folder to store it in, default `cache_dir("files")`.
        mirrors: further URLs of the same file, asked in order when the first fails. Rules in `FLAMBEAU_MIRRORS` come
            before the URLs they apply to.
        progress: show a bar where stderr is a terminal.
        offline: never open a connection; default: as `FLAMBEAU_OFFLINE` says.
        headers: further request headers; those that may be credentials go to the URL's own host alone.
        timeout: seconds to wait for a connection and for each further piece of the file.
        retries: attempts without any progress before the next mirror is asked.

    Returns:
        The file. Treat it as read-only: other processes may have it mapped.

    Raises:
        HashMismatchError: what came is not what was announced; nothing of it is left.
        OfflineError: it is not there and no connection may be opened.
        GatedError: the server wants to know who asks.
        DiskFullError: it does not fit.
        DownloadError: no server delivered it; the message lists what each answered.
        ValueError: a malformed URL, digest or file name.
    """
    expected = Expected.of(sha256, size)
    if not isinstance(url, str):
        verify(url, sha256=sha256, size=size)
        return Path(url)
    check(url)
    if url.startswith(FILE):
        return _from_this_machine(url, expected, filename, root)
    if embedded.is_embedded(url):
        return expected.verified(embedded.locate(url))
    offline = flag("FLAMBEAU_OFFLINE") if offline is None else offline
    if huggingface.is_hugging_face(url):
        return _from_hugging_face(url, expected, filename, root, offline=offline)

    final = final_path(url, expected, filename, root)
    whose = url if filename is None else None
    if usable(final, expected, url=whose):
        return final
    if (found := _from_torch_home(url, final, expected)) is not None:
        return found
    from flambeau.core.hub.downloads import Download, sources
    from flambeau.core.hub.transport import Client

    urls = sources(url, mirrors)
    if offline:
        raise OfflineError(
            f"{url} is not cached and the network is switched off (FLAMBEAU_OFFLINE). Place the file by hand as "
            f"{final} ({expected}).",
            url=url,
        )
    _make_folder(final)
    with _turn(final), lock(final, timeout_s=10 * timeout, waiting=lambda s: _report_waiting(final, s, progress)):
        if usable(final, expected, url=whose):  # another thread or process had it meanwhile
            return final
        client = Client(url, headers or {}, timeout)
        return Download(final, urls, expected, client, retries=retries, show=progress).run()


def _from_this_machine(url: str, expected: Expected, filename: str | None, root: str | os.PathLike[str] | None) -> Path:
    """Upstream: loaders take `file://` addresses, through `urllib`."""
    path = local_path(url)
    if not path.is_file():
        raise DownloadError(f"{url}: there is no file {path}; check the path.", url=url)
    expected.verified(path)
    if filename is None and root is None:
        return path
    final = final_path(url, expected, filename, root)
    if not usable(final, expected, url=url) or final.stat().st_mtime_ns < path.stat().st_mtime_ns:
        _make_folder(final)
        stat = _copy(path, final, expected)
        write_sidecar(final, stat, file_digest(path), expected, url=url)
    return final


def _from_hugging_face(
    url: str, expected: Expected, filename: str | None, root: str | os.PathLike[str] | None, *, offline: bool
) -> Path:
    path = huggingface.download(url, offline=offline)
    try:
        expected.verified(path)
    except HashMismatchError:
        if offline:
            raise
        path = expected.verified(huggingface.download(url, offline=False, again=True))
    if filename is None and root is None:
        return path
    final = final_path(url.rpartition("@")[0] or url, expected, filename, root)
    return final if usable(final, expected, url=url) else _take(path, final, expected, url)


def _from_torch_home(url: str, final: Path, expected: Expected) -> Path | None:
    """The same file among torch's own checkpoints, if its digest says so; they are read and never written."""
    if expected.sha256 is None:
        return None
    base = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "torch")
    there = Path(base, "hub", "checkpoints", safe_name(url_name(url))).expanduser()
    try:
        there = there.resolve(strict=True)
        if expected.size not in (None, there.stat().st_size):
            return None
        return _take(there, final, expected, url)
    except (FileNotFoundError, PermissionError, HashMismatchError):  # absent, or another file of this name
        return None


def _take(source: Path, final: Path, expected: Expected, url: str) -> Path:
    """Have a verified file that lies elsewhere under its final name too: linked, else copied, else where it is."""
    digest = file_digest(source)
    expected.check(str(source), digest, source.stat().st_size)
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, final)
            stat = final.stat()
        except OSError:
            stat = _copy(source, final, expected)
    except HashMismatchError:
        raise
    except OSError:  # the cache is full or cannot be written
        return source
    write_sidecar(final, stat, digest, expected, url=url)
    return final


def _copy(source: Path, final: Path, expected: Expected) -> os.stat_result:
    from flambeau.core.hub.partial_files import Origin, Partial

    partial = Partial(final, Origin(source.as_uri()))
    try:
        with source.open("rb") as file:
            while block := file.read(1 << 20):
                partial.append(block)
        expected.check(str(source), partial.digest, partial.size)
        return partial.publish(final)
    except BaseException:
        partial.discard()
        raise


def _make_folder(final: Path) -> None:
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if (refusal := unwritable(final.parent, error)) is not None:
            raise refusal from error
        raise


class _Turn:
    """A lock that can be weakly referenced, so that the table of them does not grow."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


@contextmanager
def _turn(final: Path) -> Iterator[None]:
    """One thread of this process at a time for one file; the lock file is between processes."""
    with _guard:
        turn = _in_process.setdefault(final.absolute(), _Turn())
    with turn.lock:
        yield


def _after_fork() -> None:
    # A lock that another thread held at the time of the fork would never be released in the child.
    global _guard
    _guard = threading.Lock()
    _in_process.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _report_waiting(final: Path, waited_s: float, show: bool) -> None:
    if wanted(show):
        sys.stderr.write(f"{final.name}: another process is fetching it, waiting for {waited_s:.0f} s\n")
