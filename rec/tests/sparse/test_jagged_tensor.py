"""Jagged tensors: what differs from upstream on purpose, and what recorded programs do not reach."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from flambeau.rec import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from flambeau.rec.sparse.jagged_tensor import kjt_is_equal

BAGS = st.lists(st.lists(st.lists(st.integers(0, 99), max_size=4), min_size=3, max_size=3), min_size=1, max_size=5)


def keyed(bags: list[list[list[int]]], *, weighted: bool = False) -> KeyedJaggedTensor:
    """Keys k0, k1, ... with the given bags."""
    ids = [one for key in bags for bag in key for one in bag]
    return KeyedJaggedTensor(
        [f"k{at}" for at in range(len(bags))],
        torch.tensor(ids, dtype=torch.int64),
        torch.tensor(ids) / 8 if weighted else None,
        torch.tensor([len(bag) for key in bags for bag in key], dtype=torch.int32),
    )


def listed(kjt: KeyedJaggedTensor) -> list[list[list[int]]]:
    return [[bag.tolist() for bag in part.to_dense()] for part in map(kjt.__getitem__, kjt.keys())]


@given(bags=BAGS, data=st.data(), weighted=st.booleans())
def test_permuting_chooses_whole_keys(bags, data, weighted):
    order = data.draw(st.lists(st.integers(0, len(bags) - 1), max_size=6, unique=True))
    chosen = keyed(bags, weighted=weighted).permute(order)
    assert chosen.keys() == [f"k{at}" for at in order]
    assert listed(chosen) == [bags[at] for at in order]
    if weighted:
        assert torch.equal(chosen.weights() * 8, chosen.values().float())


@given(bags=BAGS, data=st.data())
def test_what_was_split_concatenates_again(bags, data):
    whole = keyed(bags)
    cut = data.draw(st.integers(0, len(bags)))
    parts = whole.split([cut, len(bags) - cut])
    assert [listed(part) for part in parts] == [bags[:cut], bags[cut:]]
    assert kjt_is_equal(KeyedJaggedTensor.concat([part for part in parts if part.keys()]), whole)


@given(bags=BAGS)
def test_lengths_and_offsets_say_the_same(bags):
    whole = keyed(bags)
    again = KeyedJaggedTensor(whole.keys(), whole.values(), offsets=whole.offsets())
    assert torch.equal(again.lengths(), whole.lengths())
    assert again.length_per_key() == whole.length_per_key() == [sum(map(len, key)) for key in bags]


def test_lengths_of_two_dimensions_are_a_row_for_each_key():
    kjt = KeyedJaggedTensor(["a", "b"], torch.arange(3), lengths=torch.tensor([[1, 0], [2, 0]]))
    assert (kjt.stride(), listed(kjt)) == (2, [[[0], []], [[1, 2], []]])


def test_a_repeated_key_gets_the_gradients_of_all_its_copies():
    values = torch.arange(3.0, requires_grad=True)
    kjt = KeyedJaggedTensor(["a", "b"], values, lengths=torch.tensor([1, 2]))
    kjt.permute([1, 1, 0]).values().sum().backward()
    assert values.grad.tolist() == [1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JaggedTensor(torch.ones(2)), "needs lengths or offsets"),
        (lambda: KeyedJaggedTensor(["a"], torch.ones(2)), "needs lengths or offsets"),
        (lambda: keyed([[[1], [2], [3]]]).weights(), "has no weights"),
        (lambda: keyed([[[1], [2], [3]]]).inverse_indices(), "has no inverse indices"),
        (
            lambda: KeyedJaggedTensor(["a", "b"], torch.ones(3), lengths=torch.ones(3).int()).sync(),
            "3 lengths for 2 keys",
        ),
        (
            lambda: KeyedJaggedTensor(["a"], torch.ones(3), lengths=torch.tensor([4])).permute([0]),
            "end at 4 of 3 values",
        ),
        (lambda: KeyedTensor.regroup_as_dict([], [["a"]], []), "give each group one key"),
    ],
)
def test_what_does_not_fit_together_is_refused(make, message):
    with pytest.raises(RuntimeError, match=message):
        make()


def test_a_tree_of_anything_may_stand_in_the_place_of_tensors():
    tree = pytree.tree_map(type, JaggedTensor(torch.ones(2), lengths=torch.tensor([1, 1])))
    assert tree._values is torch.Tensor


def test_sizes_are_shown_in_short():
    assert repr(keyed([[[1], [2, 3], []]])) == "KeyedJaggedTensor(['k0'], stride 3, (3,) torch.int64)"
    assert repr(KeyedTensor(["a"], [2], torch.ones(1, 2))) == "KeyedTensor({'a': 2}, (1, 2) torch.float32)"


def test_a_function_of_keyed_jagged_tensors_compiles_in_one_graph():
    def pooled(kjt: KeyedJaggedTensor) -> torch.Tensor:
        return kjt.values().float().sum() + kjt.offsets().sum()

    kjt = keyed([[[1], [2, 3], []]])
    assert torch.compile(pooled, fullgraph=True, backend="aot_eager")(kjt) == pooled(kjt)
