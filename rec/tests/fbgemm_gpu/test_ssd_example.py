"""The example that trains a table larger than memory, is killed, and goes on."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_larger_than_memory.py"


@pytest.fixture
def example():
    found = importlib.util.spec_from_file_location("train_larger_than_memory", EXAMPLE)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not killed by signals there")
def test_training_goes_on_after_a_kill(example, tmp_path, capfd):
    report = example.main([
        "--gigabytes=0.002", "--columns=8", "--cache-mib=0.1", "--steps=8", "--ids=400", "--checkpoint-every=3",
        "--kill-at=5", f"--folder={tmp_path}",
    ])  # fmt: skip
    assert "ended by signal 9 at step 5" in capfd.readouterr().out
    assert report["first step"] == 3 and report["last step"] == 8


@pytest.mark.slow
def test_a_table_of_20_gb_is_trained_in_8_gb_of_memory(example, tmp_path, capfd):
    report = example.main(
        [
            "--gigabytes=20",
            "--steps=20",
            "--ids=100000",
            "--cache-mib=1024",
            "--checkpoint-every=6",
            f"--folder={tmp_path}",
        ]
    )
    assert report["table, GB"] == 20 and report["first step"] == 12 and report["last step"] == 20
    assert report["most memory of the process, GB"] < 8
