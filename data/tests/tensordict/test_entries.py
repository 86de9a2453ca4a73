"""Reading, writing and removing entries; nested keys."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.tensordict import TensorDict, set_get_defaults_to_none, unravel_key, unravel_key_list

NAMES = st.text("abc", min_size=1, max_size=3)
NESTED = st.recursive(NAMES, lambda below: st.lists(below, min_size=1, max_size=3).map(tuple), max_leaves=6)


def flat(key):
    return [key] if isinstance(key, str) else [part for below in key for part in flat(below)]


@given(NESTED)
def test_unravelled_keys_are_flat_and_stay_as_they_are(key):
    result = unravel_key(key)
    assert ([result] if isinstance(result, str) else list(result)) == flat(key)
    assert unravel_key(result) == result
    assert unravel_key_list([key, key]) == [result, result]


@given(NESTED)
def test_what_is_set_under_a_nested_key_is_found_under_its_flat_form(key):
    td = TensorDict({}, [2]).set(key, torch.ones(2))
    assert td[unravel_key(key)].tolist() == [1, 1]
    assert key in td
    assert list(td.keys(True, True)) == [unravel_key(key)]


def test_a_missing_key_gives_none_from_get_and_an_error_from_brackets(td):
    assert td.get("zzz") is None
    assert td.get(("b", "zzz"), 5) == 5
    with pytest.raises(KeyError, match="'zzz' not found; there are 'a', 'b'"):
        td["zzz"]


def test_get_can_be_told_to_raise(td):
    set_get_defaults_to_none(False)
    try:
        with pytest.raises(KeyError, match="zzz"):
            td.get("zzz")
    finally:
        set_get_defaults_to_none(True)


def test_an_error_names_ten_keys_at_most():
    td = TensorDict({f"key{number:02}": torch.zeros(()) for number in range(30)})
    with pytest.raises(KeyError, match="and 20 more"):
        td["missing"]


def test_nothing_can_be_set_below_a_tensor(td):
    with pytest.raises(KeyError, match="'a' is a tensor of shape"):
        td["a", "x"] = torch.zeros(4, 3)
    assert td.get(("a", "x")) is None


def test_set_replaces_and_set_underscore_writes(td):
    before = td["a"]
    td.set_("a", torch.ones(4, 3))
    assert td["a"] is before
    td.set("a", torch.zeros(4, 3))
    assert td["a"] is not before
    with pytest.raises(KeyError, match="zzz"):
        td.set_("zzz", torch.ones(4, 3))


def test_a_nested_tensordict_keeps_a_longer_batch_size_than_its_parent():
    td = TensorDict({"x": TensorDict({"y": torch.zeros(3, 4)}, [3, 4])}, [3])
    assert td["x"].batch_size == torch.Size([3, 4])


def test_a_nested_tensordict_of_a_shorter_batch_size_is_fitted_in_a_copy():
    below = TensorDict({"y": torch.zeros(3, 4)}, [])
    td = TensorDict({"x": below}, [3])
    assert (td["x"].batch_size, below.batch_size) == (torch.Size([3]), torch.Size([]))


def test_keys_come_in_order_of_insertion_with_nested_ones_before_their_parent(td):
    td["z"] = td["a"]
    assert list(td.keys(True)) == ["a", ("b", "c"), ("b", "d"), "b", "z"]
    assert list(td.keys(True, True)) == ["a", ("b", "c"), ("b", "d"), "z"]
    assert list(td.keys(True, sort=True)) == ["a", "b", ("b", "c"), ("b", "d"), "z"]


def test_a_view_of_keys_is_a_set_and_follows_changes(td):
    keys = td.keys()
    td["z"] = td["a"]
    assert keys & {"a", "z", "q"} == {"a", "z"}
    assert len(keys) == 3
    with pytest.raises(TypeError, match="include_nested"):
        assert ("b", "c") in keys


def test_pop_removes_and_gives_the_entry(td):
    value = td["b", "c"]
    assert td.pop(("b", "c")) is value
    assert ("b", "c") not in td
    assert td.pop("zzz", None) is None


def test_renaming_moves_an_entry_to_the_end(td):
    td.rename_key_("a", ("x", "y"))
    assert list(td.keys(True, True)) == [("b", "c"), ("b", "d"), ("x", "y")]
    with pytest.raises(KeyError, match="exists already"):
        td.rename_key_(("b", "c"), ("b", "d"), safe=True)


def test_update_merges_nested_tensordicts_and_replaces_tensors(td):
    c = td["b", "c"]
    td.update({"a": torch.zeros(4, 3), "b": {"e": torch.ones(4, 3)}})
    assert td["b", "c"] is c
    assert (td["a"].sum(), td["b", "e"].sum()) == (0, 12)


def test_update_takes_chosen_keys_alone(td):
    td.update({"a": torch.zeros(4, 3), "b": {"c": torch.zeros(4, 3, 2)}}, keys_to_update=[("b", "c")])
    assert td["a"].any()
    assert not td["b", "c"].any()


def test_update_can_change_the_batch_size_with_the_entries(td):
    td.update(
        TensorDict({"a": torch.zeros(2), "b": {"c": torch.zeros(2), "d": torch.zeros(2)}}, [2]), update_batch_size=True
    )
    assert td.batch_size == torch.Size([2])


def test_update_at_takes_tensordicts_alone(td):
    td.update_at_(td[0] * 0, 1)
    assert not td["b", "c"][1].any()
    with pytest.raises(TypeError, match="dict"):
        td.update_at_({"a": 1}, 0)


def test_keys_below_an_entry_narrow_what_is_selected_of_it():
    td = TensorDict(n={"c": torch.zeros(2), "m": {"d": torch.ones(2)}}, a=torch.zeros(2))
    assert set(td.select("n", ("n", "c")).keys(True)) == {"n", ("n", "c")}
    assert set(td.select(("n", "c"), "n").keys(True)) == {"n", ("n", "c")}
    assert set(td.select("n", ("n", "m"), ("n", "m", "d")).keys(True, True)) == {("n", "m", "d")}


def test_select_keeps_the_way_to_an_absent_key_where_it_is_not_strict():
    td = TensorDict(n={"c": torch.zeros(2), "m": {"d": torch.ones(2)}}, a=torch.zeros(2))
    assert list(td.select(("n", "x"), strict=False).keys(True)) == ["n"]
    assert set(td.select(("n", "m", "x"), ("n", "x", "y"), strict=False).keys(True)) == {"n", ("n", "m")}
    assert td.select(("q", "x"), ("a", "x"), strict=False).is_empty()
    with pytest.raises(KeyError, match="'n', 'x'"):
        td.select(("n", "x"))


def test_select_and_exclude_divide_the_entries(td):
    kept, rest = td.select("a", ("b", "c")), td.exclude("a", ("b", "c"))
    assert list(kept.keys(True, True)) == ["a", ("b", "c")]
    assert list(rest.keys(True, True)) == [("b", "d")]
    with pytest.raises(KeyError, match="zzz"):
        td.select("zzz")


def test_split_keys_distributes_and_renames(td):
    first, second, rest = td.split_keys(["a"], {("b", "c"): "c"})
    assert [list(part.keys(True, True)) for part in (first, second, rest)] == [["a"], ["c"], [("b", "d")]]
    assert list(td.keys()) == ["a", "b"]


def test_flat_keys_are_nested_again(td):
    flat_td = td.flatten_keys("/")
    assert list(flat_td.keys()) == ["a", "b/c", "b/d"]
    assert (flat_td.unflatten_keys("/") == td).all()
    td["b/c"] = td["a"]
    with pytest.raises(KeyError, match="'b/c'"):
        td.flatten_keys("/")


def test_a_flat_view_writes_back_what_changed(td):
    with td.flatten_keys(".") as flat_td:
        flat_td["b.e"] = flat_td["a"] + 1
        del flat_td["a"]
    assert list(td.keys(True, True)) == [("b", "c"), ("b", "d"), ("b", "e")]


def test_a_reshaped_view_writes_back_unless_the_block_fails(td):
    with td.view(-1) as flat_td:
        flat_td["e"] = torch.arange(12)
    assert td["e"][1].tolist() == [3, 4, 5]
    with pytest.raises(ZeroDivisionError), td.view(-1) as flat_td:
        flat_td["f"] = torch.arange(12)
        1 / 0
    assert "f" not in td


@pytest.mark.parametrize("call", [lambda td, value: td.set_("a", value), lambda td, value: td.update_({"a": value})])
def test_a_value_that_cannot_be_written_in_place_is_named_with_both_shapes(call):
    td = TensorDict(a=torch.zeros(3, 4), batch_size=[3])
    for caught in (ValueError, RuntimeError):
        with pytest.raises(caught, match=r"'a' of shape \[3, 4\] cannot take a value of shape \[3, 5\]"):
            call(td, torch.ones(3, 5))


def test_popped_values_come_in_their_wrapper():
    td = TensorDict(s="x", t="y", batch_size=[2])
    assert td.pop("s").data == "x" and td.popitem()[1].data == "y" and td.is_empty()


def test_a_truth_value_indexes_a_tensordict_without_batch_dimensions():
    td = TensorDict(a=torch.ones(2))
    assert td[True]["a"].shape == (1, 2) and td[False].batch_size == (0,)


def test_the_full_slice_writes_a_tensordict_without_batch_dimensions():
    td = TensorDict(a=torch.ones(2))
    td[:] = TensorDict(a=torch.zeros(2))
    assert td["a"].tolist() == [0, 0]
    with pytest.raises(IndexError, match="0 batch dimensions"):
        td[0] = 1


def test_new_tensor_takes_the_place_and_the_shape_of_its_data_and_the_dtypes_of_the_entries():
    td = TensorDict({"a": torch.zeros(3, 4), "n": {"b": torch.zeros(3, dtype=torch.int64)}}, batch_size=[3])
    made = td.new_tensor(torch.ones(2))
    assert made.batch_size == (2,) and made.device == torch.device("cpu") and made["n"].device == torch.device("cpu")
    assert made["a"].tolist() == [1.0, 1.0] and made["n", "b"].dtype == torch.int64
    assert td.new_tensor(torch.ones(2, device="meta"))["a"].is_meta
    assert td.to("cpu").new_tensor(td).device is None and td.new_tensor(td, device="meta")["a"].is_meta
