"""Folders that are replaced in one step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from flambeau.core import folders

SYSTEMS = [pytest.param(True, id="exchanging"), pytest.param(False, id="stepping aside")]


@pytest.fixture(params=SYSTEMS)
def system(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(folders, "exchange", lambda first, second: False)
    return request.param


def test_a_folder_holds_what_was_written_and_nothing_of_before(system, tmp_path):
    target = tmp_path / "deep" / "saved"
    for names in (("a", "b"), ("b", "c")):
        with folders.replaced_folder(target) as folder:
            for name in names:
                (folder / name).write_text(name)
    assert sorted(each.name for each in target.iterdir()) == ["b", "c"]
    assert [each.name for each in target.parent.iterdir()] == ["saved"]


def test_after_an_error_the_folder_is_as_before(system, tmp_path):
    with folders.replaced_folder(tmp_path / "saved") as folder:
        (folder / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), folders.replaced_folder(tmp_path / "saved") as folder:
        (folder / "a").write_text("new")
        raise ZeroDivisionError
    assert (tmp_path / "saved" / "a").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["saved"]


def test_a_folder_that_stepped_aside_comes_back(tmp_path):
    (tmp_path / ".saved.former").mkdir()
    (tmp_path / ".saved.former" / "a").write_text("old")
    folders.recover_folder(tmp_path / "saved")
    assert (tmp_path / "saved" / "a").read_text() == "old"


def test_a_folder_that_stepped_aside_goes_when_its_place_is_taken(tmp_path):
    (tmp_path / ".saved.former").mkdir()
    (tmp_path / "saved").mkdir()
    folders.recover_folder(tmp_path / "saved")
    assert [each.name for each in tmp_path.iterdir()] == ["saved"]


def test_things_that_do_not_exist_cannot_change_places(tmp_path):
    (tmp_path / "a").mkdir()
    if not sys.platform.startswith(("linux", "darwin")):
        pytest.skip("the system has no such call")
    with pytest.raises(OSError, match="No such file"):
        folders.exchange(tmp_path / "a", tmp_path / "b")


WRITER = """
    import sys
    from flambeau.core.folders import replaced_folder
    print("ready", flush=True)
    number = 0
    while True:
        number += 1
        with replaced_folder(sys.argv[1]) as folder:
            for name in range(5):
                (folder / str(name)).write_text(str(number))
"""


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
def test_a_killed_writer_leaves_a_whole_folder(tmp_path):
    target = tmp_path / "saved"
    with folders.replaced_folder(target) as folder:
        for name in range(5):
            (folder / str(name)).write_text("0")
    for _ in range(3):
        command = [sys.executable, "-c", textwrap.dedent(WRITER), str(target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            writer.stdout.readline()
            before = target.stat().st_ino
            while target.stat().st_ino == before:
                pass
            writer.send_signal(signal.SIGKILL)
        folders.recover_folder(target)
        contents = {(target / str(name)).read_text() for name in range(5)}
        assert len(contents) == 1
    with folders.replaced_folder(target):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["saved"], "what the killed left behind is gone"
