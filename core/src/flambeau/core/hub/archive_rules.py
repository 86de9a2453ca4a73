"""What an archive may hold: where its members may lie, where its links may lead, and how much may come out of it."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from flambeau.core.errors import DiskFullError, UnsafeArchiveError
from flambeau.core.hub.archive_formats import Kind, Member
from flambeau.core.hub.temporary_files import claim, release

_GIB = 1 << 30
_MOST_FILES = 5_000_000
_MOST_RATIO = 200.0
_RATIO_FROM = 100 << 20
_DRIVE = re.compile(r"[A-Za-z]:")


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


def limits_for(path: Path, folder: Path, most_bytes: int | None, most_files: int | None, ratio: float | None) -> Limits:
    """What the caller allows, and for the rest what is sensible for this archive and the disk of this folder."""
    size = path.stat().st_size
    free, generous = shutil.disk_usage(folder).free - _GIB, _MOST_RATIO * size + _GIB
    return Limits(
        files=_MOST_FILES if most_files is None else most_files,
        bytes=max(0, int(min(free, generous))) if most_bytes is None else most_bytes,
        ratio=_MOST_RATIO if ratio is None else ratio,
        archive_size=size,
        by_disk=most_bytes is None and free < generous,
    )


class Rules:
    """What has been seen of an archive, and whether the next member fits in."""

    def __init__(self, target: Path, temporary: Path, limits: Limits) -> None:
        self.target, self.limits = target, limits
        self.kinds: dict[str, Kind] = {}
        self.links: dict[str, str] = {}
        self.spelling: dict[str, str] | None = {} if ignores_case(temporary.parent) else None
        self.occupied = target.is_dir()
        self.sound_folders: set[str] = set()
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
        parts = plain_parts(member.name)
        name = "/".join(parts)
        if member.kind == "other":
            raise UnsafeArchiveError(
                f"{member.name!r} is a device, a pipe or of unknown kind; only files are unpacked."
            )
        if not parts and member.kind != "folder":
            raise UnsafeArchiveError(f"{member.name!r} is no name for a file.")
        self._check_place(member, parts)
        if member.kind == "hardlink":
            source = "/".join(plain_parts(member.link))
            if source == name or self.kinds.get(source) != "file":
                raise UnsafeArchiveError(f"{member.name!r} links to {member.link!r}, which is no file before it.")
        if member.kind == "symlink":
            self.links[name] = _plain_link(member)
        if parts:
            self.kinds[name] = "file" if member.kind == "hardlink" else member.kind
        if member.kind == "file":
            self.claimed += member.size or 0
            self.limits.check_bytes(self.claimed)
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
        folder = "/".join(parts[:-1])
        if folder in self.sound_folders:
            return
        if self._resolve(parts[:-1]) is None:
            raise UnsafeArchiveError(
                f"{member.name!r} would be written through a link in {self.target} that leads outside."
            )
        self.sound_folders.add(folder)

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
        if name in self.links or not self.occupied:
            return self.links.get(name)
        place = self.target / name
        return os.readlink(place) if place.is_symlink() else None  # noqa: PTH115


def plain_parts(name: str) -> list[str]:
    """A member's path in parts, without empty ones and `.`.

    Raises:
        UnsafeArchiveError: absolute, with a drive, a backslash, NUL or `..`, or too long.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or "\\" in name or "\0" in name or ".." in parts or any(map(_DRIVE.match, parts)):
        raise UnsafeArchiveError(f"the name {name!r} leads outside or is ambiguous; expected a plain relative path.")
    length = len(os.fsencode(name))
    if length > 255 and (length > 3000 or any(len(os.fsencode(part)) > 255 for part in parts)):
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


def ask_tarfile(member: Member, folder: Path) -> None:
    """Ask the standard library's own filter too, where this Python has it (3.11.4).

    Raises:
        UnsafeArchiveError: it would not extract the member into `folder`.
    """
    if member.tar is None or not hasattr(tarfile, "data_filter"):
        return
    try:
        tarfile.data_filter(member.tar, str(folder))
    except tarfile.FilterError as error:
        raise UnsafeArchiveError(str(error)) from error


def ignores_case(folder: Path) -> bool:
    """Whether two names that differ in case alone are one file there."""
    probe = claim(folder / "case", "tmp")
    probe.touch()
    try:
        return probe.with_name(probe.name.replace("case", "CASE", 1)).exists()
    finally:
        probe.unlink()
        release(probe)
