"""Checks of a dataset's files: absent, fetched, fetched again, damaged, and without network."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flambeau.core.datasets import DatasetInfo, fetch_dataset
from flambeau.core.datasets.registered import stand_in
from flambeau.core.testing.comparing import require_equal
from flambeau.core.testing.dataset_subject import DatasetSubject, items_of
from flambeau.core.testing.miniature import served
from flambeau.core.testing.results import Catalogue, CheckFailed, NotApplicable
from flambeau.core.testing.server import Request

CHECKS: Catalogue[DatasetSubject] = Catalogue("dataset")


@CHECKS.check("clear-error-when-absent")
def _clear_error(subject: DatasetSubject) -> None:
    """Over an empty root it raises FileNotFoundError or RuntimeError that names the root and the way out."""
    if not subject.rooted:
        raise NotApplicable("it reads no files below a root.")
    empty = subject.folder / "absent"
    try:
        subject.build(empty, subject.info, download=False)
    except (FileNotFoundError, RuntimeError) as error:
        message = str(error)
    else:
        raise CheckFailed(f"{empty} does not exist, and nothing was raised.")
    if str(empty) not in message:
        raise CheckFailed(f"the error does not say where it looked ({empty}): {message}")
    if "download" in subject.options and _fetchable(subject.info) and "download=True" not in message:
        raise CheckFailed(f"the error does not say that download=True helps: {message}")


@CHECKS.check("download-idempotent")
def _download_idempotent(subject: DatasetSubject) -> None:
    """Fetching gives the items, and fetching again asks the server for nothing."""
    with _downloaded(subject) as (root, facts, asked):
        before = len(asked)
        require_equal(items_of(_obtain(subject, root, facts)), items_of(subject.dataset), "fetched", where="items")
        if len(asked) != before:
            raise CheckFailed(f"fetching again asked the server for {_paths(asked[before:])}.")


@CHECKS.check("corrupted-file-detected")
def _corrupted(subject: DatasetSubject) -> None:
    """A damaged file is never read: it is refused, unpacked again, or fetched again where that is allowed."""
    with _downloaded(subject) as (root, facts, _):
        damaged = _damage(facts, root)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a file had to be replaced is what is being asked for
            try:
                read = items_of(subject.build(root, facts, download=False))
            except (FileNotFoundError, RuntimeError):
                pass
            else:  # it may be unpacked again from an archive that is intact
                whole = items_of(subject.dataset)
                require_equal(read, whole, f"{damaged} was damaged, and read all the same", where="items")
                damaged = _damage(facts, root)
            repaired = _obtain(subject, root, facts)
        require_equal(
            items_of(repaired), items_of(subject.dataset), f"{damaged} was damaged and fetched again", where="items"
        )


@CHECKS.check("offline-once-present")
def _offline(subject: DatasetSubject) -> None:
    """Once its files are in place it works without network, also when told to download."""
    with _downloaded(subject) as (root, facts, asked), _environment("FLAMBEAU_OFFLINE", "1"):
        before = len(asked)
        for download in (False, True):
            items = items_of(subject.build(root, facts, download=download))
            require_equal(items, items_of(subject.dataset), f"offline with download={download}", where="items")
        if len(asked) != before:
            raise CheckFailed(f"the server was asked for {_paths(asked[before:])} although the network is off.")


def _fetchable(info: DatasetInfo) -> bool:
    manual = info.gated is not None and info.gated.kind == "manual"
    return bool(info.files) and not manual and all(file.urls for file in info.files)


def _paths(requests: list[Request]) -> str:
    return ", ".join(request.path for request in requests)


@contextlib.contextmanager
def _downloaded(subject: DatasetSubject) -> Iterator[tuple[Path, DatasetInfo, list[Request]]]:
    """The miniature fetched from a loopback server into a new root, with the server still there."""
    if not _fetchable(subject.info):
        raise NotApplicable("it has no files to fetch.")
    if not subject.facts.files:
        raise CheckFailed("the fixture writes none of the files, or contents, that the facts name.")
    root = Path(tempfile.mkdtemp(prefix="downloaded-", dir=subject.folder))
    with served(subject.facts, subject.placed, subject.folder / "archives") as (facts, asked):
        _obtain(subject, root, facts)
        if not asked:
            raise CheckFailed("fetching asked nothing of the addresses in its facts; use `prepare_dataset`.")
        yield root, facts, asked


def _obtain(subject: DatasetSubject, root: Path, facts: DatasetInfo) -> Any:
    if "download" not in subject.options:
        with stand_in(facts):
            fetch_dataset(facts, root)
    return subject.build(root, facts, download=True)


def _damage(facts: DatasetInfo, root: Path) -> str:
    """Change a byte of a file whose digest is known; returns its path."""
    file = facts.files[0]
    known = [content for content in file.contents if content.sha256 or content.md5]
    victim = known[0].path if known else file.path
    if not known:  # with its contents in place nobody would look at the archive
        for content in file.contents:
            path = root / content.path
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    body = bytearray((root / victim).read_bytes())
    body[len(body) // 2] ^= 0xFF
    (root / victim).write_bytes(bytes(body))
    return victim


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
