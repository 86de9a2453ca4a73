"""Specs: what they draw lies in them, what they project does, and shapes change as those of tensors do."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.rl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Stacked,
    StackedComposite,
    Unbounded,
    tensor_specs,
)

SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)
KINDS = {
    "bounded": lambda shape: Bounded(-2, 3, shape),
    "bounded-int": lambda shape: Bounded(-2, 3, shape, dtype=torch.int16),
    "unbounded": lambda shape: Unbounded(shape),
    "unbounded-int": lambda shape: Unbounded(shape, dtype=torch.int32),
    "one-hot": lambda shape: OneHot(4, (*shape, 4)),
    "one-hot-masked": lambda shape: OneHot(4, (*shape, 4), mask=torch.tensor([True, False, True, False])),
    "categorical": lambda shape: Categorical(4, shape),
    "categorical-masked": lambda shape: Categorical(4, shape, mask=torch.tensor([True, False, False, True])),
    "binary": lambda shape: Binary(shape=(*shape, 2)),
    "multi-one-hot": lambda shape: MultiOneHot([2, 3], (*shape, 5)),
    "multi-categorical": lambda shape: MultiCategorical([2, 3], (*shape, 2)),
    "composite": lambda shape: Composite(
        a=Bounded(0, 1, (*shape, 2)), b=Composite(c=Categorical(3, shape), shape=shape), shape=shape
    ),
}  # fmt: skip
kinds = st.sampled_from(sorted(KINDS))


@given(kinds, SHAPES, SHAPES)
def test_what_a_spec_draws_is_in_it_whatever_the_leading_dimensions(kind, shape, leading):
    spec = KINDS[kind](shape)
    drawn = spec.rand(leading)
    assert drawn.shape == (*leading, *spec.shape)
    assert spec.is_in(drawn)
    assert spec.project(drawn) is drawn


@given(kinds.filter(lambda kind: "unbounded" not in kind and kind != "composite"), SHAPES)
def test_what_is_projected_is_in_the_spec_and_the_input_stays(kind, shape):
    spec = KINDS[kind](shape)
    outside = spec.one() + spec.one() * 5 if spec.dtype is not torch.bool else spec.one()
    before = outside.clone()
    assert spec.is_in(spec.project(outside))
    assert torch.equal(outside, before)


@given(kinds, SHAPES)
def test_numpy_and_back_gives_the_same(kind, shape):
    spec = KINDS[kind](shape)
    drawn = spec.rand()
    if kind == "composite":
        assert (spec.encode(spec.to_numpy(drawn)) == drawn).all()
    else:
        assert torch.equal(spec.encode(spec.to_numpy(drawn)), drawn)


@given(st.sampled_from(["one-hot", "one-hot-masked", "multi-one-hot"]), SHAPES)
def test_one_hot_vectors_and_numbers_say_the_same(kind, shape):
    spec = KINDS[kind](shape)
    drawn = spec.rand()
    numbers = spec.to_categorical_spec()
    assert numbers.is_in(spec.to_categorical(drawn))
    assert torch.equal(numbers.to_one_hot(spec.to_categorical(drawn)), drawn)
    assert numbers.to_one_hot_spec() == spec


@given(kinds, SHAPES, st.integers(1, 3))
def test_an_expanded_spec_is_made_of_parts_like_the_one_it_was(kind, shape, extent):
    spec = KINDS[kind](shape)
    larger = spec.expand((extent, *spec.shape))
    assert larger.shape == (extent, *spec.shape)
    assert all(part == spec for part in larger.unbind(0))
    assert larger[0] == spec
    assert spec.unsqueeze(0).squeeze(0) == spec
    assert torch.stack([spec] * extent) == larger


@given(kinds, st.lists(st.integers(1, 3), min_size=2, max_size=3).map(tuple))
def test_flattening_and_unflattening_gives_the_same(kind, shape):
    spec = KINDS[kind](shape)
    assert spec.flatten(0, 1).unflatten(0, shape[:2]) == spec


@given(kinds, SHAPES)
def test_specs_survive_copies_and_casts(kind, shape):
    spec = KINDS[kind](shape)
    assert spec.clone() == spec
    assert spec.to("cpu").to("cpu") == spec.to("cpu")
    assert spec.to(torch.float64).rand().dtype == torch.float64 if kind != "composite" else True


def test_a_mask_stays_when_the_shape_changes():
    spec = Categorical(3, mask=torch.tensor([True, False, False]))
    for changed in (spec.expand(50), spec.unsqueeze(0), spec.to("cpu"), torch.stack([spec] * 20)):
        assert not changed.rand().any()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Bounded(-1, 1), RuntimeError, "has no shape"),
        (lambda: Bounded(torch.zeros(2), torch.ones(3)), RuntimeError, "several shapes"),
        (lambda: Bounded(minimum=-1, maximum=1), TypeError, "Use 'low' instead"),
        (lambda: OneHot(3, (2,)), ValueError, "must end with the number of choices"),
        (lambda: Categorical(3, mask=torch.ones(2, dtype=torch.bool)), RuntimeError, "Cannot expand a mask"),
        (lambda: Categorical(-1).rand(), RuntimeError, "set_provisional_n"),
        (lambda: Composite(a=Unbounded((3,)), shape=(2,)), ValueError, "does not fit into a Composite"),
        (lambda: Composite(a=Unbounded(3)).lock_().set("b", Unbounded(3)), RuntimeError, "locked"),
        (lambda: OneHot(3).assert_is_in(torch.ones(3)), AssertionError, "not in the spec"),
        (lambda: Unbounded((2,)).encode([1.0, 2.0, 3.0]), RuntimeError, "Shape mismatch"),
        (lambda: Unbounded((2, 3)).expand(4, 2), ValueError, "cannot be expanded"),
        (lambda: torch.stack([Unbounded(3), Categorical(3)]), RuntimeError, "one class"),
        (lambda: Unbounded(3)["a"], TypeError, "cannot be indexed"),
    ],
)
def test_bad_input_is_an_error_that_says_what_is_wrong(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_specs_that_differ_are_stacked_as_they_are():
    stack = torch.stack([Unbounded((2,)), Unbounded((3,))])
    assert isinstance(stack, Stacked)
    assert stack.shape == (2, -1)
    assert [value.shape for value in stack.rand().unbind(0)] == [(2,), (3,)]
    composites = torch.stack([Composite(a=Unbounded(3), b=Unbounded(1)), Composite(a=Unbounded(3))])
    assert isinstance(composites, StackedComposite)
    assert list(composites.keys()) == ["a"]
    assert composites.is_in(composites.rand())


def test_any_objects_have_a_spec():
    spec = NonTensor((2,), example_data="word")
    assert spec.is_in(spec.rand())
    assert spec.rand().tolist() == ["word", "word"]


def test_values_are_checked_when_they_are_encoded_only_where_the_environment_says_so(monkeypatch):
    spec = Bounded(0, 1, (1,))
    assert spec.encode(7.0).item() == 7
    monkeypatch.setenv("CHECK_SPEC_ENCODE", "1")
    with pytest.raises(AssertionError, match="not in the spec"):
        spec.encode(7.0)


def test_former_names_lead_to_the_classes_with_a_warning():
    with pytest.warns(DeprecationWarning, match="is called Bounded now"):
        assert tensor_specs.BoundedTensorSpec is Bounded
