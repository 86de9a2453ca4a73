"""Environments that wait for nobody: their steps are whole trajectories, and whoever fails is reported."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.collectors import AsyncBatchedCollector
from flambeau.rl.data import LazyTensorStorage, ReplayBuffer
from flambeau.rl.modules.inference_server import InferenceServerConfig, ProcessSlotTransport, SlotTransport
from flambeau.rl.testing import CountingEnv

MAKERS = [partial(CountingEnv, max_steps=5)] * 2
pytestmark = pytest.mark.filterwarnings("ignore:AsyncBatchedCollector without:FutureWarning")


class One(nn.Module):
    """Counts on, and writes its weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, observation):
        return torch.ones_like(observation), self.weight.expand_as(observation)


def policy():
    return TensorDictModule(One(), in_keys=["observation"], out_keys=["action", "weight"])


def made(**arguments):
    chosen = {"frames_per_batch": 6, "total_frames": 18, "env_backend": "threading"} | arguments
    if "policy_factory" not in chosen:
        chosen.setdefault("policy", policy())
    return AsyncBatchedCollector(chosen.pop("create_env_fn", MAKERS), **chosen)


def by_environment(batches):
    steps = defaultdict(list)
    for batch in batches:
        for step in batch.unbind(0):
            steps[int(step["env_index"])].append(step)
    return steps


def assert_whole(batches):
    """Every environment's steps are one behind the other."""
    for steps in by_environment(batches).values():
        assert int(steps[0]["observation"]) == 0
        for before, after in pairwise(steps):
            ended = bool(before["next", "done"])
            assert int(after["observation"]) == (0 if ended else int(before["next", "observation"]))


KINDS = {
    "threads": {},
    "slots of threads": {"transport": lambda: SlotTransport(2)},
    "several waited for": {"min_batch_size": 2, "server_timeout": 0.005},
    "policy of a factory": {"policy_factory": policy},
}


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_each_environment_are_whole_trajectories(kind):
    arguments = dict(KINDS[kind])
    if "transport" in arguments:
        arguments["transport"] = arguments["transport"]()
    with made(**arguments) as collector:
        batches = list(collector)
        assert [batch.shape for batch in batches] == [torch.Size([6])] * 3
        assert_whole(batches)
        assert collector.server_stats()["requests"] >= 18
        assert collector.stats()["frames"] == 18
        assert collector.server_backend == "thread"
    assert collector.env.is_closed


def test_trajectories_are_given_when_they_end():
    with made(yield_completed_trajectories=True, total_frames=24) as collector:
        for batch in collector:
            ends = batch["next", "done"].flatten()
            assert bool(ends[-1])
            assert len(batch) >= 6
            for piece in torch.tensor_split(batch["observation"].flatten(), (ends.nonzero().flatten() + 1)[:-1]):
                assert piece.tolist() == list(range(len(piece)))


def test_new_episodes_begin_with_each_batch_where_that_is_asked():
    with made(reset_at_each_iter=True) as collector:
        for batch in collector:
            for steps in by_environment([batch]).values():
                assert int(steps[0]["observation"]) == 0


def test_batches_go_to_the_replay_buffer_also_in_the_background():
    for background in (False, True):
        buffer = ReplayBuffer(storage=LazyTensorStorage(100), batch_size=4)
        seen = []
        collector = made(replay_buffer=buffer, post_collect_hook=lambda batch: seen.append(len(batch)))  # noqa: B023
        with collector:
            if background:
                collector.start()
                deadline = time.monotonic() + 60
                while len(buffer) < 18 and time.monotonic() < deadline:
                    time.sleep(0.01)
            else:
                assert list(collector) == [None] * 3
            assert len(buffer) == 18
            assert seen == [6, 6, 6]


def test_nothing_happens_while_it_is_paused():
    class Counted(CountingEnv):
        steps = 0

        def _step(self, tensordict):
            Counted.steps += 1
            return super()._step(tensordict)

    with made(create_env_fn=[Counted] * 2, total_frames=-1) as collector:
        batches = iter(collector)
        next(batches)
        with collector.pause():
            before = Counted.steps
            time.sleep(0.1)
            assert Counted.steps == before
            with pytest.raises(RuntimeError, match="paused"), collector.pause():
                pass
        assert len(next(batches)) == 6


def test_new_weights_count_from_the_next_batch_of_the_server_on():
    learner = policy()
    with made(total_frames=-1) as collector:
        batches = iter(collector)
        assert int(next(batches)["policy_version"].max()) == 0
        learner.module.weight.data.fill_(3.0)
        collector.update_policy_weights_(learner)
        assert collector.policy_version == 1
        for _ in range(5):
            batch = next(batches)
        new = batch["policy_version"] == 1
        assert new.any()
        assert (batch["weight"].flatten() == 3.0 * new).all()
        with pytest.raises(TypeError, match="weights"):
            collector.update_policy_weights_(3)


class Failing(CountingEnv):
    def _step(self, tensordict):
        if int(self.count) >= 2:
            raise ArithmeticError("no third step")
        return super()._step(tensordict)


class Dying(CountingEnv):
    def _step(self, tensordict):
        os.kill(os.getpid(), signal.SIGKILL)


def test_an_environment_or_a_policy_that_raises_ends_the_collector_with_its_traceback():
    with pytest.raises(RuntimeError, match="no third step"):
        list(made(create_env_fn=[Failing] * 2))

    def bad(data):
        raise ArithmeticError("no action")

    with pytest.raises(RuntimeError, match="no action"):
        list(made(policy=bad))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"create_env_fn": []}, ValueError, "create_env_fn"),
        ({"policy_factory": policy, "policy": policy()}, TypeError, "not both"),
        ({"policy": None}, TypeError, "policy_factory"),
        ({"frames_per_batch": 0}, ValueError, "frames_per_batch"),
        ({"backend": "nowhere"}, ValueError, "backend"),
        ({"env_backend": "ray"}, ValueError, "env_backend"),
        ({"transition_chunk_size": 2}, ValueError, "ProcessSlotTransport"),
        ({"transition_chunk_size": 0}, ValueError, "transition_chunk_size"),
        ({"server_config": InferenceServerConfig(), "max_batch_size": 2}, ValueError, "server_config"),
    ],
)
def test_arguments_that_contradict_one_another_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        made(**arguments)


def test_a_collector_that_was_shut_down_says_so():
    collector = made()
    collector.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        list(collector)


# Processes

SPREAD = {
    "processes": {"env_backend": "multiprocessing", "transport": "driver"},
    "pipes": {"env_backend": "multiprocessing", "env_exchange": "queue", "transport": "driver"},
    "two in a process": {"env_backend": "multiprocessing", "envs_per_worker": 2, "transport": "driver"},
    "server in a process": {
        "policy_factory": policy,
        "transport": "driver",
        "server_config": InferenceServerConfig(service_backend="process"),
    },
    "all in processes": {
        "policy_factory": policy,
        "env_backend": "multiprocessing",
        "transport": "auto",
        "transition_chunk_size": 4,
    },
    "steps of all processes": {
        "policy_factory": policy,
        "env_backend": "multiprocessing",
        "transport": "auto",
        "transition_chunk_size": 1,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPREAD)
def test_steps_of_processes_are_whole_trajectories(kind):
    with made(**SPREAD[kind], total_frames=30) as collector:
        learner = policy()
        learner.module.weight.data.fill_(2.0)
        collector.update_policy_weights_(learner)
        batches = list(collector)
        assert [batch.shape for batch in batches] == [torch.Size([6])] * 5
        assert_whole(batches)
        assert all((batch["weight"] == 2.0).all() for batch in batches)
        assert collector.policy_version == 1
        expected = "process" if "auto" in SPREAD[kind].values() or "server" in kind else "thread"
        assert collector.server_backend == expected


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["driver", "auto"])
def test_the_process_of_an_environment_that_dies_is_reported(transport):
    collector = made(
        create_env_fn=[CountingEnv, Dying], env_backend="multiprocessing", transport=transport, policy=None,
        policy_factory=policy, total_frames=-1,
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="exit code -9"):
        list(collector)


@pytest.mark.slow
def test_a_policy_whose_process_dies_is_reported():
    collector = made(**SPREAD["all in processes"] | {"total_frames": -1})
    batches = iter(collector)
    next(batches)
    os.kill(collector._server.health(timeout=30)["pid"], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="server"):
        for _ in range(1000):
            next(batches)


@pytest.mark.slow
def test_layouts_can_be_given_by_hand():
    request = TensorDict({"observation": torch.zeros(1, dtype=torch.int32)})
    answer = TensorDict(
        {
            "action": torch.zeros(1, dtype=torch.int32),
            "weight": torch.zeros(1),
            "policy_version": torch.zeros((), dtype=torch.int64),
        }
    )
    with made(policy_factory=policy, env_backend=None, transport=ProcessSlotTransport(request, answer, num_slots=2),
              transition_chunk_size=3) as collector:  # fmt: skip
        assert collector.server_backend == "process"
        assert_whole(list(collector))
