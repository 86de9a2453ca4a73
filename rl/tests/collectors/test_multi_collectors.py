"""Collectors in several processes: every step once, weights whole, faults reported with tracebacks, no orphans."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch.multiprocessing as mp
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.collectors import (
    AsyncCollector,
    Collector,
    MultiAsyncCollector,
    MultiCollector,
    MultiProcessedWeightUpdater,
    MultiSyncCollector,
)
from flambeau.rl.data import Categorical, Composite, LazyTensorStorage, ReplayBuffer, Unbounded
from flambeau.rl.envs import CartPoleEnv, EnvBase, GymEnv
from flambeau.rl.errors import CollectorWorkerError
from flambeau.rl.weight_update import MultiProcessWeightSyncScheme, NoWeightSyncScheme, SharedMemWeightSyncScheme


class Count(EnvBase):
    """Counts its steps, is done at `length`, and calls `fault` at its third step."""

    def __init__(self, length=4, fault=None):
        super().__init__()
        self.observation_spec = Composite(count=Unbounded((1,)))
        self.action_spec = Categorical(2)
        self.reward_spec = Unbounded((1,))
        self.length, self.fault, self.count, self.steps, self.seed = length, fault, 0, 0, 0

    def _given(self):
        return TensorDict({"count": torch.tensor([float(self.count)])})

    def _reset(self, tensordict, **_):
        self.count = 0
        return self._given()

    def _step(self, tensordict):
        self.count += 1
        self.steps += 1
        if self.fault is not None and self.steps == 3:
            self.fault()
        done = torch.tensor([self.count >= self.length])
        return self._given().update({"reward": torch.ones(1), "done": done})

    def _set_seed(self, seed):
        self.seed = seed


class Constant(nn.Module):
    """Always acts alike, and says its weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, count):
        return torch.tensor(1), self.weight.clone()


def constant():
    return TensorDictModule(Constant(), in_keys=["count"], out_keys=["action", "weight"])


def raises():
    raise ValueError("out of steps")


def hangs():
    time.sleep(1000)


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(autouse=True)
def forks(monkeypatch):
    """Processes that are forked start in a hundredth of the time; spawned ones have tests of their own."""
    monkeypatch.setattr("flambeau.rl.collectors._multi_base.default_method", lambda: "fork")


def children():
    return multiprocessing.active_children()


def test_a_batch_has_the_steps_of_all_processes():
    with MultiSyncCollector([Count, Count], frames_per_batch=12, total_frames=24) as collector:
        first, second = collector
    assert first.shape == (2, 6)
    assert first.names == [None, "time"]
    steps = torch.cat([first, second], -1)
    assert steps["count"].flatten(1).tolist() == [[0.0, 1, 2, 3] * 3] * 2
    assert steps["collector", "traj_ids"].tolist() == [[0] * 4 + [2] * 4 + [4] * 4, [1] * 4 + [3] * 4 + [5] * 4]
    assert not first.is_shared()


def test_processes_that_do_not_wait_give_their_batches_as_they_come():
    with MultiAsyncCollector([Count, lambda: Count(3)], frames_per_batch=6, total_frames=36) as collector:
        batches = list(collector)
        assert collector.stats()["frames"] == 36
    assert [batch.shape for batch in batches] == [(6,)] * 6
    for lot in (0, 1):
        ids = torch.cat([batch["collector", "traj_ids"] for batch in batches]).flatten()
        assert (ids[ids % 2 == lot].diff() >= 0).all()


def test_batches_that_came_earlier_stay_as_they_are():
    with AsyncCollector(Count, frames_per_batch=4, total_frames=16) as collector:
        iterator = iter(collector)
        first = next(iterator)
        before = first.clone()
        list(iterator)
    assert (first == before).all()


@pytest.mark.parametrize("kind", [MultiSyncCollector, MultiAsyncCollector])
def test_a_worker_that_raises_is_reported_with_its_traceback(kind):
    collector = kind([Count, lambda: Count(fault=raises)], frames_per_batch=12, total_frames=-1)
    begin = time.monotonic()
    with pytest.raises(CollectorWorkerError, match=r"(?s)Worker 1 raised ValueError: out of steps.*in raises"):
        for _ in collector:
            pass
    assert time.monotonic() - begin < 60
    assert collector.closed
    assert not children()


def test_the_error_of_a_worker_is_the_cause():
    collector = MultiSyncCollector([lambda: Count(fault=raises)], frames_per_batch=12)
    with pytest.raises(CollectorWorkerError) as caught:
        collector.next()
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_worker_that_is_killed_is_reported_while_others_work_on():
    collector = MultiSyncCollector([lambda: Count(fault=dies), lambda: Count(fault=hangs)], frames_per_batch=12)
    with pytest.raises(CollectorWorkerError, match="worker 0 was ended by SIGKILL"):
        collector.next()
    assert not children()


def test_a_worker_that_hangs_is_reported_with_where_it_was(monkeypatch):
    collector = MultiSyncCollector([Count, lambda: Count(fault=hangs)], frames_per_batch=12)
    monkeypatch.setenv("BATCHED_PIPE_TIMEOUT", "0.5")
    with pytest.raises(CollectorWorkerError, match=r"(?s)Worker 1 has not answered for 0.5 s.*in hangs"):
        collector.next()
    assert not children()


def test_an_environment_that_cannot_be_made_is_reported():
    with pytest.raises(CollectorWorkerError, match=r"(?s)Worker 1 raised ValueError: out of steps"):
        MultiSyncCollector([Count, raises], frames_per_batch=12)
    assert not children()


@pytest.mark.parametrize("fault", [raises, dies])
@pytest.mark.parametrize("kind", [MultiSyncCollector, MultiAsyncCollector])
def test_a_worker_is_started_again_where_that_is_asked_for_and_nothing_is_lost(kind, fault, tmp_path):
    def once():
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            fault()

    policy = constant()
    with kind(
        [Count, lambda: Count(fault=once)], policy, frames_per_batch=12, total_frames=48, max_restarts=1
    ) as collector:
        nn.init.ones_(policy.module.weight)
        with pytest.warns(RuntimeWarning, match="Worker 1 failed, and is started again; 0 restarts are left"):
            steps = torch.cat([batch.reshape(-1) for batch in collector])
    assert len(steps) == 48
    assert (steps["weight"] == 1).all()
    ids = steps["collector", "traj_ids"]
    for number in ids.unique():
        count = steps["count"][ids == number].flatten()
        assert torch.equal(count, torch.arange(len(count)).float())


def test_an_error_in_the_loop_leaves_no_process():
    collector = MultiAsyncCollector([Count, Count], frames_per_batch=4)
    with pytest.raises(KeyError), collector:
        for batch in collector:
            batch["nothing"]
    assert collector.closed
    assert not children()


def test_a_collector_that_nobody_holds_ends_its_processes():
    MultiSyncCollector([Count], frames_per_batch=4)
    assert not children()


def test_what_is_written_into_parameters_counts_at_once():
    policy = constant()
    with MultiSyncCollector([Count, Count], policy, frames_per_batch=8) as collector:
        assert (collector.next()["weight"] == 0).all()
        nn.init.constant_(policy.module.weight, 2.0)
        assert (collector.next()["weight"] == 2).all()
        collector.update_policy_weights_(TensorDict.from_module(policy).data * 2)
        assert (collector.next()["weight"] == 4).all()
        assert (policy.module.weight == 4).all()


@pytest.mark.parametrize("strategy", ["tensordict", "state_dict"])
def test_a_scheme_of_copies_brings_weights_when_told_to(strategy):
    policy = constant()
    schemes = {"policy": MultiProcessWeightSyncScheme(strategy)}
    with MultiSyncCollector([Count, Count], policy, frames_per_batch=8, weight_sync_schemes=schemes) as collector:
        nn.init.constant_(policy.module.weight, 2.0)
        assert (collector.next()["weight"] == 0).all()
        collector.update_policy_weights_()
        assert (collector.next()["weight"] == 2).all()
        nn.init.constant_(policy.module.weight, 3.0)
        collector.update_policy_weights_(worker_ids=1)
        assert collector.next()["weight"][:, 0, 0].tolist() == [2, 3]


def test_without_a_scheme_weights_stay():
    policy = constant()
    schemes = {"policy": NoWeightSyncScheme()}
    with MultiSyncCollector([Count], policy, frames_per_batch=8, weight_sync_schemes=schemes) as collector:
        nn.init.ones_(policy.module.weight)
        collector.update_policy_weights_()
        assert (collector.next()["weight"] == 0).all()


def test_processes_may_have_weights_of_their_own():
    policy = constant()
    schemes = {"policy": SharedMemWeightSyncScheme(per_worker_weights=True)}
    with MultiSyncCollector([Count, Count], policy, frames_per_batch=8, weight_sync_schemes=schemes) as collector:
        weights = TensorDict.from_module(policy).data
        collector.update_policy_weights_(weights_dict={"policy": {0: weights + 1, 1: weights + 2}})
        assert collector.next()["weight"][:, 0, 0].tolist() == [1, 2]


def test_policies_made_in_the_processes_get_weights_by_value():
    with MultiAsyncCollector([Count, Count], policy_factory=constant, frames_per_batch=8) as collector:
        policy = constant()
        nn.init.constant_(policy.module.weight, 5.0)
        collector.update_policy_weights_(policy)
        weights = [collector.next()["weight"].max().item() for _ in range(6)]
    assert weights[-2:] == [5.0, 5.0]


def test_weights_never_change_within_a_step():
    policy = constant()
    schemes = {"policy": MultiProcessWeightSyncScheme(sync=False)}
    with MultiAsyncCollector([Count], policy, frames_per_batch=200, weight_sync_schemes=schemes) as collector:
        for value in range(100):
            nn.init.constant_(policy.module.weight, float(value))
            collector.update_policy_weights_()
            if value % 20 == 0:
                weights = collector.next()["weight"]
                assert (weights == weights[:, :1]).all()
                assert (weights[:, 0].diff() >= 0).all()


def buffer(size):
    return ReplayBuffer(storage=LazyTensorStorage(size), batch_size=4, shared=True)


@pytest.mark.parametrize("kind", [MultiSyncCollector, MultiAsyncCollector])
def test_processes_write_every_step_into_the_replay_buffer_once(kind):
    rows = buffer(96)
    with kind([Count, Count], frames_per_batch=12, total_frames=96, replay_buffer=rows) as collector:
        assert set(collector) == {None}
    assert len(rows) == 96
    ids, counts = rows[:]["collector", "traj_ids"], rows[:]["count"].flatten()
    assert len(ids.unique()) >= 24
    for number in ids.unique():
        assert counts[ids == number].sort().values.tolist() == list(range(int((ids == number).sum())))


def test_processes_write_in_the_background_and_pause():
    rows = buffer(1000)
    collector = MultiAsyncCollector([Count, Count], frames_per_batch=10, replay_buffer=rows)
    collector.start()
    while rows.write_count < 50:
        time.sleep(0.01)
        assert collector.is_running()
    collector.async_shutdown(timeout=60)
    assert not children()
    assert rows.sample().shape == (4,)


def test_what_fails_in_the_background_is_raised_when_it_is_paused():
    collector = MultiAsyncCollector([lambda: Count(fault=raises)], frames_per_batch=10, replay_buffer=buffer(100))
    collector.start()
    while collector.is_running():
        time.sleep(0.01)
    with pytest.raises(RuntimeError, match="ValueError: out of steps"), collector.pause():
        pass
    assert not children()


def test_those_who_are_late_are_stopped():
    def slow():
        time.sleep(1.0)

    with MultiSyncCollector(
        [Count, lambda: Count(fault=slow)], frames_per_batch=40, preemptive_threshold=0.5
    ) as collector:
        batch = collector.next()
    assert (batch["collector", "traj_ids"][0] >= 0).all()
    assert (batch["collector", "traj_ids"][1] == -1).any()


def test_whole_trajectories_are_put_together_of_each_process():
    with MultiAsyncCollector(
        [Count, Count], frames_per_batch=3, total_frames=48, trajs_per_batch=2, traj_format="cat"
    ) as collector:
        batches = list(collector)
    assert len(batches) >= 5
    assert all(batch["count"].flatten().tolist() == [0, 1, 2, 3] * 2 for batch in batches)


def test_the_first_steps_are_random_and_batches_processed_in_the_main_process():
    seen = []

    def processed(batch):
        seen.append(os.getpid())
        return batch

    with MultiSyncCollector(
        [Count, Count], constant(), frames_per_batch=40, total_frames=80, init_random_frames=40, postproc=processed
    ) as collector:
        first, second = collector
    assert 0 < first["action"].sum() < 40
    assert (second["action"] == 1).all()
    assert seen == [os.getpid()] * 2


def test_seeds_go_from_process_to_process():
    with MultiSyncCollector([Count, Count], frames_per_batch=8) as collector:
        following = collector.set_seed(3)
        first, second = collector.get_distant_attr("env.seed")
    assert first == 3
    assert second not in (3, following)


def test_a_collector_that_was_loaded_goes_on_as_the_other_would():
    def made():
        return MultiSyncCollector([lambda: CartPoleEnv(batch_size=[2])] * 2, frames_per_batch=40, total_frames=120)

    with made() as one, made() as other:
        one.next()
        other.load_state_dict(one.state_dict())
        expected, found = one.next(), other.next()
        assert other.stats()["frames"] == one.stats()["frames"] == 80
    assert expected["next", "done"].any()
    assert (found == expected).all()


def test_processes_count_updates_of_the_policy():
    with MultiSyncCollector([Count], constant(), frames_per_batch=4, track_policy_version=True) as collector:
        assert (collector.next()["policy_version"] == 0).all()
        collector.update_policy_weights_()
        assert (collector.next()["policy_version"] == 1).all()
        assert collector.policy_version == 1


def test_a_collector_may_be_asked_for_processes():
    with Collector(Count, frames_per_batch=8, total_frames=16, num_collectors=2, sync=True) as collector:
        assert isinstance(collector, MultiSyncCollector)
        assert [batch.shape for batch in collector] == [(2, 4)] * 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"create_env_fn": Count}, ValueError, "num_workers="),
        ({"create_env_fn": []}, ValueError, "is empty"),
        ({"num_workers": 3}, ValueError, "2 entries, for num_workers=3"),
        ({"frames_per_batch": [4]}, ValueError, "1 entries, for 2 processes"),
        ({"device": ["cpu"]}, ValueError, "device has 1 entries, for 2 processes"),
        ({"replay_buffer": 3, "extend_buffer": False, "split_trajs": True}, TypeError, "take whole batches"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        MultiSyncCollector(**({"create_env_fn": [Count, Count], "frames_per_batch": 4} | arguments))
    assert not children()


def test_batches_of_one_process_are_not_concatenated():
    with pytest.raises(ValueError, match="cat_results is for MultiSyncCollector"):
        MultiAsyncCollector([Count], frames_per_batch=4, cat_results=0)
    assert issubclass(MultiAsyncCollector, MultiCollector)


SCRIPT = """
import os, signal, sys, time
from flambeau.rl.collectors import {kind}
from flambeau.rl.envs import GymEnv

if __name__ == "__main__":
    collector = {kind}([lambda: GymEnv("CartPole-v1")] * 2, frames_per_batch=20, total_frames=-1)
    collector.next()
    print(*(worker.process.pid for worker in collector._workers), flush=True)
    {end}
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["MultiSyncCollector", "MultiAsyncCollector"])
@pytest.mark.parametrize("end", ["pass", "raise KeyError", "os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(3)"])
def test_spawned_processes_end_with_the_program_and_leave_no_semaphore(kind, end, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(SCRIPT.format(kind=kind, end=end))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert "leaked" not in done.stderr
    deadline = time.monotonic() + 30
    for number in map(int, done.stdout.split()):
        while os.path.exists(f"/proc/{number}") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not os.path.exists(f"/proc/{number}")


def cart_pole():
    return GymEnv("CartPole-v1")


@pytest.mark.slow
def test_spawned_processes_share_policies_with_lambdas(monkeypatch):
    monkeypatch.setattr("flambeau.rl.collectors._multi_base.default_method", lambda: "spawn")
    net = nn.Linear(4, 2)
    policy = TensorDictModule(nn.Sequential(net, nn.Softmax(-1)), in_keys=["observation"], out_keys=["scores"])
    acting = nn.Sequential(policy, TensorDictModule(lambda s: s.argmax(-1), in_keys=["scores"], out_keys=["action"]))
    with MultiSyncCollector(
        [lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)] * 2, acting, frames_per_batch=40,
        trust_policy=True, total_frames=80,
    ) as collector:  # fmt: skip
        collector.next()
        net.weight.data.zero_()
        net.bias.data.copy_(torch.tensor([0.0, 1.0]))
        assert (collector.next()["action"] == 1).all()


def test_start_methods_are_those_of_multiprocessing():
    assert mp.get_start_method(allow_none=True) in (None, "fork", "spawn", "forkserver")


def test_an_optimizer_goes_on_with_a_policy_that_processes_share():
    policy = constant()
    optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)
    held = policy.module.weight
    with MultiSyncCollector([Count], policy, frames_per_batch=4) as collector:
        policy.module.weight.sum().backward()
        optimizer.step()
        assert policy.module.weight is held
        assert (collector.next()["weight"] == -1).all()


def test_weight_updaters_write_what_processes_share():
    policy = constant()
    updater = MultiProcessedWeightUpdater(
        get_server_weights=lambda: TensorDict({"module": {"weight": torch.full((3,), 7.0)}}),
        policy_weights={torch.device("cpu"): TensorDict.from_module(policy).data},
    )
    with MultiSyncCollector([Count], policy, frames_per_batch=4, weight_updater=updater) as collector:
        collector.update_policy_weights_()
        assert (collector.next()["weight"] == 7).all()
