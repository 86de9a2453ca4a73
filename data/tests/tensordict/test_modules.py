"""Parameters of modules as tensordicts, and `TensorDictParams`."""

import copy
import pickle

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict, TensorDictParams, from_module, from_modules


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.BatchNorm1d(3), nn.Linear(3, 1))


def test_the_leaves_are_the_modules_own_tensors(net):
    td = from_module(net)
    assert td.is_locked
    assert not TensorDict.from_module(net).is_locked
    assert td["0", "weight"] is net[0].weight
    assert td["2", "running_mean"] is net[2].running_mean
    assert list(td.keys()) == ["0", "2", "3"]
    assert list(TensorDict.from_module(net, filter_empty=False).keys()) == ["0", "1", "2", "3"]


def test_shared_parameters_stay_shared():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    td = from_module(net)
    assert td["0", "weight"] is td["1", "weight"]


def test_other_parameters_hold_for_a_block_even_when_it_fails(net):
    x = torch.rand(5, 2)
    net.eval()
    before, own = net(x), dict(net.named_parameters())
    with (from_module(net).data * 2).to_module(net):
        assert not torch.equal(net(x), before)
    with pytest.raises(ZeroDivisionError), from_module(net).data.to_module(net):
        1 / 0
    assert all(net.get_parameter(name) is parameter for name, parameter in own.items())
    assert torch.equal(net(x), before)


def test_a_key_that_names_nothing_leaves_the_module_as_it_was(net):
    weight = net[0].weight
    wrong = TensorDict({"0": {"weight": torch.zeros(3, 2)}, "9": {"weight": torch.zeros(1)}})
    with pytest.raises(KeyError, match="'9' is no parameter, buffer or child of Sequential"):
        wrong.to_module(net)
    assert net[0].weight is weight


def test_values_can_be_copied_into_the_modules_tensors(net):
    weight = net[0].weight
    swapped = (from_module(net).data * 0).to_module(net, inplace=True)
    assert net[0].weight is weight
    assert not weight.any()
    assert swapped["0", "weight"].any()


def test_recurrent_layers_compute_with_the_parameters_they_were_given():
    layer = nn.LSTM(2, 3)
    x = torch.rand(4, 1, 2)
    with (from_module(layer).data * 0).to_module(layer):
        assert not layer(x)[0].any()
    assert layer(x)[0].any()


def test_an_ensemble_runs_under_vmap():
    nets = [nn.Linear(2, 3) for _ in range(4)]
    params = from_modules(*nets)
    x = torch.rand(5, 2)

    def call(params):
        with params.to_module(nets[0]):
            return nets[0](x)

    torch.testing.assert_close(torch.vmap(call)(params), torch.stack([net(x) for net in nets]))


def test_stacked_modules_keep_gradients_apart_and_identical_ones_can_share():
    nets = [nn.Linear(2, 3) for _ in range(2)]
    stacked = from_modules(*nets)
    assert isinstance(stacked["weight"], nn.Parameter)
    lazy = from_modules(*nets, lazy_stack=True)
    assert lazy[0]["weight"] is nets[0].weight
    shared = from_modules(nets[0], nets[0], expand_identical=True)
    assert shared["weight"].stride(0) == 0


def test_parameters_are_listed_by_their_keys_joined_by_dots():
    params = TensorDictParams(TensorDict({"a": torch.zeros(2), "b": {"c": torch.ones(2)}, "i": torch.tensor([1, 2])}))
    assert [name for name, _ in params.named_parameters()] == ["a", "b.c"]
    assert [name for name, _ in params.named_buffers()] == ["i"]
    holder = nn.ModuleDict({"params": params})
    assert sorted(holder.state_dict()) == ["params.a", "params.b.c", "params.i"]


def test_an_optimizer_moves_what_the_tensordict_holds():
    params = TensorDictParams(TensorDict({"a": {"b": torch.ones(2)}}))
    (params["a", "b"] ** 2).sum().backward()
    torch.optim.SGD(params.parameters(), lr=0.25).step()
    assert params["a", "b"].tolist() == [0.5, 0.5]
    assert params.grad["a", "b"].tolist() == [2, 2]


@pytest.mark.parametrize("change", ["double", "assign"])
def test_module_and_tensordict_hold_the_same_after(change):
    params = TensorDictParams(TensorDict({"a": torch.ones(2), "b": {"c": torch.ones(2)}, "i": torch.tensor([1])}))
    holder = nn.ModuleDict({"p": params})
    if change == "double":
        holder.double()
        assert params["b", "c"].dtype == torch.float64
    else:
        holder.load_state_dict({key: value * 2 for key, value in holder.state_dict().items()}, assign=True)
        assert params["b", "c"].tolist() == [2, 2]
    assert dict(holder.named_parameters())["p.a"] is params["a"]
    assert params._parameters["b.c"] is params["b", "c"]
    assert params._buffers["i"] is params["i"]


def test_a_state_dict_that_does_not_fit_is_refused():
    params = TensorDictParams(TensorDict({"a": torch.ones(2)}))
    with pytest.raises(RuntimeError, match="Missing key"):
        params.load_state_dict({"z": torch.ones(2)})
    with pytest.raises(RuntimeError, match=r"a has shape \[3\], expected \[2\]"):
        params.load_state_dict({"a": torch.ones(3)})
    params.load_state_dict({"a": torch.zeros(2)})
    assert not params["a"].any()


def test_new_entries_become_parameters():
    params = TensorDictParams(TensorDict({"a": torch.ones(2)}))
    params["b", "c"] = torch.zeros(2)
    params.update({"d": torch.zeros(2), "n": torch.tensor([1])})
    assert [name for name, _ in params.named_parameters()] == ["a", "b.c", "d"]
    del params["a"]
    assert [name for name, _ in params.named_parameters()] == ["b.c", "d"]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p)), lambda p: p.clone()])
def test_copies_have_parameters_of_their_own(copied):
    params = TensorDictParams(TensorDict({"a": torch.ones(2), "b": {"c": torch.ones(2)}}))
    other = copied(params)
    assert isinstance(other, TensorDictParams)
    assert other["a"] is not params["a"]
    assert dict(other.named_parameters())["b.c"] is other["b", "c"]


def test_no_convert_keeps_tensors_as_buffers_or_as_they_are():
    tensors = TensorDict({"a": torch.ones(2), "p": nn.Parameter(torch.ones(2))})
    assert [name for name, _ in TensorDictParams(tensors, no_convert=True).named_buffers()] == ["a"]
    assert TensorDictParams(tensors, no_convert="skip")["a"] is tensors["a"]


@pytest.mark.parametrize("as_module", [True, False])
def test_parameters_of_lazy_modules_are_stacked_when_they_get_a_shape(as_module):
    modules = [nn.LazyLinear(4), nn.LazyLinear(4)]
    params = TensorDict.from_modules(*modules, as_module=as_module)
    assert params.batch_size == torch.Size([2]) and isinstance(params["weight"], nn.parameter.UninitializedParameter)
    with params.to_module(modules[0]):
        modules[0].initialize_parameters(torch.ones(3))
    assert params["weight"].shape == (2, 4, 3) and params["bias"].shape == (2, 4)
    assert isinstance(modules[1].weight, nn.parameter.UninitializedParameter)


def test_what_cannot_be_stacked_is_told():
    with pytest.raises(RuntimeError, match="without a shape"):
        TensorDict.from_modules(nn.LazyLinear(4), nn.LazyLinear(4), lazy_stack=True)
    with pytest.raises(RuntimeError, match="no module"):
        TensorDict.from_modules()


def test_a_state_dict_of_modules_holds_tensors_alone():
    params = TensorDict.from_modules(nn.Linear(2, 2), nn.Linear(2, 2), use_state_dict=True)
    assert type(params["weight"]) is torch.Tensor and params["weight"].shape == (2, 2, 2)


def test_parameters_are_stacked_and_concatenated_to_a_plain_tensordict():
    params = TensorDictParams(TensorDict(a=torch.ones(2), batch_size=[2]))
    stacked, joined = torch.stack([params, params]), torch.cat([params, TensorDict(a=torch.zeros(1), batch_size=[1])])
    assert type(stacked) is type(joined) is TensorDict and stacked["a"].shape == (2, 2)
    joined["a"].sum().backward()
    assert params["a"].grad.tolist() == [1, 1]


def test_parts_of_parameters_are_written_without_a_trace():
    params = TensorDictParams(TensorDict({"a": torch.zeros(2, 3), "n": {"b": torch.zeros(2)}}, [2]))
    held = params["a"], params["n", "b"]
    params.update_at_(TensorDict({"a": torch.ones(3), "n": {"b": torch.ones(())}}), 0)
    params.set_at_(("n", "b"), 2.0, 1)
    params.set_("n", params["n"].detach() + 1)
    params.clamp_max_(2.5)
    params.clamp_min_(params.data * 0 + 0.5)
    assert params["a"] is held[0] and params["n", "b"] is held[1]
    assert params["a"].tolist() == [[1.0] * 3, [0.5] * 3] and params["n", "b"].tolist() == [2.0, 2.5]
    assert params["a"].requires_grad and params["a"].grad_fn is None


def test_the_full_index_gives_the_parameters_themselves():
    params = TensorDictParams(TensorDict(a=torch.zeros(2, 3), batch_size=[2]))
    assert params[...] is params and params[:] is params


def test_an_update_in_place_writes_what_is_there_and_adds_what_is_new():
    params = TensorDictParams(TensorDict(a=torch.zeros(2), n={"b": torch.zeros(2)}))
    a = params["a"]
    params.update({"a": torch.ones(2), "new": torch.ones(3)}, inplace=True)
    assert params["a"] is a
    assert a.tolist() == [1, 1]
    assert [name for name, _ in params.named_parameters()] == ["a", "n.b", "new"]
    params.update(TensorDict(n={"b": torch.ones(2)}), inplace=True, keys_to_update=["n"])
    assert params["n", "b"].tolist() == [1, 1]
    assert params["n", "b"].is_leaf


def test_parameters_change_their_type_in_place_and_stay_parameters():
    params = TensorDictParams(TensorDict(a=torch.zeros(2), count=torch.tensor(1)))
    assert params.to(torch.float64, inplace=True) is params
    assert [(name, leaf.dtype) for name, leaf in params.named_parameters()] == [("a", torch.float64)]
    a = params["a"]
    assert params.to("cpu", inplace=True)["a"] is a
    assert params.device == torch.device("cpu")
    with pytest.raises(RuntimeError, match="locked"):
        params.lock_().to(torch.float32, inplace=True)


def test_parameters_can_be_moved_for_a_block():
    params = TensorDictParams(TensorDict(a=torch.zeros(2)))
    with params.to("cpu") as moved:
        assert moved.device == torch.device("cpu")


def test_constants_in_the_place_of_parameters_become_parameters_as_they_were(net):
    weights = from_module(net).data.clone()
    with weights.to_module(net):
        assert all(isinstance(one, nn.Parameter) and one.requires_grad for one in net.parameters())
        assert net[0].weight.data_ptr() == weights["0", "weight"].data_ptr()
    graph = from_module(net) * 1
    with graph.to_module(net):
        assert not any(isinstance(one, nn.Parameter) for one in net.parameters())
    net.requires_grad_(False)
    with weights.to_module(net):
        assert not any(one.requires_grad for one in net.parameters())


def test_a_parameter_that_is_replaced_by_its_name_is_replaced_in_the_tensordict():
    params = TensorDictParams(TensorDict({"a": {"b": torch.zeros(2)}}, []), no_convert=False)
    other = torch.nn.Parameter(torch.ones(2))
    setattr(params, "a.b", other)
    assert params["a", "b"] is other
    assert dict(params.named_parameters()) == {"a.b": other}
