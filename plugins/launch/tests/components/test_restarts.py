"""torchelastic's restarts under `dist.ddp`, with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from flambeau.launch.components.dist import ddp
from flambeau.launch.specs import AppState

PROGRAM = """
import os, signal, time
import torch.distributed as dist

again, last = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0", os.environ["RANK"] == "1"
if again and last:
    time.sleep(3)  # until then the other one could find the address of the process that was killed
dist.init_process_group("gloo")
dist.barrier()
if not again:
    os.kill(os.getpid(), signal.SIGKILL) if last else time.sleep(300)
print("met again", flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_processes_that_are_started_again_meet_one_another_and_none_of_those_that_died(runner):
    Path("program.py").write_text(PROGRAM)
    application = ddp(script="program.py", j="1x2", max_retries=1)
    application.roles[0].max_retries = 0  # torchelastic's alone
    handle = runner.run(application, "local_cwd", {"log_dir": "logs"})
    status = runner.wait(handle, 0.1)
    assert status.state is AppState.SUCCEEDED, status.msg
    assert len(list(runner.log_lines(handle, "program", regex="met again"))) == 2
