"""What happens to saved tensordicts when processes are killed, disks are full and files are damaged."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.memmap.errors import (
    LayoutError,
    MissingLayoutError,
    ReadOnlyError,
    StorageFullError,
    TruncatedFileError,
)

HERE = Path(__file__).parent


def sample() -> TensorDict:
    return TensorDict({"a": torch.arange(12.0).reshape(4, 3), "n": {"b": torch.arange(4)}, "s": "text"}, batch_size=[4])


def outcomes(folder: Path, kind: str) -> list[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / "kill_points.py"), str(folder), kind],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked writer")
def test_a_killed_writer_of_a_new_folder_leaves_nothing_that_loads_or_all(tmp_path):
    found = outcomes(tmp_path / "td", "fresh")
    assert found[-1] == "new" and len(found) > 10
    assert set(found) == {"none", "new"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked writer")
def test_a_killed_writer_over_an_old_version_leaves_the_old_or_the_new(tmp_path):
    found = outcomes(tmp_path / "td", "refresh")
    assert set(found) == {"old", "new"}
    assert found == sorted(found, reverse=True)  # once the new one is there it stays


def test_replacing_a_version_leaves_files_of_others_alone_and_removes_what_is_stale(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    sample().memmap(tmp_path)
    TensorDict({"a": torch.zeros(2)}).memmap(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.memmap", "meta.json", "notes.txt"]


def test_tensors_that_map_the_old_version_keep_it_while_it_is_replaced(tmp_path):
    old = sample().memmap(tmp_path)
    (sample() * 0).memmap(tmp_path)
    assert old["a"].sum() == 66
    assert TensorDict.load_memmap(tmp_path)["a"].sum() == 0


def test_a_truncated_file_is_named_with_both_sizes(tmp_path):
    sample().memmap(tmp_path)
    os.truncate(tmp_path / "a.memmap", 40)
    with pytest.raises(TruncatedFileError, match=r"a\.memmap holds 40 bytes, but its shape and dtype need 48"):
        TensorDict.load_memmap(tmp_path)
    assert (tmp_path / "a.memmap").stat().st_size == 40  # not stretched with zeros


def test_a_missing_file_is_named(tmp_path):
    sample().memmap(tmp_path)
    (tmp_path / "n" / "b.memmap").unlink()
    with pytest.raises(MissingLayoutError, match=r"n/b\.memmap is missing"):
        TensorDict.load_memmap(tmp_path)


def test_loading_a_place_where_nothing_was_saved_raises_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"meta\.json is missing"):
        TensorDict.load_memmap(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": {}, "_type": "<class \'tensordict._td.TensorDict\'>"}', "{}"])
def test_a_damaged_record_is_named(tmp_path, text):
    sample().memmap(tmp_path)
    (tmp_path / "meta.json").write_text(text)
    with pytest.raises(LayoutError, match=r"meta\.json"):
        TensorDict.load_memmap(tmp_path)


def test_in_place_writes_to_a_read_only_map_raise_and_leave_the_file(tmp_path):
    sample().memmap(tmp_path)
    before = (tmp_path / "a.memmap").read_bytes()
    td = TensorDict.load_memmap(tmp_path, mode="r")
    for write in (
        lambda: td["a"].zero_(),
        lambda: td["a"].__setitem__(0, 1.0),
        lambda: td["a"].view(-1).add_(1),
        lambda: td["a"][1:].fill_(2),
        lambda: td["a"].T.mul_(2),
        lambda: torch.add(td["a"], 1, out=td["a"]),
        lambda: torch._foreach_zero_([td["a"]]),
        lambda: td.zero_(),
        lambda: td.set_("a", torch.zeros(4, 3)),
    ):
        with pytest.raises(ReadOnlyError, match="mapped for reading only"):
            write()
    with pytest.raises(ValueError, match="read-only"):
        td["a"].numpy()[0] = 1
    assert (tmp_path / "a.memmap").read_bytes() == before


def test_a_file_without_write_permission_is_mapped_for_reading(tmp_path):
    sample().memmap(tmp_path)
    (tmp_path / "a.memmap").chmod(0o444)
    td = TensorDict.load_memmap(tmp_path)
    with pytest.raises(ReadOnlyError):
        td["a"].zero_()
    td["n", "b"].zero_()
    assert TensorDict.load_memmap(tmp_path)["n", "b"].sum() == 0


def test_writes_in_copy_on_write_mode_stay_in_this_process(tmp_path):
    sample().memmap(tmp_path)
    TensorDict.load_memmap(tmp_path, mode="c")["a"].zero_()
    assert TensorDict.load_memmap(tmp_path)["a"].sum() == 66


def test_thousands_of_leaves_need_few_descriptors(tmp_path):
    td = TensorDict({str(index): torch.full((2,), index) for index in range(3000)}, batch_size=[2])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 24, before[1]))
    try:
        td.memmap(tmp_path, num_threads=4)
        loaded = TensorDict.load_memmap(tmp_path)
        shared = td.memmap()
        assert int(loaded["2999"][0]) == int(shared["2999"][0]) == 2999
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("num_threads", [0, 4])
def test_a_disk_that_is_too_small_is_an_error_that_leaves_the_old_version(tmp_path, num_threads):
    sample().memmap(tmp_path)
    big = TensorDict({"a": torch.zeros(1 << 20), "b": torch.zeros(100)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(StorageFullError, match=r"no room for the 4,194,304 bytes of .*a\.memmap"):
            big.memmap(tmp_path, num_threads=num_threads)
        with pytest.raises(OSError, match="no room"):
            big.memmap_like(tmp_path / "like")
        with pytest.raises(StorageFullError):
            big.consolidate(tmp_path / "one")
        with pytest.raises(StorageFullError):
            big.memmap(tmp_path / "x.tdz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert TensorDict.load_memmap(tmp_path)["a"].sum() == 66
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "like") == [
        "a.memmap",
        "meta.json",
        "n",
        "s",
    ]


def test_what_a_killed_writer_left_is_removed_when_it_is_old(tmp_path):
    sample().memmap(tmp_path)
    alive = f".flambeau-stage-{os.getpid()}-old"
    for name, age_s in ((".flambeau-stage-999999999-old", 7200), (".flambeau-stage-999999999-new", 60), (alive, 7200)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.memmap").write_bytes(b"half")
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    sample().memmap(tmp_path)
    assert {path.name for path in tmp_path.glob(".flambeau*")} == {".flambeau-stage-999999999-new", alive}


def test_links_are_replaced_and_what_they_point_to_is_left(tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    folder = tmp_path / "td"
    folder.mkdir()
    (folder / "a.memmap").symlink_to(target)
    sample().memmap(folder)
    assert target.read_bytes() == b"precious"
    assert not (folder / "a.memmap").is_symlink()


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "td"
    folder.mkdir()
    (folder / "n").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LayoutError, match="symbolic link"):
        sample().memmap(folder)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_journal_that_names_files_outside_is_refused(tmp_path):
    sample().memmap(tmp_path / "td")
    journal = {"stage": "../outside", "files": ["a.memmap"], "stale": []}
    (tmp_path / "td" / ".flambeau-commit").write_text(json.dumps(journal))
    with pytest.raises(LayoutError, match="outside the folder"):
        TensorDict.load_memmap(tmp_path / "td")


def test_a_reader_finishes_what_a_killed_writer_began(tmp_path):
    sample().memmap(tmp_path)
    stage = tmp_path / ".flambeau-stage-x"
    (sample() * 0).memmap(stage)
    (stage / "meta.json").replace(stage / "meta.json")
    files = ["a.memmap", "n/b.memmap", "s/meta.json", "n/meta.json", "meta.json"]
    (tmp_path / ".flambeau-commit").write_text(json.dumps({"stage": stage.name, "files": files, "stale": []}))
    os.replace(stage / "a.memmap", tmp_path / "a.memmap")  # the writer came so far
    assert TensorDict.load_memmap(tmp_path / "n")["b"].sum() == 0  # a part sees it as well
    assert TensorDict.load_memmap(tmp_path)["a"].sum() == 0
    assert not stage.exists() and not (tmp_path / ".flambeau-commit").exists()
