"""After a crash at any moment, the checkpoint on the disk is the old one or the new one, whole."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from flambeau.core import files
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.tbe.ssd import SSDTableBatchedEmbeddingBags
from flambeau.rec.fbgemm_gpu.tbe.ssd import _blocks as blocks
from flambeau.rec.fbgemm_gpu.tbe.ssd._blocks import BlockFile, block_bytes_of
from flambeau.rec.fbgemm_gpu.tbe.ssd._store import DamagedStoreError, StoreBusyError, StoredTable, TableStore

HERE = Path(__file__).parent


def zeros(record_bytes):
    return lambda rows: np.zeros((len(rows), record_bytes), np.uint8)


def opened(folder, rows=1000, record_bytes=12):
    return TableStore(folder, {"t": StoredTable(rows, record_bytes, {})}, {"t": zeros(record_bytes)})


def filled(rows, value, record_bytes=12):
    return np.full((len(rows), record_bytes), value, np.uint8)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the program that is killed forks")
@pytest.mark.parametrize("kills", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_of_a_training_program_leave_whole_checkpoints(tmp_path, kills):
    program = [sys.executable, str(HERE / "training_to_kill.py"), str(tmp_path), str(kills), "0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    answer = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=540, check=False)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert [wrong for _, wrong in found if wrong] == []
    assert len(found) == kills
    assert len({step for step, _ in found}) > kills // 5, "the program made no progress between kills"


def test_what_was_written_after_a_checkpoint_is_gone_when_the_folder_is_opened_again(tmp_path):
    store, rows = opened(tmp_path), np.arange(0, 1000, 7)
    store.tables["t"].write(rows, filled(rows, 1))
    store.commit(b"one")
    store.tables["t"].write(rows[:50], filled(rows[:50], 2))
    store.close()
    again = opened(tmp_path)
    assert again.note == b"one"
    assert (again.tables["t"].read(rows) == 1).all() and not again.tables["t"].read(rows + 1).any()


class Crashed(BaseException):
    """What stands for the end of the process."""


def operations():
    """Where a commit touches the disk."""
    return [(files, "write_atomic"), (files, "sync_directory"), (os, "fsync"), (blocks.BlockFile, "committed")]


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_commit_that_ends_anywhere_leaves_the_old_state_or_the_new_one(tmp_path, monkeypatch, place, after, count):
    store, rows = opened(tmp_path), np.arange(500)
    store.tables["t"].write(rows, filled(rows, 1))
    store.commit(b"old")
    store.tables["t"].write(rows[::2], filled(rows[::2], 2))
    owner, name = operations()[place]
    real, calls = getattr(owner, name), []

    def crashing(*args, **kwargs):
        calls.append(1)
        if len(calls) == count and not after:
            raise Crashed
        found = real(*args, **kwargs)
        if len(calls) == count:
            raise Crashed
        return found

    monkeypatch.setattr(owner, name, crashing)
    with contextlib.suppress(Crashed):
        store.commit(b"new")
    monkeypatch.undo()
    # It goes on for a while, as a program that caught an error would, and then dies.
    store.tables["t"].write(rows[1::2], filled(rows[1::2], 3))
    store.close()
    again = opened(tmp_path)
    held = again.tables["t"].read(rows)
    assert again.note in (b"old", b"new")
    assert (held[::2] == (1 if again.note == b"old" else 2)).all() and (held[1::2] == 1).all()
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 5, left  # manifest, lock, rows, places and note of one checkpoint


def test_a_commit_after_one_that_failed_holds(tmp_path, monkeypatch):
    store, rows = opened(tmp_path), np.arange(300)
    store.commit(b"")
    store.tables["t"].write(rows, filled(rows, 5))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk is gone")))
        with pytest.raises(OSError, match="disk is gone"):
            store.commit(b"first")
    store.commit(b"second")
    store.close()
    again = opened(tmp_path)
    assert again.note == b"second" and (again.tables["t"].read(rows) == 5).all()


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(tmp_path, monkeypatch):
    store, rows = opened(tmp_path), np.arange(300)
    usage = blocks.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(blocks.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(OSError, match="make room") as caught:
        store.tables["t"].write(rows, filled(rows, 1))
    assert caught.value.errno == 28
    assert not store.tables["t"].read(rows).any()


def test_places_are_given_back_where_the_disk_is_short_of_room(tmp_path, monkeypatch):
    store, rows = opened(tmp_path, rows=20000), np.arange(20000)
    size, usage = [], blocks.shutil.disk_usage(tmp_path)
    for value in range(1, 5):
        if value == 3:
            monkeypatch.setattr(blocks.shutil, "disk_usage", lambda _: usage._replace(free=100 << 20))
            store.tables["t"].blocks = 1 << 20  # the table is large beside what is free
        store.tables["t"].write(rows, filled(rows, value))
        store.commit()
        size.append((tmp_path / "t.rows").stat().st_blocks)
        assert (store.tables["t"].read(rows) == value).all()
    assert size[1] > 1.9 * size[0] and size[3] < 1.2 * size[0]


@pytest.mark.parametrize("record_bytes", [4, 12, 36, 260, 516, 1032, 4096, 5000, 70000])
def test_blocks_are_pages_and_lose_little(record_bytes):
    size = block_bytes_of(record_bytes)
    assert size % 4096 == 0 and size >= record_bytes
    assert size % record_bytes <= max(size // 16, 4095)


def test_rows_stay_when_a_table_grows_and_its_memory_is_dropped(tmp_path):
    file = BlockFile(tmp_path / "rows", 12, 10, zeros(12), resident_bytes=1)
    file.write(np.arange(10), filled(np.arange(10), 7))
    file.grow(5000)
    assert (file.read(np.arange(10)) == 7).all() and not file.read(np.array([4999])).any()
    file.write(np.array([4999]), filled([0], 9))
    file.drop()
    assert (file.read(np.array([4999])) == 9).all()
    file.close()


def test_a_folder_has_one_owner_at_a_time(tmp_path):
    store = opened(tmp_path)
    with pytest.raises(StoreBusyError, match="close that one"):
        opened(tmp_path)
    store.close()
    opened(tmp_path).close()


def test_other_tables_do_not_open_a_folder(tmp_path):
    store = opened(tmp_path)
    store.commit()
    store.close()
    with pytest.raises(OptionError, match="Choose another folder"):
        opened(tmp_path, rows=1001)
    opened(tmp_path).close()


@pytest.mark.parametrize("harm", ["places changed", "places gone", "manifest cut", "newer format"])
def test_damage_is_found_and_named(tmp_path, harm):
    store, rows = opened(tmp_path), np.arange(100)
    store.tables["t"].write(rows, filled(rows, 1))
    store.commit()
    store.close()
    manifest = tmp_path / "manifest.json"
    places = tmp_path / json.loads(manifest.read_text())["files"]["t"]["file"]
    match harm:
        case "places changed":
            places.write_bytes(b"\2" * places.stat().st_size)
        case "places gone":
            places.unlink()
        case "manifest cut":
            manifest.write_text(manifest.read_text()[:50])
        case "newer format":
            manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(DamagedStoreError, match=r"restore the folder|no manifest|format 2"):
        opened(tmp_path)


def test_training_goes_on_where_the_last_checkpoint_was(tmp_path):
    def tables(name):
        torch.manual_seed(3)
        return SSDTableBatchedEmbeddingBags([(400, 6)], None, 2, str(tmp_path / name), tbe_unique_id=1)

    def step(module, number):
        generator = torch.Generator().manual_seed(number)
        module(torch.randint(0, 400, (80,), generator=generator), torch.arange(0, 81, 4)).square().sum().backward()

    straight, module = tables("straight"), tables("interrupted")
    for number in range(20):
        step(straight, number)
    for number in range(13):
        step(module, number)
        if number == 9:
            module.set_learning_rate(0.01)
            module.checkpoint(b"dense parameters of step ten")
    module.close()
    module = tables("interrupted")
    assert module.restored == b"dense parameters of step ten" and module.step == 10
    for number in range(10, 20):
        step(module, number)
    assert torch.equal(module.debug_split_embedding_weights()[0], straight.debug_split_embedding_weights()[0])
    assert torch.equal(module.split_optimizer_states()[0][0], straight.split_optimizer_states()[0][0])
