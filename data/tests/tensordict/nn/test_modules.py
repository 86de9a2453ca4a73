"""Modules of one function: what they read, call and write, and what they say when that fails."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import (
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictModuleWrapper,
    TensorDictSequential,
    WrapModule,
    as_tensordict_module,
    dispatch,
    set_skip_existing,
    skip_existing,
)


def sample() -> TensorDict:
    return TensorDict({"a": torch.ones(4), "b": torch.ones(4) * 2, "n": {"c": torch.zeros(4)}}, [4])


def both() -> TensorDictModule:
    return TensorDictModule(lambda x: (x, x + 1), in_keys=["a"], out_keys=["p", "q"])


def test_results_go_where_inplace_says():
    data = sample()
    assert TensorDictModule(torch.neg, ["a"], ["r"])(data) is data
    alone = TensorDictModule(torch.neg, ["a"], ["r"], inplace=False)(data)
    assert (list(alone.keys()), alone.batch_size) == (["r"], torch.Size([]))
    like = TensorDictModule(torch.neg, ["a"], ["r"], inplace="empty")(data)
    assert (list(like.keys()), like.batch_size) == (["r"], torch.Size([4]))


@pytest.mark.parametrize("options", [{}, {"out_to_in_map": True}])
def test_a_dict_maps_keyword_names_to_keys(options):
    module = TensorDictModule(lambda x, y: x - y, in_keys={"y": "a", "x": "b"}, out_keys=["r"], **options)
    assert (module.in_keys, module(sample())["r"].tolist()) == (["a", "b"], [1.0] * 4)


def test_an_absent_entry_is_an_argument_that_is_not_given():
    def add(x, y=None):
        return x if y is None else x + y

    assert TensorDictModule(add, ["a", "zz"], ["r"])(sample())["r"].tolist() == [1.0] * 4
    assert TensorDictModule(add, {"x": "a", "y": "zz"}, ["r"])(sample())["r"].tolist() == [1.0] * 4
    with pytest.raises(KeyError, match="zz"):
        TensorDictModule(add, ["a", "zz"], ["r"], strict=True)(sample())


def test_a_failed_call_names_the_module_and_what_was_absent():
    with pytest.raises(KeyError, match=r"Linear.*reads .*zz"):
        TensorDictModule(nn.Linear(4, 2), ["zz"], ["r"])(sample())
    with pytest.raises(RuntimeError) as caught:
        TensorDictModule(nn.Linear(3, 2), ["a"], ["r"])(sample())
    assert any("Linear" in note and "['a']" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(("results", "word"), [(1, "fewer"), (3, "more")])
def test_results_and_keys_must_be_as_many(results, word):
    module = TensorDictModule(lambda x: (x,) * results, ["a"], ["r", "s"])
    with pytest.raises(RuntimeError, match=word):
        module(sample())


def test_named_results_are_taken_by_name():
    assert "r" in TensorDictModule(lambda x: {"s": x, "r": x}, ["a"], ["r"])(sample())
    assert "r" in TensorDictModule(lambda x: TensorDict(r=x), ["a"], ["r"])(sample())
    whole = TensorDictModule(lambda x: TensorDict(r=x, batch_size=[4]), ["a"], ["t"])(sample())
    assert whole["t", "r"].shape == (4,)


def test_a_method_may_stand_for_forward():
    module = TensorDictModule(nn.LSTMCell(4, 3), ["a"], ["r"], method="extra_repr")
    assert module._call([], (), {}) == "4, 3"
    scaled = TensorDictModule(torch.add, ["a"], ["r"], method_kwargs={"other": 2})
    assert scaled(sample())["r"].tolist() == [3.0] * 4


def test_selected_outputs_alone_are_kept():
    module = both()
    assert module.select_out_keys("q") is module
    assert (module.out_keys, module.out_keys_source) == (["q"], ["p", "q"])
    data = sample()
    assert module(data) is data
    assert ("q" in data, "p" in data) == (True, False)
    assert module(torch.ones(2)).tolist() == [2.0, 2.0]
    assert module.reset_out_keys().out_keys == ["p", "q"]
    with pytest.raises(ValueError, match="zz"):
        module.select_out_keys("zz")


def test_tensors_are_taken_by_position_and_by_name():
    module = TensorDictModule(torch.sub, ["a", ("n", "c")], ["r"])
    assert module(torch.ones(2), n_c=torch.ones(2)).tolist() == [0.0, 0.0]
    assert [value.tolist() for value in both()(a=torch.ones(1))] == [[1.0], [2.0]]
    with pytest.raises(RuntimeError, match="Duplicated"):
        both()(torch.ones(2), a=torch.ones(2))
    with pytest.raises(TypeError, match="wrong"):
        TensorDictModule(lambda a: a, ["a"], ["r"])(torch.ones(2), wrong=1)


def test_names_that_collide_when_joined_are_refused():
    with pytest.raises(RuntimeError, match="n_c"):
        TensorDictModule(torch.sub, ["n_c", ("n", "c")], ["r"])(torch.ones(2), torch.ones(2))


def test_dispatch_takes_keys_a_separator_and_a_batch_size():
    class Sum(nn.Module):
        @dispatch(separator=".", source=["a", ("n", "c")], dest=[("o", "r")])
        def forward(self, tensordict):
            assert tensordict.batch_size == (4,)
            return tensordict.set(("o", "r"), tensordict["a"] + tensordict["n", "c"])

    assert Sum()(**{"a": torch.ones(4), "n.c": torch.ones(4)}).tolist() == [2.0] * 4

    class Nameless(nn.Module):
        @dispatch
        def forward(self, tensordict):
            return tensordict

    with pytest.raises(AttributeError, match="in_keys"):
        Nameless()(torch.ones(1))


def test_attributes_of_the_module_are_reached_and_absent_ones_named():
    module = TensorDictModule(nn.Linear(3, 2), ["a"], ["r"])
    assert module.out_features == 2
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing


def test_state_names_begin_with_module_and_copies_are_independent():
    module = TensorDictModule(nn.Linear(3, 2), ["a"], ["r"])
    assert sorted(module.state_dict()) == ["module.bias", "module.weight"]
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        other.weight.data.zero_()
        assert (other.in_keys, other.out_keys) == (["a"], ["r"])
        assert bool(module.weight.any())


def test_a_wrapper_has_the_keys_and_attributes_of_what_it_wraps():
    inner = TensorDictModule(nn.Linear(4, 2), ["a"], ["r"])
    wrapper = TensorDictModuleWrapper(inner)
    assert (wrapper.in_keys, wrapper.out_keys, wrapper.out_features) == (["a"], ["r"], 2)
    assert torch.equal(wrapper(TensorDict(a=torch.ones(1, 4)))["r"], inner(torch.ones(1, 4)))


def test_functions_of_a_tensordict_and_of_tensors_become_modules():
    assert WrapModule(lambda data: data + 1)(sample())["a"].tolist() == [2.0] * 4
    data = sample()
    assert WrapModule(lambda data: TensorDict(z=data["a"]), inplace=True)(data) is data and "z" in data

    @as_tensordict_module(in_keys=["a"], out_keys=["z"])
    def double(x):
        return 2 * x

    assert double(sample())["z"].tolist() == [2.0] * 4


def test_existing_results_are_left_when_asked():
    module, data = TensorDictModule(lambda x: x + 1, ["a"], ["c"]), sample().set("c", torch.zeros(4))
    with set_skip_existing(True):
        assert skip_existing() and module(data)["c"].tolist() == [0.0] * 4
        same = TensorDictModule(lambda x: x + 1, ["a"], ["a"])
        assert same(sample())["a"].tolist() == [2.0] * 4  # what is also read does not count as there
    assert not skip_existing() and module(data)["c"].tolist() == [2.0] * 4

    class Always(TensorDictModuleBase):
        in_keys, out_keys = ["a"], ["c"]

        @set_skip_existing()
        def forward(self, tensordict):
            raise AssertionError("not to be called")

    assert Always()(data) is data


def test_keys_are_lists_of_keys():
    with pytest.raises(TypeError, match="list of keys"):
        TensorDictModuleBase().in_keys = "obs"
    with pytest.raises(ValueError, match="inplace"):
        TensorDictModule(torch.neg, ["a"], ["b"], inplace="no")
    with pytest.raises(AttributeError, match="in_keys"):
        _ = TensorDictModuleBase().in_keys


def test_new_parameters_are_drawn_everywhere_below():
    module = TensorDictModule(nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)), ["a"], ["r"])
    before = TensorDict.from_module(module).data.clone()
    module.reset_parameters_recursive()
    after = TensorDict.from_module(module).data
    pairs = zip(before.values(True, True), after.values(True, True), strict=True)
    assert not any(torch.equal(old, new) for old, new in pairs)
    given = after.clone()
    kept = after.clone()
    assert module.reset_parameters_recursive(given) is given
    assert (TensorDict.from_module(module).data == kept).all()
    assert not (given == kept).all()


def test_a_module_compiles_as_one_graph():
    module = TensorDictModule(nn.Linear(3, 2), ["a"], [("n", "r")])
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    data = TensorDict({"a": torch.ones(4, 3)}, [4])
    assert torch.equal(compiled(data.copy())["n", "r"], module(data.copy())["n", "r"])


def test_a_list_is_one_result_and_a_tuple_several():
    data = TensorDict(a=torch.ones(2), batch_size=[2])
    assert TensorDictModule(lambda a: [1.0, 2.0], ["a"], ["b"])(data)["b"].tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="1 results, fewer"):
        TensorDictModule(lambda a: [a, a], ["a"], ["b", "c"])(data)


def test_none_is_no_result_by_itself_and_a_value_among_others():
    data = TensorDict(a=torch.ones(2), batch_size=[2])
    assert set(TensorDictModule(lambda a: None, ["a"], [])(data).keys()) == {"a"}
    with pytest.raises(RuntimeError, match="0 results, fewer"):
        TensorDictModule(lambda a: None, ["a"], ["b"])(data)
    result = TensorDictModule(lambda a: (None, a), ["a"], ["b", "c"])(data)
    assert result["b"] is None and set(result.keys()) == {"a", "b", "c"}


def test_a_dict_of_results_has_all_out_keys():
    data = TensorDict(a=torch.ones(2))
    module = TensorDictModule(lambda a: {"b": a, "c": a, "more": a}, ["a"], ["b", "c"])
    assert set(module(data).keys()) == {"a", "b", "c"}
    with pytest.raises(RuntimeError, match="1 results, fewer"):
        TensorDictModule(lambda a: {"b": a}, ["a"], ["b", "c"])(data)


def test_what_cannot_be_called_is_no_module():
    with pytest.raises(ValueError, match="expected a module or function"):
        TensorDictModule(3, ["a"], ["b"])


def test_modules_print_what_is_inside_and_their_keys():
    module = TensorDictModule(nn.Linear(3, 4), ["a"], ["b"])
    keys = "    in_keys=['a'],\n    out_keys=['b'])"
    text = f"TensorDictModule(\n    module=Linear(in_features=3, out_features=4, bias=True),\n{keys}"
    assert repr(module) == text
    inside = text.replace("\n", "\n      ")
    assert repr(TensorDictSequential(module)) == (
        f"TensorDictSequential(\n    module=ModuleList(\n      (0): {inside}\n    ),\n{keys}"
    )
    assert "module=<built-in method relu" in repr(TensorDictModule(torch.relu, ["a"], ["b"]))
