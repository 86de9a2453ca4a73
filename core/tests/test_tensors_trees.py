"""Typed tensors as leaves and nodes of trees, under `torch.func`, and as descriptions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from flambeau.core.tensors import (
    Field,
    MetadataError,
    TensorTypeError,
    TypedTensor,
    rewrap,
    set_return_type,
    summary,
    tensor_type,
    through,
    unwrap,
    wrap,
)


@tensor_type(name="tree-wave", fields={"rate": int, "tag": Field(str, default="")})
class Wave(TypedTensor):
    """Audio."""


@tensor_type(
    name="tree-shown",
    summary=f"{__name__}:in_words",
    plot=f"{__name__}:as_html",
)
class Shown(TypedTensor):
    """Describes itself."""


class Mine(Wave):
    """A user's subclass."""


@tensor_type(name="tree-whole", fields={"rate": int, "tag": Field(str, default="")})
class Whole(TypedTensor, tree="leaf"):
    """Audio that pytree leaves whole."""


class MyWhole(Whole):
    """A user's subclass."""


def in_words(value: Tensor) -> str:
    return f"Shown of\n {value.numel()}"


def as_html(value: Tensor) -> str:
    return f"<b>{value.numel()}</b>"


def wave(*shape: int, cls: Any = Wave, **metadata: Any) -> Any:
    return cls(torch.arange(24.0).reshape(shape or (3, 8)), **{"rate": 3, **metadata})


# ---- wrap


def test_wrap_gives_class_and_metadata_over_the_same_memory() -> None:
    data = torch.zeros(5)
    result = wrap(data, like=wave(cls=Mine, tag="a"), rate=7)

    assert (type(result), result.rate, result.tag) == (Mine, 7, "a")
    assert result.data_ptr() == data.data_ptr()
    assert type(data) is Tensor


def test_wrap_takes_typed_tensors_too_and_leaves_them_alone() -> None:
    first, second = wave(rate=1), wave(rate=2)
    result = wrap(first, like=second)

    assert (result.rate, first.rate) == (2, 1)


def test_wrap_refuses_what_the_type_does_not_have() -> None:
    with pytest.raises(TensorTypeError, match=r"Wave: unknown metadata: rats; .* Did you mean rate\?"):
        wrap(torch.zeros(1), like=wave(), rats=1)
    with pytest.raises(MetadataError, match="rate='x' is of type str, expected int"):
        wrap(torch.zeros(1), like=wave(), rate="x")
    with pytest.raises(TensorTypeError, match="like=Tensor is not a tensor type"):
        wrap(torch.zeros(1), like=torch.zeros(1))  # type: ignore[type-var]


def test_wrap_keeps_gradients() -> None:
    data = torch.ones(3, requires_grad=True)
    (wrap(data * 2, like=wave()) * 3).sum().backward()

    assert data.grad is not None
    assert data.grad.tolist() == [6.0] * 3


# ---- unwrap, rewrap


def test_unwrap_takes_the_types_off_and_rewrap_puts_them_back() -> None:
    sample = {"sound": wave(cls=Mine, tag="a"), "others": [torch.ones(2), 5, None], "pair": (wave(rate=9), "x")}

    bare, spec = unwrap(sample)
    assert type(bare["sound"]) is Tensor
    assert type(bare["pair"][0]) is Tensor
    assert bare["others"][1:] == [5, None]
    assert bare["sound"].data_ptr() == sample["sound"].data_ptr()

    again = rewrap(pytree.tree_map_only(Tensor, lambda t: t + 1, bare), spec)
    assert (type(again["sound"]), again["sound"].rate, again["sound"].tag) == (Mine, 3, "a")
    assert again["pair"][0].rate == 9
    assert type(again["others"][0]) is Tensor
    assert torch.equal(again["sound"], sample["sound"] + 1)


def test_unwrap_of_a_single_tensor() -> None:
    bare, spec = unwrap(wave())

    assert spec.typed
    assert type(bare) is Tensor
    assert type(rewrap(bare, spec)) is Wave
    assert not unwrap([torch.ones(1), 2])[1].typed


def test_equal_trees_have_equal_specs() -> None:
    assert unwrap([wave()])[1] == unwrap([wave()])[1]
    assert unwrap([wave(rate=4)])[1] != unwrap([wave()])[1]


def test_rewrap_leaves_what_is_no_tensor_any_more() -> None:
    _, spec = unwrap({"a": wave()})

    assert rewrap({"a": 3.5}, spec) == {"a": 3.5}


def test_rewrap_refuses_another_structure() -> None:
    _, spec = unwrap({"a": wave()})

    with pytest.raises(TensorTypeError, match=r"rewrap: the tree is .* expected the structure of"):
        rewrap([torch.ones(1)], spec)


leaves = st.one_of(
    st.builds(lambda rate: wave(rate=rate), st.integers(0, 9)), st.builds(torch.ones, st.just(2)), st.none()
)
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)


@given(tree=trees)
def test_unwrap_and_rewrap_are_inverse(tree: Any) -> None:
    bare, spec = unwrap(tree)
    again = rewrap(bare, spec)

    assert not any(isinstance(leaf, TypedTensor) for leaf in pytree.tree_leaves(bare))
    assert summary(again) == summary(tree)


# ---- pytree


def test_pytree_sees_a_plain_tensor_and_constant_metadata() -> None:
    leaves, structure = pytree.tree_flatten(wave(cls=Mine, tag="b"))

    assert [type(leaf) for leaf in leaves] == [Tensor]
    again = pytree.tree_unflatten([leaves[0] * 2], structure)
    assert (type(again), again.rate, again.tag) == (Mine, 3, "b")
    assert structure == pytree.tree_flatten(wave(cls=Mine, tag="b"))[1]
    assert structure != pytree.tree_flatten(wave(cls=Mine, tag="c"))[1]


def test_pytree_paths_name_the_data() -> None:
    [(path, leaf)], _ = pytree.tree_flatten_with_path({"x": wave()})

    assert pytree.keystr(path) == "['x'].data"
    assert type(leaf) is Tensor


def test_the_leaf_is_the_same_object_each_time_until_the_tensor_changes() -> None:
    """`torch.export` finds the sizes that may vary by the identity of leaves."""
    sound = wave()
    [first], [second] = pytree.tree_leaves(sound), pytree.tree_leaves(sound)
    assert first is second

    sound.unsqueeze_(0)
    assert pytree.tree_leaves(sound)[0].shape == (1, 3, 8)
    sound.requires_grad_()
    assert pytree.tree_leaves(sound)[0].requires_grad


@pytest.mark.parametrize("cls", [Whole, MyWhole])
def test_pytree_leaves_alone_what_is_declared_a_leaf(cls: Any) -> None:
    sound = wave(cls=cls)
    leaves, structure = pytree.tree_flatten({"x": [sound], "y": 1})

    assert leaves[0] is sound
    assert pytree.tree_unflatten(leaves, structure)["x"][0] is sound


def test_a_class_is_a_leaf_or_a_node() -> None:
    with pytest.raises(TensorTypeError, match="tree='branch'; use 'node' or 'leaf'"):

        class Wrong(Whole, tree="branch"):  # type: ignore[arg-type]
            pass

    class Taken(Whole, tree="node"):
        pass

    assert [type(leaf) for leaf in pytree.tree_leaves(wave(cls=Taken))] == [Tensor]


def test_mapping_a_tree_to_something_else_gives_that() -> None:
    assert pytree.tree_map(lambda leaf: leaf.numel(), {"x": wave()}) == {"x": 24}


def test_structures_with_typed_tensors_can_be_stored() -> None:
    structure = pytree.tree_flatten([wave(cls=Mine, tag="b")])[1]

    assert pytree.treespec_loads(pytree.treespec_dumps(structure)) == structure


# ---- torch.func


def test_vmap_maps_over_typed_tensors() -> None:
    seen: list[Any] = []

    def double(sound: Wave) -> Tensor:
        seen.append((type(sound), sound.rate))
        return sound * 2

    result = torch.func.vmap(double)(wave())
    assert torch.equal(result, wave() * 2)
    assert seen == [(Wave, 3)]


def test_vmap_gives_typed_results_of_typed_results() -> None:
    result = torch.func.vmap(lambda sound: sound.clone())(wave())

    assert (type(result), result.rate, result.shape) == (Wave, 3, (3, 8))


def test_grad_of_a_typed_argument_is_typed() -> None:
    result = torch.func.grad(lambda sound: (sound * sound).sum())(wave())

    assert type(result) is Wave
    assert torch.equal(result, wave() * 2)


@pytest.mark.parametrize(
    ("transformed", "expected"),
    [
        (lambda f: torch.func.vmap(torch.func.grad(f)), lambda x: 2 * x),
        (lambda f: torch.func.vmap(torch.func.vmap(f)), lambda x: x * x),
        (lambda f: torch.func.grad(lambda x: torch.func.vmap(f)(x).sum()), lambda x: 2 * x),
        (lambda f: torch.func.jacrev(f), lambda x: 2 * x),
        (lambda f: torch.func.grad(lambda x: torch.func.grad(f)(x).sum()), lambda x: torch.full_like(x, 2)),
    ],
)
def test_transforms_nest(transformed: Any, expected: Any) -> None:
    result = transformed(lambda x: (x * x).sum())(wave())

    bare = wave().as_subclass(Tensor)
    assert torch.equal(pytree.tree_leaves(result)[0], expected(bare))


@pytest.mark.parametrize("cls", [Wave, MyWhole])
def test_leaves_and_nodes_keep_their_type_through_transforms(cls: Any) -> None:
    seen: list[Any] = []

    def energy(sample: Any, factor: float) -> Any:
        seen.append((type(sample["x"]), sample["x"].rate))
        return (sample["x"] ** 2).sum() * factor, sample["x"].clone()

    sums, waves = through(torch.func.vmap)(energy, in_dims=(0, None))({"x": wave(cls=cls)}, 2.0)
    assert torch.equal(sums, (wave().as_subclass(Tensor) ** 2).sum(1) * 2)
    assert (type(waves), waves.rate, waves.shape) == (cls, 3, (3, 8))

    slope, _ = through(torch.func.grad)(energy, has_aux=True)({"x": wave(cls=cls)}, 1.0)
    assert type(slope["x"]) is cls
    assert torch.equal(slope["x"].as_subclass(Tensor), wave().as_subclass(Tensor) * 2)
    assert set(seen) == {(cls, 3)}


def test_transforms_nest_through() -> None:
    vmap, grad = through(torch.func.vmap), through(torch.func.grad)
    slopes = vmap(grad(lambda sound: (sound * sound.rate).sum()))(wave(cls=Whole))

    assert type(slopes) is Whole
    assert torch.equal(slopes.as_subclass(Tensor), torch.full((3, 8), 3.0))


def test_vmap_and_grad_through_unwrap() -> None:
    def energy(tree: Any) -> Tensor:
        bare, _ = unwrap(tree)
        return (bare["x"] ** 2).sum()

    assert torch.equal(torch.func.vmap(energy)({"x": wave()}), (wave() ** 2).sum(1))
    assert torch.equal(torch.func.grad(energy)({"x": wave()})["x"], 2 * wave())


# ---- summary


def test_a_summary_is_one_line_without_contents() -> None:
    assert summary(wave(tag="a")) == "Wave (3, 8) float32 cpu rate=3 tag='a'"
    assert repr(wave()) == str(wave()) == summary(wave())
    assert summary(wave().requires_grad_()) == "Wave (3, 8) float32 cpu requires_grad rate=3 tag=''"
    assert summary(torch.zeros(2, dtype=torch.int8)) == "Tensor (2,) int8 cpu"
    assert (
        summary({"a": [wave(), 3], "b": (None,)}) == "{a: [Wave (3, 8) float32 cpu rate=3 tag='', int], b: (NoneType)}"
    )


def test_long_metadata_are_cut() -> None:
    text = summary(wave(tag="x" * 500))

    assert len(text) < 120
    assert text.endswith("...")


def test_summary_is_the_same_while_results_are_typed() -> None:
    with set_return_type("typed"):
        assert summary(wave()) == "Wave (3, 8) float32 cpu rate=3 tag=''"


def test_a_type_may_describe_and_show_itself() -> None:
    shown = Shown(torch.zeros(4))

    assert repr(shown) == "Shown of 4"
    assert shown._repr_html_() == "<b>4</b>"
    assert wave()._repr_html_() is None
