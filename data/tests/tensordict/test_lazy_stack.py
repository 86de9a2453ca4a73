"""Lazy stacks: tensordicts of whatever keys and shapes, side by side."""

import pytest
import torch

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDict, lazy_stack, maybe_dense_stack


@pytest.fixture
def ragged():
    return lazy_stack(
        [TensorDict({"x": torch.ones(2, 3), "only": torch.zeros(2)}, [2]), TensorDict({"x": torch.ones(2, 4)}, [2])]
    )


def test_keys_are_those_that_all_have(ragged):
    assert list(ragged.keys()) == ["x"] == list(ragged.keys(True, True))
    assert ragged.get("only") is None
    assert "only" in ragged[0]


def test_entries_of_different_shapes_are_read_only_as_asked(ragged):
    with pytest.raises(RuntimeError, match=r"\[2, 3\] and \[2, 4\].*as_padded_tensor"):
        ragged["x"]
    assert [tuple(x.shape) for x in ragged.get("x", as_list=True)] == [(2, 3), (2, 4)]
    padded = ragged.get("x", as_padded_tensor=True, padding_value=-1, padding_side="left")
    assert padded[:, 0].tolist() == [[-1, 1, 1, 1], [1, 1, 1, 1]]
    assert ragged.get_item_shape("x") == torch.Size([2, 2, -1])


def test_entries_can_be_nested_tensors():
    lazy = lazy_stack([TensorDict({"x": torch.ones(size)}) for size in (3, 4)])
    assert [len(part) for part in lazy.get("x", as_nested_tensor=True).unbind(0)] == [3, 4]
    dense = lazy.densify(layout=torch.jagged)
    assert type(dense) is TensorDict
    assert dense["x"].is_nested


def test_writing_cuts_an_entry_up(lazy):
    lazy["n"] = torch.arange(36).reshape(4, 3, 3)
    lazy["b", "m"] = torch.zeros(4, 3, 3)
    assert torch.equal(lazy.tensordicts[1]["n"], torch.arange(36).reshape(4, 3, 3)[:, 1])
    assert "m" in lazy.tensordicts[2]["b"]
    with pytest.raises(RuntimeError, match="does not begin with the batch size"):
        lazy["n"] = torch.zeros(3)


def test_in_place_writes_reach_the_tensordicts(lazy):
    first = lazy.tensordicts[0]["a"]
    lazy.set_at_("a", torch.full((3, 3), 7.0), 2)
    assert (first[2] == 7).all()
    lazy.fill_("a", 1.0)
    assert (first == 1).all()
    lazy.zero_()
    assert not first.any()


def test_update_cuts_a_tensordict_up(lazy):
    lazy.update(lazy.contiguous() * 2)
    lazy.update({"z": torch.ones(4, 3, 3)})
    assert lazy.tensordicts[0]["z"].shape == (4, 3)


def test_tensordicts_can_be_added_at_any_place(lazy):
    one = lazy.tensordicts[0].clone()
    lazy.append(one)
    lazy.insert(0, one.clone())
    lazy.extend([one.clone()])
    assert lazy.batch_size == torch.Size([4, 6, 3])
    assert lazy.tensordicts[4] is one
    with pytest.raises(ValueError, match="batch sizes"):
        lazy.append(TensorDict({}, [4]))
    with pytest.raises(TypeError, match="not a int"):
        lazy.append(3)
    assert len(lazy.tensordicts) == 6


def test_different_batch_sizes_show_as_minus_one():
    tds = [TensorDict({"x": torch.zeros(size)}, [size]) for size in (2, 3)]
    assert lazy_stack(tds).batch_size == torch.Size([2, -1])
    assert [len(part) for part in lazy_stack(tds).unbind(0)] == [2, 3]
    assert lazy_stack(tds).reshape(-1).batch_size == torch.Size([5])
    with pytest.raises(RuntimeError, match=r"\[2\] and \[3\]"):
        LazyStackedTensorDict(*tds, strict_shape=True)


def test_stacking_lazy_stacks_keeps_the_tensordicts_apart(lazy, ragged):
    assert torch.stack([lazy, lazy]).batch_size == torch.Size([2, 4, 3, 3])
    assert (
        torch.cat([lazy, lazy], 1).tensordicts == lazy.tensordicts * 2
        or len(torch.cat([lazy, lazy], 1).tensordicts) == 6
    )
    assert torch.cat([lazy, lazy], 0).batch_size == torch.Size([8, 3, 3])
    assert isinstance(maybe_dense_stack([ragged, ragged]), LazyStackedTensorDict)


def test_a_stack_is_dense_where_it_can_be(lazy):
    assert type(maybe_dense_stack(lazy.tensordicts)) is TensorDict
    assert isinstance(
        maybe_dense_stack([TensorDict(a=torch.zeros(2)), TensorDict(a=torch.zeros(3))]), LazyStackedTensorDict
    )


def test_hooks_see_what_is_read_and_written():
    tds = [TensorDict({"x": torch.zeros(2)}, [2]) for _ in range(3)]
    lazy = LazyStackedTensorDict(*tds, hook_out=lambda x: x + 1, hook_in=lambda x: x * 2)
    lazy["y"] = torch.ones(3, 2)
    assert tds[0]["y"].tolist() == [2, 2]
    assert lazy["y"][0].tolist() == [3, 3]


def test_state_goes_out_and_comes_back(lazy):
    copy = lazy.clone().zero_()
    copy.load_state_dict(lazy.state_dict())
    assert (copy == lazy).all()


# --- entries of different shapes


@pytest.fixture
def uneven():
    first = TensorDict({"x": torch.zeros(3), "n": {"y": torch.ones(2)}, "only": torch.zeros(2)})
    return lazy_stack([first, TensorDict({"x": torch.zeros(4), "n": {"y": torch.ones(3)}})])


def test_a_stack_of_different_shapes_prints_what_differs(uneven):
    text = repr(uneven)
    assert "x: Tensor(shape=torch.Size([2, -1])" in text
    assert "exclusive_fields={\n        0 ->\n            only: Tensor(shape=torch.Size([2])" in text


def test_a_stack_of_different_shapes_is_compared_tensordict_by_tensordict(uneven):
    equal = uneven == uneven.clone()
    assert type(equal) is LazyStackedTensorDict and equal.all() and not (uneven != uneven.clone()).any()
    assert "x: Tensor(shape=torch.Size([2, -1]), device=cpu, dtype=torch.bool" in repr(equal)
    assert not (uneven[1] == 1)["x"].any() and (uneven == 0)[0]["only"].all()


def test_a_stack_of_different_shapes_is_updated_in_place(uneven):
    tensors = [td["x"] for td in uneven.tensordicts]
    assert uneven.update_(uneven.apply(lambda x: x + 2)) is uneven
    assert [x.tolist() for x in tensors] == [[2] * 3, [2] * 4]
    uneven.update_({"n": {"y": torch.zeros(2, 1)}})
    assert uneven[1]["n", "y"].tolist() == [0, 0, 0]


def test_whether_a_key_is_there_is_told_without_stacking(uneven):
    assert "x" in uneven and ("n", "y") in uneven and ("n", "y") in uneven.keys(True, True)
    uneven.update({"z": torch.ones(2)})
    uneven.update({"x": torch.ones(2, 5)})
    assert uneven["x"].shape == (2, 5) and uneven.del_("n").rename_key_("z", "w")["w"].tolist() == [1, 1]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_an_update_can_bring_another_number_of_tensordicts(count):
    def stack(number, size):
        return lazy_stack([TensorDict({"a": torch.ones(size), "n": {"b": torch.ones(size)}}, [size])] * number)

    lazy = stack(3, 2)
    lazy.update(stack(count, 5), update_batch_size=True)
    assert lazy.batch_size == (count, 5) == lazy["a"].shape == lazy["n"].batch_size
    dense = stack(3, 2)
    dense.update(stack(count, 7).contiguous(), update_batch_size=True)
    assert dense.batch_size == (count, 7)


def test_an_update_by_another_number_of_tensordicts_is_refused_where_it_is_not_asked_for():
    lazy, longer = (lazy_stack([TensorDict({"a": torch.ones(2)}, [2]) for _ in range(size)]) for size in (3, 4))
    with pytest.raises(ValueError, match="4 parts cannot update a stack of 3 tensordicts"):
        lazy.update(longer)
    with pytest.raises(ValueError, match="4 parts cannot update a stack of 3 tensordicts"):
        lazy.update_(longer)
    longer.rename_key_("a", "b")
    with pytest.raises(RuntimeError, match="lacks 'a'"):
        lazy.update(longer, update_batch_size=True)


def test_assigning_to_an_item_of_stacked_values_reaches_the_tensordicts():
    lazy = lazy_stack([TensorDict({"s": "a"}, [2]), TensorDict({"s": "b"}, [2])])
    lazy["s"][1] = "c"
    assert lazy["s"] == [["a", "a"], ["c", "c"]] and lazy[1]["s"] == ["c", "c"]


# --- masks, positions, locks


@pytest.mark.parametrize("stack_dim", [0, 1])
def test_a_mask_may_cover_the_first_dimensions_alone(stack_dim):
    dense = TensorDict({"a": torch.arange(6.0).reshape(3, 2)}, [3, 2])
    mask = torch.tensor([True, False, True])
    lazy = dense.clone().to_lazystack(stack_dim)
    assert (lazy.masked_fill(mask, 7) == dense.masked_fill(mask, 7)).all()
    assert (lazy.masked_fill_(mask, 7) == dense.masked_fill(mask, 7)).all()
    assert type(lazy.masked_select(mask)) is TensorDict


def test_what_a_mask_selects_is_a_copy_and_what_positions_select_is_not(lazy):
    lazy[:, torch.tensor([True, False, True])].zero_()
    assert lazy.tensordicts[0]["a"].any()
    lazy[:, torch.tensor([2])].zero_()
    assert not lazy.tensordicts[2]["a"].any()
    assert lazy[True].batch_size == (1, *lazy.batch_size)
    lazy[True].zero_()
    assert not lazy.tensordicts[0]["a"].any()


def test_stacks_of_different_keys_or_sizes_do_not_stack(lazy):
    with pytest.raises(RuntimeError, match="differ from the first's in 'a'"):
        torch.stack([lazy, lazy.exclude("a")])
    with pytest.raises(RuntimeError, match="lazy_stack takes tensordicts of different sizes"):
        torch.stack([lazy, lazy[:2]])


def test_a_stack_of_locked_tensordicts_is_locked(lazy):
    locked = lazy_stack([td.clone().lock_() for td in lazy.tensordicts], lazy.stack_dim)
    assert locked.is_locked and not lazy.is_locked
    with pytest.raises(RuntimeError, match="locked"):
        locked["new"] = torch.ones(locked.batch_size)
    part = locked[:, :2]
    assert not locked.unlock_().tensordicts[0].is_locked and not part.is_locked
    assert lazy.lock_()[:, :2].is_locked


@pytest.mark.parametrize(
    "view",
    [
        lambda td: td[:1],
        lambda td: td[None],
        lambda td: td[:, :, 0],
        lambda td: td.view(-1),
        lambda td: td.unsqueeze(0),
    ],
    ids=["slice", "None", "last", "view", "unsqueeze"],
)
def test_views_of_a_locked_stack_are_locked(lazy, view):
    part = view(lazy.lock_())
    assert part.is_locked
    lazy.unlock_()
    lazy["new"] = torch.ones(lazy.batch_size)


def test_a_lazy_stack_is_reshaped_densely_and_written_back_where_it_was_viewed(lazy):
    size = lazy.batch_size
    assert type(lazy.reshape(2, -1)) is TensorDict and type(lazy.reshape(-1)) is LazyStackedTensorDict
    tensor = lazy.tensordicts[0]["a"]
    with lazy.unsqueeze(0) as wide:
        wide["new"] = torch.ones(1, *size)
    assert lazy["new"].shape == size and lazy.tensordicts[0]["a"].data_ptr() == tensor.data_ptr()


def test_new_stacks_may_be_empty(lazy):
    empty = lazy.new_zeros(*lazy.batch_size, 5, empty_lazy=True)
    assert type(empty) is LazyStackedTensorDict and empty.batch_size == (*lazy.batch_size, 5) and empty.is_empty()
    assert lazy.empty(names=["p", "q", None]).names == ["p", "q", None]
    assert lazy.to_lazystack(lazy.stack_dim) is lazy
    with pytest.raises(NotImplementedError, match="cannot become dense"):
        lazy.contiguous(inplace=True)


def test_a_negative_stack_dimension_counts_from_the_end():
    tds = [TensorDict({"x": torch.zeros(2)}, [2]) for _ in range(3)]
    assert LazyStackedTensorDict(*tds, stack_dim=-1).batch_size == torch.Size([2, 3])
    with pytest.raises(ValueError, match="stack_dim"):
        LazyStackedTensorDict(*tds, stack_dim=-3)
