"""Tensordicts as pytrees, under vmap and under torch.compile."""

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from flambeau.data.tensordict import PersistentTensorDict, TensorDict, TensorDictParams, from_module, lazy_stack


def test_the_leaves_of_the_tree_are_the_tensors(td):
    td["name"] = "first"
    leaves, structure = pytree.tree_flatten(td)
    assert [leaf.shape for leaf in leaves] == [(4, 3), (4, 3, 2), (4, 3)]
    back = pytree.tree_unflatten(leaves, structure)
    assert (back["name"], back.batch_size) == ("first", td.batch_size)
    assert (back.exclude("name") == td.exclude("name")).all()


def test_a_tree_of_something_else_keeps_the_structure(td):
    shapes = pytree.tree_map(lambda leaf: tuple(leaf.shape), td)
    assert shapes.get(("b", "c")) == (4, 3, 2)
    assert pytree.tree_map(lambda leaf: leaf[0], td).batch_size == torch.Size([3])


def test_paths_of_the_tree_are_keys(td):
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(td)]
    assert paths == ["['a']", "['b']['c']", "['b']['d']"]


@pytest.mark.parametrize("in_dim", [0, 1])
@pytest.mark.parametrize("out_dim", [0, 1])
def test_vmap_takes_a_batch_dimension_away_and_gives_it_back(td, in_dim, out_dim):
    sizes = []

    def step(part):
        sizes.append((part.batch_size, part["b"].batch_size))
        return part + 1

    result = torch.vmap(step, in_dim, out_dim)(td)
    left = torch.Size([3 if in_dim == 0 else 4])
    assert sizes == [(left, left)]
    expected = td + 1 if in_dim == out_dim else (td + 1).transpose(0, 1)
    assert result.batch_size == expected.batch_size
    assert (result == expected).all()


def test_vmap_cuts_a_lazy_stack_where_it_means_to():
    lazy = lazy_stack([TensorDict({"x": torch.full((2,), float(number))}, [2]) for number in range(3)])
    assert torch.vmap(lambda part: part["x"].sum())(lazy).tolist() == [0, 2, 4]


def test_vmap_cuts_parameters_and_trees_of_parameters_stay_parameters():
    params = TensorDictParams(TensorDict({"a": torch.ones(3, 2), "b": {"c": torch.arange(3.0)}}, [3]))
    assert torch.vmap(lambda part: part["a"].sum() + part["b", "c"])(params).tolist() == [2, 3, 4]
    same = pytree.tree_map(lambda leaf: leaf, params)
    assert type(same) is TensorDictParams
    assert same["a"] is params["a"]
    assert type(pytree.tree_map(torch.exp, params)) is TensorDict


def test_gradients_of_a_function_of_a_tensordict(td):
    params = td.select("a", ("b", "c"))
    grads = torch.func.grad(lambda p: (p * p).sum(reduce=True))(params)
    torch.testing.assert_close(grads["b", "c"], params["b", "c"] * 2)


linear = nn.Linear(3, 3)
weights = from_module(linear).data.clone()
learned = TensorDictParams(TensorDict({"scale": torch.ones(3)}))


def sets(td):
    td = td.clone()
    td["z"] = td["a"] + 1
    td["n", "m"] = td["a"] * 2
    del td["a"]
    return td


def blocks(td):
    td = td.clone().lock_()
    with td.unlock_():
        td["k"] = td["a"] + 1
    td.unlock_()
    with td.flatten_keys(".") as flat:
        flat["q"] = flat["a"] + 1
    return td


def swaps(td):
    with (weights * 2).to_module(linear):
        return linear(td["a"])


COMPILED = {
    "get": lambda td: td["a"] + td["b", "c"].sum(-1) + td.get(("b", "d")),
    "set": sets,
    "construct": lambda td: TensorDict({"a": td["a"] + 1, "b": {"c": td["b", "c"]}}, batch_size=[4, 3]),
    "arithmetic": lambda td: ((td + 1) * td - td / 2).clamp(0, 1),
    "index": lambda td: (td[0], td[1:3], td[:, 0], td[..., None], td[torch.tensor([0, 2])]),
    "write by index": lambda td: [td.clone().__setitem__(0, td[1]), td.clone().update_at_(td[1], 0)][1],
    "cut": lambda td: (*td.unbind(0), *td.split(2), *td.chunk(3, 1)),
    "stack": lambda td: (torch.stack([td, td]), torch.cat([td, td], 1), lazy_stack([td, td + 1])),
    "shape": lambda td: (td.view(12), td.reshape(2, -1), td.flatten(), td.unflatten(0, (2, 2)), td.permute(1, 0)[None]),
    "apply": lambda td: td.apply(torch.neg).named_apply(lambda key, leaf: leaf * len(key), nested_keys=True),
    "keys": lambda td: {key: value + 1 for key, value in td.items(True, True)},
    "choose": lambda td: (td.select("a"), td.exclude("a"), td.flatten_keys("."), td.empty(recurse=True)),
    "update": lambda td: td.copy().update({"a": td["a"] * 0}).rename_key_("a", "z"),
    "reduce": lambda td: (td.sum(0), td.sum(dim="feature"), td.max(dim=1)[0], td > 0, td.float().norm()),
    "copy": lambda td: (td.clone(), td.copy(), td.to(torch.float64), td.detach(), torch.zeros_like(td)),
    "blocks": blocks,
    "to_module": swaps,
    "params": lambda td: td["a"] * learned["scale"],
    "non-tensor": lambda td: td.copy().set("name", "x"),
    "vmap": lambda td: torch.vmap(lambda part: part["a"] + 1)(td),
}


@pytest.mark.parametrize("name", COMPILED)
def test_it_compiles_without_a_graph_break(td, name):
    torch._dynamo.reset()
    function = COMPILED[name]
    expected, result = function(td), torch.compile(function, fullgraph=True, backend="eager")(td)
    left, right = pytree.tree_leaves(expected), pytree.tree_leaves(result)
    assert len(left) == len(right) > 0
    assert all(torch.equal(one, other) for one, other in zip(left, right, strict=True))
    if isinstance(expected, TensorDict):
        assert type(result) is TensorDict
        assert (result.batch_size, list(result.keys(True))) == (expected.batch_size, list(expected.keys(True)))


def test_reading_a_key_is_not_compiled_anew_for_every_number_of_keys():
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()

    @torch.compile(fullgraph=True, backend=counter)
    def read(td):
        return td["a"] + 1

    for extra in range(4):
        read(TensorDict({"a": torch.zeros(3), **{f"k{number}": torch.zeros(3) for number in range(extra)}}, [3]))
    assert counter.frame_count == 1


class Derived(TensorDict):
    pass


@pytest.mark.parametrize("kind", ["part", "derived", "hdf5"])
def test_every_kind_of_tensordict_is_a_node(kind, tmp_path):
    source = TensorDict(a=torch.ones(2), b=TensorDict(c=torch.ones(2)), batch_size=[2])
    if kind == "hdf5":
        pytest.importorskip("h5py")
    one = {
        "part": lambda: source._get_sub_tensordict(slice(None)),
        "derived": lambda: Derived(source, [2]),
        "hdf5": lambda: PersistentTensorDict.from_dict(source, tmp_path / "a.h5"),
    }[kind]()
    assert len(pytree.tree_leaves(one)) == 2
    doubled = pytree.tree_map(lambda leaf: leaf * 2, one)
    assert type(doubled) is (Derived if kind == "derived" else TensorDict) and doubled["b", "c"].tolist() == [2, 2]


def test_the_leaves_of_a_lazy_stack_are_those_of_its_parts():
    stack = lazy_stack([TensorDict(a=torch.ones(2)), TensorDict(a=torch.zeros(3), b=torch.ones(()))])
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(stack)]
    assert paths == ["[0]['a']", "[1]['a']", "[1]['b']"]
    doubled = pytree.tree_map(lambda leaf: leaf * 2, stack)
    assert type(doubled) is type(stack) and doubled[0]["a"].tolist() == [2, 2]


def test_a_gradient_with_respect_to_a_lazy_stack_is_one():
    stack = lazy_stack([TensorDict(a=torch.ones(2)), TensorDict(a=torch.full((2,), 3.0))])
    gradient = torch.func.grad(lambda td: (td["a"] ** 2).sum())(stack)
    assert type(gradient) is type(stack) and gradient["a"].tolist() == [[2, 2], [6, 6]]
