"""What holds for every transform of the second generation."""

import json
import pickle
import warnings

import pytest
import torch
from classes_table import TABLE
from torch.utils import _pytree as pytree

from flambeau.core.testing.comparing import require_equal
from flambeau.vision.transforms import v2

NO_CLASSES = {"AutoAugmentPolicy", "InterpolationMode", "Transform"}


def leaves(value):
    return pytree.tree_leaves(value, is_leaf=lambda leaf: isinstance(leaf, torch.Tensor))


def require_same(actual, expected):
    mine, theirs = leaves(actual), leaves(expected)
    assert [type(leaf) for leaf in mine] == [type(leaf) for leaf in theirs]
    for a, b in zip(mine, theirs, strict=True):
        if isinstance(a, torch.Tensor):
            require_equal(a.as_subclass(torch.Tensor), b.as_subclass(torch.Tensor), "values")
            assert getattr(a, "canvas_size", None) == getattr(b, "canvas_size", None)
        elif isinstance(a, str):
            assert a == b


def cases():
    return [pytest.param(transform, make, id=name) for name, (transform, make) in TABLE.items()]


def test_the_table_has_every_class():
    classes = {name for name in v2.__all__ if isinstance(getattr(v2, name), type)} - NO_CLASSES
    assert set(TABLE) == classes


@pytest.mark.parametrize(("transform", "make"), cases())
def test_one_seed_gives_one_result(transform, make):
    torch.manual_seed(3)
    first = transform(make())
    torch.manual_seed(3)
    require_same(transform(make()), first)


@pytest.mark.parametrize(("transform", "make"), cases())
def test_what_was_drawn_can_be_replayed(transform, make):
    torch.manual_seed(4)
    first, params = transform(make(), return_params=True)
    state = torch.get_rng_state()
    require_same(transform(make(), replay=params), first)
    assert torch.equal(torch.get_rng_state(), state), "a replay draws nothing"


@pytest.mark.parametrize(("transform", "make"), cases())
def test_a_generator_takes_the_place_of_the_default_one(transform, make):
    state = torch.get_rng_state()
    first = transform(make(), generator=torch.Generator().manual_seed(5))
    require_same(transform(make(), generator=torch.Generator().manual_seed(5)), first)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("transform", "make"), cases())
def test_it_pickles_and_shows_its_arguments(transform, make):
    again = pickle.loads(pickle.dumps(transform))
    assert repr(again) == repr(transform)
    assert repr(transform).startswith(type(transform).__name__ + "(")
    torch.manual_seed(6)
    first = transform(make())
    torch.manual_seed(6)
    require_same(again(make()), first)


@pytest.mark.parametrize(("transform", "make"), cases())
def test_it_is_plain_json_and_back(transform, make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ToTensor is deprecated
        again = v2.from_spec(json.loads(json.dumps(transform.to_spec())), trust=True)
    torch.manual_seed(7)
    first = transform(make())
    torch.manual_seed(7)
    require_same(again(make()), first)
    assert again.to_spec() == transform.to_spec()


@pytest.mark.parametrize(("transform", "make"), cases())
def test_inputs_stay_as_they_are(transform, make):
    given = make()
    torch.manual_seed(8)
    transform(given)
    require_same(given, make())
