"""Writing a saved TensorDict so that it is there or not there, whatever kills the writer.

A new folder gets its leaves first and its root `meta.json` last, by a rename; without that file nothing loads. Where a
complete one stands already, everything is written to a folder of its own inside, then a journal says what will be
moved, then the files are moved by renames. Whoever finds the journal of a writer that died finishes its moves; see
`journal.py` for how that is known. So the old version is whole until the journal is there, and the new one from then
on. Readers that were underway notice it, see `loading.py`.

This holds for processes that die. Where the machine itself may, `fsync=True` flushes each step before the next.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from flambeau.core.files import sync_directory
from flambeau.data.tensordict.memmap import jsonable
from flambeau.data.tensordict.memmap.errors import LayoutError
from flambeau.data.tensordict.memmap.files import create, room_for, sync
from flambeau.data.tensordict.memmap.journal import JOURNAL, Journal
from flambeau.data.tensordict.memmap.keys import candidates
from flambeau.data.tensordict.memmap.layout import META, split_meta
from flambeau.data.tensordict.memmap.parallel import pwrite_all, write_leaves
from flambeau.data.tensordict.memmap.saving import Plan, join

_STAGE = ".flambeau-stage-"
_ABANDONED_S = 3600.0


def commit(plan: Plan, *, num_threads: int = 0, fsync: bool = False, existsok: bool = True) -> None:
    """Write what a plan lists.

    Raises:
        RuntimeError: a file exists, and `existsok` is off.
        LayoutError: a folder on the way is a symbolic link.
        StorageFullError: it does not fit; what was there before is as it was.
    """
    root = Path(plan.root)
    root.mkdir(parents=True, exist_ok=True)
    recover(root)
    if not existsok:
        _refuse_existing(plan)
    if (root / META).exists():
        _replace_whole(plan, root, num_threads, fsync)
    else:
        _write(plan, plan.root, num_threads, fsync)


def write_meta(root: str, folder: str, meta: dict[str, Any], *, fsync: bool = False) -> None:
    """Write one `meta.json` by a rename."""
    write_whole(f"{root}/{join(folder, META)}", jsonable.dumps(meta), fsync=fsync)


def write_whole(path: str, data: bytes, *, fsync: bool = False) -> None:
    """Write one file by a rename."""
    temporary = f"{path}.{os.getpid()}.tmp"
    _write_file(temporary, data, fsync)
    os.replace(temporary, path)  # noqa: PTH105 - a string is enough


def _write(plan: Plan, root: str, num_threads: int, fsync: bool) -> None:
    """Write a plan below a folder, the root's `meta.json` last."""
    _make_folders(plan, root)
    leaves = [replace(leaf, path=f"{root}/{leaf.path}") for leaf in plan.leaves]
    try:
        write_leaves(leaves, num_threads=num_threads, fsync=fsync)
        for path, data in plan.blobs:
            _write_file(f"{root}/{path}", data, fsync)
        for folder, meta in plan.metas:
            if fsync:
                sync_directory(Path(root, folder))
            write_meta(root, folder, meta, fsync=fsync)
    except BaseException:
        for leaf in leaves:
            if os.path.relpath(leaf.path, root) not in plan.kept:
                Path(leaf.path).unlink(missing_ok=True)
        raise
    if fsync:
        sync_directory(Path(root))


def _write_file(path: str, data: bytes, fsync: bool) -> None:
    descriptor = create(path)
    try:
        with room_for(path, len(data)):
            pwrite_all(descriptor, memoryview(data), 0)
            if fsync:
                os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_folders(plan: Plan, root: str) -> None:
    """Make the folders below the root; what is there must be a folder, and no link out of the root."""
    for folder, _ in reversed(plan.metas):
        if not folder:
            continue
        path = Path(root, folder)
        if path.is_symlink():
            raise LayoutError(f"{path} is a symbolic link; remove it, or save to another folder.")
        path.mkdir(parents=True, exist_ok=True)


def _refuse_existing(plan: Plan) -> None:
    for leaf in plan.leaves:
        path = Path(plan.root, leaf.path)
        if path.exists():
            raise RuntimeError(f"{path} exists, and existsok is False; save to another folder, or allow replacing.")


def _replace_whole(plan: Plan, root: Path, num_threads: int, fsync: bool) -> None:
    """Put a new version in the place of a complete one."""
    for folder, _ in plan.metas:
        if (root / folder).is_symlink() and folder:
            raise LayoutError(f"{root / folder} is a symbolic link; remove it, or save to another folder.")
    stage = root / f"{_STAGE}{os.getpid()}-{os.urandom(4).hex()}"
    stage.mkdir()
    try:
        _write(plan, str(stage), num_threads, fsync)
        files = [leaf.path for leaf in plan.leaves] + [path for path, _ in plan.blobs]
        files += [join(folder, META) for folder, _ in plan.metas]
        stale = sorted(_listed(root, "") - {*files, *plan.kept})
        journal = {"stage": stage.name, "files": files, "stale": stale}
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    with Journal.publish(root, jsonable.dumps(journal), fsync, recover) as journal_text:
        _finish(root, journal_text)
    _sweep(root)
    if fsync:
        for folder, _ in plan.metas:
            sync_directory(root / folder)


def _sweep(root: Path) -> None:
    """Remove what writers left that were killed before they had a journal: of no process here, and an hour old."""
    for stage in root.glob(f"{_STAGE}*"):
        with contextlib.suppress(OSError):
            if time.time() - stage.stat().st_mtime > _ABANDONED_S and not _is_alive(stage.name.split("-")[2]):
                shutil.rmtree(stage, ignore_errors=True)


def _is_alive(pid: str) -> bool:
    if not pid.isdigit() or os.name == "nt":  # where signal 0 would end the process
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def recover(root: Path) -> bool:
    """Wait for a writer that is moving its files, and finish the moves of one that was killed among them.

    Returns:
        Whether there was a journal.

    Raises:
        LayoutError: the files cannot be moved by this user; or a writer takes longer than a minute.
    """
    if not (root / JOURNAL).exists():
        return False
    with Journal.take_over(root) as text:
        if text is not None:
            try:
                _finish(root, text)
            except PermissionError as error:
                raise LayoutError(
                    f"a save to {root} was interrupted while it moved its files; load it once as a user who may write "
                    "there."
                ) from error
    return True


def _finish(root: Path, text: bytes) -> None:
    """Move what a journal lists, and remove the journal. The caller holds it."""
    journal = json.loads(text)
    names = [journal["stage"], *journal["files"], *journal["stale"]]
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in names):
        raise LayoutError(f"{root / JOURNAL} names files outside the folder; it was not written by a save. Remove it.")
    stage = root / journal["stage"]
    for name in journal["files"]:
        _move(stage / name, root / name)
    for name in journal["stale"]:
        (root / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the folder has other files
            (root / name).parent.rmdir()
    (root / JOURNAL).unlink(missing_ok=True)
    shutil.rmtree(stage, ignore_errors=True)


def _move(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except FileNotFoundError:
        if not source.exists():
            return  # moved already
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            source.replace(target)


def _listed(root: Path, folder: str) -> set[str]:
    """The files that the saved version in a folder consists of, as far as its records name them."""
    try:
        meta = json.loads((root / folder / META).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return set()
    files = {join(folder, META)}
    if not isinstance(meta, dict) or (root / folder).is_symlink():
        return set()
    for name in ("other.pickle", "pickle.pkl"):
        if (root / folder / name).is_file():
            files.add(join(folder, name))
    entries, _ = split_meta(meta)
    below = [str(index) for index in range(_stacked(root, folder))] if "stack_dim" in meta else []
    if (root / folder / "_tensordict" / META).is_file():
        below.append("_tensordict")
    for key, entry in entries.items():
        if not isinstance(entry, dict):
            continue
        for name in candidates(key):
            if "type" in entry:
                below.append(name)
                continue
            for suffix in (".memmap", ".shape.memmap"):
                if (root / folder / f"{name}{suffix}").is_file():
                    files.add(join(folder, f"{name}{suffix}"))
    for name in below:
        files |= _listed(root, join(folder, name))
    return files


def _stacked(root: Path, folder: str) -> int:
    count = 0
    while (root / folder / str(count) / META).is_file():
        count += 1
    return count


def sync_leaves(plan: Plan) -> None:
    """Flush files that were in place already."""
    for path in plan.kept:
        sync(f"{plan.root}/{path}")
