"""A dataset in miniature: the plugin writes a few items in the true layout, and a loopback server hands them out.

The facts of the miniature are the dataset's own with the sizes and digests of what was written, so that a dataset's
whole life (fetching, verifying, unpacking, reading, damage) is played without network and without its real bytes.
"""

from __future__ import annotations

import contextlib
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo
from flambeau.core.datasets.presence import digests
from flambeau.core.testing.results import CheckFailed
from flambeau.core.testing.server import FileServer, Request


def miniature_facts(info: DatasetInfo, root: Path, archives: Path) -> DatasetInfo:
    """The facts of what lies below `root`.

    An archive that the fixture did not write is packed from its unpacked contents. A file of which neither it nor its
    contents are there is left out.

    Args:
        info: the dataset's facts.
        root: where the fixture wrote.
        archives: folder for the archives packed here.
    """
    files = [_miniature_file(file, root, archives) for file in info.files]
    return replace(info, files=tuple(file for file in files if file is not None))


def _miniature_file(file: DatasetFile, root: Path, archives: Path) -> DatasetFile | None:
    contents = tuple(_miniature_content(content, root) for content in file.contents if (root / content.path).exists())
    body = root / file.path
    if not body.is_file():
        if not contents or file.extract_to is None:
            return None
        body = archives / file.path
        _pack(body, root / file.extract_to, [root / content.path for content in contents])
    known = digests(body, ["sha256", "md5"])
    return replace(
        file,
        size=body.stat().st_size,
        sha256=known["sha256"] if file.sha256 else None,
        md5=known["md5"] if file.md5 or not file.sha256 else None,
        contents=contents,
    )


def _miniature_content(content: Content, root: Path) -> Content:
    path = root / content.path
    if path.is_dir():
        return Content(content.path)
    known = digests(path, ["sha256", "md5"])
    return Content(
        content.path,
        sha256=known["sha256"] if content.sha256 else None,
        md5=known["md5"] if content.md5 else None,
        size=None if content.size is None else path.stat().st_size,
    )


def _pack(archive: Path, base: Path, members: list[Path]) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    inside = [(member, member.relative_to(base).as_posix()) for member in members]
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w") as packed:
            for member, name in inside:
                for path in sorted(member.rglob("*")) if member.is_dir() else [member]:
                    packed.write(path, f"{name}/{path.relative_to(member).as_posix()}" if member.is_dir() else name)
        return
    compression = {".gz": "gz", ".tgz": "gz", ".bz2": "bz2", ".tbz2": "bz2", ".xz": "xz", ".txz": "xz", ".tar": ""}
    if archive.suffix not in compression:
        raise CheckFailed(f"{archive.name} cannot be packed from its contents here; let the fixture write it itself.")
    with tarfile.open(archive, f"w:{compression[archive.suffix]}") as packed:  # type: ignore[call-overload]
        for member, name in inside:
            packed.add(member, name)


@contextlib.contextmanager
def served(facts: DatasetInfo, *folders: Path) -> Iterator[tuple[DatasetInfo, list[Request]]]:
    """Serve a miniature's files from `folders`; yields facts with loopback addresses, and the requests so far."""
    bodies = {
        file.path: (folder / file.path).read_bytes()
        for file in facts.files
        for folder in folders
        if (folder / file.path).is_file()
    }
    with FileServer(bodies) as server:
        files = tuple(replace(file, url=server.url(file.path), mirrors=()) for file in facts.files)
        yield replace(facts, files=files), server.log
