"""Typed tensordicts: declared entries, options, and results of the same class."""

from __future__ import annotations

import copy
import pickle
from typing import Any, ClassVar, NotRequired

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import flambeau.data.tensordict as tensordict
from flambeau.data.tensordict import LazyStackedTensorDict, TensorDict, TypedTensorDict, lazy_stack


class State(TypedTensorDict):
    x: Tensor
    y: NotRequired[Tensor]


class Fixed(TypedTensorDict["frozen"]):
    x: Tensor


def make(**more: Any) -> State:
    return State(x=torch.arange(6.0).reshape(2, 3), batch_size=[2], **more)


def test_it_is_a_name_of_the_package():
    assert tensordict.TypedTensorDict is TypedTensorDict and "TypedTensorDict" in tensordict.__all__


def test_the_class_knows_its_keys():
    class More(State):
        z: Tensor
        y: Tensor
        count: ClassVar[int] = 3

    assert State.__expected_keys__ == {"x", "y"} and State.__required_keys__ == {"x"}
    assert More.__expected_keys__ == More.__required_keys__ == {"x", "y", "z"} and State.__optional_keys__ == {"y"}
    assert not More.__optional_keys__


def test_entries_are_attributes():
    state = make()
    state.y = torch.ones(2)
    assert state["y"] is state.y is state.get("y")
    state.other = 1
    assert "other" not in set(state.keys()) and state.other == 1
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        state.nothing


def test_a_value_that_is_no_tensor_stays_wrapped_as_attribute():
    class Named(TypedTensorDict):
        name: str

    named = Named(name="left")
    assert named["name"] == "left" and named.name.data == "left"


OPERATIONS = {
    "+": lambda s: s + 1,
    "unary minus": lambda s: -s,
    "[0]": lambda s: s[0],
    "[:1]": lambda s: s[:1],
    "iteration": lambda s: next(iter(s)),
    "apply": lambda s: s.apply(torch.neg),
    "view": lambda s: s.view(1, 2),
    "unbind": lambda s: s.unbind(0)[0],
    "split": lambda s: s.split(1)[1],
    "chunk": lambda s: s.chunk(2)[0],
    "to": lambda s: s.to(torch.float64),
    "select": lambda s: s.select("x"),
    "exclude": lambda s: s.exclude("x"),
    "empty": lambda s: s.empty(),
    "clone": lambda s: s.clone(),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),
    "data": lambda s: s.data,
    "lock_": lambda s: s.lock_(),
    "memmap": lambda s: s.memmap(),
    "consolidate": lambda s: s.consolidate(),
    "torch.stack": lambda s: torch.stack([s, s]),
    "torch.cat": lambda s: torch.cat([s, s]),
    "torch.zeros_like": torch.zeros_like,
    "tree_map": lambda s: pytree.tree_map(torch.neg, s),
    "vmap": lambda s: torch.vmap(lambda one: one.apply(torch.neg))(s),
    "from_dict": lambda s: State.from_dict({"x": torch.ones(2)}),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_results_are_of_the_class(operation):
    assert type(operation(make())) is State


def test_comparisons_and_conversions_give_plain_tensordicts():
    state = make()
    results = (state == state, state > 0, state.sum(), state.mean(0), state.to_tensordict(), lazy_stack([state, state]))
    assert [type(result) for result in results] == [TensorDict] * 5 + [LazyStackedTensorDict]
    assert type(lazy_stack([state, state])[0]) is State


def test_operations_in_place_give_the_same_object():
    state = make()
    assert (
        state.zero_()
        is state.set("y", torch.ones(2))
        is state.update({"y": torch.zeros(2)})
        is state.del_("y")
        is state
    )
    assert state.lock_() is state.unlock_() is state and not state.is_locked
    with state.view(1, 2) as view:
        view["x"] += 1
    with state.flatten_keys() as flat:
        flat["y"] = torch.ones(2)
    assert state.x.sum() == 6 and state.y.sum() == 2


def test_a_mapping_is_taken_as_it_is_and_keywords_are_checked():
    assert set(State({"z": torch.ones(2)}).keys()) == {"z"}
    with pytest.raises(TypeError, match="declares no"):
        State(x=1, z=2)
    with pytest.raises(TypeError, match="needs"):
        State()
    with pytest.raises(TypeError, match="declares no entries"):
        TypedTensorDict()


def test_it_stands_around_any_kind_of_tensordict_without_a_copy():
    stack = lazy_stack([TensorDict(x=torch.ones(2)), TensorDict(x=torch.ones(3))])
    state = State.from_tensordict(stack)
    assert state.stack_dim == 0 and state[1].x.shape == (3,) and type(state[1]) is State
    state[0].x.zero_()
    assert stack[0]["x"].sum() == 0


@pytest.mark.parametrize("as_argument", [False, True])
def test_frozen_instances_are_locked_until_they_are_unlocked(as_argument):
    if as_argument:

        class Made(TypedTensorDict, frozen=True):
            x: Tensor

    else:

        class Made(Fixed):
            z: NotRequired[Tensor]

    one = Made(x=torch.zeros(2), batch_size=[2])
    assert one.is_locked and (one + 1).is_locked and not one.clone().is_locked and not one[0].is_locked
    for change in (
        lambda: setattr(one, "x", torch.ones(2)),
        lambda: one.set("x", torch.ones(2)),
        lambda: one.update({"x": torch.ones(2)}),
        lambda: one.pop("x"),
    ):
        with pytest.raises(RuntimeError, match="locked"):
            change()
    assert one.zero_() is one
    one.unlock_().x = torch.ones(2)
    assert one.x.sum() == 2


def test_options_are_checked():
    class Table(TypedTensorDict["shadow"]):
        keys: Tensor

    assert Table(keys=torch.ones(2), batch_size=[2])[0].keys == 1
    TypedTensorDict["autocast", "nocast", "tensor_only"]
    with pytest.raises(ValueError, match="no options"):
        TypedTensorDict["frosen"]


def test_device_names_and_lock_are_taken():
    state = make(device="cpu", names=["time"], lock=True)
    assert state.names == ["time"] and state.device.type == "cpu" and state.is_locked


def test_memory_mapped_ones_are_read_back_in_the_class(tmp_path):
    make().memmap(tmp_path)
    loaded = State.load_memmap(tmp_path)
    assert type(loaded) is State and loaded.x.sum() == 15


def test_the_batch_size_can_be_assigned():
    state = make()
    state.batch_size = []
    assert state.batch_size == () and type(state) is State
    with pytest.raises(RuntimeError, match="batch"):
        state.batch_size = [4]


def test_the_full_index_gives_the_instance_itself():
    state = make()
    assert state[...] is state and state[:] is state


def test_parts_and_other_forms_keep_the_class():
    state = make()
    assert [type(part) for part in state.split_keys(["x"])] == [State, State]
    assert state.split_keys(["x"], inplace=True)[1] is state and type(make().tolist(convert_nodes=False)[0]) is State
    assert all(type(part) is State for part in state.to_lazystack().tensordicts)
    assert type(state.to_pytree()) is State


def test_as_a_pytree_it_has_the_paths_of_the_tensordict_inside():
    state = make()
    paths = [path for path, _ in pytree.tree_flatten_with_path(state)[0]]
    assert paths == [path for path, _ in pytree.tree_flatten_with_path(state.to_tensordict())[0]]
    assert type(pytree.tree_map(lambda leaf: leaf + 1, state)) is State
