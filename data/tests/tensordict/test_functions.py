"""Functions of tensordicts: padding, merging, comparing; small utilities; typed tensordicts."""

import doctest
import pkgutil
from importlib import import_module
from typing import NotRequired

import pytest
import torch
from torch import Tensor

from flambeau.data.tensordict import (
    LazyStackedTensorDict,
    TensorDict,
    assert_close,
    dense_stack_tds,
    lazy_stack,
    make_tensordict,
    merge_tensordicts,
    pad,
    pad_sequence,
    parse_tensor_dict_string,
)
from flambeau.data.tensordict.typedtensordict import TypedTensorDict
from flambeau.data.tensordict.utils import (
    convert_ellipsis_to_idx,
    expand_as_right,
    int_generator,
    isin,
    print_directory_tree,
    remove_duplicates,
    set_lazy_legacy,
    strtobool,
    timeit,
)


def test_examples_in_docstrings_are_true():
    package = import_module("flambeau.data.tensordict")
    names = [module.name for module in pkgutil.walk_packages(package.__path__, "flambeau.data.tensordict.")]
    known = {"torch": torch, "TensorDict": TensorDict}
    results = {name: doctest.testmod(import_module(name), extraglobs=known) for name in names}
    assert [name for name, result in results.items() if result.failed] == []
    assert sum(result.attempted for result in results.values()) > 50


def test_pad_counts_from_the_first_batch_dimension(td):
    padded = pad(td, [1, 0, 0, 2], value=9.0)
    assert padded.batch_size == padded["b"].batch_size == torch.Size([5, 5])
    assert (padded["b", "c"][0] == 9).all()
    assert torch.equal(padded["a"][1:, :3], td["a"])
    with pytest.raises(RuntimeError, match="3 sizes"):
        pad(td, [1, 0, 1])


def test_pad_sequence_fills_up_and_says_where(td):
    result = pad_sequence([td[:2], td], padding_value=-1.0, return_mask=True)
    assert result.batch_size == torch.Size([2, 4, 3])
    assert (result["a"][0, 2:] == -1).all()
    assert result["masks", "b", "c"].shape == result.batch_size
    assert result["masks", "b", "c"][0, :, 0].tolist() == [True, True, False, False]
    with pytest.raises(KeyError, match="'a'"):
        pad_sequence([td, td.exclude("a")])


def test_merging_keeps_the_first_unless_told_otherwise():
    one, two = TensorDict(a=torch.zeros(2), b=torch.zeros(2)), TensorDict(b=torch.ones(2), c=torch.ones(2))
    assert merge_tensordicts(one, two)["b"].tolist() == [0, 0]
    assert merge_tensordicts(one, two, callback_exist={"b": torch.add})["b"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="batch sizes"):
        merge_tensordicts(one, TensorDict({"d": torch.zeros(2)}, [2]))


def test_make_tensordict_and_dense_stacks(td):
    assert make_tensordict(a=torch.zeros(3, 4), b=torch.zeros(3), auto_batch_size=True).batch_size == torch.Size([3])
    assert type(dense_stack_tds(lazy_stack([td, td]))) is TensorDict
    with pytest.raises(ValueError, match="dim"):
        dense_stack_tds([td, td])


def test_assert_close_names_the_key(td):
    assert assert_close(td, td + 1e-8)
    with pytest.raises(AssertionError, match=r"\('b', 'c'\)"):
        assert_close(td, td.clone().update({"b": {"c": td["b", "c"] + 1}}))
    with pytest.raises(KeyError, match="'a'"):
        assert_close(td, td.exclude("a"))
    assert assert_close(td, td.exclude("a"), intersection=True)


def test_duplicates_are_found_by_an_entry():
    td = TensorDict({"key": torch.tensor([[1, 2], [3, 4], [1, 2]]), "x": torch.arange(3)}, [3])
    kept, places = remove_duplicates(td, "key", return_indices=True)
    assert kept["x"].tolist() == [0, 1]
    assert places.tolist() == [0, 1, 0]
    assert isin(td, td[1:2], "key").tolist() == [False, True, False]


def test_the_text_of_a_tensordict_can_be_read_back(td):
    parsed = parse_tensor_dict_string(repr(td))
    assert parsed.batch_size == td.batch_size
    assert {key: value.shape for key, value in parsed.items(True, True)} == {
        key: value.shape for key, value in td.items(True, True)
    }
    in_one_line = parse_tensor_dict_string(" ".join(repr(td).split()))
    assert in_one_line["b", "c"].shape == td["b", "c"].shape
    with pytest.raises(ValueError, match="not the text"):
        parse_tensor_dict_string("hello")


def test_small_helpers(tmp_path):
    assert convert_ellipsis_to_idx((0, ...), [2, 3]) == (0, slice(None))
    assert expand_as_right(torch.ones(2), torch.zeros(2, 3)).shape == (2, 3)
    assert int_generator(1) == int_generator(1) != int_generator(2)
    assert (strtobool("Yes"), strtobool("0")) == (True, False)
    (tmp_path / "x").write_bytes(b"12345")
    assert print_directory_tree(tmp_path).splitlines()[0] == "Directory size: 5.00 B"
    with timeit("block"):
        pass
    assert "block took" in timeit.print()
    timeit.erase()


class State(TypedTensorDict):
    x: Tensor
    y: NotRequired[Tensor]


def test_a_typed_tensordict_has_its_entries_as_attributes_and_keeps_its_class():
    state = State(x=torch.zeros(3), batch_size=[3])
    state.y = torch.ones(3)
    assert state["y"] is state.y
    for result in (state[0], state + 1, torch.stack([state, state]), state.unbind(0)[0], state.clone(), state.double()):
        assert type(result) is State


def test_a_typed_tensordict_holds_what_is_declared():
    with pytest.raises(TypeError, match="needs"):
        State(batch_size=[3])
    with pytest.raises(TypeError, match=r"declares no \['z'\]"):
        State(x=torch.zeros(3), z=torch.zeros(3))
    with pytest.raises(AttributeError, match="not set"):
        State(x=torch.zeros(3)).y
    with pytest.raises(AttributeError, match="method of tensordicts"):

        class Wrong(TypedTensorDict):
            keys: Tensor


def test_in_legacy_mode_stacks_are_lazy():
    tds = [TensorDict({"x": torch.ones(2)}, [2])] * 2
    with set_lazy_legacy(True):
        assert type(torch.stack(tds)) is LazyStackedTensorDict is type(TensorDict.stack(tds))
    assert type(torch.stack(tds)) is TensorDict


def test_parts_of_a_tensordict_are_put_together():
    td = TensorDict({"x": torch.arange(4.0), "n": {"y": torch.ones(4)}}, [4])
    parts = [td._get_sub_tensordict(index) for index in (slice(0, 2), [3, 0])]
    assert torch.cat(parts)["x"].tolist() == [0, 1, 3, 0]
    assert torch.stack(parts)["n", "y"].shape == (2, 2)
