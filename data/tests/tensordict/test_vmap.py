"""`torch.vmap` over collections of every kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from flambeau.data.tensordict import (
    LazyStackedTensorDict,
    NonTensorStack,
    TensorDict,
    TensorDictParams,
    is_batchedtensor,
    lazy_stack,
    tensorclass,
)


@tensorclass
class Point:
    x: torch.Tensor
    name: str = "here"


def make(**options: Any) -> TensorDict:
    inner = TensorDict(c=torch.arange(24.0).reshape(2, 3, 4), batch_size=[2, 3])
    return TensorDict(a=torch.arange(6.0).reshape(2, 3), b=inner, batch_size=[2, 3], **options)


def stacked(dim: int = 0) -> LazyStackedTensorDict:
    return lazy_stack(list(make().unbind(dim)), dim)


@pytest.mark.parametrize("source", [make, stacked, lambda: stacked(1)], ids=["dense", "lazy", "lazy in dim 1"])
@pytest.mark.parametrize("in_dim", [0, 1, -1, -2])
@pytest.mark.parametrize("out_dims", [0, 1, -1, (0,), (1,)])
def test_dimensions_count_batch_dimensions(source, in_dim, out_dims):
    source = source()
    seen = []

    def function(one: Any) -> Any:
        seen.append((one.batch_size, one["a"].shape, one["b"].batch_size, is_batchedtensor(one["b", "c"])))
        return one

    result = torch.vmap(function, in_dim, out_dims)(source)
    rest = source.batch_size[1 - in_dim % 2]
    assert seen == [((rest,), (rest,), (rest,), True)]
    out_dim = out_dims if isinstance(out_dims, int) else out_dims[0]
    expected = make() if in_dim % 2 == out_dim % 2 else make().transpose(0, 1)
    assert result.batch_size == result["b"].batch_size == expected.batch_size and (result == expected).all()


def test_the_mapped_dimension_of_a_lazy_stack_stays_one():
    source = stacked()
    for function in (
        lambda one: one,
        lambda one: one.clone(),
        lambda one: one.select("a"),
        lambda one: one.unsqueeze(0),
    ):
        result = torch.vmap(function)(source)
        assert type(result) is LazyStackedTensorDict and result.stack_dim == 0
    assert torch.vmap(lambda one: one, 0, 1)(source).stack_dim == 1


def test_entries_are_set_in_results_and_not_in_inputs():
    for source in (make(), stacked()):
        result = torch.vmap(lambda one: one.set("z", one["a"] + 1).set(("b", "z"), one["b", "c"] * 2))(source)
        assert torch.equal(result["z"], source["a"] + 1) and torch.equal(result["b", "z"], source["b", "c"] * 2)
        assert "z" not in set(source.keys()) and "z" not in set(source["b"].keys())


def test_parts_of_a_lazy_stack_may_differ():
    source = lazy_stack([TensorDict(a=torch.ones(3)), TensorDict(a=torch.zeros(4), b=torch.ones(()))])
    result = torch.vmap(lambda one: one)(source)
    assert result[1]["a"].shape == (4,) and set(result[1].keys()) == {"a", "b"} and set(result.keys()) == {"a"}


def test_names_values_and_locks_go_along():
    source = make(names=["x", "y"]).set("name", "left").lock_()
    result = torch.vmap(lambda one: one, 0, 1)(source)
    assert result.names == ["y", None] and result["name"] == "left" and result.is_locked
    several = TensorDict(a=torch.ones(2), s=["p", "q"], batch_size=[2])
    assert torch.vmap(lambda one: one)(several)["s"] == ["p", "q"]


def test_tensorclasses_and_parameters_are_mapped_over():
    points = Point(torch.ones(2, 3), batch_size=[2])
    result = torch.vmap(lambda one: Point(one.x.cumsum(0)), (0,), (0,))(points)
    assert type(result) is Point and result.x.tolist() == [[1, 2, 3]] * 2 and result.name == "here"
    params = TensorDictParams(TensorDict(w=torch.ones(2, 3), batch_size=[2]))
    assert torch.vmap(lambda one, x: (one["w"] * x).sum(), (0, None))(params, torch.ones(3)).tolist() == [3, 3]


def test_results_that_are_not_mapped_over_are_repeated():
    source = make()
    assert torch.vmap(lambda x: source)(torch.ones(5)).batch_size == torch.Size([5, 2, 3])
    assert torch.vmap(lambda x: source, 0, 2)(torch.ones(5))["b", "c"].shape == (2, 3, 5, 4)
    assert torch.vmap(lambda x: (x, source), 0, (0, None))(torch.ones(5))[1] is source


def test_collections_stand_in_trees_and_maps_in_maps():
    result = torch.vmap(lambda tree: {"sum": tree["x"]["a"].sum(), "all": (tree["x"],)}, ({"x": 1},))({"x": make()})
    assert result["sum"].tolist() == [3, 5, 7] and result["all"][0].batch_size == torch.Size([3, 2])
    assert torch.vmap(torch.vmap(lambda one: one.apply(torch.neg)))(make())["b", "c"].sum() == -276


def test_a_dimension_that_all_tensors_have_is_enough():
    source = TensorDict(a=torch.arange(6.0).reshape(2, 3))
    assert torch.vmap(lambda one: one)(source).batch_size == torch.Size([2])


def test_wrong_dimensions_are_refused():
    with pytest.raises(ValueError, match="in_dim=5"):
        torch.vmap(lambda one: one, 5)(make())
    with pytest.raises(ValueError, match="out_dims is not compatible"):
        torch.vmap(lambda one: one, 0, (0, 1))(make())
    with pytest.raises(IndexError, match="out_dim 4"):
        torch.vmap(lambda one: one, 0, 4)(make())
    with pytest.raises(ValueError, match="same size"):
        torch.vmap(lambda one, x: one, (0, 0))(make(), torch.ones(7))


def test_tensors_are_mapped_over_as_ever():
    assert torch.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3)).tolist() == [3, 3]
    with pytest.raises(ValueError, match="must only return"):
        torch.vmap(lambda x: "text")(torch.ones(2))


def test_maps_over_a_lazy_stack_are_stacked_and_concatenated():
    source = stacked()
    result = torch.vmap(lambda one: torch.stack([one, one]))(source)
    assert result.batch_size == torch.Size([2, 2, 3]) and torch.equal(result["a"][:, 0], source["a"])
    mixed = torch.vmap(lambda one, other: torch.cat([one, other]))(source, make())
    assert torch.equal(mixed["b", "c"], torch.cat([source["b", "c"]] * 2, 1))


def test_methods_that_go_entry_by_entry_are_mapped_over_a_lazy_stack():
    source = stacked()
    assert torch.equal(torch.vmap(lambda one: one.flip(0)["a"])(source), source["a"].flip(1))
    assert torch.equal(torch.vmap(lambda one: one.narrow(0, 1, 2)["b", "c"])(source), source["b", "c"][:, 1:])


def test_entries_are_combined_in_a_map_over_a_lazy_stack():
    def pair(one):
        return one.select("a").set("d", one["a"] + 1).stack_tensors("a", "d", out_key="e", dim=1)["e"]

    a = stacked()["a"]
    assert torch.equal(torch.vmap(pair)(stacked()), torch.stack([a, a + 1], 2))


def test_a_mapped_function_stacks_and_indexes_values_that_are_no_tensors():
    td = TensorDict({"a": torch.zeros(3, 2), "s": "text"}, [3, 2])
    td["u"] = NonTensorStack(*(NonTensorStack("a", str(at)) for at in range(3)))
    assert torch.vmap(lambda one: torch.stack([one, one]))(td)["u"][2] == [["a", "2"], ["a", "2"]]
    assert torch.vmap(lambda one: one[1])(td)["u"] == ["0", "1", "2"]


def test_what_is_set_in_an_input_that_is_not_mapped_over_stays_within():
    td = TensorDict({"a": torch.ones(3)}, [3])
    result = torch.vmap(lambda x, td: td.set("b", td["a"] * x)["b"], (0, None))(torch.arange(2.0), td)
    assert result.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert list(td.keys()) == ["a"]
