"""Indexing batch dimensions, for every kind of index and of collection alike."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDict, lazy_stack


def parts(size: int) -> st.SearchStrategy:
    place = st.integers(-size, size - 1)
    return st.one_of(
        place,
        st.just(slice(None)),
        st.builds(slice, st.integers(0, size), st.none(), st.integers(1, 2)),
        st.lists(place, min_size=1, max_size=3),
        st.lists(place, min_size=2, max_size=2).map(torch.tensor),
        st.lists(st.booleans(), min_size=size, max_size=size).map(torch.tensor),
    )


def indices(*sizes: int) -> st.SearchStrategy:
    full = st.tuples(*[parts(size) for size in sizes])
    return st.builds(lambda index, length: index[:length], full, st.integers(1, len(sizes)))


@settings(max_examples=150, deadline=None)
@given(indices(4, 3))
def test_an_index_does_to_every_entry_what_it_does_to_a_tensor(index):
    td = TensorDict({"x": torch.rand(4, 3), "y": {"z": torch.rand(4, 3, 2)}}, [4, 3])
    try:
        expected = td["x"][index]
    except IndexError:  # tensors that do not broadcast with one another
        return
    result = td[index]
    assert result.batch_size == result["y"].batch_size == expected.shape
    assert torch.equal(result["x"], expected)
    assert torch.equal(result["y", "z"], td["y", "z"][index])


@settings(max_examples=150, deadline=None)
@given(indices(2, 3, 2), st.integers(0, 2))
def test_a_lazy_stack_is_indexed_as_the_dense_one(index, stack_dim):
    sizes = [2, 3, 2]
    count = sizes.pop(stack_dim)
    tds = [TensorDict({"x": torch.rand(*sizes), "y": {"z": torch.rand(*sizes, 2)}}, sizes) for _ in range(count)]
    lazy = lazy_stack(tds, stack_dim)
    dense = lazy.contiguous()
    try:
        expected = dense[index]
    except IndexError:
        return
    result = lazy[index]
    assert result.batch_size == expected.batch_size
    if result.batch_size.numel():
        assert (result == expected).all()
        dense[index] = 0
        lazy[index] = 0
        assert (lazy == dense).all()


def test_an_index_takes_no_more_than_the_batch_dimensions(td):
    with pytest.raises(IndexError, match="takes 3 dimensions, but there are 2"):
        td[0, 0, 0]
    with pytest.raises(IndexError, match="no index"):
        td[1.5]
    with pytest.raises(RuntimeError, match="without batch dimensions"):
        TensorDict(a=torch.zeros(2))[0]


def test_integers_and_slices_give_views(td):
    td[1]["a"].fill_(7)
    td[2:]["b", "c"].fill_(8)
    assert (td["a"][1] == 7).all()
    assert (td["b", "c"][2:] == 8).all()


def test_assigning_a_tensordict_writes_its_keys_alone(td):
    c = td["b", "c"].clone()
    td[0] = TensorDict({"a": torch.ones(3)}, [3])
    assert (td["a"][0] == 1).all()
    assert torch.equal(td["b", "c"], c)


def test_assigning_a_new_key_makes_zeros_around(td):
    td[1] = TensorDict({"new": torch.ones(3, 2)}, [3])
    assert td["new"].sum(-1).sum(-1).tolist() == [0, 6, 0, 0]


def test_what_is_assigned_expands_to_what_is_selected(td):
    td[1:3] = TensorDict({"a": torch.full((3,), 5.0)}, [3])
    assert (td["a"][1:3] == 5).all()
    with pytest.raises(RuntimeError, match=r"selects batch size \[2, 3\]"):
        td[1:3] = TensorDict({"a": torch.zeros(2)}, [2])


def test_a_part_writes_to_the_whole_whatever_the_index(td):
    part = td._get_sub_tensordict(torch.tensor([2, 0]))
    part["a"] = torch.zeros(2, 3)
    part["b", "new"] = torch.ones(2, 3)
    assert td["a"].any(-1).tolist() == [False, True, False, True]
    assert td["b", "new"].sum(-1).tolist() == [3, 0, 3, 0]


@pytest.mark.parametrize("index", [slice(0, 2), [3, 0], torch.tensor([3, 0]), (torch.tensor([3, 0]), None)], ids=str)
@pytest.mark.parametrize(
    "change",
    [
        lambda part: part.add_(1),
        lambda part: part.masked_fill_(torch.ones(part.batch_size, dtype=torch.bool), 5),
        lambda part: part.fill_("a", 2),
        lambda part: part.apply_(lambda value: value.mul_(2)),
        lambda part: part.named_apply(lambda key, value: value.mul_(2), inplace=True),
        lambda part: part.zero_(),
        lambda part: part.set_at_("a", 0.0, 0),
        lambda part: part.update_at_(part[0].clone().zero_(), 0),
        lambda part: part.__setitem__(0, 0),
        lambda part: part.__setitem__(0, part[1 % len(part)].clone().add_(1)),
        lambda part: part[0].__setitem__(0, 0) if part[0].batch_dims else part[:1].__setitem__(0, 0),
        lambda part: part["b"].__setitem__(0, 0),
    ],
)
def test_what_is_done_in_place_to_a_part_reaches_the_whole(td, index, change):
    td.apply_(lambda value: value.fill_(1))
    expected = td.clone()
    alone = expected[index].clone()
    change(alone)
    expected[index] = alone
    change(td._get_sub_tensordict(index))
    assert (td == expected).all()
    assert not (expected == 1).all()


def test_the_stack_dimension_gives_the_stored_tensordicts():
    tds = [TensorDict({"x": torch.zeros(size)}) for size in (2, 3)]
    lazy = lazy_stack(tds)
    assert lazy[0] is tds[0]
    assert isinstance(lazy[:1], LazyStackedTensorDict)
    lazy[1]["y"] = torch.ones(1)
    assert "y" in tds[1]


def test_a_tuple_inside_an_index_is_a_list_of_positions():
    td = TensorDict({"x": torch.arange(6).reshape(3, 2)}, [3, 2])
    assert td[((0, 1), (1, 0))]["x"].tolist() == [1, 2]
    assert td[:, (1, 0)]["x"].tolist() == [[1, 0], [3, 2], [5, 4]]
    assert td[(0, 2),]["x"].tolist() == [[0, 1], [4, 5]]


@pytest.mark.parametrize("index", [..., slice(None), (), (slice(None), ...)], ids=str)
def test_an_index_that_leaves_all_as_it_is_gives_the_tensordict_itself(index):
    td = TensorDict(a=torch.zeros(2, 3), batch_size=[2, 3])
    assert td[index] is td and td[0][...] is not td
    scalar = TensorDict(a=torch.zeros(2))
    assert scalar[index] is scalar
