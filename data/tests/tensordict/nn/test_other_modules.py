"""Ensembles, modules of tensorclasses, parameters as arguments, CUDA graphs."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorClass, TensorDict
from flambeau.data.tensordict.nn import (
    CudaGraphModule,
    EnsembleModule,
    TensorClassModuleBase,
    TensorDictModule,
    TensorDictSequential,
    get_functional,
    is_functional,
    make_functional,
    repopulate_module,
)


def ensemble(**options) -> EnsembleModule:
    return EnsembleModule(TensorDictModule(nn.Linear(3, 2), ["a"], ["b"]), num_copies=4, **options)


def test_each_copy_answers_with_its_own_parameters():
    module, data = ensemble(), TensorDict({"a": torch.ones(5, 3)}, [5])
    out = module(data)["b"]
    for index in range(4):
        weight, bias = (module.params_td["module", name][index] for name in ("weight", "bias"))
        torch.testing.assert_close(out[index], data["a"] @ weight.T + bias)
    assert not torch.equal(out[0], out[1])


def test_copies_read_their_part_and_gradients_reach_each():
    module = ensemble(expand_input=False)
    out = module(TensorDict({"a": torch.ones(4, 5, 3)}, [4]))["b"]
    assert out.shape == (4, 5, 2)
    out.sum().backward()
    assert module.params_td["module", "weight"].grad.shape == (4, 2, 3)
    with pytest.raises(ValueError, match="num_copies"):
        EnsembleModule(TensorDictModule(nn.Linear(3, 2), ["a"], ["b"]), num_copies=0)


def test_an_ensemble_is_copied_pickled_and_drawn_anew():
    module, data = ensemble(), TensorDict({"a": torch.ones(5, 3)}, [5])
    expected = module(data.copy())["b"]
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(data.copy())["b"], expected)
    module.reset_parameters_recursive()
    assert not torch.equal(module(data.copy())["b"], expected)


class Seen(TensorClass):
    x: torch.Tensor


class Done(TensorClass):
    y: torch.Tensor


class Adds(TensorClassModuleBase[Seen, Done]):
    def forward(self, x: Seen) -> Done:
        return Done(y=x.x + 1, batch_size=x.batch_size)


class Bare(TensorClassModuleBase[torch.Tensor, torch.Tensor]):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_a_module_of_tensorclasses_reads_and_writes_their_fields():
    assert Adds()(Seen(x=torch.ones(2), batch_size=[2])).y.tolist() == [2.0, 2.0]
    module = Adds().as_td_module()
    assert (module.in_keys, module.out_keys) == (["x"], ["y"])
    assert module(TensorDict({"x": torch.ones(2)}, [2]))["y"].tolist() == [2.0, 2.0]
    assert module(x=torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="no tensorclass"):
        Bare().as_td_module()


def test_parameters_become_an_argument_and_come_back():
    layer, x = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval(), torch.ones(1, 2)
    expected = layer(x)
    params = make_functional(layer)
    assert is_functional(layer) and not list(layer.parameters()) and not list(layer.buffers())
    torch.testing.assert_close(layer(x, params=params), expected)
    assert not torch.equal(layer(x, params=params.apply(lambda p: p * 2)), expected)
    assert repopulate_module(layer, params) is layer and not is_functional(layer)
    torch.testing.assert_close(layer(x), expected)
    assert len(list(layer.parameters())) == 4 and len(list(layer.buffers())) == 3
    functional = get_functional(layer)
    assert is_functional(functional) and not is_functional(layer)


def test_without_a_cuda_device_graphs_are_plain_calls():
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.warns(UserWarning, match="no CUDA device"):
        module = CudaGraphModule(TensorDictModule(nn.Linear(3, 2), ["a"], ["b"]))
    for _ in range(4):
        assert module(TensorDict({"a": torch.ones(5, 3)}, [5]))["b"].shape == (5, 2)
    assert module(torch.ones(5, 3)).shape == (5, 2)
    with pytest.warns(UserWarning):
        assert CudaGraphModule(torch.neg)(torch.ones(1)).item() == -1.0
    with pytest.raises(ValueError, match="warmup"):
        CudaGraphModule(torch.neg, warmup=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_replayed_graph_gives_the_modules_results():
    layer = nn.Linear(3, 2, device="cuda")
    graph = CudaGraphModule(TensorDictModule(layer, ["a"], ["b"]))
    for step in range(5):
        data = TensorDict({"a": torch.full((5, 3), float(step), device="cuda")}, [5])
        torch.testing.assert_close(graph(data)["b"], layer(data["a"]))
    with pytest.raises(RuntimeError):
        graph(TensorDict({"a": torch.ones(6, 3, device="cuda")}, [6]))


def test_functions_of_torch_may_be_taught_to_parameters():
    from flambeau.data.tensordict import TensorDictParams
    from flambeau.data.tensordict.nn import params as home

    parameters = TensorDictParams(TensorDict(w=torch.ones(2)))
    assert float(torch.sum(parameters)["w"].detach()) == 2.0
    home.implements_for_tdparam(torch.sum)(lambda given: "taught")
    try:
        assert torch.sum(parameters) == "taught"
    finally:
        del home._FUNCTIONS[torch.sum]


def test_an_ensemble_keeps_what_it_reads_and_chains():
    first = EnsembleModule(TensorDictModule(nn.Linear(3, 4), ["a"], ["b"]), 2)
    second = EnsembleModule(TensorDictModule(nn.Linear(4, 1), ["b"], ["c"]), 2, expand_input=False)
    data = TensorDict(a=torch.ones(5, 3), z=torch.zeros(5), name="left", batch_size=[5])
    result = TensorDictSequential(first, second)(data)
    assert {key: value.shape for key, value in result.items() if isinstance(value, torch.Tensor)} == {
        "a": (2, 5, 3),
        "z": (2, 5),
        "b": (2, 5, 4),
        "c": (2, 5, 1),
    }
    assert result["name"] == "left" and set(data.keys()) == {"a", "z", "name"}
