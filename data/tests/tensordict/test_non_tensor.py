"""Non-tensor data: values of any kind as entries of tensordicts."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.tensordict import (
    LazyStackedTensorDict,
    MetaData,
    NonTensorData,
    NonTensorStack,
    TensorDict,
    _utils_options,
    is_non_tensor,
    set_capture_non_tensor_stack,
    set_list_to_stack,
)

LETTERS = np.array(list("abcdefghijkl")).reshape(3, 4)


def grid() -> NonTensorStack:
    return NonTensorStack.from_list(LETTERS.tolist())


def test_a_value_is_given_back_as_it_was_and_its_wrapper_by_get():
    value = {"any": [object]}
    td = TensorDict({"v": value_of(value)}, batch_size=[2])
    assert td["v"] is value and td.get("v").data is value and is_non_tensor(td.get("v"))


def value_of(value):
    return NonTensorData(value, batch_size=[2])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda x: x[0], lambda a: a[0]),
        (lambda x: x[:, -1], lambda a: a[:, -1]),
        (lambda x: x[torch.tensor([2, 0])], lambda a: a[[2, 0]]),
        (lambda x: x[torch.eye(3, 4).bool()], lambda a: a[np.eye(3, 4, dtype=bool)]),
        (lambda x: x[None], lambda a: a[None]),
        (lambda x: x.permute(1, 0), lambda a: a.T),
        (lambda x: x.reshape(2, 6), lambda a: a.reshape(2, 6)),
        (lambda x: x.flatten(0, 1), lambda a: a.reshape(-1)),
        (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
        (lambda x: x.expand(2, 3, 4), lambda a: np.broadcast_to(a, (2, 3, 4))),
        (lambda x: x.flip(0), lambda a: np.flip(a, 0)),
        (lambda x: x.split(2, 1)[1], lambda a: a[:, 2:]),
        (lambda x: x.unbind(1)[2], lambda a: a[:, 2]),
        (lambda x: torch.stack([x, x], 1), lambda a: np.stack([a, a], 1)),
        (lambda x: torch.cat([x, x[:1]], 0), lambda a: np.concatenate([a, a[:1]])),
        (lambda x: x.repeat_interleave(2, dim=0), lambda a: np.repeat(a, 2, 0)),
    ],
)
def test_shape_operations_move_values_as_they_move_elements_of_an_array(ours, theirs):
    assert ours(grid()).tolist() == theirs(LETTERS).tolist()
    td = ours(TensorDict({"s": grid()}, batch_size=[3, 4]))
    assert td["s"] == theirs(LETTERS).tolist() and td.batch_size == theirs(LETTERS).shape


@given(
    st.lists(
        st.sampled_from(
            [NonTensorData("a", batch_size=[2]), NonTensorData("b", batch_size=[2]), NonTensorStack("a", "b")]
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_mixture_stacks_and_concatenates(wrappers):
    lists = [wrapper.tolist() for wrapper in wrappers]
    assert torch.stack(wrappers).tolist() == lists
    assert torch.cat(wrappers).tolist() == [value for part in lists for value in part]
    assert type(torch.stack(wrappers)) is NonTensorStack  # whatever the values


def test_equal_values_collapse_only_where_that_is_asked_for():
    wrappers = [NonTensorData("a"), NonTensorData("a")]
    assert type(torch.stack(wrappers)) is NonTensorStack
    with set_capture_non_tensor_stack(True):
        assert type(torch.stack(wrappers)) is NonTensorData
    assert type(torch.stack([MetaData("a"), MetaData("a")])) is MetaData


def test_lists_spread_over_the_batch_unless_switched_off():
    assert TensorDict({"s": ["a", "b"]}, batch_size=[2])[1]["s"] == "b"
    with pytest.raises(RuntimeError, match=r"NonTensorData\(value\)"):
        TensorDict({"s": ["a", "b", "c"]}, batch_size=[2])
    with set_list_to_stack(False):
        assert TensorDict({"s": ["a", "b", "c"]}, batch_size=[2])[1]["s"] == ["a", "b", "c"]


def test_writing_an_item_of_the_list_reaches_the_tensordict():
    td = TensorDict({"s": ["a", "b"], "grid": grid().permute(1, 0)[:2]}, batch_size=[2])
    td["s"][0] = "z"
    td["grid"][1][2] = "y"
    assert td["s"] == ["z", "b"] and td["grid"][1] == ["b", "f", "y"]
    with pytest.raises(RuntimeError, match="length"):
        td["s"].append("c")


def test_writing_a_part_of_the_batch_makes_values_differ():
    td = TensorDict({"s": "a", "x": torch.zeros(3)}, batch_size=[3])
    td[1] = TensorDict({"s": "a"})
    assert type(td.get("s")) is NonTensorData
    td[1] = TensorDict({"s": "b"})
    td[torch.tensor([False, False, True])] = TensorDict({"s": ["c"]}, batch_size=[1])
    assert td["s"] == ["a", "b", "c"]
    td.set_at_("s", "d", slice(0, 2))
    assert td["s"] == ["d", "d", "c"]


def test_arithmetic_and_reductions_leave_values_alone():
    td = TensorDict({"s": ["a", "b"], "d": "q", "x": torch.ones(2)}, batch_size=[2])
    changed = (td * 3 + td).apply(lambda x: -x)
    changed.zero_()
    assert changed["s"] == ["a", "b"] and changed["d"] == "q" and changed["x"].tolist() == [0, 0]
    stack = NonTensorStack("a", "b")
    assert (stack + 1).tolist() == ["a", "b"] and stack.abs().tolist() == ["a", "b"]


def test_equality_is_asked_of_values_and_order_is_an_error():
    td = TensorDict({"s": ["a", "b"], "arr": NonTensorData(np.arange(3), batch_size=[2])}, batch_size=[2])
    assert (td == td.clone()).all()
    other = td.clone()
    other[0] = TensorDict({"s": "c"})
    assert (td == other)["s"].tolist() == [False, True]
    with pytest.raises(TypeError, match="=="):
        _ = NonTensorData("a") < NonTensorData("b")


def test_locked_tensordicts_keep_their_values():
    td = TensorDict({"s": "a"}).lock_()
    with pytest.raises(RuntimeError, match="locked"):
        td["s"] = "b"
    td.unlock_()["s"] = "b"
    assert td["s"] == "b"


@pytest.mark.parametrize(
    "wrapper", [NonTensorData({"a": 1}, batch_size=[2], device="cpu"), NonTensorStack({"a": 1}, [2]), MetaData(3)]
)
def test_wrappers_are_pickled_and_copied(wrapper):
    for again in (pickle.loads(pickle.dumps(wrapper)), copy.deepcopy(wrapper), wrapper.clone()):
        assert type(again) is type(wrapper) and again.tolist() == wrapper.tolist()
        assert again.batch_size == wrapper.batch_size and again.device == wrapper.device


def test_conversions_take_every_kind_of_value():
    td = TensorDict({"s": ["a", "b"], "n": {"q": NonTensorData((1, 2), batch_size=[2])}, "m": None}, batch_size=[2])
    assert td.to_dict() == {"s": ["a", "b"], "n": {"q": (1, 2)}, "m": None}
    assert td.to_dict(retain_none=False).keys() == {"s", "n"}
    assert td.tolist() == [{"s": "a", "n": {"q": (1, 2)}, "m": None}, {"s": "b", "n": {"q": (1, 2)}, "m": None}]
    assert td.numpy()["s"] == ["a", "b"]


def test_the_entries_that_are_no_tensors_can_be_listed_and_left_out():
    td = TensorDict({"s": "a", "n": {"q": "b", "x": torch.zeros(2)}}, batch_size=[2])
    assert [key for key, _ in td.non_tensor_items(include_nested=True)] == ["s", ("n", "q")]
    assert list(td.filter_non_tensor_data().keys(True, True)) == [("n", "x")]
    assert td.is_non_tensor("s") and not td.is_non_tensor(("n", "x"))
    assert td.set_non_tensor(("n", "y"), [1, 2])["n", "y"] == [1, 2] and td.get_non_tensor("missing", 3) == 3


def test_lazy_stacks_hold_values_of_each_element():
    stack = LazyStackedTensorDict(TensorDict({"s": "a"}), TensorDict({"s": "b"}))
    assert stack["s"] == ["a", "b"] and stack[1]["s"] == "b"


def test_stacks_grow():
    stack = NonTensorStack("a", "b")
    stack.append("c")
    stack.insert(0, "z")
    stack.extend(["d", "e"])
    assert stack.tolist() == ["z", "a", "b", "c", "d", "e"] and stack.stack_dim == 0
    with pytest.raises(AttributeError, match="differ"):
        _ = stack.data
    assert NonTensorStack("a", "a").data == "a"


def test_an_undecided_variable_is_as_none(monkeypatch):
    switch = _utils_options.Switch("CAPTURE_NONTENSOR_STACK", default=True)
    monkeypatch.setenv("CAPTURE_NONTENSOR_STACK", "None")
    assert switch.value is True


def halves(*values):
    return [TensorDict(s=value, batch_size=[2, 3]) for value in values]


@pytest.mark.parametrize(
    "part",
    [
        lambda td: td[1],
        lambda td: td.unbind(0)[1],
        lambda td: td[1:].squeeze(0),
        lambda td: td[torch.tensor(1)],
        lambda td: td[torch.tensor([1, 0])][0],
        lambda td: td.transpose(0, 1)[:, 1],
        lambda td: torch.stack([td, td])[0, 1],
        lambda td: pickle.loads(pickle.dumps(td))[1],
        lambda td: copy.deepcopy(td).clone()[1],
        lambda td: td.unsqueeze(0).expand(4, 2, 2, 3)[3, 1],
    ],
)
def test_a_part_of_a_stack_has_the_value_that_it_had_as_one(part):
    whole = torch.stack(halves("a", "b"))
    assert whole["s"] == [[["a"] * 3] * 2, [["b"] * 3] * 2]
    assert part(whole).get("s").batch_size == (2, 3)
    assert part(whole)["s"] == "b"


def test_a_part_of_a_concatenation_has_the_value_that_it_had_as_one():
    whole = torch.cat(halves("a", "b"), 0)
    assert whole["s"] == [["a"] * 3] * 2 + [["b"] * 3] * 2
    assert whole[2]["s"] == "b" and whole[:, 0]["s"] == ["a", "a", "b", "b"]


def test_new_dimensions_list_a_value_and_dimensions_of_size_one_do_not():
    td = TensorDict(s="a", batch_size=[1])
    assert td.unsqueeze(0)["s"] == [["a"]] and td.expand(2, 3)["s"] == [["a"] * 3] * 2
    assert td.expand(3)["s"] == "a" and td.unsqueeze(0)[0]["s"] == "a"
    meta = TensorDict(s=MetaData("a"), batch_size=[1])
    assert meta.unsqueeze(0)["s"] == "a" and meta.expand(2, 3)["s"] == "a"


@pytest.mark.parametrize("size", [(), (0,), (3, 0)])
def test_a_value_for_no_position_can_be_expanded_stacked_and_cut(size):
    td = TensorDict(s="a", batch_size=size)
    assert td.unsqueeze(0)[0].batch_size == size and td.expand(2, *size)[0].batch_size == size
    assert torch.stack([td, td])[0].get("s").batch_size == size


def test_the_dimension_of_a_stack_moves_with_the_dimensions():
    stack = NonTensorStack(NonTensorStack("a", "b"), NonTensorStack("c", "d"))
    assert stack.stack_dim == 0 and stack.transpose(0, 1).stack_dim == 1 and stack.permute(1, 0).stack_dim == 1
    assert stack.unsqueeze(0).stack_dim == stack.expand(3, 2, 2).stack_dim == stack[None].stack_dim == 1
    assert stack.unsqueeze(1).stack_dim == stack[:, None].stack_dim == stack[..., None].stack_dim == 0
    assert stack.unsqueeze(0).squeeze(0).stack_dim == stack.unsqueeze(1).squeeze().stack_dim == 0
    assert stack[None, 0].stack_dim == 1 and stack[0].stack_dim == 0


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.view(torch.int32),
        lambda x: x.where(torch.eye(3, 4).bool(), 0),
        lambda x: x.bool(),
        lambda x: x + 1,
        lambda x: x.to(torch.float64),
    ],
)
def test_values_stay_where_numbers_change(operation):
    td = operation(TensorDict({"s": grid(), "a": torch.zeros(3, 4, 4)}, batch_size=[3, 4]))
    assert td["s"] == LETTERS.tolist()


def test_values_that_differ_are_left_out_of_what_a_reduction_gives():
    td = TensorDict({"s": grid(), "v": "x", "a": torch.ones(3, 4).bool()}, batch_size=[3, 4])
    for result in (td.all(dim=0), td.any(dim=1), td.float().amax(dim=0), td.float().norm()):
        assert set(result.keys()) == {"v", "a"} and result["v"] == "x"


def test_results_have_wrappers_of_their_own():
    td = TensorDict({"s": grid(), "v": "x", "a": torch.ones(3, 4)}, batch_size=[3, 4])
    (td + 1).names = ["p", "q"]
    moved = td.to("cpu")
    moved.get("v").data = "other"
    assert td.get("s").names == [None, None] and td.get("s").device is None and td["v"] == "x"
    assert moved.get("s").device == moved.get("v").device == torch.device("cpu")


def test_names_of_dimensions_are_those_of_the_values_too():
    td = TensorDict({"s": grid(), "v": "x"}, batch_size=[3, 4], names=["p", "q"])
    assert td.get("s").names == td.get("v").names == ["p", "q"]
    assert td.rename(p="z").get("v").names == ["z", "q"] and td[0].get("v").names == ["q"]


def test_a_stack_is_compared_with_lists_position_by_position():
    assert (grid() == LETTERS.tolist()).all() and not (grid() == ["a"]).any()


def test_a_batch_size_reaches_no_further_than_that_of_the_values():
    td = TensorDict({"a": torch.zeros(3, 2), "n": {"c": torch.zeros(3, 2)}})
    td["n", "s"] = NonTensorData("x", batch_size=[3])
    td["free"] = "y"
    td.auto_batch_size_()
    assert td.batch_size == td["n"].batch_size == td.get("free").batch_size == (3,)


def test_values_stay_where_arithmetic_drops_keys():
    td = TensorDict({"a": torch.ones(2), "b": torch.ones(2), "s": "x", "n": {"c": torch.ones(2), "t": "y"}}, [2])
    result = td.add(TensorDict(a=torch.ones(2), batch_size=[2]), default="intersection")
    assert result.to_dict(convert_tensors=True) == {"a": [2.0, 2.0], "s": "x", "n": {"t": "y"}}


def test_a_linked_list_of_a_tensordict_writes_to_it():
    td = TensorDict(a=torch.arange(3), s="x", batch_size=[3])
    linked = td.tolist(as_linked_list=True)
    linked[0] = td[2]
    assert td["a"].tolist() == [2, 1, 2] and [item["s"] for item in linked[1:]] == ["x", "x"]
    assert td.to_dict(tolist_first=True)["s"] == ["x"] * 3


def test_writing_equal_values_leaves_one_value():
    td = TensorDict(s="x", batch_size=[3, 2])
    td[[0, 1]] = TensorDict(s="x", batch_size=[2])
    with td.unsqueeze(0) as wider:
        assert wider["s"] == [[["x", "x"]] * 3]
    assert td["s"] == "x"
