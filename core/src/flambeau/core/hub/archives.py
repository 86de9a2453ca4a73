"""Unpacking archives that may have been made to do harm.

Everything is judged before the first byte is written, from the members' names, kinds and claims, and once more while
writing, from what really comes. It is written to a temporary folder, where links are made last, so nothing is ever
written through one; only a whole and harmless tree is renamed into place.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from flambeau.core.errors import DiskFullError, HubError, UnsafeArchiveError
from flambeau.core.files import lock, write_atomic
from flambeau.core.hub.archive_formats import BLOCK, Member, bare_name, members, readable
from flambeau.core.hub.archive_rules import Limits, Rules, ask_tarfile, limits_for, plain_parts
from flambeau.core.hub.cache import file_digest, read_sidecar, sidecar
from flambeau.core.hub.temporary_files import abandoned, claim, release

_MARKER = re.compile(r"\.flambeau-[0-9a-f]{16}\.extracted")
# Beyond what may be written: headers and padding, which are read as well.
_HEADERS = 1 << 30


def extract_archive(
    path: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    max_bytes: int | None = None,
    max_files: int | None = None,
    max_ratio: float | None = None,
    remove: bool = False,
) -> Path:
    """Unpack a tar (plain, gz, bz2, xz, zst), a zip, or a single file compressed so, without leaving the target folder.

    An archive that was unpacked there before is not unpacked again; an interrupted extraction is redone. Files that
    are in the target already stay, unless the archive has one of the same name. Owners and set-uid bits are not
    restored. A hidden file `.flambeau-*.extracted` in the target says that it is complete.

    Args:
        path: the archive; its content tells its kind.
        to: target folder, made if need be; default: beside the archive, named like it without suffix.
        max_bytes: most bytes to write; default: what the disk holds less 1 GiB, and at most 200 times the archive's
            size plus 1 GiB.
        max_files: most members, default 5,000,000.
        max_ratio: most bytes written per byte of the archive, default 200; not applied below 100 MiB.
        remove: remove the archive afterwards.

    Returns:
        The target folder.

    Raises:
        UnsafeArchiveError: a member's name or link leads outside, a device or pipe, a claim that proves wrong, or a
            limit exceeded. Nothing of the archive is left.
        HubError: not an archive, damaged, truncated, or in the way of something else in the target.
        DiskFullError: it does not fit.
    """
    path = Path(path)
    target = path.with_name(bare_name(path)) if to is None else Path(to)
    if target == path:
        target = path.with_name(f"{path.name}.contents")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Inside the target if there is one: what is beside it may be another disk, or closed to us.
    anchor = target / ".flambeau" if target.is_dir() else target
    try:
        with lock(anchor, timeout_s=600.0):  # spares a second process the work; see `files.lock`
            if not _is_done(path, target):
                _extract(path, target, anchor, limits_for(path, anchor.parent, max_bytes, max_files, max_ratio))
    finally:
        with contextlib.suppress(OSError):  # on Windows another process may hold it; then that one removes it
            anchor.with_name(f"{anchor.name}.lock").unlink()
    if remove:
        path.unlink()
        sidecar(path).unlink(missing_ok=True)
    return target


def _extract(path: Path, target: Path, anchor: Path, limits: Limits) -> None:
    for left in abandoned(anchor, "tmp"):
        shutil.rmtree(left, ignore_errors=True)
    temporary = claim(anchor, "tmp")
    try:
        with explained(path), readable(path):
            rules = Rules(target, temporary, limits)
            for member in members(path, limits.bytes + _HEADERS):
                rules.admit(member)
            rules.check_links()
            temporary.mkdir()
            _write(path, temporary, Rules(target, temporary, limits))
            _place(path, temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        release(temporary)


def _write(path: Path, temporary: Path, rules: Rules) -> None:
    written, made = 0, set[Path]()
    for member in members(path, rules.limits.bytes + _HEADERS):
        name = rules.admit(member)
        ask_tarfile(member, temporary)
        if _MARKER.fullmatch(name) or member.kind == "symlink":
            continue
        place = temporary / name
        folder = place if member.kind == "folder" else place.parent
        if folder not in made:
            folder.mkdir(parents=True, exist_ok=True)
            made.add(folder)
        if member.kind == "hardlink":
            written += _link_or_copy(temporary / "/".join(plain_parts(member.link)), place, rules.limits, written)
        elif member.kind == "file":
            written += _write_file(member, place, rules.limits, written)
    rules.check_links()
    for name, link in rules.links.items():
        (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        (temporary / name).symlink_to(link)


def _write_file(member: Member, place: Path, limits: Limits, before: int) -> int:
    size = 0
    with member.open() as source, _create(place, executable=member.executable) as file:
        while block := source.read(BLOCK):
            size += len(block)
            limits.check_bytes(before + size)
            file.write(block)
    if member.size not in (None, size):
        raise UnsafeArchiveError(f"{member.name!r} claims {member.size:,} bytes and has {size:,}.")
    return size


def _create(place: Path, *, executable: bool) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    mode = 0o777 if executable else 0o666  # less the umask
    try:
        return os.fdopen(os.open(place, flags, mode), "wb")
    except FileExistsError:  # an archive that was appended to: the last member of a name counts
        place.unlink()
        return os.fdopen(os.open(place, flags, mode), "wb")


def _link_or_copy(source: Path, place: Path, limits: Limits, before: int) -> int:
    place.unlink(missing_ok=True)
    try:
        os.link(source, place)
    except OSError:  # a file system without hard links
        size = source.stat().st_size
        limits.check_bytes(before + size)
        shutil.copy(source, place)
        return size
    return 0


def _place(path: Path, temporary: Path, target: Path) -> None:
    """Move the finished tree into the target, with the mark that says it is whole coming last."""
    entries = sorted(entry.name for entry in temporary.iterdir())
    stat, digest = path.stat(), _digest(path)
    mark = json.dumps(
        {"archive": path.name, "sha256": digest, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "entries": entries}
    )
    marker = f".flambeau-{digest[:16]}.extracted"
    if not os.path.lexists(target):
        write_atomic(temporary / marker, mark)
        try:
            temporary.rename(target)
            return
        except OSError:
            if not target.is_dir():
                raise
        (temporary / marker).unlink()  # another process was quicker: merge with what it has put there
    if not target.is_dir():
        raise HubError(f"{target} is in the way and is no folder; remove it or unpack elsewhere.")
    moves = list(_moves(temporary, target, target.resolve()))
    for source, destination in moves:
        source.replace(destination)
    write_atomic(target / marker, mark)


def _moves(folder: Path, into: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """What has to be renamed to merge one folder into another; found before anything is moved."""
    for source in sorted(folder.iterdir()):
        place = into / source.name
        is_folder = source.is_dir() and not source.is_symlink()
        if not os.path.lexists(place):
            yield source, place
        elif is_folder and place.is_dir():
            if not place.resolve().is_relative_to(target):
                raise UnsafeArchiveError(f"{place} is a link that leads outside; nothing is written through it.")
            yield from _moves(source, place, target)
        elif is_folder or (place.is_dir() and not place.is_symlink()):
            raise HubError(
                f"{place} is in the way: one is a folder and the other is not. Remove it or unpack elsewhere."
            )
        else:
            yield source, place


def _is_done(path: Path, target: Path) -> bool:
    """Whether this very archive was unpacked there to the end, and its entries are still there."""
    stat = path.stat()
    for marker in target.glob(".flambeau-*.extracted") if target.is_dir() else ():
        try:
            mark = json.loads(marker.read_bytes())
            same = (mark["archive"], mark["size"], mark["mtime_ns"]) == (path.name, stat.st_size, stat.st_mtime_ns)
            same = same or (mark["size"] == stat.st_size and mark["sha256"] == _digest(path))
            if same and all(os.path.lexists(target / entry) for entry in mark["entries"]):
                return True
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not a mark of ours, so it proves nothing
    return False


def _digest(path: Path) -> str:
    return read_sidecar(path, path.stat()).get("sha256") or file_digest(path)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Name the archive in errors about its members."""
    try:
        yield
    except (UnsafeArchiveError, DiskFullError) as error:
        error.args = (f"{path}: {error} Nothing of it was kept.",)
        raise
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise DiskFullError(f"{path} does not fit where it is unpacked; make room. Nothing of it was kept.") from error
