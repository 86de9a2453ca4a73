"""What is done to data before, beside and after replay buffers: looking ahead, other goals, maps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import (
    DensifyReward,
    HERReplayBuffer,
    LazyTensorStorage,
    MultiStep,
    QueryModule,
    RandomProjectionHash,
    SipHash,
    TensorDictMap,
)


def steps(count, ends=(), **entries):
    done = torch.zeros(count, 1, dtype=torch.bool)
    done[list(ends)] = True
    number = torch.arange(count, dtype=torch.float64)[:, None]
    following = {"obs": number + 1, "reward": number**2 + 1, "done": done, "terminated": done.clone()}
    return TensorDict({"obs": number, **entries, "next": following}, [count])


@given(st.integers(1, 12), st.sets(st.integers(0, 11)), st.integers(1, 5), st.floats(0, 1))
def test_rewards_of_several_steps_are_their_discounted_sum(count, ends, ahead, gamma):
    data = steps(count, [at for at in ends if at < count])
    found = MultiStep(gamma, ahead)(data)
    done, reward = data["next", "done"].flatten().tolist(), data["next", "reward"].flatten().tolist()
    for at in range(count):
        total, used = 0.0, 0
        while used < ahead and at + used < count:
            total += gamma**used * reward[at + used]
            used += 1
            if done[at + used - 1]:
                break
        assert found["steps_to_next_obs"][at] == used
        assert found["next", "obs"][at] == at + used
        assert found["next", "reward"][at].item() == pytest.approx(total, rel=1e-6, abs=1e-6)
    assert torch.equal(found["next", "original_reward"], data["next", "reward"])


@pytest.mark.parametrize("shape", [(6,), (6, 1)], ids=str)
def test_a_reward_at_the_end_is_spread_over_the_episode(shape):
    done = torch.tensor([False, False, True, False, True, False]).reshape(shape)
    reward = torch.tensor([0.0, 0, 3, 0, 5, 0]).reshape(shape)
    data = TensorDict({"next": {"reward": reward, "done": done}}, [6])
    found = DensifyReward(time_dim=0)(data)["next", "reward"]
    assert found.flatten().tolist() == [3, 3, 3, 5, 5, 0]
    assert found.shape == shape


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.sampled_from(["future", "final", "episode"]))
def test_goals_of_hindsight_were_achieved_in_the_same_episode(lengths, strategy):
    ends = (torch.tensor(lengths).cumsum(0) - 1).tolist()
    count = ends[-1] + 1
    data = steps(count, ends, goal=torch.full((count, 1), -1.0, dtype=torch.float64))
    buffer = HERReplayBuffer(
        lambda td: (td["goal"] == td["next", "obs"]).double(),
        storage=LazyTensorStorage(9),
        her_ratio=1.0,
        strategy=strategy,
        goal_key="goal",
        achieved_goal_key="obs",
        batch_size=16,
    )
    buffer.extend(data)
    batch = buffer.sample()
    own, goal = batch["obs"].flatten().long(), batch["goal"].flatten().long()
    bounds = torch.tensor(ends)
    assert torch.equal(torch.bucketize(own, bounds), torch.bucketize(goal, bounds))
    if strategy == "future":
        assert (goal >= own).all()
    if strategy == "final":
        assert torch.equal(goal, bounds[torch.bucketize(own, bounds)])
    assert torch.equal(batch["next", "reward"].flatten(), (goal == own + 1).double())
    assert (buffer[:]["goal"] == -1).all()


def test_a_map_gives_back_what_was_set_for_a_key():
    keys = TensorDict({"at": torch.tensor([[1.0], [2.0], [3.0]])}, [3])
    values = TensorDict({"x": torch.tensor([1, 2, 3]), "y": torch.ones(3, 2)}, [3])
    table = TensorDictMap.from_tensordict_pair(keys, values, in_keys=["at"], max_size=4)
    table[keys] = values
    table[keys[1:2]] = values[:1]
    assert table[keys]["x"].tolist() == [1, 1, 3]
    assert len(table) == 3
    unknown = TensorDict({"at": torch.tensor([[9.0], [1.0]])}, [2])
    assert table.contains(unknown).tolist() == [False, True]
    with pytest.raises(KeyError, match="1 of 2 keys"):
        table[unknown]
    with pytest.raises(RuntimeError, match="max_size=4"):
        table[TensorDict({"at": torch.tensor([[7.0], [8.0]])}, [2])] = values[:2]


def test_a_map_may_join_old_and_new_values():
    keys = TensorDict({"at": torch.tensor([[1.0], [2.0]])}, [2])
    counts = TensorDict({"n": torch.ones(2, dtype=torch.int64)}, [2])
    table = TensorDictMap(
        query_module=QueryModule(["at"]),
        storage=LazyTensorStorage(4),
        write_fn=lambda old, new: TensorDict({"n": old["n"] + new["n"]}, old.batch_size),
    )
    table[keys] = counts
    table[keys[:1]] = counts[:1]
    assert table[keys]["n"].tolist() == [2, 1]
    twin = QueryModule(["at"])
    twin.load_state_dict(table.query_module.state_dict())
    assert twin(keys, extend=False)["_index"].tolist() == [0, 1]


def test_hashes_are_the_same_everywhere():
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    found = SipHash()(rows)
    assert found[0] == found[2] != found[1]
    assert found[0] == 7373934272132878346
    projected = RandomProjectionHash(n_components=4)
    first = projected(rows)
    twin = RandomProjectionHash(n_components=4)
    twin.load_state_dict(projected.state_dict())
    assert torch.equal(twin(rows), first)
