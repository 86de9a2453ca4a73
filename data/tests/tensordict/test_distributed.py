"""Tensordicts between two real processes over gloo; the scenarios are in `distributed_worker.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from flambeau.data.tensordict import TensorDict

WORKER = Path(__file__).with_name("distributed_worker.py")


@pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="needs torch.distributed with gloo")
def test_everything_that_is_sent_between_two_processes_arrives(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    workers = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )
        for rank in range(2)
    ]  # fmt: skip
    for worker in workers:
        out, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, f"failed: {out}\n{err}"


def test_sending_needs_exactly_one_way_of_naming_the_other_side():
    td = TensorDict(a=torch.zeros(1))
    with pytest.raises(ValueError, match="`dst` or as `group_dst`"):
        td.send()
    with pytest.raises(ValueError, match="`src` or as `group_src`"):
        td.irecv(0, group_src=1)
    with pytest.raises(ValueError, match="pass `dst`"):
        td.init_remote()
