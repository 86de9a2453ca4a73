"""Environments to test with: they keep to their specs, begin anew by mask, and do what their names say."""

from __future__ import annotations

import logging

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import ParallelEnv, SerialEnv, check_env_specs
from flambeau.rl.testing import (
    AutoResettingCountingEnv,
    ContinuousActionConvMockEnv,
    ContinuousActionConvMockEnvNumpy,
    ContinuousActionVecMockEnv,
    CountingBatchedEnv,
    CountingEnv,
    CountingEnvCountPolicy,
    CountingEnvWithString,
    DiscreteActionConvMockEnv,
    DiscreteActionConvMockEnvNumpy,
    DiscreteActionConvPolicy,
    DiscreteActionVecMockEnv,
    DiscreteActionVecPolicy,
    EnvThatDoesNothing,
    EnvThatErrorsAfter10Iters,
    EnvWithMetadata,
    EnvWithScalarAction,
    FastImageEnv,
    IncrementingEnv,
    MockBatchedLockedEnv,
    MockBatchedUnLockedEnv,
    MockSerialEnv,
    MultiAgentCountingEnv,
    MultiKeyCountingEnv,
    MultiKeyCountingEnvPolicy,
    NestedCountingEnv,
    StateLessCountingEnv,
    Str2StrEnv,
    capture_log_records,
    generate_seeds,
    make_spec,
    rand_reset,
    retry,
    rollout_consistency_assertion,
)

EVERY = {
    "counting": CountingEnv,
    "counting, batched": lambda: CountingEnv(batch_size=[2]),
    "incrementing": IncrementingEnv,
    "counting by entry": lambda: CountingBatchedEnv(max_steps=torch.tensor([2, 4]), batch_size=[2]),
    "with texts": lambda: CountingEnvWithString(batch_size=[2]),
    "nested": NestedCountingEnv,
    "nested, root end": lambda: NestedCountingEnv(has_root_done=True, batch_size=[2]),
    "agents": lambda: MultiAgentCountingEnv(n_agents=2),
    "several keys": lambda: MultiKeyCountingEnv(batch_size=[2]),
    "vector": ContinuousActionVecMockEnv,
    "vector, discrete": lambda: DiscreteActionVecMockEnv(batch_size=[3]),
    "vector, numbers": lambda: DiscreteActionVecMockEnv(categorical_action_encoding=True, batch_size=[3]),
    "image": ContinuousActionConvMockEnv,
    "image, discrete": DiscreteActionConvMockEnv,
    "image, channels last": ContinuousActionConvMockEnvNumpy,
    "image, discrete, channels last": DiscreteActionConvMockEnvNumpy,
    "locked": lambda: MockBatchedLockedEnv(batch_size=[2]),
    "unlocked": MockBatchedUnLockedEnv,
    "serial": MockSerialEnv,
    "stateless": StateLessCountingEnv,
    "scalar action": EnvWithScalarAction,
    "nothing": EnvThatDoesNothing,
    "metadata": EnvWithMetadata,
    "fast images": FastImageEnv,
    "texts": Str2StrEnv,
}


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_it_keeps_to_its_specs(make):
    check_env_specs(make())


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_it_may_be_one_of_several(make):
    env = SerialEnv(2, make)
    assert env.rollout(3, break_when_any_done=False).shape[0] == 2


def ones(env):
    return CountingEnvCountPolicy(env.full_action_spec[env.action_key], env.action_key)


@pytest.mark.parametrize("kind", [CountingEnv, IncrementingEnv])
def test_it_counts_beyond_its_highest_count_once(kind):
    env = kind(max_steps=3)
    rollout = env.rollout(10, ones(env))
    assert rollout["next", "observation"].flatten().tolist() == [1, 2, 3, 4]
    assert rollout["next", "done"].flatten().tolist() == [False, False, False, True]


def test_entries_of_a_batch_begin_anew_by_mask():
    env = CountingEnv(batch_size=[2])
    env.rollout(3, ones(env))
    fresh = env.reset(TensorDict({"_reset": torch.tensor([[True], [False]])}, [2]))
    assert fresh["observation"].flatten().tolist() == [0, 3]


def test_every_entry_has_its_own_highest_count():
    env = CountingBatchedEnv(max_steps=torch.tensor([1, 3]), batch_size=[2])
    done = env.rollout(4, ones(env), break_when_any_done=False)["next", "done"].squeeze(-1)
    assert done.tolist() == [[False, True, False, True], [False, False, False, True]]
    with pytest.raises(RuntimeError, match=r"batch size \(2,\)"):
        CountingBatchedEnv(max_steps=torch.tensor([1]), batch_size=[2])


def test_the_last_observation_of_an_episode_is_the_first_of_the_next():
    env = AutoResettingCountingEnv(max_steps=1)
    observations = env.rollout(5, ones(env), break_when_any_done=False)["next", "observation"]
    assert observations.flatten().tolist() == [1, 0, 1, 0, 1]


def test_every_counter_has_its_key_shape_and_reset():
    env = MultiKeyCountingEnv(max_steps=2)
    policy = MultiKeyCountingEnvPolicy(env.full_action_spec, deterministic=True)
    rollout = env.rollout(3, policy)
    assert rollout["next", "nested_1", "gift"].eq(1).all()
    assert rollout["next", "nested_2", "observation"][-1].eq(3).all()
    masks = TensorDict({"_reset": torch.tensor([False])})
    masks["nested_1"] = TensorDict({"_reset": torch.tensor([[True], [False], [False]])}, [3])
    masks["nested_2"] = TensorDict({"_reset": torch.zeros(2, 1, dtype=torch.bool)}, [2])
    env._reset(masks)
    assert env.count_1.flatten().tolist() == [0, 3, 3]


@pytest.mark.parametrize(
    ("env", "policy"),
    [(DiscreteActionVecMockEnv, DiscreteActionVecPolicy), (DiscreteActionConvMockEnv, DiscreteActionConvPolicy)],
)
def test_a_vector_that_grows_evenly_reaches_the_end(env, policy):
    rollout = (
        env(state_size=2).rollout(300, policy())
        if env is DiscreteActionVecMockEnv
        else env(pixel_shape=(1, 2, 2)).rollout(300, policy())
    )
    assert 199 <= len(rollout) <= 201
    assert rollout["next", "done"][-1] and rollout["next", "reward"].sum() == 1


def test_a_seed_tells_where_a_vector_begins():
    first, second = (ContinuousActionVecMockEnv(seed=3).reset()["observation"] for _ in range(2))
    assert (first == second).all()


def test_errors_come_in_the_eleventh_step():
    env = EnvThatErrorsAfter10Iters()
    assert len(env.rollout(10)) == 10
    with pytest.raises(RuntimeError, match="max steps"):
        env.rollout(1)


@pytest.mark.slow
def test_an_error_of_a_worker_comes_through():
    env = ParallelEnv(2, EnvThatErrorsAfter10Iters)
    with pytest.raises(RuntimeError, match="max steps"):
        env.rollout(20)
    env.close(raise_if_closed=False)


# What tests ask of rollouts, and of functions


def test_a_rollout_that_skips_a_step_is_not_consistent():
    rollout = CountingEnv(max_steps=9).rollout(6, ones(CountingEnv()))
    rollout_consistency_assertion(rollout)
    with pytest.raises(AssertionError):
        rollout_consistency_assertion(rollout[[0, 2, 3]])


def test_random_masks_are_at_every_reset_key():
    env = MultiKeyCountingEnv(batch_size=[2])
    masks = rand_reset(env)
    assert masks["nested_1", "_reset"].shape == (2, 3, 1) and masks["_reset"].dtype == torch.bool


def test_a_function_is_called_again_until_it_works():
    calls = []

    @retry(ValueError, tries=3, delay=0)
    def works_at_last():
        calls.append(0)
        if len(calls) < 3:
            raise ValueError
        return "done"

    assert works_at_last() == "done"

    @retry(ValueError, tries=2, delay=0)
    def never():
        raise ValueError("never")

    with pytest.raises(ValueError, match="never"):
        never()


def test_log_records_are_collected_by_the_name_of_their_logger():
    records = []
    capture_log_records(records, "rl_test", "rl_test.inner")
    logging.getLogger("rl_test.inner").info("seen")
    logging.getLogger("rl_test.other").info("not seen")
    assert [record.getMessage() for record in records] == ["seen"]


def test_seeds_follow_from_the_first():
    assert generate_seeds(5, 3)[0] == 5
    assert generate_seeds(5, 3) == generate_seeds(5, 4)[:3]


@pytest.mark.parametrize("name", ["one_hot", "categorical", "mult_one_hot", "real", "bounded", "binary", "composite"])
def test_specs_have_names(name):
    spec = make_spec(name)
    assert spec.is_in(spec.rand())


def test_an_unknown_spec_is_named():
    with pytest.raises(KeyError, match="one_hot"):
        make_spec("other")
