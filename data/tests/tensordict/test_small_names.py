"""Small names of upstream's surface: JSON backends, attributes of tensors, methods that were removed."""

import json
from importlib import import_module

import pytest
import torch

from flambeau.data.tensordict import TensorAttrs, TensorDict, lazy_stack
from flambeau.data.tensordict._layout import json_backend as backend
from flambeau.data.tensordict.utils import get_json_backend, implement_for, json_dumps, set_json_backend


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


def test_the_older_path_gives_the_same_objects():
    older = import_module("flambeau.data.tensordict.tensordict")
    assert older.TensorDict is TensorDict
    assert older.NestedKey is import_module("flambeau.data.tensordict").NestedKey
    assert all(getattr(older, name) is not None for name in older.__all__)


def test_whether_something_is_a_key_is_told_by_isinstance():
    nested_key = import_module("flambeau.data.tensordict.utils").NestedKey
    assert all(isinstance(key, nested_key) for key in ("a", ("a",), ("a", ("b", "c"))))
    assert not any(isinstance(key, nested_key) for key in (1, (), ("a", 1), ["a"], None))


def test_the_classes_that_are_pytree_nodes_are_listed():
    listed = import_module("flambeau.data.tensordict._pytree")
    assert TensorDict in listed.PYTREE_REGISTERED_TDS
    assert type(lazy_stack([TensorDict(), TensorDict()])) in listed.PYTREE_REGISTERED_LAZY_TDS


# --- implementations by version


def test_the_last_implementation_that_fits_the_installed_version_runs():
    @implement_for("torch", None, "1.0")
    def name():
        return "old"

    @implement_for("torch", "1.0")
    def name():  # noqa: F811
        return "new"

    @implement_for("a_library_that_nobody_has")
    def name():  # noqa: F811
        return "never"

    assert name() == "new"


def test_implementations_of_methods_and_of_any_name_belong_together():
    class Model:
        @implement_for(lambda: torch, None, "1.0")
        def run(self):
            return "old"

        @implement_for(lambda: torch, "1.0")
        def run(self):  # noqa: F811
            return self

        @implement_for("torch", "1.0", class_method=True)
        def kind(cls):
            return cls

    @implement_for("torch", None, "0.1")
    def base():
        return "base"

    @base.register(from_version="1.0")
    def other():
        return "new"

    model = Model()
    assert model.run() is model and Model.kind() is Model and base() == "new"


def test_without_a_version_that_fits_the_call_says_which_do():
    @implement_for("torch", None, "1.0")
    def needs_old():
        return "old"

    with pytest.raises(ModuleNotFoundError, match=r"needs_old runs with torch from None to 1\.0"):
        needs_old()
    implement_for("torch", None, "1.0").module_set()
    assert needs_old() == "old"
    implement_for.reset()
    with pytest.raises(ModuleNotFoundError):
        needs_old()


def test_ranges_of_versions_end_before_their_second_version():
    check = implement_for.check_version
    assert check("2.1.0+cpu", "2.1", None) and check("2.1.0.dev1", "2.1", "2.2") and not check("2.2", "2.1", "2.2")
