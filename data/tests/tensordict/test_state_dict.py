"""State dicts: what they hold, what their metadata say, and old forms of them."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict, TensorDictParams, tensorclass


@tensorclass
class Labelled:
    x: torch.Tensor
    label: str
    below: Any = None


def make() -> TensorDict:
    inner = TensorDict(y=torch.ones(2, 3), empty=TensorDict(), batch_size=[2, 3])
    return TensorDict(x=torch.arange(2.0), inner=inner, name="left", batch_size=[2])


def test_metadata_tell_batch_size_device_and_values_of_each_level():
    state = make().state_dict(prefix="p.")
    assert list(state) == ["p.x", "p.inner.y"]
    plain = {"batch_size": torch.Size([2, 3]), "device": None}
    value = {"data": "left", "_is_non_tensor": True, "_metadata": None}
    assert state._metadata == {
        "p": {"batch_size": torch.Size([2]), "device": None},
        "p.inner": plain,
        "p.inner.empty": plain,
        "p.name": {"batch_size": torch.Size([2]), "device": None, "_type": "NonTensorData", "_non_tensor": value},
    }


def test_nested_state_dicts_have_metadata_of_their_own():
    state = make().state_dict(flatten=False)
    assert list(state) == ["x", "inner", "name"] and not state["name"] and not state["inner"]["empty"]
    assert state._metadata == {"": {"batch_size": torch.Size([2]), "device": None}}
    assert state["inner"]._metadata[""]["batch_size"] == torch.Size([2, 3])
    assert state["name"]._metadata[""]["_non_tensor"]["data"] == "left"


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("saved", [True, False])
def test_loading_gives_back_values_and_batch_sizes(flatten, saved):
    state = make().state_dict(flatten=flatten)
    if saved:
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        state = torch.load(file)
    target = TensorDict(x=torch.ones(2), inner=TensorDict(y=torch.zeros(2, 3), empty=TensorDict()), name="right")
    assert target.load_state_dict(state) is target
    assert target["x"].tolist() == [0, 1] and target["inner", "y"].sum() == 6 and target["name"] == "left"
    assert target.batch_size == torch.Size([2]) and target["inner"].batch_size == torch.Size([2, 3])
    fresh = TensorDict().load_state_dict(state, strict=False)
    assert fresh["inner"].batch_size == torch.Size([2, 3]) and fresh["name"] == "left"


def test_nested_dicts_with_batch_size_entries_are_read():
    inner = {"y": torch.ones(2), "__batch_size": torch.Size([2]), "__device": None}
    state = {"x": torch.ones(2), "inner": inner, "__batch_size": torch.Size([2]), "__device": torch.device("cpu")}
    target = TensorDict(x=torch.zeros(2), inner=TensorDict(y=torch.zeros(2)))
    target.load_state_dict(state)
    assert target["inner", "y"].sum() == 2 and target.batch_size == target["inner"].batch_size == torch.Size([2])
    assert "__batch_size" in state and "__device" in inner  # what was given is not changed


def test_state_dicts_that_hold_values_as_entries_are_read():
    target = TensorDict(x=torch.zeros(2), name="right")
    target.load_state_dict({"x": torch.ones(2), "name": "left"})
    assert target["x"].sum() == 2


def test_a_key_with_a_dot_is_loaded():
    source = TensorDict({"a.b": torch.ones(2), "c": {"d.e": torch.ones(2)}})
    target = source.clone().zero_().load_state_dict(source.state_dict())
    assert target["a.b"].sum() == target["c", "d.e"].sum() == 2


def test_either_form_is_taken_whatever_is_said_of_it():
    source = TensorDict(a=torch.ones(2), b=TensorDict(c=torch.ones(2)))
    target = source.clone().zero_().load_state_dict(source.state_dict(flatten=False), from_flatten=True)
    assert target["b", "c"].sum() == 2


def test_keys_must_agree_when_strict():
    with pytest.raises(RuntimeError, match=r"does not fit.*'name2'"):
        TensorDict(x=torch.zeros(2)).load_state_dict({"x": torch.ones(2), "name2": torch.ones(2)})
    with pytest.raises(RuntimeError, match=r"does not fit.*'x'"):
        TensorDict(x=torch.zeros(2)).load_state_dict({})


def test_a_plain_dict_is_filled_too():
    state = make().state_dict({"before": 1})
    assert type(state) is dict and list(state) == ["before", "x", "inner.y"]
    state = make().state_dict(OrderedDict(before=1))
    assert list(state) == ["before", "x", "inner.y"] and "inner" in state._metadata


def test_fields_of_other_values_stand_in_the_metadata_of_a_tensorclass():
    source = Labelled(torch.ones(2), "left", Labelled(torch.ones(2), "below", batch_size=[2]), batch_size=[2])
    state = TensorDict(one=source).state_dict()
    assert list(state) == ["one.x", "one.below.x"]
    assert state._metadata["one"]["_type"] == "Labelled" and state._metadata["one"]["_non_tensor"] == {"label": "left"}
    assert state._metadata["one.below"]["_non_tensor"] == {"label": "below", "below": None}
    other = Labelled(torch.zeros(2), "?", Labelled(torch.zeros(2), "?", batch_size=[2]), batch_size=[2])
    for flatten in (True, False):
        loaded = other.clone().load_state_dict(source.state_dict(flatten=flatten))
        assert type(loaded) is Labelled and loaded.x.sum() == 2
        assert (loaded.label, loaded.below.label) == ("left", "below")


def test_parameters_tell_their_batch_sizes_in_the_state_of_a_module():
    module = nn.Module()
    module.inner = TensorDictParams(TensorDict(a=torch.ones(2), b={"c": torch.ones(2)}, batch_size=[2]))
    state = module.state_dict()
    assert list(state) == ["inner.a", "inner.b.c"]
    assert state._metadata["inner"]["batch_size"] == state._metadata["inner.b"]["batch_size"] == torch.Size([2])
    other = TensorDictParams(TensorDict(a=torch.zeros(2), b={"c": torch.zeros(2)}))
    assert other.load_state_dict(module.inner.state_dict()) is other
    assert other.batch_size == torch.Size([2]) and other["b", "c"].sum() == 2
