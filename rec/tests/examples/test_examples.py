"""Each example runs as it says, and shows what it claims."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    """What an example prints; warnings are errors."""
    command = [sys.executable, "-W", "error::UserWarning", str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(pattern: str, text: str) -> list[float]:
    found = re.findall(pattern, text)
    assert found, f"{pattern!r} is not in: {text}"
    return [float(one) for one in found]


def test_every_example_is_named_by_a_test():
    tests = "\n".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    untested = [path.stem for path in EXAMPLES.glob("*.py") if path.stem != "processes" and path.stem not in tests]
    assert untested == []


def test_dlrm_learns_from_a_file_in_criteos_layout():
    text = run("train_dlrm")
    losses = numbers(r"loss ([\d.]+)", text)
    assert losses == sorted(losses, reverse=True)
    assert numbers(r"AUC ([\d.]+)", text)[0] > 0.6


def test_dlrm_reads_a_file_that_is_given(tmp_path):
    line = "\t".join(["1", *["3"] * 12, "", *["0000000a"] * 25, ""])
    (tmp_path / "clicks.tsv").write_text(f"{line}\n" * 40)
    assert "epoch 1" in run("train_dlrm", "--data", str(tmp_path / "clicks.tsv"), "--batch", "4", "--epochs", "1")


def test_managed_ids_disturb_each_other_less_than_hashed_ones():
    text = run("unbounded_ids", "--steps", "200")
    hashed, managed = numbers(r"([\d.]+)% wrong", text)
    assert managed < hashed


def test_pretrained_tables_help_a_task_with_few_examples():
    text = run("pretrained_embeddings")
    fresh, frozen, trained_on = numbers(r"table: ([\d.]+)%", text)
    assert fresh < trained_on
    assert fresh + 10 < frozen


def test_events_become_numbers_by_frequency(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (tmp_path / "events").mkdir()
    table = pa.table(
        {
            "user": ["a", "b", "b", "b", None, "c", "a"],
            "country": ["x"] * 7,
            "genres": [["p", "q"], [], ["p"], None, ["q"], ["p"], ["z"]],
            "price": [0.0, None, 1.0, 2.0, 3.0, 4.0, 5.0],
            "clicks": [0, 1, 2, 3, 4, 5, 6],
            "bought": [0, 1, 0, 1, 0, 1, 0],
        }
    )
    pq.write_table(table, tmp_path / "events" / "one.parquet")
    text = run(
        "preprocess_parquet", "--data", str(tmp_path / "events"), "--out", str(tmp_path / "out"), "--threshold", "2"
    )
    assert "7 events" in text
    ready = pq.read_table(tmp_path / "out" / "ready.parquet").to_pydict()
    assert ready["user"] == [3, 2, 2, 2, 0, 1, 3]  # b, a by frequency; missing 0, rare 1
    assert ready["genres"] == [[2, 3], [], [2], [], [3], [2], [1]]
    assert ready["price"][:3] == pytest.approx([0.0, 0.0, 0.6931472])
    assert json.loads((tmp_path / "out" / "values.json").read_text())["genres"] == ["p", "q"]


def test_made_up_events_are_preprocessed():
    pytest.importorskip("pyarrow")
    assert "10000 events" in run("preprocess_parquet")


def test_all_ways_of_sharding_give_the_same_embeddings():
    text = run("shard_tables")
    ways = ["table-wise", "row-wise", "column-wise", "data-parallel", "mixed", "planned"]
    assert [line.split()[0] for line in text.splitlines()] == ways
    assert "process 0: t_user 800; process 1: t_item 8000" in text
    assert "process 0: t_user 400, t_item 4000; process 1: t_user 400, t_item 4000" in text


@pytest.mark.slow
def test_two_towers_find_what_users_like():
    text = run("train_two_tower")
    recalls = numbers(r"recall@10 of the exact search ([\d.]+)", text)
    assert recalls == sorted(recalls)
    assert recalls[-1] > 0.7
    assert numbers(r"(\d+)% of the users' group", text)[-1] > 20  # 10 by chance


@pytest.mark.slow
def test_bert4rec_trains_sharded_as_it_does_copied():
    text = run("train_bert4rec", "--items", "5000", "--steps", "4", "--batch", "8")
    begun, ended = numbers(r"loss ([\d.]+)", text), numbers(r"to ([\d.]+)", text)
    assert begun[0] == begun[1]
    assert ended[0] == pytest.approx(ended[1], abs=2e-3)
    assert "times as fast" in text


@pytest.mark.slow
def test_workers_of_ray_train_together():
    pytest.importorskip("ray")
    text = run("train_on_ray", "--steps", "20")
    begun, ended = numbers(r"loss ([\d.]+)", text), numbers(r"to ([\d.]+)", text)
    assert len(begun) == 2
    assert all(after < 0.8 * before for before, after in zip(begun, ended, strict=True))
