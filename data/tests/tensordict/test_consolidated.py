"""Consolidated tensordicts in files and pickles: what they are when they are read, and when they no longer are."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from flambeau.data.tensordict import TensorDict, TensorDictParams


def sample(**options) -> TensorDict:
    return TensorDict({"a": torch.arange(3.0), "n": {"b": torch.ones(3, 2)}, "s": "text"}, batch_size=[3], **options)


@pytest.mark.parametrize("locked", [False, True])
def test_what_is_read_is_locked_where_what_was_consolidated_was(tmp_path, locked):
    td = sample(lock=locked)
    td.consolidate(tmp_path / "one")
    for read in (TensorDict.from_consolidated(tmp_path / "one"), pickle.loads(pickle.dumps(td.consolidate()))):
        assert read.is_locked == read["n"].is_locked == locked and read.is_consolidated()


@pytest.mark.parametrize(
    "change",
    [
        lambda td: td.set("new", torch.ones(3)),
        lambda td: td.set("a", torch.zeros(3)),
        lambda td: td["n"].set("b", torch.zeros(3, 2)),
        lambda td: td.set("s", "other"),
        lambda td: td.del_("a"),
    ],
)
def test_one_that_was_read_and_changed_is_pickled_as_it_is_now(tmp_path, change):
    sample().consolidate(tmp_path / "one")
    td = TensorDict.from_consolidated(tmp_path / "one")
    change(td)
    assert not td.is_consolidated() and not td.lock_().is_consolidated()
    copied = pickle.loads(pickle.dumps(td))
    assert list(copied.keys(True)) == list(td.keys(True)) and (copied == td).all() and copied["s"] == td["s"]


def test_writes_in_place_leave_it_consolidated(tmp_path):
    sample().consolidate(tmp_path / "one")
    td = TensorDict.from_consolidated(tmp_path / "one")
    td["a"].zero_()
    assert td.is_consolidated() and pickle.loads(pickle.dumps(td))["a"].sum() == 0


def test_a_locked_one_is_not_consolidated_in_place():
    with pytest.raises(RuntimeError, match="locked"):
        sample(lock=True).consolidate(inplace=True)


def test_parameters_that_are_consolidated_in_place_stay_parameters():
    params = TensorDictParams(TensorDict({"a": torch.ones(3), "n": {"b": torch.ones(2)}}))
    params.consolidate(inplace=True)
    assert [name for name, _ in params.named_parameters()] == ["a", "n.b"]
    assert params["a"].untyped_storage().data_ptr() == params["n", "b"].untyped_storage().data_ptr()


def test_a_subclass_stays_one():
    class Named(TensorDict):
        pass

    assert type(Named({"a": torch.ones(2)}).consolidate()) is Named is type(Named({"a": torch.ones(2)}).memmap())


def test_what_is_in_the_file_moves_to_another_device_with_its_values(tmp_path):
    moved = sample().consolidate(tmp_path / "one").to("meta")
    assert moved.get("s").device == moved["n"].device == torch.device("meta")


@pytest.mark.parametrize("kind", [lambda td: td.lock_(), lambda td: td.memmap_(), lambda td: td.consolidate()])
def test_copies_of_a_locked_one_are_unlocked(kind):
    td = kind(sample())
    shallow, deep = copy.copy(td), copy.deepcopy(td)
    for copied in (shallow, deep):
        copied["n", "new"] = torch.ones(3)
        assert not copied.is_memmap() and not copied.is_consolidated() and ("n", "new") not in td
    assert shallow["a"] is td["a"] and deep["a"].data_ptr() != td["a"].data_ptr()


def test_deep_copies_keep_the_leaves_of_the_graph():
    td = copy.deepcopy(TensorDict(a=torch.ones(2, requires_grad=True)))
    assert td["a"].is_leaf and td["a"].requires_grad
