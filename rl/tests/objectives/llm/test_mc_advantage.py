"""Advantages within groups of trajectories, which are written when a group is complete."""

from __future__ import annotations

import pickle
from multiprocessing import get_context

import pytest
import torch

from flambeau.data.tensordict import NonTensorStack, TensorDict, lazy_stack
from flambeau.rl.data import LazyTensorStorage, ReplayBuffer
from flambeau.rl.objectives.llm import MCAdvantage, MCAdvantageSelector, RayMCAdvantage


def trajectory(group, rewards, ends=True):
    steps = len(rewards)
    done = torch.tensor([False] * (steps - 1) + [ends]).reshape(steps, 1)
    following = TensorDict(reward=torch.tensor(rewards).reshape(steps, 1), done=done, batch_size=[steps])
    return TensorDict(group=torch.full((steps,), group), next=following, batch_size=[steps])


def transform(**options):
    return MCAdvantage(**{"grpo_size": 2, "prompt_key": "group", "trajectory_return": "sum", **options})


def written(advantage, *trajectories):
    return [None if made is None else made["advantage"].flatten().tolist() for made in map(advantage.inv, trajectories)]


def test_a_group_is_written_when_its_last_trajectory_comes():
    found = written(transform(), trajectory(1, [0.0, 0.0]), trajectory(2, [5.0]), trajectory(1, [0.0, 1.0, 1.0]))
    assert found[:2] == [None, None]
    assert found[2] == pytest.approx([-(0.5**0.5)] * 2 + [0.5**0.5] * 3)


def test_rewards_of_all_steps_are_compared_by_default():
    first, found = written(transform(trajectory_return=None), trajectory(1, [0.0, 1.0]), trajectory(1, [0.0, 0.0, 2.0]))
    rewards = torch.tensor([0.0, 1.0, 0.0, 0.0, 2.0])
    assert first is None
    assert found == pytest.approx(((rewards - rewards.mean()) / rewards.std()).tolist())


def test_equal_returns_have_no_advantage():
    assert written(transform(), trajectory(1, [1.0]), trajectory(1, [1.0]))[1] == [0.0, 0.0]


def test_a_batch_is_cut_behind_its_ends():
    batch = torch.cat([trajectory(1, [1.0]), trajectory(2, [0.0]), trajectory(1, [5.0, 0.0])])
    advantage = transform()
    assert written(advantage, batch)[0] == pytest.approx([-(0.5**0.5), 0.5**0.5, 0.5**0.5])
    assert advantage.queued_trajectories == 1


def test_text_tells_groups_apart():
    asked = [
        trajectory(0, [reward]).set("query", NonTensorStack(text))
        for reward, text in ((1.0, "a"), (2.0, "b"), (3.0, "a"))
    ]
    found = written(transform(prompt_key="query"), *asked)
    assert [made is None for made in found] == [True, True, False]


def test_ragged_answers_stay_apart():
    answers = [
        lazy_stack([step.set("tokens", torch.arange(size)) for step in trajectory(1, [float(size)]).unbind(0)])
        for size in (2, 3)
    ]
    advantage = transform()
    assert advantage.inv(answers[0]) is None
    made = advantage.inv(answers[1])
    assert [len(row) for row in made.get("tokens", as_list=True)] == [2, 3]


def test_groups_of_one_outcome_are_dropped():
    advantage = transform(keep_return_bounds=(0.1, 0.9))
    found = written(
        advantage, *(trajectory(group, [reward]) for group, reward in ((1, 1.0), (1, 1.0), (2, 0.0), (2, 1.0)))
    )
    assert [made is None for made in found] == [True, True, True, False]
    assert (advantage.dropped_groups, advantage.written_groups) == (1, 1)


def test_more_candidates_rescue_a_group():
    advantage = transform(keep_return_bounds=(0.1, 0.9), candidate_group_size=4)
    found = written(advantage, *(trajectory(1, [reward]) for reward in (0.0, 0.0, 0.0, 1.0)))
    assert found[:3] == [None] * 3
    assert found[3] == pytest.approx([-(0.5**0.5), 0.5**0.5])
    assert (advantage.rescued_groups, advantage.selected_trajectories, advantage.unselected_trajectories) == (1, 2, 2)


def test_counts_and_queues_can_be_emptied():
    advantage = transform()
    advantage.inv(trajectory(1, [1.0, 1.0]))
    stats = advantage.get_stats()
    assert (stats["completed_trajectories"], stats["completed_decisions"], stats["queued_groups"]) == (1, 2, 1)
    assert (stats["trajectory_return_max"], advantage.max_queued_trajectories_per_group) == (2.0, 1)
    advantage.clear_queues()
    advantage.reset_stats()
    assert advantage.get_stats()["completed_trajectories"] == advantage.queued_groups == 0


def test_a_buffer_holds_complete_groups_alone():
    buffer = ReplayBuffer(storage=LazyTensorStorage(20), batch_size=3, transform=transform())
    buffer.extend(trajectory(1, [0.0]))
    assert len(buffer) == 0
    buffer.extend(trajectory(1, [1.0, 1.0]))
    assert len(buffer) == 3
    assert buffer.sample()["advantage"].abs().allclose(torch.tensor(0.5**0.5))


def test_what_has_no_end_or_no_group_is_refused():
    with pytest.raises(RuntimeError, match="does not end"):
        transform().inv(trajectory(1, [1.0], ends=False))
    with pytest.raises(KeyError, match="missing"):
        transform(prompt_key="missing").inv(trajectory(1, [1.0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grpo_size": 0}, "grpo_size"), ({"grpo_size": 1}, "deviation"),
        ({"trajectory_return": "last"}, "trajectory_return"),
        ({"trajectory_return": None, "keep_return_bounds": (0, 1)}, "set trajectory_return"),
        ({"keep_return_bounds": (1, 0)}, "lower one first"), ({"candidate_group_size": 1}, "candidate_group_size"),
        ({"trajectory_return": None, "candidate_group_size": 3}, "set trajectory_return"),
        ({"candidate_selection_min_size": 3}, "candidate_selection_min_size"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        transform(**options)


@pytest.mark.parametrize(
    ("strategy", "values", "bounds", "chosen"),
    [
        ("first", [0.0, 0.0, 1.0], None, [0, 1]), ("first", [0.0, 0.0, 1.0], (0.1, 0.9), None),
        ("uniform", [3.0, 1.0, 2.0], None, [1, 0]), ("balanced", [0.0, 0.0, 0.0, 1.0], (0.1, 0.9), [0, 3]),
        ("balanced", [0.0, 0.0, 0.0], (0.1, 0.9), None), ("balanced", [0.0, 4.0, 5.0, 9.0], (4.0, 5.0), [0, 3]),
    ],
)  # fmt: skip
def test_strategies_choose(strategy, values, bounds, chosen):
    candidates = TensorDict({"return": torch.tensor(values)}, [len(values)])
    assert MCAdvantageSelector(strategy).select(candidates, group_size=2, keep_return_bounds=bounds) == chosen


def test_large_choices_are_made_greedily():
    candidates = TensorDict({"return": torch.tensor([3.0, 1.0, 2.0, 0.0, 5.0])}, [5])
    selector = MCAdvantageSelector(max_combinations=1)
    assert selector.select(candidates, group_size=3, keep_return_bounds=(1.0, 2.0)) == [3, 0, 1]


def write_one(advantage, results):
    results.put(advantage.inv(trajectory(1, [1.0])) is None)


@pytest.mark.slow
def test_writers_in_two_processes_complete_one_group():
    advantage = transform().share_memory_()
    context = get_context("spawn")
    results = context.Queue()
    writer = context.Process(target=write_one, args=(advantage, results))
    writer.start()
    assert results.get(timeout=120)
    writer.join()
    assert advantage.is_shared and advantage.queued_trajectories == 1
    assert advantage.inv(trajectory(1, [0.0])) is not None
    assert advantage.completed_trajectories == 2


def test_a_copy_in_another_process_has_its_own_queues():
    advantage = transform()
    advantage.inv(trajectory(1, [1.0]))
    copied = pickle.loads(pickle.dumps(advantage))
    assert copied.inv(trajectory(1, [0.0])) is not None
    assert advantage.queued_trajectories == 1


@pytest.mark.slow
def test_writers_share_an_actor_of_ray():
    pytest.importorskip("ray")
    advantage = RayMCAdvantage(
        2, "group", trajectory_return="sum", ray_init_config={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        assert advantage.inv(trajectory(1, [1.0])) is None
        assert (advantage.queued_groups, advantage.is_shared) == (1, True)
        assert advantage.inv(trajectory(1, [0.0]))["advantage"].flatten().tolist() == pytest.approx(
            [0.5**0.5, -(0.5**0.5)]
        )
        assert advantage.get_stats()["written_groups"] == 1
    finally:
        advantage.close()
