"""What all transforms have in common: keys, order, containers, parents, specs, and a TransformedEnv of them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from counting_env import Counting, ones

from flambeau.data.tensordict import TensorDict
from flambeau.rl._utils import set_auto_unwrap_transformed_env
from flambeau.rl.data import Categorical, LazyTensorStorage, TensorDictReplayBuffer
from flambeau.rl.envs.transforms import Compose, ObservationTransform, Transform, TransformedEnv
from flambeau.rl.envs.transforms.transforms import _apply_to_composite, _apply_to_composite_inv


class Plus(ObservationTransform):
    """Adds a number to what it reads."""

    def __init__(self, number: float, in_keys: Any, out_keys: Any) -> None:
        super().__init__(in_keys, out_keys)
        self.number = number

    def _apply_transform(self, value: Any) -> Any:
        return value + self.number

    @_apply_to_composite
    def transform_observation_spec(self, spec: Any) -> Any:
        return spec


class Halved(Transform):
    """Halves what the policy writes; the policy sees a spec of integers."""

    def __init__(self, inner: str = "action", outer: str = "action") -> None:
        super().__init__(in_keys_inv=[inner], out_keys_inv=[outer])

    def _inv_apply_transform(self, value: Any) -> Any:
        return value / 2

    @_apply_to_composite_inv
    def transform_action_spec(self, spec: Any) -> Any:
        return Categorical(4, spec.shape)


def test_observations_pass_from_the_first_transform_to_the_last():
    env = TransformedEnv(Counting(), Compose(Plus(1, ["count"], ["a"]), Plus(10, ["a"], ["b"])))
    rollout = env.rollout(3, ones)
    assert rollout["b"].flatten().tolist() == [11, 12, 13]
    assert rollout["next", "b"].flatten().tolist() == [12, 13, 14]
    assert set(env.observation_spec.keys()) == {"count", "a", "b"}
    env.check_env_specs()


def test_actions_pass_from_the_last_transform_to_the_first():
    order: list[str] = []

    class Noted(Transform):
        def __init__(self, name: str) -> None:
            super().__init__(in_keys_inv=["action"], out_keys_inv=["action"])
            self.name = name

        def _inv_apply_transform(self, value: Any) -> Any:
            order.append(self.name)
            return value

    TransformedEnv(Counting(), Compose(Noted("inner"), Noted("outer"))).rollout(1, ones)
    assert order == ["outer", "inner"]


def test_the_environment_sees_inverted_actions_and_the_caller_its_own():
    env = TransformedEnv(Counting(), Halved())
    step = env.step(ones(env.reset()))
    assert step["action"].item() == 1
    assert env.base_env.seen[0].item() == 0.5


def test_an_action_may_have_another_key_outside():
    env = TransformedEnv(Counting(), Halved(outer="choice"))
    assert env.action_keys == ["choice"]
    assert isinstance(env.action_spec, Categorical)
    env.step(env.reset().set("choice", torch.tensor([2])))
    assert env.base_env.seen[0].item() == 1


def test_a_function_of_tensordicts_is_a_transform():
    env = Counting().append_transform(lambda td: td.set("twice", 2 * td["count"]))
    assert env.rollout(2, ones)["next", "twice"].flatten().tolist() == [2, 4]


def test_what_is_no_transform_is_refused():
    with pytest.raises(ValueError, match="Compose"):
        TransformedEnv(Counting(), [Halved()])  # type: ignore[arg-type]


def test_attributes_are_those_of_the_environment():
    env = TransformedEnv(Counting(length=7), Halved())
    assert env.length == 7
    with pytest.raises(AttributeError, match="Counting"):
        _ = env.nothing


def test_a_transformed_environment_of_another_becomes_one():
    inner = TransformedEnv(Counting(), Plus(1, ["count"], ["a"]))
    outer = TransformedEnv(inner, Plus(1, ["a"], ["b"]))
    assert isinstance(outer.base_env, Counting)
    assert [type(each) for each in outer.transform] == [Plus, Plus]
    assert len(inner.rollout(2, ones)["a"]) == 2
    with set_auto_unwrap_transformed_env(False):
        assert isinstance(TransformedEnv(inner, Plus(1, ["a"], ["b"])).base_env, TransformedEnv)


def test_nested_environments_give_what_one_with_both_transforms_gives():
    inner = TransformedEnv(Counting(), Plus(1, ["count"], ["a"]))
    nested = TransformedEnv(inner, Plus(1, ["a"], ["b"]), auto_unwrap=False)
    flat = TransformedEnv(Counting(), Compose(Plus(1, ["count"], ["a"]), Plus(1, ["a"], ["b"])))
    assert (nested.rollout(3, ones) == flat.rollout(3, ones)).all()


def test_a_transform_is_part_of_one_thing_only_unless_it_is_cloned():
    env = TransformedEnv(Counting(), Halved())
    with pytest.raises(AttributeError, match="clone"):
        TransformedEnv(Counting(), env.transform)
    assert TransformedEnv(Counting(), env.transform.clone()).transform.container is not env


def test_the_parent_of_a_transform_has_those_before_it():
    env = TransformedEnv(Counting(), Compose(Plus(1, ["count"], ["a"]), Compose(Plus(1, ["a"], ["b"]), Halved())))
    halved = env.transform[1][1]
    assert halved.container is env
    assert set(halved.parent.observation_spec.keys()) == {"count", "a", "b"}
    assert halved.parent.base_env is env.base_env
    assert set(env.transform[1][0].parent.observation_spec.keys()) == {"count", "a"}
    assert Halved().parent is None


def test_specs_follow_transforms_that_are_added_and_taken_away():
    env = TransformedEnv(Counting(), Plus(1, ["count"], ["a"]))
    assert "b" not in env.observation_spec
    env.append_transform(Plus(1, ["a"], ["b"]))
    assert "b" in env.observation_spec
    env.insert_transform(0, Plus(1, ["count"], ["c"]))
    assert [each.out_keys for each in env.transform] == [["c"], ["a"], ["b"]]
    env.transform.pop()
    assert "b" not in env.observation_spec
    env.transform[0] = Plus(1, ["count"], ["d"])
    assert "c" not in env.observation_spec and "d" in env.observation_spec


def test_resets_of_parts_leave_the_other_entries_as_they_were():
    env = TransformedEnv(Counting(batch_size=(2,)), Plus(1, ["count"], ["a"]))
    step = env.step_mdp(env.step(ones(env.reset())))
    again = env.reset(step.set("_reset", torch.tensor([[True], [False]])))
    assert again["a"].flatten().tolist() == [1, 2]


def test_a_missing_key_is_named():
    with pytest.raises(KeyError, match="'count'"):
        Plus(1, ["count"], ["a"])(TensorDict({"other": torch.zeros(1)}))


def test_transforms_take_tensors_as_well():
    assert Plus(1, ["x"], ["y"])(torch.zeros(2)).tolist() == [1, 1]
    assert Plus(1, ["x"], ["y"])(x=torch.zeros(2)).tolist() == [1, 1]
    assert Halved().inv(torch.ones(1)).item() == 0.5


def test_an_inverse_leaves_its_input_as_it_was():
    given = TensorDict({"action": torch.ones(1)})
    assert Halved().inv(given)["action"].item() == 0.5
    assert given["action"].item() == 1


def test_buffers_transform_what_is_sampled_and_invert_what_is_added():
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(4), batch_size=4)
    buffer.append_transform(Plus(1, ["action"], ["seen"]))
    buffer.append_transform(Halved())
    buffer.extend(TensorDict({"action": torch.ones(4)}, [4]))
    assert buffer.storage[:]["action"].tolist() == [0.5] * 4
    assert buffer.sample()["seen"].tolist() == [1.5] * 4


def test_compositions_are_lists():
    composed = Compose(Plus(1, ["a"], ["a"]), Plus(2, ["a"], ["a"]), Plus(3, ["a"], ["a"]))
    assert len(composed) == 3
    assert [each.number for each in composed[1:]] == [2, 3]
    assert [each.number for each in composed[[2, 0]]] == [3, 1]
    composed[:2] = [Plus(4, ["a"], ["a"]), Plus(5, ["a"], ["a"])]
    assert [each.number for each in composed] == [4, 5, 3]
    with pytest.raises(ValueError, match="position"):
        composed.insert(7, Halved())


def test_a_batch_of_which_none_takes_a_step_stays_where_it_is():
    class Waiting(Transform):
        def _inv_call(self, tensordict: Any) -> Any:
            return tensordict.set("_step", torch.zeros(tensordict.batch_size, dtype=torch.bool))

    env = TransformedEnv(Counting(batch_size=(2,)), Waiting())
    step = env.step(ones(env.reset()))
    assert env.base_env.seen == []
    assert step["next", "count"].flatten().tolist() == [0, 0]
    assert step["next", "reward"].flatten().tolist() == [0, 0]


def test_environments_with_transforms_are_pickled():
    env = pickle.loads(pickle.dumps(TransformedEnv(Counting(), Compose(Plus(1, ["count"], ["a"]), Halved()))))
    assert env.rollout(2, ones)["a"].flatten().tolist() == [1, 1.5]
    assert env.transform[0].container is env


def test_the_state_is_that_of_the_transform():
    transform = Plus(1, ["count"], ["a"])
    transform.register_buffer("drift", torch.zeros(2))
    env = TransformedEnv(Counting(), transform)
    env.load_state_dict({"drift": torch.ones(2)})
    assert env.state_dict()["drift"].tolist() == [1, 1]
