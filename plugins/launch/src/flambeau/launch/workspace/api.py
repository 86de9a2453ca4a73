"""What schedulers that take a workspace along have in common."""

from __future__ import annotations

import abc
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flambeau.launch.errors import WorkspaceError
from flambeau.launch.specs.apps import AppDef, Role
from flambeau.launch.specs.options import CfgVal, runopts
from flambeau.launch.workspace.ignoring import Patterns

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["TORCHX_IGNORE", "WorkspaceMixin", "walk_workspace", "workspace_files"]

TORCHX_IGNORE = ".torchxignore"
IGNORE_FILES = (TORCHX_IGNORE, ".dockerignore")
"""Files that say what stays behind; the first that is there counts."""

T = TypeVar("T")


class WorkspaceMixin(abc.ABC, Generic[T]):
    """A scheduler, or anything else, that gives replicas the files of a local folder."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)

    def workspace_opts(self) -> runopts:
        """The options of this kind of workspace."""
        return runopts()

    @abc.abstractmethod
    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Pack a workspace, and let the role's image be what has it.

        Args:
            role: whose image is replaced.
            workspace: a folder, or an address that fsspec reads.
            cfg: options of the scheduler.

        Raises:
            WorkspaceError: (a ValueError) the workspace is not there, or a file leads out of it.
        """

    def dryrun_push_images(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> T:
        """Which images must be sent to a registry before the application runs; renames them in its roles."""
        raise NotImplementedError(f"{type(self).__name__} sends no images.")

    def push_images(self, images_to_push: T) -> None:
        """Send what `dryrun_push_images` found."""
        raise NotImplementedError(f"{type(self).__name__} sends no images.")


def walk_workspace(
    fs: AbstractFileSystem, path: str, ignore_name: str = TORCHX_IGNORE
) -> Iterable[tuple[str, Iterable[str], Mapping[str, Mapping[str, object]]]]:
    """The folders of a workspace, as `AbstractFileSystem.walk` gives them, without what stays behind.

    Args:
        fs: where the workspace is.
        path: its root there.
        ignore_name: the file, in the root, that says what stays behind.

    Yields:
        For each folder its path, its folders and its files by name, with fsspec's facts of them.
    """
    patterns = _patterns(fs, path, ignore_name)
    root = str(fs._strip_protocol(path)).rstrip("/")
    for folder, folders, files in fs.walk(path, detail=True):
        below = str(folder)[len(root) :].strip("/")

        def stays(name: str, below: str = below) -> bool:
            return patterns.ignores(posixpath.join(below, name))

        chosen = {name: about for name, about in files.items() if not stays(name)}
        if below and patterns.ignores(below) and not chosen:
            if not patterns.may_take_in_below():
                folders.clear()
            continue
        yield folder, [name for name in folders if not stays(name) or patterns.may_take_in_below()], chosen


def _patterns(fs: AbstractFileSystem, path: str, ignore_name: str) -> Patterns:
    names = IGNORE_FILES if ignore_name == TORCHX_IGNORE else (ignore_name,)
    for name in names:
        file = posixpath.join(path, name)
        if fs.exists(file):
            with fs.open(file, "rt") as lines:
                return Patterns(lines)
    return Patterns(())


def workspace_files(workspace: str) -> Iterator[tuple[str, Any]]:
    """The files of a workspace in a fixed order: path below its root, and a function that opens it to read bytes.

    Raises:
        WorkspaceError: (a ValueError) there is no such folder, or a link leads out of it.
    """
    import fsspec

    fs, path = fsspec.core.url_to_fs(workspace)
    if not fs.isdir(path):
        raise WorkspaceError(f"workspace {workspace!r} is not a folder; give a folder, or none by --workspace=''.")
    root = str(fs._strip_protocol(path)).rstrip("/")
    local = getattr(fs, "protocol", ("",))
    is_local = "file" in ((local,) if isinstance(local, str) else local)
    for folder, folders, files in walk_workspace(fs, path):
        if is_local:
            _refuse_leaving(root, str(folder), [*folders, *files])
        for name in sorted(files):
            full = posixpath.join(str(folder), name)
            yield full[len(root) :].lstrip("/"), _opener(fs, full)


def _opener(fs: Any, full: str) -> Any:
    return lambda: fs.open(full, "rb")


def _refuse_leaving(root: str, folder: str, names: Iterable[str]) -> None:
    """A link out of the workspace would take along what nobody meant to give away, or go in circles."""
    real_root = Path(root).resolve()
    for name in names:
        full = Path(folder, name)
        if not full.is_symlink():
            continue
        target = full.resolve()
        inside = target.is_relative_to(real_root)
        if not inside or (target.is_dir() and Path(folder).resolve().is_relative_to(target)):
            below = full.relative_to(root).as_posix()
            raise WorkspaceError(
                f"{below} in workspace {root} is a link to {target}, "
                f"{'which holds it' if inside else 'outside of the workspace'}; copy the file, or leave it out by a "
                f"line {below!r} in {TORCHX_IGNORE}."
            )
