"""Rewards: scaled, clipped, added up, counted down, combined."""

from __future__ import annotations

import pytest
import torch
from counting_env import Counting, ones

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import Bounded, LazyTensorStorage, TensorDictReplayBuffer
from flambeau.rl.envs.transforms import (
    BinarizeReward,
    Compose,
    LineariseRewards,
    Reward2GoTransform,
    RewardClipping,
    RewardScaling,
    RewardSum,
    SignTransform,
    SuccessReward,
    TargetReturn,
    TransformedEnv,
)


def rewards(transform, steps=3, **options):
    return TransformedEnv(Counting(**options), transform).rollout(steps, ones)["next"]


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (RewardScaling(1.0, 2.0), [3, 5, 7]),
        (RewardScaling(1.0, 2.0, standard_normal=True), [0, 0.5, 1]),
        (RewardClipping(None, 2.0), [1, 2, 2]),
        (RewardClipping(2.0, 2.5), [2, 2, 2.5]),
        (RewardClipping(), [1, 2, 3]),
        (BinarizeReward(), [1, 1, 1]),
        (Compose(RewardScaling(-2.0, 1.0), SignTransform(["reward"])), [-1, 0, 1]),
        (SuccessReward("count", scale=2.0), [2, 4, 6]),
    ],
)
def test_rewards_are_transformed_one_by_one(transform, expected):
    assert rewards(transform)["reward"].flatten().tolist() == expected


@pytest.mark.parametrize("transform", [RewardClipping(-1.0, 1.0), SignTransform(["reward"])])
def test_bounds_of_rewards_stand_in_their_spec(transform):
    spec = TransformedEnv(Counting(), transform).reward_spec
    assert isinstance(spec, Bounded)
    assert (spec.low.item(), spec.high.item()) == (-1, 1)


def test_sums_begin_anew_with_episodes():
    env = TransformedEnv(Counting(length=2), RewardSum())
    steps = env.rollout(4, ones, break_when_any_done=False)
    assert steps["next", "episode_reward"].flatten().tolist() == [1, 3, 1, 3]
    env.check_env_specs()


def test_sums_of_a_batch_begin_anew_where_a_mask_says():
    env = TransformedEnv(Counting(batch_size=(2,)), RewardSum())
    step = env.step_mdp(env.step(ones(env.reset())))
    again = env.reset(step.set("_reset", torch.tensor([[False], [True]])))
    assert again["episode_reward"].flatten().tolist() == [1, 0]


def test_sums_may_be_rewards():
    env = TransformedEnv(Counting(), RewardSum(reward_spec=True))
    assert set(env.reward_keys) == {"reward", "episode_reward"}
    assert env.rollout(3, ones)["next", "episode_reward"].flatten().tolist() == [1, 3, 6]


def test_sums_of_data_run_along_the_dimension_named_time():
    data = TensorDict({"reward": torch.ones(2, 3, 1)}, [2, 3], names=[None, "time"])
    assert RewardSum()(data)["episode_reward"][0].flatten().tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="time"):
        RewardSum()(TensorDict({"reward": torch.ones(3, 1)}, [3]))


def test_targets_are_counted_down_or_stay():
    assert rewards(TargetReturn(10.0))["target_return"].flatten().tolist() == [9, 7, 4]
    assert rewards(TargetReturn(10.0, mode="constant"))["target_return"].flatten().tolist() == [10, 10, 10]
    with pytest.raises(ValueError, match="'other'"):
        TargetReturn(10.0, mode="other")


def test_rewards_to_go_are_computed_on_the_way_into_a_buffer():
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(3), batch_size=3)
    buffer.append_transform(Reward2GoTransform(gamma=0.5))
    ends = torch.tensor([[False], [True], [True]])
    buffer.extend(TensorDict({"next": {"reward": torch.ones(3, 1), "done": ends}}, [3]))
    assert buffer[:]["next", "reward"].flatten().tolist() == [1.5, 1, 1]
    with pytest.raises(ValueError, match="replay buffer"):
        TransformedEnv(Counting(), Reward2GoTransform())


def test_objectives_are_weighted():
    data = TensorDict({"reward": torch.tensor([1.0, 10.0])})
    assert LineariseRewards(["reward"], ["sum"], weights=[2.0, 0.5])(data)["sum"].tolist() == [7]
    with pytest.raises(ValueError, match="negative"):
        LineariseRewards(["reward"], weights=[-1.0, 1.0])
