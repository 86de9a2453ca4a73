"""The examples run from end to end without network."""

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(*arguments, home):
    environment = {**os.environ, "FLAMBEAU_OFFLINE": "1", "FLAMBEAU_HOME": str(home), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / "sst2_classification.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tutorial_learns_a_small_set_and_goes_on_from_its_checkpoint(tmp_path):
    state = tmp_path / "state.pt"
    first = run("--tiny", "--epochs", 2, "--checkpoint", state, home=tmp_path / "home")
    accuracies = [float(value) for value in re.findall(r"dev accuracy ([\d.]+), [\d,]+ tokens/s", first)]
    assert len(accuracies) == 2
    assert accuracies[-1] > 75
    second = run("--tiny", "--epochs", 3, "--checkpoint", state, "--bf16", home=tmp_path / "home")
    assert "going on after epoch 2" in second
    assert re.findall(r"epoch (\d)", second.partition("\n")[2]) == ["3"]
