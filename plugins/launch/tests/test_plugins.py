"""Schedulers of other distributions: found by a hook, alone in their failures."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODULE = """
from flambeau.launch.plugins import SchedulerPlugin, hookimpl

CLOUD = SchedulerPlugin("mycloud", "their_scheduler:create", "a cloud of mine", needs=("module_that_is_absent",))


@hookimpl
def launch_components():
    return {"mine": "their_components"}
"""
SCHEDULER = """
from flambeau.launch.schedulers.local_scheduler import create_scheduler

def create(session_name, **options):
    return create_scheduler(session_name, backend="mycloud")
"""
COMPONENTS = '''
from flambeau.launch import specs

def hello(name: str = "you") -> specs.AppDef:
    """Greets.

    Args:
        name: whom
    """
    return specs.AppDef("hello", [specs.Role("r", "", entrypoint="echo", args=["hello", name])])
'''


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the path with an installed distribution."""
    folder = tmp_path / "site"
    (folder / "theirs-1.0.dist-info").mkdir(parents=True)
    (folder / "theirs-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "theirs.py").write_text(MODULE)
    (folder / "their_scheduler.py").write_text(SCHEDULER)
    (folder / "their_components.py").write_text(COMPONENTS)
    monkeypatch.setenv("PYTHONPATH", str(folder))

    def declare(text: str) -> None:
        (folder / "theirs-1.0.dist-info" / "entry_points.txt").write_text(f"[flambeau.launch]\n{text}\n")

    declare("mycloud = theirs:CLOUD\nmore = theirs")
    return declare


def launch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "flambeau.core", "launch", *words], capture_output=True, text=True)


def test_a_scheduler_and_components_of_others_are_used_by_their_names(site):
    done = launch("run", "-s", "mycloud", "--wait", "--log", "mine.hello", "--name", "me")
    assert done.returncode == 0, done.stderr
    assert "r/0 hello me" in done.stdout


def test_what_a_scheduler_of_others_lacks_is_told(site):
    assert "module module_that_is_absent" in launch("doctor").stdout


def test_a_broken_plugin_hurts_nobody_and_is_told(site):
    site("mycloud = theirs:CLOUD\nbroken = theirs:NOBODY")
    assert launch("run", "-s", "local_cwd", "utils.echo").returncode == 0
    doctor = launch("doctor")
    assert doctor.returncode == 1 and "broken" in doctor.stdout and "NOBODY" in doctor.stdout


def test_two_schedulers_of_one_name_are_refused(site, tmp_path):
    (tmp_path / "site" / "theirs_too.py").write_text(MODULE.replace("their_scheduler", "another_scheduler"))
    site("mycloud = theirs:CLOUD\nother = theirs_too:CLOUD")
    done = launch("builtins"), launch("runopts", "local_cwd")
    assert done[1].returncode == 1 and "uninstall one of them" in done[1].stderr
