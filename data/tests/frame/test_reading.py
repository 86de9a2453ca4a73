"""Frames from files, batch after batch: exact, resumable at every batch, shared by any number of processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from operator import methodcaller

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import me
from flambeau.data.nodes import Loader

quick = settings(max_examples=20, deadline=None)
ROWS = 103


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for number, (start, stop) in enumerate(pairwise([0, 40, 41, 41, ROWS])):
        table = pa.table({"id": np.arange(start, stop), "other": np.arange(start, stop) * 0.5})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=17)
    return folder


def ids(batches):
    return [list(batch["id"]) for batch in batches]


def test_batches_go_over_the_borders_of_row_groups_and_files(folder):
    batches = ids(ta.reader(folder, 10))
    assert [one for batch in batches for one in batch] == list(range(ROWS))
    assert [len(batch) for batch in batches] == [10] * 10 + [3]
    assert len(ids(ta.reader(folder, 10, drop_last=True))) == 10


@quick
@given(batch_size=st.integers(1, 60), stop=st.integers(0, 12), shuffle=st.booleans(), seed=st.integers(0, 3))
def test_a_state_leads_to_exactly_the_rest(folder, batch_size, stop, shuffle, seed):
    def make():
        return ta.reader(folder, batch_size, ["id"], shuffle_row_groups=shuffle, seed=seed)

    whole = ids(make())
    reader = make()
    begun = [list(next(reader)["id"]) for _ in range(min(stop, len(whole)))]
    state = json.loads(json.dumps(reader.state_dict()))
    again = make()
    again.reset(state)
    assert again.state_dict() == state
    assert begun + ids(again) == whole
    assert sorted(one for batch in whole for one in batch) == list(range(ROWS))


def test_the_state_says_file_row_group_and_row(folder):
    reader = ta.reader(folder, 10)
    next(reader), next(reader)
    state = reader.state_dict()
    assert state == {
        "schema": 1,
        "epoch": 0,
        "seed": 0,
        "file": str(folder / "0.parquet"),
        "row_group": 1,
        "row": 3,
    }


def test_each_pass_has_another_order_that_the_seed_determines(folder):
    reader = ta.reader(folder, 20, shuffle_row_groups=True, seed=5)
    first, second = ids(reader), []
    reader.reset()
    second = ids(reader)
    assert first != second
    again = ta.reader(folder, 20, shuffle_row_groups=True, seed=5)
    assert ids(again) == first


@quick
@given(world=st.integers(1, 4), later=st.integers(1, 4), rounds=st.integers(0, 4))
def test_processes_share_batches_and_may_become_more_or_fewer(folder, world, later, rounds):
    seen, states = [], []
    for rank in range(world):
        reader = ta.reader(folder, 7, rank=rank, world_size=world)
        for _ in range(rounds):
            seen += list(next(reader, {"id": []})["id"])
        states.append(reader.state_dict())
    assert all(state == states[0] for state in states) or rounds * world * 7 >= ROWS
    for rank in range(later):
        reader = ta.reader(folder, 7, rank=rank, world_size=later)
        reader.reset(states[0])
        seen += [one for batch in ids(reader) for one in batch]
    if rounds * world * 7 <= ROWS:
        assert sorted(seen) == list(range(ROWS))


def test_a_plan_is_done_to_each_batch_and_only_its_columns_are_read(folder):
    plan = ta.scan_parquet(folder)
    plan["twice"] = plan["id"] * 2
    plan = plan.where(me["id"] % 2 == 0).drop("other")
    reader = ta.reader(folder, 10, plan=plan)
    assert reader.batches.groups.columns == ["id"]
    batches = list(reader)
    assert batches[0].columns == ["id", "twice"]
    assert [one for batch in batches for one in batch["twice"]] == list(range(0, 2 * ROWS, 4))


def test_a_function_makes_what_it_likes_of_each_batch(folder):
    reader = ta.reader(folder, 50, ["id"], lambda frame: frame.to_tensor().id)
    assert [tuple(batch.values.shape) for batch in reader] == [(50,), (50,), (3,)]


def test_a_plan_that_needs_all_rows_is_refused(folder):
    frame = ta.scan_parquet(folder)
    with pytest.raises(TypeError, match="batch by batch"):
        ta.reader(folder, 10, plan=frame.sort(by="id"))
    frame["sum"] = frame["id"].cumsum()
    with pytest.raises(TypeError, match="batch by batch"):
        ta.reader(folder, 10, plan=frame)


def test_states_of_other_readers_are_refused(folder, tmp_path):
    reader = ta.reader(folder, 10)
    next(reader)
    state = reader.state_dict()
    with pytest.raises(ValueError, match="seed 0, this reader has 1"):
        ta.reader(folder, 10, seed=1).reset(state)
    with pytest.raises(ValueError, match="schema 9"):
        ta.reader(folder, 10).reset({**state, "schema": 9})
    pq.write_table(pa.table({"id": [1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="not among the files read"):
        ta.reader(tmp_path, 10).reset(state)


def test_arrow_files_are_read_as_well(tmp_path):
    table = pa.table({"id": np.arange(30)})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=8)
    assert ids(ta.reader(tmp_path / "a.arrow", 12)) == [list(range(12)), list(range(12, 24)), list(range(24, 30))]
    with pytest.raises(ValueError, match=r"\.parquet"):
        ta.reader(tmp_path / "a.txt", 12)


def test_arguments_are_checked(folder, tmp_path):
    with pytest.raises(ValueError, match="batch_size is 0"):
        ta.reader(folder, 0)
    with pytest.raises(ValueError, match="rank is 2 of 2"):
        ta.reader(folder, 1, rank=2, world_size=2)
    with pytest.raises(ValueError, match=r"no \*\.parquet files"):
        ta.reader(tmp_path, 1)


def test_a_loader_of_nodes_repeats_it(folder):
    loader = Loader(ta.reader(folder, 40, ["id"], _first_id))
    assert list(loader) == [0, 40, 80]
    assert list(loader) == [0, 40, 80]


def _first_id(frame):
    return frame["id"][0]


def test_the_pipe_resumes_and_is_shared_by_workers(folder):
    pipe = ta.reader(folder, 10, ["id"], _all_ids).datapipe()
    assert len(pipe) == 11
    reading = iter(pipe)
    begun = [next(reading) for _ in range(4)]
    again = ta.reader(folder, 10, ["id"], _all_ids).datapipe()
    again.load_state_dict(pipe.state_dict())
    assert [one for batch in begun + list(again) for one in batch] == list(range(ROWS))
    shares = []
    for worker in range(3):
        share = ta.reader(folder, 10, ["id"], _all_ids).datapipe()
        share.apply_sharding(3, worker)
        shares.append(list(share))
        assert len(share) == len(shares[-1])
    assert sorted(one for share in shares for batch in share for one in batch) == list(range(ROWS))


def _all_ids(frame):
    return list(frame["id"])


def test_workers_of_a_dataloader_share_the_pipe_in_another_order_each_pass(folder):
    pipe = ta.reader(folder, 10, ["id"], methodcaller("to_tensor"), shuffle_row_groups=True).datapipe()
    loader = DataLoader(pipe, batch_size=None, num_workers=2, multiprocessing_context="forkserver")
    passes = [[batch.id.values.tolist() for batch in loader] for _ in range(2)]
    for one in passes:
        assert sorted(value for batch in one for value in batch) == list(range(ROWS))
    assert passes[0] != passes[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_worker_says_that_frames_cannot_compute_there(folder):
    pipe = ta.reader(folder, 10).datapipe()
    loader = DataLoader(pipe, batch_size=None, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="forkserver"):
        next(iter(loader))


def test_torchs_dataloader_takes_the_pipe(folder):
    pipe = ta.reader(folder, 10, ["id"], _all_ids).datapipe()
    loaded = list(DataLoader(pipe, batch_size=None, num_workers=0))
    assert [one for batch in loaded for one in batch] == list(range(ROWS))


PROGRAM = """
import json, os, sys
import flambeau.data.frame as ta
folder, place, log = sys.argv[1:]
reader = ta.reader(folder, 7, ["id"], shuffle_row_groups=True, seed=3)
if os.path.exists(place):
    reader.reset(json.load(open(place)))
for batch in reader:
    with open(log, "a") as file:
        file.write(json.dumps(list(batch["id"])) + "\\n")
    with open(place + ".new", "w") as file:
        json.dump(reader.state_dict(), file)
    os.replace(place + ".new", place)
    print(flush=True)
    sys.stdin.readline()
"""


def test_a_killed_process_goes_on_where_it_was(folder, tmp_path):
    place, log = tmp_path / "state.json", tmp_path / "log"
    command = [sys.executable, "-c", PROGRAM, str(folder), str(place), str(log)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for steps in (4, None):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for step in range(10_000):
            if not process.stdout.readline():
                break
            if step + 1 == steps:
                process.send_signal(signal.SIGKILL)
                break
            process.stdin.write("\n")
            process.stdin.flush()
        process.communicate()
    batches = [json.loads(line) for line in log.read_text().splitlines()]
    assert batches == ids(ta.reader(folder, 7, ["id"], shuffle_row_groups=True, seed=3))


def test_numbers_about_files_are_those_of_their_rows_in_memory(folder):
    files, rows = ta.scan_parquet(folder), ta.scan_parquet(folder).collect()
    for name in ("min", "max", "sum", "mean", "std", "median", "mode"):
        assert getattr(files["other"], name)() == pytest.approx(getattr(rows["other"], name)())
        assert getattr(files["id"] * 2, name)() == pytest.approx(getattr(rows["id"] * 2, name)())
    assert (len(files), files["id"].null_count, files["id"].any()) == (ROWS, 0, True)
    assert files.where(me["id"] < 0)["id"].max() is None


def test_csv_and_json_lines_are_scanned(tmp_path):
    (tmp_path / "a.csv").write_text("x,s\n1,a\n2,\n")
    (tmp_path / "b.jsonl").write_text('{"x": 1, "l": [1, 2]}\n{"x": null, "l": []}\n')
    assert list(ta.scan_csv(tmp_path / "a.csv")["s"]) == ["a", None]
    assert list(ta.scan_jsonl(tmp_path / "b.jsonl")["l"].list.length()) == [2, 0]


def test_a_cast_of_a_scanned_column_reads_nothing_until_it_is_computed(tmp_path):
    pq.write_table(pa.table({"a": [1, None], "b": [1, 2]}), tmp_path / "x.parquet")
    files = ta.scan_parquet(tmp_path)
    cast = {name: files[name].cast(dt.int32) for name in ("a", "b")}
    assert cast["a"].dtype == dt.int32
    assert list(cast["b"]) == [1, 2]
    with pytest.raises(ValueError, match="1 values are missing, and int32 is not nullable"):
        list(cast["a"])


def test_a_reader_as_a_datapipe_has_the_methods_of_datapipes(tmp_path):
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "rows.parquet")
    code = """
import sys
import flambeau.data.frame as ta
print(list(ta.reader(sys.argv[1], 2).datapipe().map(len)))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "rows.parquet")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "[2, 1]\n", done.stderr
