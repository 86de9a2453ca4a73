"""Pools of environments that step and reset at their own pace."""

from __future__ import annotations

import os
import time
from functools import partial

import pytest
import torch

from flambeau.rl.envs import StepCounter, TransformedEnv, check_env_specs
from flambeau.rl.envs.async_envs import AsyncEnvPool, ProcessorAsyncEnvPool, ThreadingAsyncEnvPool
from flambeau.rl.errors import EnvWorkerError
from flambeau.rl.testing import CountingEnv, EnvThatErrorsAfter10Iters, IncrementingEnv

BACKENDS = ["threading", pytest.param("multiprocessing", marks=pytest.mark.slow)]


class Slow(IncrementingEnv):
    """Takes some time for a step."""

    def __init__(self, seconds=0.0):
        super().__init__(max_steps=1000)
        self.seconds = seconds

    def _step(self, tensordict):
        time.sleep(self.seconds)
        return super()._step(tensordict)


class Dying(IncrementingEnv):
    """Its process dies in the first step."""

    def _step(self, tensordict):
        os._exit(7)


@pytest.fixture(params=BACKENDS)
def pool(request):
    made = AsyncEnvPool([partial(IncrementingEnv, max_steps=3)] * 3, backend=request.param)
    yield made
    made.close(raise_if_closed=False)


def test_the_backend_tells_the_kind(pool):
    kinds = {"threading": ThreadingAsyncEnvPool, "multiprocessing": ProcessorAsyncEnvPool}
    assert type(pool) is kinds[pool.backend]
    assert pool.batch_size == (3,) and pool.num_envs == 3


def test_all_step_as_one_environment(pool):
    rollout = pool.rollout(6, break_when_any_done=False)
    assert rollout["next", "observation"].squeeze(-1).tolist() == [[1, 2, 3, 4, 1, 2]] * 3
    check_env_specs(pool)


def test_single_environments_step_while_others_do_not(pool):
    roots = pool.rand_action(pool.reset())
    pool.async_step_send(roots[1], env_index=1)
    step = pool.async_step_recv()
    assert step["env_index"] == [1] and step["next", "observation"].tolist() == [[1]]
    pool.async_step_send(pool.step_mdp(step).set("action", torch.ones(1, 1, dtype=torch.int8)))
    assert pool.async_step_recv()["next", "observation"].tolist() == [[2]]


def test_steps_with_resets_give_the_next_root(pool):
    roots = pool.rand_action(pool.reset())
    for _ in range(4):
        pool.async_step_and_maybe_reset_send(roots)
        steps, roots = pool.async_step_and_maybe_reset_recv(min_get=3)
        roots = roots.update(pool.full_action_spec.rand())
    assert steps["next", "done"].all() and (roots["observation"] == 0).all()


def test_resets_of_some_environments_leave_the_others(pool):
    pool.rollout(2)
    pool.async_reset_send(env_index=[0, 2])
    fresh = pool.async_reset_recv(min_get=2)
    assert sorted(fresh["env_index"]) == [0, 2] and (fresh["observation"] == 0).all()
    pool.async_step_send(fresh[0].set("action", torch.ones(1, dtype=torch.int8)))
    pool.async_step_recv()
    pool.async_step_send(pool.rand_action()[1], env_index=1)
    assert pool.async_step_recv()["next", "observation"].tolist() == [[3]]


def test_answers_that_nobody_waits_for_raise(pool):
    pool.reset()
    with pytest.raises(RuntimeError, match="cannot wait for 1 answers to 'step'"):
        pool.async_step_recv()
    pool.async_reset_send()
    with pytest.raises(RuntimeError, match="busy with a reset"):
        pool.async_step_send(pool.rand_action()[0], env_index=0)
    with pytest.raises(RuntimeError, match="env_index"):
        pool.async_step_send(pool.rand_action())
    with pytest.raises(IndexError, match="no environment 7"):
        pool.async_reset_send(env_index=7)


def test_seeds_follow_from_one_another(pool):
    assert pool.set_seed(3) != 3
    assert pool.set_seed(3, static_seed=True) == 3


def test_transforms_go_around_the_pool(pool):
    env = TransformedEnv(pool, StepCounter(max_steps=2))
    assert env.rollout(5)["next", "step_count"].squeeze(-1).tolist() == [[1, 2]] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_fast_ones_come_first(backend):
    pool = AsyncEnvPool([partial(Slow, 0.5), partial(Slow, 0.0)], backend=backend)
    pool.async_step_send(pool.rand_action(pool.reset()))
    assert pool.async_step_recv(max_get=1)["env_index"] == [1]
    with pytest.raises(TimeoutError, match="0 of 1"):
        pool.async_step_recv(timeout=0.01)
    assert pool.async_step_recv(env_index=0)["env_index"] == [0]
    pool.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_comes_with_its_traceback(backend):
    pool = AsyncEnvPool(EnvThatErrorsAfter10Iters, num_envs=2, backend=backend)
    with pytest.raises(EnvWorkerError, match=r"(?s)max steps.*_step"):
        pool.rollout(20)
    assert pool.is_closed


@pytest.mark.slow
def test_a_process_that_dies_is_reported():
    pool = AsyncEnvPool(Dying, backend="multiprocessing")
    with pytest.raises(EnvWorkerError, match="exit code 7"):
        pool.rollout(2)


@pytest.mark.slow
def test_a_process_may_host_several_environments_on_some_cpus():
    pool = AsyncEnvPool(
        partial(IncrementingEnv, max_steps=3),
        num_envs=3,
        backend="multiprocessing",
        envs_per_worker=2,
        worker_affinity=lambda worker: [0],
    )
    assert len(pool.__dict__["_processes"]) == 2
    rollout = pool.rollout(6, break_when_any_done=False)
    assert rollout["next", "observation"].squeeze(-1).tolist() == [[1, 2, 3, 4, 1, 2]] * 3
    pool.close()
    with pytest.raises(ValueError, match="backend='multiprocessing'"):
        AsyncEnvPool(IncrementingEnv, envs_per_worker=2)


@pytest.mark.slow
def test_no_process_outlives_the_pool():
    pool = AsyncEnvPool(IncrementingEnv, num_envs=2, backend="multiprocessing")
    processes = pool.__dict__["_processes"]
    pool.close()
    assert not any(process.is_alive() for process in processes)
    with pytest.raises(RuntimeError, match="closed already"):
        pool.close()


@pytest.mark.slow
def test_an_environment_that_cannot_be_made_is_reported():
    with pytest.raises(EnvWorkerError, match="shape"):
        AsyncEnvPool(partial(CountingEnv, batch_size="x"), backend="multiprocessing")


def test_environments_of_other_specs_are_stacked_lazily():
    pool = AsyncEnvPool([IncrementingEnv, partial(CountingEnv, max_steps=2)], stack="lazy")
    assert type(pool.reset()).__name__ == "LazyStackedTensorDict"
    pool.close()


def test_arguments_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="threading, multiprocessing"):
        AsyncEnvPool(IncrementingEnv, backend="other")
    with pytest.raises(ValueError, match="at least one"):
        AsyncEnvPool([])
    with pytest.raises(ValueError, match="batch sizes"):
        AsyncEnvPool([IncrementingEnv, partial(IncrementingEnv, batch_size=[2])])


# How data go to processes


@pytest.mark.parametrize("exchange", ["nothing", "shm"])
def test_threads_have_no_exchange_but_the_queue(exchange):
    with pytest.raises(ValueError, match="exchange"):
        AsyncEnvPool([CountingEnv], exchange=exchange)
    pool = AsyncEnvPool([CountingEnv], exchange="auto")
    assert (pool.resolved_exchange, pool.exchange_keys, pool.stats()) == ("queue", (), {})
    pool.close()


@pytest.mark.slow
@pytest.mark.parametrize("per_worker", [1, 2])
def test_steps_through_shared_memory_are_those_through_pipes(per_worker):
    rollouts = []
    for exchange in ("queue", "shm"):
        pool = AsyncEnvPool(
            [partial(CountingEnv, max_steps=3)] * 2,
            backend="multiprocessing",
            exchange=exchange,
            envs_per_worker=per_worker,
        )
        assert pool.resolved_exchange == exchange
        root = pool.reset()
        pieces = []
        for _ in range(5):
            root["action"] = torch.ones_like(pool.full_action_spec["action"].zero())
            root["seen by the policy"] = torch.arange(2)  # has no place in memory, and comes back all the same
            pool.async_step_and_maybe_reset_send(root.exclude("env_index"), env_index=[0, 1])
            step, root = pool.async_step_and_maybe_reset_recv(2, env_index=[0, 1])
            order = torch.tensor(list(step["env_index"])).argsort()
            pieces.append(step[order].exclude("env_index"))
            root = root[torch.tensor(list(root["env_index"])).argsort()].exclude("env_index")
        rollouts.append(torch.stack(pieces))
        stats = pool.stats(reset=True)
        assert bool(stats) == (exchange == "shm")
        if stats:
            assert ("next", "observation") in pool.exchange_keys
            assert stats["results"] == 12
            assert pool.stats()["results"] == 0
        pool.close()
    assert (rollouts[0] == rollouts[1]).all()


@pytest.mark.slow
def test_what_was_received_through_shared_memory_stays_as_it_is():
    pool = AsyncEnvPool([CountingEnv], backend="multiprocessing", exchange="shm")
    root = pool.reset()
    root["action"] = torch.ones_like(pool.full_action_spec["action"].zero())
    first = pool.step(root)
    before = first.clone()
    pool.step(pool.step_mdp(first).set("action", root["action"]))
    assert (first == before).all()
    pool.close()


@pytest.mark.slow
def test_environments_that_differ_exchange_data_through_pipes_and_say_why_where_they_must_not():
    makers = [CountingEnv, partial(IncrementingEnv, max_steps=10)]
    with pytest.raises(ValueError, match="not possible: environment 1"):
        AsyncEnvPool(makers, backend="multiprocessing", exchange="shm", stack="lazy")
    pool = AsyncEnvPool(makers, backend="multiprocessing", exchange="auto", stack="lazy")
    assert pool.resolved_exchange == "queue"
    pool.close()
