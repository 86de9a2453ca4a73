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
import tarfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flambeau.core.errors import DiskFullError, HubError, UnsafeArchiveError
from flambeau.core.files import lock, write_atomic
from flambeau.core.hub.archive_formats import BLOCK, Kind, Member, bare_name, members, readable
from flambeau.core.hub.cache import file_digest, read_sidecar, sidecar
from flambeau.core.hub.owners import abandoned, claim, release

_GIB = 1 << 30
_MOST_FILES = 5_000_000
_MOST_RATIO = 200.0
_RATIO_FROM = 100 << 20
_DRIVE = re.compile(r"[A-Za-z]:")
_MARKER = re.compile(r"\.flambeau-[0-9a-f]{16}\.extracted")


@dataclass(frozen=True)
class Limits:
    """How much may come out of one archive."""

    files: int
    bytes: int
    ratio: float
    archive_size: int
    by_disk: bool = False

    def check_bytes(self, written: int) -> None:
        """Judge how much has come out so far.

        Raises:
            UnsafeArchiveError: too much.
            DiskFullError: more than the disk holds.
        """
        if written > self.bytes and self.by_disk:
            raise DiskFullError(
                f"unpacked it is at least {written:,} bytes, and only {self.bytes:,} fit with 1 GiB to spare; make "
                "room or unpack it elsewhere.",
                needed=written, free=self.bytes,
            )  # fmt: skip
        if written > self.bytes:
            raise UnsafeArchiveError(f"it unpacks to more than max_bytes={self.bytes:,}.")
        if written > _RATIO_FROM and written > self.ratio * self.archive_size:
            raise UnsafeArchiveError(
                f"it unpacks to more than {self.ratio:g} times its own {self.archive_size:,} bytes; "
                "pass max_ratio if that is right."
            )


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
    restored.

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
                _extract(path, target, anchor, _limits(path, anchor.parent, max_bytes, max_files, max_ratio))
    finally:
        with contextlib.suppress(OSError):  # on Windows another process may hold it; then that one removes it
            anchor.with_name(f"{anchor.name}.lock").unlink()
    if remove:
        path.unlink()
        sidecar(path).unlink(missing_ok=True)
    return target


def _limits(path: Path, folder: Path, most_bytes: int | None, most_files: int | None, ratio: float | None) -> Limits:
    size = path.stat().st_size
    free, generous = shutil.disk_usage(folder).free - _GIB, _MOST_RATIO * size + _GIB
    return Limits(
        files=_MOST_FILES if most_files is None else most_files,
        bytes=max(0, int(min(free, generous))) if most_bytes is None else most_bytes,
        ratio=_MOST_RATIO if ratio is None else ratio,
        archive_size=size,
        by_disk=most_bytes is None and free < generous,
    )


def _extract(path: Path, target: Path, anchor: Path, limits: Limits) -> None:
    for left in abandoned(anchor, "tmp"):
        shutil.rmtree(left, ignore_errors=True)
    temporary = claim(anchor, "tmp")
    try:
        with _explained(path), readable(path):
            rules = _Rules(target, temporary, limits)
            for member in members(path, limits.bytes + _GIB):
                rules.admit(member)
            rules.check_links()
            temporary.mkdir()
            _write(path, temporary, _Rules(target, temporary, limits))
            _place(path, temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        release(temporary)


class _Rules:
    """What has been seen of an archive, and whether the next member fits in."""

    def __init__(self, target: Path, temporary: Path, limits: Limits) -> None:
        self.target, self.temporary, self.limits = target, temporary, limits
        self.kinds: dict[str, Kind] = {}
        self.links: dict[str, str] = {}
        self.spelling: dict[str, str] | None = {} if _ignores_case(temporary.parent) else None
        self.count = self.claimed = 0

    def admit(self, member: Member) -> str:
        """Judge a member by all before it, and note it.

        Returns:
            Its path, relative to the target and with single slashes; empty for the target itself.

        Raises:
            UnsafeArchiveError: it must not be written.
        """
        self.count += 1
        if self.count > self.limits.files:
            raise UnsafeArchiveError(f"it has more than max_files={self.limits.files:,} members.")
        parts = _plain_parts(member.name, self.target)
        name = "/".join(parts)
        if member.kind == "other":
            raise UnsafeArchiveError(
                f"{member.name!r} is a device, a pipe or of unknown kind; only files are unpacked."
            )
        if not parts and member.kind != "folder":
            raise UnsafeArchiveError(f"{member.name!r} is no name for a file.")
        self._check_place(member, parts)
        if member.kind == "hardlink" and self.kinds.get("/".join(_plain_parts(member.link, self.target))) != "file":
            raise UnsafeArchiveError(f"{member.name!r} links to {member.link!r}, which is no file before it.")
        if member.kind == "symlink":
            self.links[name] = _plain_link(member)
        if parts:
            self.kinds[name] = "file" if member.kind == "hardlink" else member.kind
        if member.kind == "file":
            self.claimed += member.size or 0
            self.limits.check_bytes(self.claimed)
        _second_opinion(member, self.temporary)
        return name

    def check_links(self) -> None:
        """Judge where the symbolic links lead, now that all are known: each may lead through others.

        Raises:
            UnsafeArchiveError: one leads outside, or in circles.
        """
        for name, link in self.links.items():
            if self._resolve([*name.split("/")[:-1], *link.split("/")]) is None:
                raise UnsafeArchiveError(f"{name!r} links to {link!r}, which leads outside or nowhere.")

    def _check_place(self, member: Member, parts: list[str]) -> None:
        for depth in range(1, len(parts) + 1):
            name, last = "/".join(parts[:depth]), depth == len(parts)
            before = self.kinds.get(name)
            here = "folder" if not last or member.kind == "folder" else "file"
            if before is not None and before != here:
                raise UnsafeArchiveError(f"{member.name!r} would replace or go through the {before} {name!r}.")
            if last and member.kind == "symlink" and before is not None:
                raise UnsafeArchiveError(f"{member.name!r} is a link and would replace a {before}.")
            if not last:
                self.kinds[name] = "folder"
            if self.spelling is not None:
                folded = unicodedata.normalize("NFC", name).casefold()
                if self.spelling.setdefault(folded, name) != name:
                    raise UnsafeArchiveError(
                        f"{name!r} and {self.spelling[folded]!r} are one name on this file system, which ignores case."
                    )
        if self._resolve(parts[:-1]) is None:
            raise UnsafeArchiveError(
                f"{member.name!r} would be written through a link in {self.target} that leads outside."
            )

    def _resolve(self, parts: list[str]) -> list[str] | None:
        """Follow a path through the archive's links and those on disk; None where it leaves the target or circles."""
        pending, at, hops = parts[::-1], list[str](), 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not at:
                    return None
                at.pop()
                continue
            at.append(part)
            link = self._link("/".join(at))
            if link is not None:
                hops += 1
                if hops > 40 or link.startswith("/") or "\\" in link or _DRIVE.match(link):
                    return None
                at.pop()
                pending += link.split("/")[::-1]
        return at

    def _link(self, name: str) -> str | None:
        if name in self.links:
            return self.links[name]
        place = self.target / name
        return os.readlink(place) if place.is_symlink() else None  # noqa: PTH115


def _plain_parts(name: str, target: Path) -> list[str]:
    """A member's path in parts, without empty ones and `.`.

    Raises:
        UnsafeArchiveError: absolute, with a drive, a backslash, NUL or `..`, or too long.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or "\\" in name or "\0" in name or ".." in parts or any(map(_DRIVE.match, parts)):
        raise UnsafeArchiveError(f"the name {name!r} leads outside or is ambiguous; expected a plain relative path.")
    if any(len(os.fsencode(part)) > 255 for part in parts) or len(os.fsencode(target / name)) > 4000:
        raise UnsafeArchiveError(f"the name {name[:80]!r}... is too long for a file system.")
    if os.name == "nt" and any(part[-1] in ". " or set(part) & set('<>:"|?*') for part in parts):
        raise UnsafeArchiveError(f"the name {name!r} cannot be written on Windows as it is.")
    return parts


def _plain_link(member: Member) -> str:
    link = member.link
    if not link or link.startswith("/") or "\\" in link or "\0" in link or _DRIVE.match(link) or len(link) > 4000:
        raise UnsafeArchiveError(
            f"{member.name!r} links to {link[:80]!r}; expected a relative path inside the archive."
        )
    return link


def _second_opinion(member: Member, temporary: Path) -> None:
    """Ask the standard library's own filter too, where this Python has it (3.11.4)."""
    if member.tar is None or not hasattr(tarfile, "data_filter"):
        return
    try:
        tarfile.data_filter(member.tar, str(temporary))
    except tarfile.FilterError as error:
        raise UnsafeArchiveError(str(error)) from error


def _write(path: Path, temporary: Path, rules: _Rules) -> None:
    written = 0
    for member in members(path, rules.limits.bytes + _GIB):
        name = rules.admit(member)
        place = temporary / name
        if _MARKER.fullmatch(name) or member.kind == "symlink":
            continue
        if member.kind == "folder":
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)  # an archive that was appended to: the last one counts
        if member.kind == "hardlink":
            written = _link_or_copy(temporary / "/".join(_plain_parts(member.link, temporary)), place, written, rules)
        else:
            written = _write_file(member, place, written, rules)
    rules.check_links()
    for name, link in rules.links.items():
        (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        (temporary / name).symlink_to(link)


def _write_file(member: Member, place: Path, written: int, rules: _Rules) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    before, mode = written, 0o777 if member.executable else 0o666  # less the umask
    with member.open() as source, os.fdopen(os.open(place, flags, mode), "wb") as file:
        while block := source.read(BLOCK):
            written += len(block)
            rules.limits.check_bytes(written)
            file.write(block)
    if member.size not in (None, written - before):
        raise UnsafeArchiveError(f"{member.name!r} claims {member.size:,} bytes and has {written - before:,}.")
    return written


def _link_or_copy(source: Path, place: Path, written: int, rules: _Rules) -> int:
    try:
        os.link(source, place)
    except OSError:  # a file system without hard links
        written += source.stat().st_size
        rules.limits.check_bytes(written)
        shutil.copy(source, place)
    return written


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


def _ignores_case(folder: Path) -> bool:
    """Whether two names that differ in case alone are one file there."""
    probe = claim(folder / "case", "tmp")
    probe.touch()
    try:
        return probe.with_name(probe.name.replace("case", "CASE", 1)).exists()
    finally:
        probe.unlink()
        release(probe)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
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
