"""Lazy stacks whose entries have different shapes: what needs no dense entry goes on as on any other collection."""

import copy
import pickle

import pytest
import torch

from flambeau.data.tensordict import NonTensorData, NonTensorStack, TensorDict, assert_close, lazy_stack


@pytest.fixture
def ragged():
    """Three tensordicts of batch size [2]; "x" has 1, 2 and 3 features."""
    return lazy_stack(
        [
            TensorDict({"x": torch.rand(2, size), "b": torch.arange(2), "n": {"c": torch.rand(2)}}, [2])
            for size in (1, 2, 3)
        ]
    )


def test_entries_move_from_one_stack_to_another(ragged):
    tensor = ragged[2]["x"]
    part, rest = ragged.split_keys(["x"], inplace=True)
    assert part[2]["x"] is tensor and rest is ragged and list(ragged.keys()) == ["b", "n"]
    taken = ragged.separates(("n", "c"))
    assert list(taken[1].keys(True, True)) == [("n", "c")] and list(ragged.keys()) == ["b"]
    with pytest.raises(KeyError, match="missing"):
        ragged.separates("missing")


def test_empty_and_non_tensor_entries_are_found_in_the_tensordicts(ragged):
    ragged.set("e", {})
    ragged.set("t", NonTensorData("text", [3, 2]))
    assert [key for key, _ in ragged.non_tensor_items()] == ["t"]
    assert "t" not in ragged.filter_non_tensor_data() and "t" in ragged
    assert "e" not in ragged.filter_empty_() and ragged.depth == 1


def test_arithmetic_with_a_default_is_done_tensordict_by_tensordict(ragged):
    summed = ragged.add(ragged.select("x"), default="intersection")
    assert list(summed.keys()) == ["x"] and torch.equal(summed[1]["x"], ragged[1]["x"] * 2)
    assert torch.equal(ragged.add(ragged.select("x"), default=1.0)[0]["n", "c"], ragged[0]["n", "c"] + 1)


def test_softmax_needs_a_dense_entry_along_the_stack_dimension_alone(ragged):
    floats = ragged.exclude("b")
    assert torch.equal(floats.softmax(1)[2]["x"], floats[2]["x"].softmax(0))
    with pytest.raises(RuntimeError, match="cannot be stacked"):
        floats.softmax(0)


def test_stacks_of_different_shapes_are_equal_or_not(ragged):
    other = ragged.clone()
    assert assert_close(ragged, other) and torch.equal(ragged, other)
    other[2]["x"][0, 0] += 1
    assert not torch.equal(ragged, other)
    with pytest.raises(AssertionError, match="'x'"):
        assert_close(ragged, other)


def test_addresses_are_those_of_the_tensordicts(ragged):
    assert ragged.data_ptr()["2", "x"] == ragged[2]["x"].data_ptr()


def test_nothing_is_set_below_a_tensor(ragged):
    with pytest.raises(KeyError, match="'x' is a tensor"):
        ragged["x", "y"] = torch.ones(3, 2)


def test_positions_that_depend_on_one_another_select_elements(ragged):
    picked = ragged[torch.tensor([[0], [2]]), [[0, 1]]]
    assert picked.batch_size == (2, 2) and torch.equal(picked[1, 0]["x"], ragged[2]["x"][0])
    masked = ragged[torch.tensor([[True, False], [False, False], [False, True]])]
    assert [len(td["x"]) for td in masked] == [1, 3]


def test_a_part_is_updated_in_the_tensors_that_exist(ragged):
    tensors = [td["x"] for td in ragged.tensordicts]
    ragged.update_at_(ragged[:2].apply(torch.zeros_like), slice(0, 2))
    assert [bool(tensor.any()) for tensor in tensors] == [False, False, True]
    with pytest.raises(KeyError, match="new"):
        ragged.update_at_(TensorDict({"new": torch.ones(2, 2)}, [2, 2]), slice(0, 2))


def test_an_assignment_of_another_shape_is_refused(ragged):
    before = ragged[0]["x"]
    with pytest.raises(RuntimeError, match="shape"):
        ragged[0] = ragged[2]
    assert ragged[0]["x"] is before
    with pytest.raises(RuntimeError, match="shape"):
        ragged.set_at_("x", torch.ones(2, 4), 0)


def test_a_stack_of_such_stacks_prints(ragged):
    assert "x: Tensor(shape=torch.Size([2, 3, 2, -1])" in repr(lazy_stack([ragged, ragged]))


def test_a_dense_form_keeps_what_only_some_have():
    lazy = lazy_stack([TensorDict({"x": torch.ones(2)}), TensorDict({"x": torch.ones(2), "only": torch.ones(4, 3)})])
    dense = lazy.densify(layout=torch.jagged)
    assert [tuple(part.shape) for part in dense["only"].unbind(0)] == [(4, 0), (4, 3)]


def test_a_tree_that_loses_dimensions_is_stacked_where_it_still_can_be():
    lazy = TensorDict({"x": torch.arange(6).reshape(3, 2)}, [3, 2]).to_lazystack(1)
    assert torch.utils._pytree.tree_map(lambda leaf: leaf[0], lazy)["x"].tolist() == [0, 1]


def test_mapped_arithmetic_leaves_the_shapes_apart(ragged):
    floats = ragged.exclude("b")
    result = torch.vmap(lambda td, weight: (td + 1).exp() * weight)(floats, torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(result[2]["x"], (floats[2]["x"] + 1).exp() * 3)
    twice = torch.vmap(torch.vmap(lambda td: td * 2))(floats)
    assert twice.batch_size == (3, 2) and torch.equal(twice[1]["n", "c"], floats[1]["n", "c"] * 2)
    torch.vmap(lambda td, weight: td.mul_(weight).neg_())(floats, torch.tensor([0.0, 1.0, 2.0]))
    assert not floats[0]["x"].any() and (floats[2]["x"] <= 0).all()


@pytest.fixture
def words():
    """Two tensordicts, of two and of three words."""
    return lazy_stack([TensorDict({"w": NonTensorStack(*text)}, [len(text)]) for text in ("ab", "cde")])


def test_values_of_different_batch_sizes_come_as_nested_lists(words):
    assert words["w"] == [["a", "b"], ["c", "d", "e"]]
    assert words.get("w").batch_size == (2, -1)
    assert lazy_stack([words, words])["w"] == [words["w"]] * 2
    assert words.to_dict() == {"w": [["a", "b"], ["c", "d", "e"]]}


def test_such_values_are_indexed_row_by_row(words):
    entry = words.get("w")
    assert (entry[1, 2].data, entry[:, 0].tolist(), entry[None].tolist()) == ("e", ["a", "c"], [entry.tolist()])
    assert entry[torch.tensor([1, 1])].tolist() == [["c", "d", "e"]] * 2
    with pytest.raises(RuntimeError, match="different lengths"):
        entry.unbind(1)


def test_a_row_of_such_values_is_written_to_its_tensordict(words):
    words.get("w")[0] = ["x", "y"]
    assert words[0]["w"] == ["x", "y"]


def test_such_values_survive_copies_and_pickles(words):
    entry = words.get("w")
    for copied in (entry.clone(), entry.to("cpu"), copy.deepcopy(entry), pickle.loads(pickle.dumps(entry))):
        assert copied == entry and copied.batch_size == (2, -1)
