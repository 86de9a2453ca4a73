"""Workspaces that are copied into a folder: a new one, or one that the job names."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from flambeau.launch.errors import JobExists
from flambeau.launch.specs.apps import Role
from flambeau.launch.specs.options import CfgVal
from flambeau.launch.workspace.api import WorkspaceMixin, workspace_files

__all__ = ["DirWorkspaceMixin", "TmpDirWorkspaceMixin", "copy_workspace"]


class TmpDirWorkspaceMixin(WorkspaceMixin[None]):
    """Copies the workspace into a new temporary folder, which becomes the image."""

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Copy it; `role.image` becomes the folder."""
        folder = Path(tempfile.mkdtemp(prefix="flambeau_workspace_"))
        copy_workspace(workspace, folder)
        role.image = str(folder)


class DirWorkspaceMixin(WorkspaceMixin[None]):
    """Copies the workspace into the folder that the option `job_dir` names, which becomes the image."""

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Copy it where `job_dir` is given, and leave the role as it is otherwise.

        Raises:
            JobExists: `job_dir` is there already, and another job's: two launches never share one.
        """
        if not (job_dir := cfg.get("job_dir")):
            return
        folder = Path(str(job_dir))
        try:
            # Making the folder is what decides between two launches at once.
            folder.mkdir(parents=False)
        except FileNotFoundError:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
        except FileExistsError:
            raise JobDirExists(
                f"job_dir {folder} is there already; every job needs one of its own, which the launch makes."
            ) from None
        copy_workspace(workspace, folder)
        role.image = str(folder)


class JobDirExists(JobExists, FileExistsError):
    """The folder for a job's files is there already."""


def copy_workspace(workspace: str, folder: Path) -> None:
    """Copy what does not stay behind; files keep whether they may be run."""
    for below, opened in workspace_files(workspace):
        target = folder / below
        target.parent.mkdir(parents=True, exist_ok=True)
        with opened() as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)
        local = Path(getattr(source, "name", "") or "")
        if local.is_file():
            shutil.copymode(local, target)
