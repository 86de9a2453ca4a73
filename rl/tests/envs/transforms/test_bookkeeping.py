"""Counts, marks, first values, casts, names, frames, ends."""

from __future__ import annotations

import pytest
import torch
from counting_env import Counting, ones

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import Composite, LazyTensorStorage, TensorDictReplayBuffer, Unbounded
from flambeau.rl.envs.transforms import (
    AutoResetTransform,
    BatchSizeTransform,
    Compose,
    ConditionalPolicySwitch,
    ConditionalSkip,
    DoubleToFloat,
    ExcludeTransform,
    FrameSkipTransform,
    InitTracker,
    MultiStepTransform,
    NoopResetEnv,
    PolicyAgeFilter,
    RandomTruncationTransform,
    RenameTransform,
    SelectTransform,
    StepCounter,
    TensorDictPrimer,
    Timer,
    TrajCounter,
    TransformedEnv,
)
from flambeau.rl.envs.transforms.transforms import TerminateTransform
from flambeau.rl.modules import GRUModule
from flambeau.rl.modules.utils import get_env_transforms_from_module


def steps_of(transform, steps=3, goes_on=False, **options):
    env = TransformedEnv(Counting(**options), transform)
    return env.rollout(steps, ones, break_when_any_done=not goes_on)


def test_steps_are_counted_and_episodes_cut_after_enough():
    steps = steps_of(StepCounter(max_steps=2), 10)
    assert steps["step_count"].flatten().tolist() == [0, 1]
    assert steps["next", "truncated"].flatten().tolist() == [False, True]
    assert steps["next", "done"].flatten().tolist() == [False, True]
    assert steps["next", "terminated"].flatten().tolist() == [False, False]


def test_cut_episodes_may_go_on():
    steps = steps_of(StepCounter(max_steps=2, update_done=False), 3, goes_on=True)
    assert steps["next", "truncated"].flatten().tolist() == [False, True, True]
    assert steps["next", "done"].flatten().tolist() == [False, False, True]


def test_first_steps_are_marked():
    steps = steps_of(InitTracker(), 5, goes_on=True, length=2)
    assert steps["is_init"].flatten().tolist() == [True, False, True, False, True]
    assert not steps["next", "is_init"].any()


def test_trajectories_are_numbered_in_the_order_in_which_they_begin():
    env = TransformedEnv(Counting(length=2), TrajCounter())
    assert env.rollout(5, ones, break_when_any_done=False)["traj_count"].flatten().tolist() == [0, 0, 1, 1, 2]
    other = TransformedEnv(Counting(length=2), TrajCounter())
    other.load_state_dict(env.state_dict())
    assert other.rollout(1, ones)["traj_count"].flatten().tolist() == [3]


def test_first_values_stay_unless_a_policy_changes_them():
    env = TransformedEnv(Counting(), TensorDictPrimer(h=Unbounded((2,)), default_value=1.0))
    assert env.rollout(2, ones)["h"].tolist() == [[1, 1], [1, 1]]
    steps = env.rollout(3, lambda td: ones(td).set(("next", "h"), td["h"] + 1))
    assert steps["h"][:, 0].tolist() == [1, 2, 3]
    env.check_env_specs()


def test_first_values_are_set_anew_where_a_mask_says():
    env = TransformedEnv(Counting(batch_size=(2,)), TensorDictPrimer(h=Unbounded((1,)), expand_specs=True))
    root = env.reset().set("h", torch.full((2, 1), 7.0)).set("_reset", torch.tensor([[True], [False]]))
    assert env.reset(root)["h"].flatten().tolist() == [0, 7]


def test_primers_need_the_batch_size_of_the_environment():
    env = TransformedEnv(Counting(batch_size=(2,)), TensorDictPrimer(h=Unbounded((3,))))
    assert env.observation_spec["h"].shape == (2, 3)
    env = TransformedEnv(Counting(batch_size=(2,)), TensorDictPrimer(h=Unbounded((2, 3))))
    with pytest.raises(RuntimeError, match="expand_specs"):
        _ = env.observation_spec
    with pytest.raises(ValueError, match="random"):
        TensorDictPrimer(h=Unbounded((1,)), random=True, default_value=1.0)


def test_recurrent_modules_say_what_they_need():
    module = GRUModule(1, 4, in_keys=["count", "h", "is_init"], out_keys=["features", ("next", "h")])
    env = TransformedEnv(Counting(), get_env_transforms_from_module(module))
    steps = env.rollout(3, lambda td: ones(module(td)))
    assert steps["h"].shape == (3, 1, 4)
    assert not steps["h"][0].any() and steps["h"][1].any()


def test_casts_go_both_ways():
    class Double(Counting):
        def __init__(self):
            super().__init__()
            self.observation_spec = Composite(count=Unbounded((1,), dtype=torch.float64))
            self.action_spec = Unbounded((1,), dtype=torch.float64)
            self.count = self.count.double()

    env = TransformedEnv(Double(), DoubleToFloat())
    step = env.step(ones(env.reset()))
    assert step["next", "count"].dtype is step["count"].dtype is env.action_spec.dtype is torch.float32
    assert env.base_env.seen[0].dtype is torch.float64


def test_names_are_changed_in_both_directions():
    env = TransformedEnv(Counting(), RenameTransform(["count"], ["n"], ["action"], ["a"]))
    step = env.step(env.reset().set("a", torch.ones(1)))
    assert step["next", "n"].item() == 1 and "count" not in step["next"]
    assert env.action_keys == ["a"]


def test_entries_are_chosen_or_left_out():
    assert "count" not in steps_of(ExcludeTransform("count"))
    assert set(steps_of(SelectTransform("count"))["next"].keys()) == {"count", "reward", "done", "terminated"}
    with pytest.raises(KeyError, match="nothing"):
        _ = TransformedEnv(Counting(), ExcludeTransform("nothing")).output_spec


def test_frames_are_skipped_until_an_episode_ends():
    steps = steps_of(FrameSkipTransform(2), 10)
    assert steps["next", "count"].flatten().tolist() == [2, 3]
    assert steps["next", "reward"].flatten().tolist() == [3, 3]


def test_frames_of_entries_that_are_over_are_skipped_no_more():
    class Paced(Counting):
        def _step(self, tensordict):
            tensordict["action"] = torch.tensor([[1.0], [3.0]])
            return super()._step(tensordict)

    env = TransformedEnv(Paced(batch_size=(2,)), FrameSkipTransform(2))
    step = env.step(ones(env.reset()))["next"]
    assert step["count"].flatten().tolist() == [2, 3]
    assert step["reward"].flatten().tolist() == [3, 3]


def test_skipped_frames_count_for_the_transforms_before():
    steps = steps_of(Compose(StepCounter(), FrameSkipTransform(2)), 1)
    assert steps["next", "step_count"].item() == 2


def test_episodes_begin_after_random_steps():
    env = TransformedEnv(Counting(length=100), NoopResetEnv(3, random=False))
    env.reset()
    assert len(env.base_env.seen) == 3
    with pytest.raises(RuntimeError, match="noops"):
        TransformedEnv(Counting(length=-100), NoopResetEnv(3, random=False)).reset()


def test_a_function_ends_episodes():
    steps = steps_of(TerminateTransform(lambda td: td["count"] > 1), 10)
    assert len(steps) == 2
    assert steps["next", "terminated"][-1].item()


def test_random_horizons_need_counts():
    with pytest.raises(RuntimeError, match="StepCounter"):
        TransformedEnv(Counting(), RandomTruncationTransform(1, 2, 1.0))
    steps = steps_of(Compose(StepCounter(), RandomTruncationTransform(2, 2, 1.0)), 10, goes_on=True, length=100)
    cuts = steps["next", "truncated"].flatten().nonzero().flatten()
    assert cuts[0] < 2
    assert (cuts.diff() == 2).all()


def test_steps_are_skipped_where_a_function_says():
    env = TransformedEnv(Counting(batch_size=(2,)), ConditionalSkip(lambda td: torch.tensor([True, False])))
    step = env.step(ones(env.reset()))["next"]
    assert step["count"].flatten().tolist() == [0, 1]
    assert step["reward"].flatten().tolist() == [0, 1]


def test_another_policy_takes_steps_that_nobody_sees():
    switch = ConditionalPolicySwitch(policy=ones, condition=lambda td: bool((td["count"] == 1).all()))
    steps = TransformedEnv(Counting(length=4), switch).rollout(10, ones)
    assert steps["count"].flatten().tolist() == [0, 2, 3]


def test_a_batch_size_is_reshaped_both_ways():
    env = TransformedEnv(Counting(batch_size=(2,)), BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 1)))
    assert env.batch_size == (2, 1)
    step = env.step(env.reset().set("action", torch.ones(2, 1, 1)))
    assert step["next", "count"].shape == (2, 1, 1)
    assert env.base_env.seen[0].shape == (2, 1)


def test_environments_that_begin_anew_by_themselves_are_sorted_out():
    class Rolling(Counting):
        def _step(self, tensordict):
            out = super()._step(tensordict)
            if out["done"]:
                self.count = torch.zeros_like(self.count)
                out["count"] = self.count.clone()
            return out

    env = TransformedEnv(Rolling(), AutoResetTransform())
    steps = env.rollout(5, ones, break_when_any_done=False)
    assert steps["count"].flatten().tolist() == [0, 1, 2, 0, 1]
    assert steps["next", "count"][2].isnan().all()


def test_times_are_written():
    steps = steps_of(Timer(), 2)
    assert (steps["next", "time_step"] > 0).all()
    assert steps["time_reset"][0] > 0 and steps["time_step"][0] == 0


def trajectory():
    ends = torch.tensor([False, True, False, False, False, True])[:, None]
    values = torch.arange(6.0)[:, None]
    following = {"obs": values + 1, "reward": torch.ones(6, 1), "done": ends, "terminated": ends.clone()}
    return TensorDict({"obs": values, "next": following}, [6])


def test_returns_of_several_steps_stop_at_ends():
    out = MultiStepTransform(n_steps=2, gamma=0.5).inv(trajectory())
    assert out["next", "reward"].flatten().tolist() == [1.5, 1, 1.5, 1.5]
    assert out["steps_to_next_obs"].tolist() == [2, 1, 2, 2]
    assert out["next", "obs"].flatten().tolist() == [2, 2, 4, 5]
    assert out["next", "done"].flatten().tolist() == [True, True, False, False]
    assert out["gamma"].tolist() == [0.25, 0.5, 0.25, 0.25]


def test_the_last_steps_wait_for_those_that_follow():
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(20), transform=MultiStepTransform(2, 0.5), batch_size=2)
    buffer.extend(trajectory()[:2])
    assert len(buffer) == 0
    buffer.extend(trajectory()[2:])
    assert len(buffer) == 4
    whole = MultiStepTransform(2, 0.5).inv(trajectory())
    assert (buffer[:]["next", "reward"] == whole["next", "reward"]).all()


def test_rows_of_old_policies_are_left_out():
    rows = TensorDict({"policy_version": torch.tensor([1, 4, 5])}, [3])
    assert PolicyAgeFilter(lambda: 6, 2)(rows)["policy_version"].tolist() == [4, 5]
