"""Making TensorDicts, and what they say of themselves."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from flambeau.data.tensordict import (
    TensorDict,
    UnbatchedTensor,
    is_tensor_collection,
    lazy_stack,
    set_list_to_stack,
    set_printoptions,
)


def test_importing_the_package_loads_no_torch_and_using_it_nothing_heavy_beyond():
    code = (
        "import sys, flambeau.data.tensordict; assert 'torch' not in sys.modules\n"
        "import torch; before = set(sys.modules)\n"
        "from flambeau.data.tensordict import TensorDict; TensorDict({'a': torch.zeros(2)}, [2])\n"
        "heavy = {'torch._dynamo', 'torch.distributed', 'functorch', 'pandas', 'h5py', 'polars', 'redis', 'orjson'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_every_entry_begins_with_the_batch_size():
    with pytest.raises(RuntimeError, match=r"'a' has shape \[3\].* batch size \[4\]"):
        TensorDict({"a": torch.zeros(3)}, batch_size=[4])


def test_without_a_batch_size_there_are_no_batch_dimensions():
    assert TensorDict({"a": torch.zeros(3)}).batch_size == torch.Size([])


def test_keys_are_strings():
    with pytest.raises(TypeError, match="1 of type int is no key"):
        TensorDict({1: torch.zeros(3)})


def test_entries_come_as_a_mapping_or_as_keywords_but_not_as_both():
    with pytest.raises(ValueError, match="not both"):
        TensorDict({"a": torch.zeros(3)}, b=torch.zeros(3))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1, torch.int64), (1.5, torch.float32), (True, torch.bool), ([1, 2], torch.int64), (np.float64(2), torch.float64)],
)
def test_numbers_become_tensors(value, dtype):
    assert TensorDict(x=value)["x"].dtype == dtype


def test_dicts_become_tensordicts_of_the_same_batch_size():
    td = TensorDict({"a": {"b": torch.zeros(3, 2)}}, [3])
    assert type(td["a"]) is TensorDict
    assert td["a"].batch_size == torch.Size([3])


def test_a_list_of_tensordicts_becomes_their_stack():
    td = TensorDict({"steps": [TensorDict(x=torch.zeros(2)), TensorDict(x=torch.ones(2))]}, [2])
    assert td["steps", "x"].tolist() == [[0, 0], [1, 1]]


def test_a_list_of_strings_is_one_value_when_lists_are_no_stacks():
    with set_list_to_stack(False):
        td = TensorDict({"names": ["a", "b"]}, [2])
    assert td[0]["names"] == ["a", "b"]


def test_entries_move_to_the_device_that_is_given():
    td = TensorDict({"a": torch.zeros(3), "b": {"c": torch.zeros(3)}}, [3], device="meta")
    assert td["a"].device.type == td["b", "c"].device.type == "meta"


def test_a_batch_size_can_shrink_and_grow_as_far_as_the_entries_agree(td):
    td.batch_size = [4]
    assert (td.batch_size, td["b"].batch_size) == (torch.Size([4]), torch.Size([4, 3]))
    td.batch_size = [4, 3]
    with pytest.raises(RuntimeError, match="does not begin with"):
        td.batch_size = [4, 3, 2]


def test_auto_batch_size_leaves_nested_sizes_that_are_long_enough():
    def sizes(*args, **options):
        nested = TensorDict({"c": torch.zeros(3, 2, 5)}, [3, 2])
        td = TensorDict({"a": torch.zeros(3, 2, 4), "n": nested}, [3]).auto_batch_size_(*args, **options)
        return td.batch_size, nested.batch_size

    assert sizes(1, keep_compliant_size=True) == ((3,), (3, 2))
    assert sizes(1) == ((3,), (3,))
    assert sizes(keep_compliant_size=True) == ((3, 2), (3, 2, 5)) == sizes()


def test_items_and_values_give_a_nested_one_before_its_entries_and_keys_after_them():
    td = TensorDict(a=torch.zeros(2), n={"c": torch.zeros(2), "m": {"d": torch.zeros(2)}})
    for one in (td, lazy_stack([td, td.clone()])):
        order = ["a", "n", ("n", "c"), ("n", "m"), ("n", "m", "d")]
        assert [key for key, _ in one.items(True)] == order
        assert [isinstance(value, torch.Tensor) for value in one.values(True)] == [True, False, True, False, True]
        assert list(one.keys(True)) == ["a", ("n", "c"), ("n", "m", "d"), ("n", "m"), "n"]


def test_auto_batch_size_is_what_all_entries_share():
    td = TensorDict({"a": torch.zeros(3, 4, 5), "b": torch.zeros(3, 4)}).auto_batch_size_()
    assert td.batch_size == torch.Size([3, 4])
    assert td.auto_batch_size_(1).batch_size == torch.Size([3])


def test_iteration_and_length_are_over_the_first_batch_dimension(td):
    assert len(td) == 4 == len(list(td))
    assert len(TensorDict(a=torch.zeros(3))) == 0


def test_a_tensordict_has_no_truth_value(td):
    with pytest.raises(RuntimeError, match="no truth value"):
        bool(td)


def test_pickles_keep_everything_and_lock_the_copy_as_one_tree(td):
    td.names = ["time", None]
    copied = pickle.loads(pickle.dumps(td.lock_()))
    assert (copied == td).all()
    assert (copied.names, copied.is_locked) == (["time", None], True)
    with pytest.raises(RuntimeError, match="unlock the one that holds it"):
        copied["b"].unlock_()


def test_a_deep_copy_shares_nothing(td):
    copied = copy.deepcopy(td)
    copied["b", "c"].zero_()
    assert td["b", "c"].any()


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
def test_a_nested_tensor_can_be_an_entry():
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)])
    td = TensorDict({"x": ragged}, [2])
    assert [len(part) for part in td["x"].unbind(0)] == [2, 3]
    with pytest.raises(RuntimeError, match="ragged"):
        TensorDict({"x": ragged}, [3])


def test_printing_can_leave_things_out(td):
    with set_printoptions(show_dtype=False, show_field_device=False):
        text = repr(td)
    assert "dtype" not in text
    assert "dtype=torch.float32" in repr(td)


def test_printing_can_sum_the_values_up():
    td = TensorDict({"x": torch.tensor([1.0, 3.0]), "n": torch.arange(4), "e": torch.ones(0), "b": torch.ones(1) > 0})
    with set_printoptions(plain=True, verbose=False):
        lines = [line.strip(" ,}") for line in repr(td).split("\n")]
    assert "x: Tensor(shape=torch.Size([2]), mean=2, std=1.414)" in lines
    assert "n: Tensor(shape=torch.Size([4]), min=0, max=3)" in lines
    assert "e: Tensor(shape=torch.Size([0]), [])" in lines
    assert "b: Tensor(shape=torch.Size([1]), min=True, max=True)" in lines
    assert "batch_size=torch.Size([])" in repr(td) and not any("device" in line for line in lines)


def test_printing_sorts_as_asked_and_knows_its_options():
    td = TensorDict({"b": torch.ones(1), "ab": torch.ones(1), "c": {"x": torch.ones(1).to_sparse()}})
    with set_printoptions(sort_keys=None):
        assert repr(td).index("b: Tensor") < repr(td).index("ab: Tensor")
    with set_printoptions(sort_keys=len):
        assert repr(td).index("b: Tensor") < repr(td).index("ab: Tensor")
    assert repr(td).index("ab: Tensor") < repr(td).index("b: Tensor(shape", repr(td).index("ab: Tensor") + 4)
    with pytest.raises(TypeError, match="no printing option"):
        set_printoptions(colour=True)


def test_an_update_takes_a_tensordict_and_entries_by_name(td):
    td.update({"a": torch.zeros(4, 3)}, e=torch.ones(4, 3))
    assert td["a"].sum() == 0 and td["e"].sum() == 12
    td.update_({"a": torch.ones(4, 3)}, e=torch.zeros(4, 3))
    assert td["a"].sum() == 12 and td["e"].sum() == 0


def test_an_unbatched_entry_is_left_alone_by_every_shape_operation(td):
    td["u"] = UnbatchedTensor(torch.arange(7.0))
    for changed in (td[0], td[td["a"] > 0.5], td.reshape(12), td.unbind(1)[0], torch.stack([td, td]), td.sum(0)):
        assert changed["u"].tolist() == list(range(7))
        assert changed["u"].batch_size == changed.batch_size
    assert (td + 1)["u"].tolist() == list(range(1, 8))


def test_collections_are_told_from_tensors(td):
    assert is_tensor_collection(td)
    assert is_tensor_collection(TensorDict)
    assert not is_tensor_collection(torch.zeros(1))


def test_what_is_no_tensordict_is_unequal_as_a_whole(td):
    for other in (None, "z", [1], object()):
        assert (td == other) is False and (td != other) is True and (td < other) is False
    lazy = lazy_stack([td, td])
    assert (lazy == None) is False and (lazy != "z") is True  # noqa: E711
    with pytest.raises(ValueError, match="ordered only against"):
        _ = lazy < "z"


def test_sides_of_different_batch_sizes_are_broadcast():
    td = TensorDict({"x": torch.arange(3.0)}, [3])
    twice = TensorDict({"x": torch.zeros(2, 3)}, [2, 3])
    assert (td == twice).batch_size == (td + twice).batch_size == (td + torch.ones(2, 3)).batch_size == (2, 3)
    assert (td + twice)["x"].tolist() == [[0, 1, 2]] * 2 and (td == lazy_stack([td, td])).all()


def test_a_loader_gets_batches_that_need_no_collating():
    td = TensorDict({"x": torch.arange(5), "s": "text"}, [5])
    batches = list(torch.utils.data.DataLoader(td, batch_size=2))
    assert [type(batch) for batch in batches] == [TensorDict] * 3
    assert [batch["x"].tolist() for batch in batches] == [[0, 1], [2, 3], [4]] and batches[2]["s"] == "text"
    plain = torch.utils.data.DataLoader(td, batch_size=5, shuffle=True, collate_fn=lambda batch: batch)
    assert sorted(next(iter(plain))["x"].tolist()) == [0, 1, 2, 3, 4]
    stacked = torch.utils.data.DataLoader(list(td), batch_size=5)
    assert next(iter(stacked))["x"].tolist() == [0, 1, 2, 3, 4]
    assert type(lazy_stack([td, td]).__getitems__([1])) is type(lazy_stack([td, td]))


def test_what_is_set_on_a_copy_elsewhere_comes_back_at_the_end_of_the_block():
    td = TensorDict({"x": torch.zeros(3)}, [3])
    with td.to("meta") as moved:
        assert moved.device.type == "meta"
        moved["y"] = torch.ones(3, device="meta")
    assert "y" in td
    td = TensorDict({"x": torch.zeros(3, dtype=torch.int64)}, [3])
    with td.to(torch.float32) as floats:
        floats["x"] += 0.5
    assert td["x"].tolist() == [0.5] * 3


def test_an_index_of_several_dimensions_names_them_all_after_the_one_it_takes():
    td = TensorDict({"x": torch.zeros(2, 3)}, [2, 3], names=["time", "env"])
    assert td[torch.tensor([[0, 1], [1, 0]])].names == ["time", "time", "env"]
    assert td[:, torch.tensor([[0, 1]])].names == ["time", "env", "env"]
    assert td[torch.ones(2, 3).bool()].names == [None]


def test_nested_tensors_are_chunked():
    ragged = torch.nested.nested_tensor([torch.ones(size) for size in (2, 3, 1, 4, 2)], layout=torch.jagged)
    td = TensorDict({"j": ragged, "x": torch.arange(5)}, [5])
    parts = td.chunk(2)
    assert [part.batch_size for part in parts] == [(3,), (2,)] and parts[1]["x"].tolist() == [3, 4]
    assert [[len(row) for row in part["j"].unbind()] for part in parts] == [[2, 3, 1], [4, 2]]


def test_a_given_batch_size_wins_over_an_automatic_one():
    data = {"a": torch.zeros(3, 4), "b": {"c": torch.zeros(3, 4)}}
    assert TensorDict.from_dict(data, batch_size=[3], auto_batch_size=True).batch_size == (3,)
    with pytest.raises(ValueError, match="pass one of them"):
        TensorDict.from_dict(data, batch_size=[3], batch_dims=1)


def test_a_part_of_an_unlocked_tensordict_can_be_told_to_unlock(td):
    part = td._get_sub_tensordict(0)
    with part.unlock_():
        part["new"] = torch.ones(3)
    assert td["new"][0].sum() == 3 and td["new"][1:].sum() == 0
    td.lock_()
    with pytest.raises(RuntimeError, match="unlock the whole"):
        part.unlock_()


def test_a_device_is_not_assigned(td, lazy):
    for collection in (td, lazy, td._get_sub_tensordict(0)):
        with pytest.raises(RuntimeError, match="to\\('cpu'\\)"):
            collection.device = "cpu"


def test_a_batch_size_of_anything_but_ints_is_refused():
    with pytest.raises(ValueError, match="batch size"):
        TensorDict({"a": torch.ones(3)}, [3.0])


def test_results_of_apply_take_the_place_of_the_entries_of_out(td):
    out, before = td.clone(), td.clone()
    a = out["a"]
    assert td.apply(lambda leaf: leaf + 1, out=out) is out
    assert torch.equal(a, before["a"])
    assert torch.equal(out["b", "c"], before["b", "c"] + 1)
