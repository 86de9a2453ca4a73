"""Getting a dataset's files into place: fetched, verified, unpacked; or named for the user to place by hand.

Nothing unverified is ever visible under a file's own name. A file comes in through `hub.fetch` into a hidden folder
beside its place, is checked there against every digest that is known (older publications state only an MD5), and is
then renamed. What is already in place is left alone, so a second call does nothing and needs no network.
"""

from __future__ import annotations

import contextlib
import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path

from flambeau.core.datasets.browsing import advice, browser_url, is_web_page
from flambeau.core.datasets.info import DatasetFile, DatasetInfo
from flambeau.core.datasets.presence import FileStatus, Stamps, digests, status, statuses
from flambeau.core.environment import flag
from flambeau.core.errors import (
    DatasetMissingError,
    DiskFullError,
    DownloadError,
    GatedError,
    HashMismatchError,
    HubWarning,
    OfflineError,
)  # fmt: skip
from flambeau.core.files import lock, replace, safe_name

_INCOMING = ".flambeau-incoming"
# The lock only saves a second download; a process that cannot get it in this time goes on without.
_LOCK_TIMEOUT_S = 600.0


def fetch(info: DatasetInfo, root: Path, *, extract: bool, splits: Iterable[str] | None) -> None:
    """Bring every file that these splits need below `root`, and unpack the archives when `extract` is true.

    Raises:
        GatedError: files are missing that only the user can obtain; the message lists them.
        DownloadError: a file could not be fetched from any of its addresses, or did not verify.
    """
    files = info.files_of(splits)
    found = statuses(info, root, splits=splits, extract=extract)
    _check_placed_by_hand(info, list(zip(files, found, strict=True)), root)
    if all(item.state == "ok" for item in found):
        return
    try:
        root.mkdir(parents=True, exist_ok=True)
        with lock(Stamps(root, info.name).path, timeout_s=_LOCK_TIMEOUT_S):
            stamps = Stamps(root, info.name)  # another process may have finished in the meantime
            try:
                for file in files:
                    _obtain(file, info, stamps, extract=extract)
            finally:
                stamps.save()
    except OSError as error:
        from flambeau.core.hub.cache import unwritable

        if (refusal := unwritable(root, error)) is not None:
            raise refusal from error
        raise


def require(info: DatasetInfo, root: Path, *, splits: Iterable[str] | None) -> None:
    """Check that every file is in place without using the network; archives that are there get unpacked.

    Raises:
        DatasetMissingError: a file is missing or damaged. The message says what was looked for, where, and both ways
            out: fetching it, and placing it by hand.
    """
    found = statuses(info, root, splits=splits)
    lacking = [item for item in found if item.state in ("missing", "damaged")]
    if lacking:
        raise DatasetMissingError(_absent_message(info, lacking, root))
    if any(item.state == "packed" for item in found):
        fetch(info, root, extract=True, splits=splits)


def _obtain(file: DatasetFile, info: DatasetInfo, stamps: Stamps, *, extract: bool) -> None:
    found = status(file, stamps, extract=extract)
    if found.state == "ok":
        return
    if found.state == "damaged":
        offline = flag("FLAMBEAU_OFFLINE")
        outlook = "nothing is fetched while FLAMBEAU_OFFLINE is set" if offline else "it is fetched again"
        _warn(f"{stamps.root / file.path} is damaged ({found.detail}); {outlook}.")
    if found.state == "packed" and any((stamps.root / content.path).exists() for content in file.contents):
        _warn(f"what was unpacked from {stamps.root / file.path} has changed ({found.detail}); it is unpacked again.")
    if found.state != "packed":
        _download(file, info, stamps)
    if extract and file.extract_to is not None:
        _unpack(file, stamps.root / file.extract_to, stamps)


def _warn(message: str) -> None:
    # Attributed to the line that asked for the dataset: its frame is beyond ours and the public function's.
    warnings.warn(message, HubWarning, stacklevel=5)


def _unpack(file: DatasetFile, folder: Path, stamps: Stamps) -> None:
    from flambeau.core.hub.archives import extract_archive

    if file.contents:
        # They are not as they should be, and a mark that this archive was unpacked here once would hide that.
        for mark in folder.glob(".flambeau-*.extracted"):
            mark.unlink()
    extract_archive(stamps.root / file.path, folder)
    stamps.mark_unpacked(file)


def _download(file: DatasetFile, info: DatasetInfo, stamps: Stamps) -> None:
    target = stamps.root / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        staged = _staged(file, info, stamps.root)
        replace(staged, target)
    except FileNotFoundError:
        # Without a working lock another process may have moved the very same file into place.
        if not target.is_file() or stamps.fault(file):
            raise
    stamps.trust(file)
    _clear(target)


def _staged(file: DatasetFile, info: DatasetInfo, root: Path) -> Path:
    """The verified file in the hidden folder beside its place, from the first address that delivers it."""
    target = root / file.path
    staged = target.parent / _INCOMING / safe_name(target.name)
    # With a SHA-256 the hub itself tells a good mirror from a bad one; an MD5 has to be checked here, per address.
    urls = file.urls
    rounds = [(urls[0], urls[1:])] if file.sha256 or not file.md5 else [(url, ()) for url in urls]
    failures: list[DownloadError] = []
    for url, mirrors in rounds:
        try:
            _fetch_file(file, url, mirrors, staged)
        except GatedError as error:
            raise GatedError(_gated_message(info, f"{url} asks for access", [file], root)) from error
        except OfflineError as error:
            raise OfflineError(
                f"{info.name}: {file.path} is not in place and the network is switched off (FLAMBEAU_OFFLINE). Place "
                f"{_describe(file)} as {target}; it can be fetched from {_addresses(file)}."
            ) from error
        except DiskFullError:
            raise
        except DownloadError as error:
            if info.gated is not None and error.status in (401, 403):
                message = _gated_message(info, f"{url} answers {error.status}", [file], root)
                raise GatedError(message, url=url, status=error.status) from error
            failures.append(error)
            continue
        actual = digests(staged, ["md5"])["md5"] if file.md5 else None
        if actual == file.md5:
            return staged
        sent = " It sent a web page in place of the file." if is_web_page(staged) else ""
        failures.append(
            HashMismatchError(f"{url}: md5 is {actual}, expected {file.md5}; nothing of it was kept.{sent}")
        )
        _clear(target)
    raise _summary(file, info, target, failures) from failures[-1]


def _fetch_file(file: DatasetFile, url: str, mirrors: tuple[str, ...], staged: Path) -> None:
    from flambeau.core.hub.fetching import fetch

    found = fetch(url, sha256=file.sha256, size=file.size, mirrors=mirrors, root=staged.parent, filename=staged.name)
    if found != staged:  # a file that an installed package carries, say, which has to stay where it is
        staged.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found, staged)


def _summary(file: DatasetFile, info: DatasetInfo, target: Path, failures: list[DownloadError]) -> DownloadError:
    reasons = "".join(f"\n  {failure}" for failure in failures)
    known = "".join(f"{sentence}\n" for sentence in dict.fromkeys(map(advice, file.urls)) if sentence)
    return type(failures[-1])(
        f"{info.name}: {file.path} could not be fetched:{reasons}\n{known}"
        f"Try again later, or by hand: open {_addresses(file)} in a browser, save {_describe(file)} as {target}, and "
        "call again."
    )


def _clear(target: Path) -> None:
    """Remove what was staged for one file, and the hidden folder when nothing else is in it."""
    incoming = target.parent / _INCOMING
    for suffix in ("", ".ok", ".lock"):
        (incoming / f"{safe_name(target.name)}{suffix}").unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # another file may be coming in
        incoming.rmdir()


def _check_placed_by_hand(info: DatasetInfo, found: list[tuple[DatasetFile, FileStatus]], root: Path) -> None:
    manual = info.gated is not None and info.gated.kind == "manual"
    lacking = [
        (file, item) for file, item in found if (manual or not file.urls) and item.state in ("missing", "damaged")
    ]
    if lacking:
        reason = _faults(item for _, item in lacking)
        raise GatedError(_gated_message(info, reason, [file for file, _ in lacking], root))


def _gated_message(info: DatasetInfo, reason: str, files: list[DatasetFile], root: Path) -> str:
    gate = info.gated
    where = f" Access: {gate.url or info.homepage or 'see its publication'}." if gate else ""
    how = f" {gate.instructions}" if gate and gate.instructions else ""
    listing = "".join(f"\n  {_placing(file, root)}" for file in files)
    return f"{info.name}: {reason}.{where}{how}\nPlace by hand, then call again:{listing}"


def _absent_message(info: DatasetInfo, lacking: list[FileStatus], root: Path) -> str:
    by_path = {file.path: file for file in info.files}
    files = [by_path[item.path] for item in lacking]
    manual = (info.gated is not None and info.gated.kind == "manual") or not all(file.urls for file in files)
    ways = "Place by hand:" if manual else "Pass download=True to fetch it, or place by hand:"
    owner = (info.gated and info.gated.url) or info.homepage or "its owner"
    listing = "".join(f"\n  {_placing(file, root)}, from {_addresses(file) or owner}" for file in files)
    return f"dataset {info.name!r} is not complete in {root}: {_faults(lacking)}. {ways}{listing}"


def _faults(lacking: Iterable[FileStatus]) -> str:
    return "; ".join(f"{item.path} is {item.state}{f' ({item.detail})' if item.detail else ''}" for item in lacking)


def _placing(file: DatasetFile, root: Path) -> str:
    return f"{_describe(file)} in {(root / file.path).parent}"


def _addresses(file: DatasetFile) -> str:
    return " or ".join(map(browser_url, file.urls))


def _describe(file: DatasetFile) -> str:
    known = [f"{file.size:,} bytes"] if file.size is not None else []
    known += [f"{kind} {digest}" for kind in ("sha256", "md5") if (digest := getattr(file, kind))]
    name = file.path.rpartition("/")[2]
    return f"{name} ({', '.join(known)})" if known else name
