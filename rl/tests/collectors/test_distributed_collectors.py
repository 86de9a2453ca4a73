"""Collectors over torch.distributed, its RPC and Ray: batches of all, new weights, faults, and nothing left behind."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import cloudpickle
import pytest
import torch
from torch import nn

from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.collectors import Collector
from flambeau.rl.collectors.distributed import DistributedCollector, DistributedSyncCollector
from flambeau.rl.envs import CartPoleEnv
from flambeau.rl.errors import CollectorWorkerError


class Constant(nn.Module):
    """Always acts alike, and says its weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, observation):
        size = observation.shape[:-1]
        return torch.tensor([0, 1]).expand(*size, 2), self.weight.expand(*size, 3).clone()


def constant():
    return TensorDictModule(Constant(), in_keys=["observation"], out_keys=["action", "weight"])


def raises():
    raise ValueError("no environment")


# Processes that are spawned do not know this module by its name.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def test_batches_and_weights_travel_over_torch_distributed():
    policy = constant()
    with DistributedCollector(
        [CartPoleEnv, CartPoleEnv], policy, frames_per_batch=20, total_frames=60, sync=True, launcher="mp"
    ) as collector:
        for number, batch in enumerate(collector):
            assert batch.shape == (2, 10)
            assert (batch["weight"] == number).all()
            assert (batch["collector", "traj_ids"] % 2 == torch.tensor([[0], [1]])).all()
            nn.init.constant_(policy.module.weight, number + 1.0)
            collector.update_policy_weights_()
        assert number == 2
    assert not multiprocessing.active_children()
    assert not torch.distributed.is_initialized()


@pytest.mark.slow
def test_workers_need_not_wait_for_one_another():
    policy = constant()
    with DistributedCollector(
        [CartPoleEnv, CartPoleEnv], policy, frames_per_batch=10, total_frames=200, launcher="mp"
    ) as collector:
        for number, batch in enumerate(collector):
            assert batch.shape == (10,)
            assert (batch["weight"] == batch["weight"][:, :1]).all()
            nn.init.constant_(policy.module.weight, number + 1.0)
            collector.update_policy_weights_()
        assert collector.stats()["frames"] == 200
        assert batch["weight"].max() > 0


@pytest.mark.slow
def test_a_worker_that_raises_is_reported_with_its_traceback():
    with pytest.raises(CollectorWorkerError, match=r"(?s)Worker 1 raised ValueError: no environment.*in raises"):
        DistributedCollector([CartPoleEnv, raises], frames_per_batch=20, launcher="mp")
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_worker_that_is_killed_is_reported():
    with DistributedSyncCollector([CartPoleEnv] * 2, frames_per_batch=20, launcher="mp") as collector:
        collector.next()
        collector._workers[1].process.kill()
        with pytest.raises(CollectorWorkerError, match="worker 1 was ended by SIGKILL"):
            for _ in range(10):
                collector.next()
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_seeds_and_states_reach_all_workers():
    with DistributedSyncCollector([CartPoleEnv] * 2, constant(), frames_per_batch=20, launcher="mp") as collector:
        collector.set_seed(3)
        collector.next()
        state = collector.state_dict()
        assert state["frames"] == 20
        collector.load_state_dict(state)
        assert collector.get_distant_attr("env.batch_size") == [torch.Size([])] * 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"launcher": "moon"}, ValueError, "launcher must be one of mp, submitit"),
        ({"launcher": "mp", "backend": "moon"}, ValueError, "backend must be 'gloo'"),
        ({"launcher": "mp", "collector_kwargs": [{}]}, ValueError, "1 entries, for 2 places"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        DistributedCollector([CartPoleEnv] * 2, frames_per_batch=20, **arguments)


PROGRAM = """
import torch
from torch import nn
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.collectors.distributed import RayCollector, RPCCollector
from flambeau.rl.envs import CartPoleEnv
from flambeau.rl.errors import CollectorWorkerError


class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, observation):
        return torch.tensor([0, 1]), self.weight.clone()


def raises():
    raise ValueError("no environment")


def main():
    policy = TensorDictModule(Constant(), in_keys=["observation"], out_keys=["action", "weight"])
    with {kind}([CartPoleEnv, CartPoleEnv], policy, frames_per_batch=20, total_frames=60, {options}) as collector:
        for number, batch in enumerate(collector):
            assert batch.shape == {shape}, batch.shape
            assert (batch["weight"] == batch["weight"][..., :1]).all()
            if {sync}:
                assert (batch["weight"] == number).all(), batch["weight"]
            nn.init.constant_(policy.module.weight, number + 1.0)
            collector.update_policy_weights_()
        assert collector.stats()["frames"] == 60
        assert collector.get_distant_attr("env.batch_size") == [torch.Size([])] * 2
        state = collector.state_dict()
        collector.load_state_dict(state)
    {more}
    print("done")


if __name__ == "__main__":
    main()
"""
FAULT = """
    try:
        RayCollector([CartPoleEnv, raises], frames_per_batch=20)
    except CollectorWorkerError as error:
        assert "ValueError: no environment" in str(error) and "in raises" in str(error), error
    else:
        raise AssertionError("an error was lost")
    import ray
    ray.shutdown()
"""


@pytest.mark.slow
@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("kind", ["RPCCollector", "RayCollector"])
def test_batches_and_weights_travel_over_calls(kind, sync, tmp_path):
    if kind == "RayCollector":
        pytest.importorskip("ray")
    options = f"sync={sync}" + (", launcher='mp'" if kind == "RPCCollector" else "")
    program = tmp_path / "program.py"
    shape, more = (2, 10) if sync else (20,), FAULT if kind == "RayCollector" else ""
    program.write_text(PROGRAM.format(kind=kind, options=options, shape=shape, sync=sync, more=more))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("done")


@pytest.mark.slow
def test_a_collector_may_be_asked_for_them():
    with Collector(CartPoleEnv, frames_per_batch=20, total_frames=20, backend="distributed", num_collectors=1) as made:
        assert isinstance(made, DistributedCollector)
        assert made.next().shape == (20,)
