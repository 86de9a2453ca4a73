"""torch's RPC works once in a process: whoever uses it again is told, and does not wait for ever."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from flambeau.rl.collectors.distributed import RPCCollector
from flambeau.rl.testing import CountingEnv

if __name__ == "__main__":
    first = RPCCollector([CountingEnv], None, frames_per_batch=5, total_frames=5, launcher="mp")
    print(sum(batch.numel() for batch in first))
    first.shutdown()
    try:
        RPCCollector([CountingEnv], None, frames_per_batch=5, total_frames=5, launcher="mp")
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_second_collector_of_one_process_says_what_to_use(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "5"
    assert "DistributedCollector" in done.stdout
