"""Workspaces: which files are taken, and that none leads out."""

from __future__ import annotations

from pathlib import Path

import pytest

from flambeau.launch.specs import Role
from flambeau.launch.workspace.api import workspace_files
from flambeau.launch.workspace.dir_workspace import DirWorkspaceMixin, TmpDirWorkspaceMixin
from flambeau.launch.workspace.ignoring import Patterns

RULES = [
    (["*.log"], {"a.log": True, "sub/a.log": False}),
    (["**/*.log"], {"a.log": True, "sub/deep/a.log": True}),
    (["data/"], {"data": True, "data/x/y": True, "data2/x": False}),
    (["/data"], {"data/x": True}),
    (["*", "!keep"], {"a": True, "keep": False}),
    (["sub", "!sub/keep"], {"sub/a": True, "sub/keep": False}),
    (["a?c", "[xy]z"], {"abc": True, "ac": False, "xz": True, "az": False}),
    (["# comment", "", "  "], {"# comment": False}),
    (["a.c"], {"abc": False, "a.c": True}),
]


@pytest.mark.parametrize(("lines", "expected"), RULES)
def test_patterns_mean_what_they_mean_to_docker(lines, expected):
    assert {path: Patterns(lines).ignores(path) for path in expected} == expected


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    for name in ("main.py", "secret.key", "sub/part.py", "sub/cache.pyc"):
        (root / name).write_text(name)
    return root


def taken(root) -> list[str]:
    return sorted(below for below, _ in workspace_files(str(root)))


def test_everything_is_taken_but_what_stays_behind(project):
    (project / ".torchxignore").write_text("*.key\n**/*.pyc\n")
    assert taken(project) == [".torchxignore", "main.py", "sub/part.py"]


def test_files_of_an_ignored_folder_can_be_taken_in_again(project):
    (project / ".dockerignore").write_text("sub\n!sub/part.py\n")
    assert taken(project) == [".dockerignore", "main.py", "secret.key", "sub/part.py"]


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "../..", "/"])
def test_a_link_out_of_the_workspace_is_refused(project, target):
    (project / "link").symlink_to(target)
    with pytest.raises(ValueError, match=r"link in workspace .* is a link to"):
        taken(project)


def test_a_link_that_holds_itself_is_refused_and_one_within_is_taken(project):
    (project / "good").symlink_to("main.py")
    assert "good" in taken(project)
    (project / "sub" / "circle").symlink_to("..")
    with pytest.raises(ValueError, match="which holds it"):
        taken(project)


def test_a_workspace_that_is_not_there_is_told():
    with pytest.raises(ValueError, match="is not a folder"):
        taken("nowhere")


def test_a_workspace_in_memory_is_copied(tmp_path):
    from flambeau.launch.notebook import get_workspace, workspacefile

    workspacefile("pkg/main.py", "print(1)\n")
    role = Role("r", "i")
    TmpDirWorkspaceMixin().build_workspace_and_update_role(role, get_workspace(), {})
    assert (Path(role.image) / "pkg" / "main.py").read_text() == "print(1)\n"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "", ".", "a/../../x"])
def test_a_cell_cannot_be_written_outside_of_the_workspace(path):
    from flambeau.launch.notebook import workspacefile

    with pytest.raises(ValueError, match="inside of the workspace"):
        workspacefile(path, "x")


def test_a_job_folder_is_made_once_and_keeps_what_may_be_run(project, tmp_path):
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)
    role, cfg = Role("r", "i"), {"job_dir": str(tmp_path / "deep" / "job")}
    DirWorkspaceMixin().build_workspace_and_update_role(role, str(project), cfg)
    assert role.image == cfg["job_dir"] and Path(role.image, "run.sh").stat().st_mode & 0o111
    with pytest.raises(FileExistsError, match="one of its own"):
        DirWorkspaceMixin().build_workspace_and_update_role(role, str(project), cfg)


def test_without_a_job_folder_nothing_is_copied(project):
    role = Role("r", "i")
    DirWorkspaceMixin().build_workspace_and_update_role(role, str(project), {})
    assert role.image == "i"
