"""Networks: shapes, sharing of parameters, refusals, transforms of functions."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from flambeau.data.tensordict.nn import set_interaction_type
from flambeau.rl.modules import (
    MLP,
    BatchRenorm1d,
    ConsistentDropout,
    ConvNet,
    DecisionTransformer,
    DTActor,
    MultiAgentConvNet,
    MultiAgentMLP,
    NoisyLazyLinear,
    NoisyLinear,
    QMixer,
    SqueezeLayer,
    VDNMixer,
    reset_noise,
)
from flambeau.rl.modules.models.exploration import LazygSDEModule, gSDEModule


def test_an_mlp_joins_its_inputs_and_shapes_its_outputs():
    net = MLP(in_features=5, out_features=(2, 3), num_cells=[8])
    first, second = torch.randn(4, 3), torch.randn(4, 2)
    assert net(first, second).shape == (4, 2, 3)
    torch.testing.assert_close(net(first, second), net(torch.cat([first, second], -1)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "out_features is None"),
        ({"out_features": 2, "depth": 3, "num_cells": [4]}, "num_cells has 1 sizes, depth is 3"),
        ({"out_features": 2, "num_cells": [4, 4], "activation_kwargs": [{}]}, "activation_kwargs has 1 elements"),
        ({"out_features": 2, "layer_class": nn.Bilinear}, "has no lazy form"),
        ({"out_features": 2, "layer_class": NoisyLinear, "single_bias_last_layer": True}, "whose bias has noise"),
    ],
)
def test_an_mlp_says_what_is_wrong_with_its_arguments(options, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        MLP(**options)


def test_convolutions_take_any_number_of_batch_dimensions():
    net = ConvNet(in_features=3, num_cells=[4, 5])
    x = torch.randn(2, 3, 3, 10, 10)
    out = net(x)
    torch.testing.assert_close(out[1, 2], net(x[1, 2]))
    torch.testing.assert_close(out[0], net(x[0]))
    with pytest.raises(ValueError, match="at least 3 dimensions"):
        net(torch.zeros(3, 3))


def test_squeezing_refuses_dimensions_of_another_size():
    with pytest.raises(RuntimeError, match="expected negative"):
        SqueezeLayer((0,))
    with pytest.raises(RuntimeError, match="the shape is"):
        SqueezeLayer((-1,))(torch.zeros(2, 3))


def test_noise_stays_until_it_is_reset_and_counts_in_exploration_alone():
    layer, x = NoisyLinear(3, 2), torch.randn(4, 3)
    with set_interaction_type("random"):
        first, again = layer(x), layer(x)
        layer.apply(reset_noise)
        other = layer(x)
    with set_interaction_type("deterministic"):
        mean = layer(x)
    assert torch.equal(first, again) and not torch.equal(first, other) and not torch.equal(first, mean)
    torch.testing.assert_close(mean, nn.functional.linear(x, layer.weight_mu, layer.bias_mu))


def test_lazy_noise_becomes_a_noisy_layer():
    layer = NoisyLazyLinear(2)
    layer(torch.zeros(1, 3))
    assert type(layer) is NoisyLinear and layer.weight_mu.shape == (2, 3)
    plain = NoisyLinear(3, 2)
    plain.load_state_dict(layer.state_dict())


def test_batch_renorm_ends_where_batch_norm_is_but_for_large_shifts():
    torch.manual_seed(0)
    renorm, norm = BatchRenorm1d(3, warmup_steps=10**6, momentum=0.1), nn.BatchNorm1d(3)
    for _ in range(5):
        x = torch.randn(16, 3) * 2 + 1
        torch.testing.assert_close(renorm(x), norm(x))
    torch.testing.assert_close(renorm.running_mean, norm.running_mean)
    torch.testing.assert_close(renorm.running_var, norm.running_var)
    torch.testing.assert_close(renorm.eval()(x), norm.eval()(x))


def test_state_dependent_noise_is_kept_and_linear_in_the_state():
    module, mu, state = gSDEModule(2, 3), torch.zeros(4, 2), torch.randn(4, 3)
    with set_interaction_type("random"):
        _, scale, action, noise = module(mu, state, torch.zeros(4, 1))
        _, _, again, kept = module(mu, state * 2, noise)
    assert torch.equal(noise, kept)
    torch.testing.assert_close(again, action * 2)
    torch.testing.assert_close(scale, module.sigma[0, 0] * state.norm(dim=-1, keepdim=True).expand(4, 2))
    with pytest.raises(RuntimeError, match="no exploration type is set"):
        module(mu, state, noise)


def test_lazy_state_dependent_noise_fits_the_size_of_states():
    module = LazygSDEModule(sigma_init=0.5)
    with set_interaction_type("mode"):
        scale = module(torch.zeros(1000, 2), torch.randn(1000, 3) * 10, torch.zeros(1000, 1))[1]
    assert abs(float(scale.detach().square().mean().sqrt()) - 0.5) < 1e-3


def test_dropout_is_repeated_with_its_mask():
    layer, x = ConsistentDropout(0.5), torch.randn(20, 30)
    out, mask = layer(x)
    assert torch.equal(layer(x, mask)[0], out) and set(mask.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(layer.eval()(x), x)


@pytest.mark.parametrize("centralized", [True, False])
@pytest.mark.parametrize("share_params", [True, False])
@pytest.mark.parametrize("use_td_params", [True, False])
def test_agents_compute_what_their_networks_compute(centralized, share_params, use_td_params):
    torch.manual_seed(0)
    net = MultiAgentMLP(
        3, 2, 4, centralized=centralized, share_params=share_params, use_td_params=use_td_params, depth=1, num_cells=5
    )
    x = torch.randn(6, 4, 3)
    out = net(x)
    stateful = net.get_stateful_net()
    for agent in range(4):
        values = dict(stateful.named_parameters())
        own = {name: value if share_params else value[agent] for name, value in values.items()}
        plain = MLP(3 * (4 if centralized else 1), 2, depth=1, num_cells=5)
        plain.load_state_dict(own)
        seen = x.flatten(-2) if centralized else x[:, agent]
        torch.testing.assert_close(out[:, agent], plain(seen))


@pytest.mark.parametrize("share_params", [True, False])
def test_parameters_of_agents_stay_where_they_are_after_calls(share_params):
    net = MultiAgentMLP(3, 2, 4, centralized=False, share_params=share_params, depth=1, num_cells=5)
    before = list(net.state_dict())
    net(torch.randn(6, 4, 3)).sum().backward()
    assert list(net.state_dict()) == before and all(name.startswith("params.") for name in before)
    assert all(parameter.grad is not None for parameter in net.parameters())
    net.to(torch.float64)
    assert net(torch.randn(6, 4, 3).double()).dtype == torch.float64
    buffer = io.BytesIO()
    torch.save(net.state_dict(), buffer)
    buffer.seek(0)
    net.load_state_dict(torch.load(buffer, weights_only=True))


def test_agents_take_values_of_a_stateful_network_and_are_drawn_anew():
    net = MultiAgentMLP(3, 2, 4, centralized=False, share_params=False, depth=0)
    stateful = net.get_stateful_net()
    nn.init.constant_(stateful[0].weight, 0.5)
    net.from_stateful_net(stateful)
    assert bool((net.params["0", "weight"] == 0.5).all())
    net.reset_parameters()
    weights = net.params["0", "weight"]
    assert not bool((weights == 0.5).any()) and not torch.equal(weights[0], weights[1])


def test_agents_with_images_join_channels_when_centralized():
    net = MultiAgentConvNet(2, True, False, in_features=3, num_cells=[4], kernel_sizes=3)
    assert net(torch.randn(5, 2, 3, 9, 9)).shape == (5, 2, 64)
    with pytest.raises(ValueError, match="channels, height, width"):
        net(torch.randn(5, 3, 3, 9, 9))


def test_agents_need_to_know_how_they_share():
    with pytest.raises(TypeError, match="share_params=True or share_params=False"):
        MultiAgentMLP(3, 2, 4, centralized=True)


def test_mixed_values_grow_with_each_agent_s_value():
    mixer = QMixer((5,), 6, 3, "cpu")
    values, state = torch.randn(10, 3, 1, requires_grad=True), torch.randn(10, 5)
    (gradient,) = torch.autograd.grad(mixer(values, state).sum(), values)
    assert bool((gradient >= 0).all())
    assert VDNMixer(3, "cpu")(torch.ones(2, 3, 1)).tolist() == [[3.0], [3.0]]
    with pytest.raises(ValueError, match="the values and the state"):
        mixer(values)


def test_decision_transformers_look_back_alone():
    net = DTActor(3, 2, {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_inner": 16, "n_positions": 32}).eval()
    observation, action, to_go = torch.randn(1, 6, 3), torch.randn(1, 6, 2), torch.randn(1, 6, 1)
    before = net(observation, action, to_go)
    observation[:, 4:], action[:, 3:], to_go[:, 4:] = 9.0, 9.0, 9.0
    torch.testing.assert_close(net(observation, action, to_go)[:, :4], before[:, :4])


def test_decision_transformers_say_what_they_cannot_do():
    config = {"n_embd": 8, "n_head": 2, "n_positions": 8}
    with pytest.raises(ValueError, match="n_positions allows 8"):
        DecisionTransformer(3, 2, config)(torch.zeros(1, 3, 3), torch.zeros(1, 3, 2), torch.zeros(1, 3, 1))
    with pytest.raises(ValueError, match="multiple of n_head"):
        DecisionTransformer(3, 2, {"n_embd": 9, "n_head": 2})


@pytest.mark.parametrize(
    "build",
    [
        lambda: (MLP(3, 2, num_cells=[4]), torch.randn(5, 4, 3)),
        lambda: (MultiAgentMLP(3, 2, 4, centralized=False, share_params=False, depth=1), torch.randn(5, 4, 3)),
        lambda: (MultiAgentMLP(3, 2, 4, centralized=True, share_params=True, depth=1), torch.randn(5, 4, 3)),
        lambda: (ConvNet(3, num_cells=[4]), torch.randn(2, 3, 8, 8)),
    ],
    ids=["mlp", "agents", "centralized", "images"],
)
def test_networks_compile_without_breaks(build):
    net, x = build()
    torch.testing.assert_close(torch.compile(net, backend="eager", fullgraph=True)(x), net(x))


def test_networks_work_as_functions_of_their_parameters():
    net, x = MLP(3, 2, num_cells=[4]), torch.randn(5, 3)
    stacked = {name: torch.stack([value, value * 2]) for name, value in net.state_dict().items()}
    both = torch.vmap(lambda values: torch.func.functional_call(net, values, (x,)))(stacked)
    torch.testing.assert_close(both[0], net(x))
