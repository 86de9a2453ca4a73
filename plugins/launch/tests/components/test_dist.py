"""`dist.ddp`: the one command that every scheduler runs."""

from __future__ import annotations

import pytest

from flambeau.launch.components.dist import ddp, parse_nnodes, spmd
from flambeau.launch.components.utils import python, sh


def test_one_machine_meets_at_any_free_port():
    (role,) = ddp("--lr", "0.1", script="train/net.py", j="1x4").roles
    assert role.entrypoint == "bash"
    assert role.args == [
        "-c",
        "torchrun --rdzv_backend c10d --rdzv_endpoint localhost:0 --rdzv_id '${app_id}' --nnodes 1 --nproc_per_node 4 "
        "--tee 3 --role '' train/net.py --lr 0.1",
    ]
    assert (role.name, role.num_replicas, role.min_replicas) == ("net", 1, 1)


def test_several_machines_meet_where_the_scheduler_says():
    (role,) = ddp(m="pkg.train", j="1:2x4", rdzv_port=1234).roles
    assert "--rdzv_endpoint $${${rank0_env}:=localhost}:1234" in role.args[1] and "--nnodes 1:2" in role.args[1]
    assert (role.num_replicas, role.min_replicas, role.port_map) == (2, 1, {"c10d": 1234})


def test_retries_restart_processes_by_torchelastic_and_machines_by_the_scheduler():
    (role,) = ddp(script="t.py", max_retries=3).roles
    assert (role.max_retries, role.env["PET_MAX_RESTARTS"]) == (3, "3")
    assert role.env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert not {"PET_MAX_RESTARTS", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"} & set(ddp(script="t.py").roles[0].env)


@pytest.mark.parametrize(
    ("j", "expected"), [("2", (1, 1, 2, "1")), ("2x3", (2, 2, 3, "2")), ("1:2x3", (1, 2, 3, "1:2"))]
)
def test_machines_and_processes_are_read(j, expected):
    assert parse_nnodes(j) == expected


@pytest.mark.parametrize("j", ["", "x2", "2x", "a", "1:2:3x4", "3:2x1", "0x1", "1x0", "-1x2"])
def test_what_is_no_number_of_machines_is_refused(j):
    with pytest.raises(ValueError, match="-j is"):
        parse_nnodes(j)


@pytest.mark.parametrize("program", [{}, {"script": "a.py", "m": "a"}])
def test_a_program_is_a_script_or_a_module(program):
    with pytest.raises(ValueError, match="give one of them"):
        ddp(**program)


def test_spmd_counts_gpus_where_processes_are_not_given():
    assert "--nproc_per_node 8" in spmd(script="t.py", h="gpu.xlarge", j="2").roles[0].args[1]
    with pytest.raises(ValueError, match="has no GPUs"):
        spmd(script="t.py", h="cpu.small", j="2")


def test_words_of_a_command_reach_it_as_they_are():
    assert sh("echo", "$HOME; rm -rf /", "it's").roles[0].args == ["-c", "echo '$HOME; rm -rf /' 'it'\"'\"'s'"]


def test_two_dollars_of_a_command_line_stay_two(runner):
    handle = runner.run_component("utils.sh", ["echo", "$$ $1 ${replica_id}"], "local_cwd", {"log_dir": "logs"})
    runner.wait(handle, 0.02)
    assert list(runner.log_lines(handle, "sh")) == ["$$ $1 0\n"]


def test_python_runs_one_program():
    assert python("--x", c="print(1)").roles[0].args == ["-c", "print(1)", "--x"]
    with pytest.raises(ValueError, match="give one"):
        python(m="a", c="b")
