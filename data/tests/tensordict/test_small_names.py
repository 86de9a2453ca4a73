"""Small names of upstream's surface: JSON backends, attributes of tensors, methods that were removed."""

import json

import pytest
import torch

from flambeau.data.tensordict import TensorAttrs, TensorDict, lazy_stack
from flambeau.data.tensordict._layout import json_backend as backend
from flambeau.data.tensordict.utils import get_json_backend, json_dumps, set_json_backend


@pytest.fixture
def orjson(monkeypatch):
    monkeypatch.setattr(backend, "_chosen", None)
    return pytest.importorskip("orjson", reason="orjson is not installed")


def test_json_is_written_by_the_chosen_library(monkeypatch):
    monkeypatch.setattr(backend, "_chosen", None)
    set_json_backend("json")
    assert get_json_backend() is json
    assert json_dumps({"a": [1, 2.5]}, separators=(",", ":")) == '{"a":[1,2.5]}'


def test_orjson_is_taken_where_it_is_installed_and_is_given_only_its_own_options(orjson):
    assert get_json_backend() is orjson
    assert json_dumps({"a": 1}, separators=(", ", ": "), default=str) == b'{"a":1}'


def test_another_backend_is_refused():
    with pytest.raises(ValueError, match="backend is 'ujson'; choose one of 'json', 'orjson'"):
        set_json_backend("ujson")


def test_the_attributes_of_a_tensor_are_those_asked_for():
    tensor = torch.zeros(2, 3, dtype=torch.float64)
    whole = TensorAttrs.from_tensor(tensor)
    assert (whole.tgt_device, whole.tgt_dtype, whole.tgt_shape) == (tensor.device, torch.float64, tensor.shape)
    part = TensorAttrs.from_tensor(tensor, fields=("dtype",))
    assert (part.tgt_device, part.tgt_dtype, part.tgt_shape) == (None, torch.float64, None)
    with pytest.raises(ValueError, match=r"fields holds \['size'\]"):
        TensorAttrs.from_tensor(tensor, fields=("size",))
    with pytest.raises(TypeError, match="tensor is of type int"):
        TensorAttrs.from_tensor(3)


@pytest.mark.parametrize(("name", "arguments"), [("lock", ()), ("unlock", ()), ("rename_key", ("a", "b"))])
def test_a_removed_method_names_its_successor(name, arguments):
    stack = lazy_stack([TensorDict({"a": torch.zeros(2)}), TensorDict({"a": torch.zeros(3)})])
    with pytest.raises(RuntimeError, match=rf"{name} was removed.*call {name}_\("):
        getattr(stack, name)(*arguments)


@pytest.mark.parametrize("value", [(2, 3), torch.Size([2, 3]), ("a", None)])
def test_a_tensorclass_keeps_a_tuple_while_a_list_of_numbers_becomes_a_tensor(value):
    kept = TensorAttrs(tgt_shape=value, batch_size=[]).tgt_shape
    assert kept == value
    assert type(kept) is type(value)
    assert TensorAttrs(tgt_shape=[2, 3], batch_size=[]).tgt_shape.tolist() == [2, 3]
