"""What losses have in common: parameters taken out of networks, targets, keys, masks and estimators."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import InteractionType, TensorDictModule
from flambeau.data.tensordict.nn.probabilistic import interaction_type
from flambeau.rl.objectives import _estimator_choice, common, utils


class Loss(common.LossModule):
    in_keys, out_keys = ["o"], ["loss"]

    def __init__(self, net, **options):
        super().__init__()
        self.convert_to_functional(net, "net", **options)

    def forward(self, tensordict):
        with self.net_params.to_module(self.net):
            return TensorDict(loss=self.net(tensordict)["x"].mean())


def network(*layers):
    return TensorDictModule(nn.Sequential(*layers) if layers else nn.Linear(4, 3), ["o"], ["x"])


def test_a_loss_trains_the_parameters_of_its_network():
    net = network()
    loss = Loss(net)
    assert [id(each) for each in loss.parameters()] == [id(each) for each in net.parameters()]
    loss(TensorDict(o=torch.ones(2, 4)))["loss"].backward()
    assert all(each.grad is not None for each in net.parameters())


def test_targets_without_delay_are_the_values_of_now():
    net = network()
    loss = Loss(net)
    target = loss.target_net_params["module", "bias"]
    with torch.no_grad():
        net.module.bias.add_(1)
    assert not target.requires_grad and torch.equal(target, net.module.bias)


def test_targets_without_delay_move_with_the_loss_and_with_its_copies():
    loss = Loss(network())
    before = loss.target_net_params
    other = copy.deepcopy(loss)
    with torch.no_grad():
        other.net.module.bias.add_(1)
    assert torch.equal(other.target_net_params["module", "bias"], other.net.module.bias)
    assert not torch.equal(before["module", "bias"], other.net.module.bias)
    assert loss.double().target_net_params["module", "bias"].dtype == torch.float64


def test_delayed_targets_are_buffers_that_no_optimizer_sees():
    loss = Loss(network(), create_target_params=True)
    assert [name for name, _ in loss.named_parameters()] == ["net_params.module.weight", "net_params.module.bias"]
    assert [name for name, _ in loss.named_buffers()] == [
        "target_net_params.module.weight", "target_net_params.module.bias",
    ]  # fmt: skip


def test_soft_updates_keep_a_share_of_the_target_and_copy_counters():
    loss = Loss(network(nn.BatchNorm1d(4)), create_target_params=True)
    update = utils.SoftUpdate(loss, tau=0.25)
    with torch.no_grad():
        loss.net.module[0].weight.add_(4)
        loss.net.module[0].num_batches_tracked.fill_(7)
    update.step()
    target = loss.target_net_params
    torch.testing.assert_close(target["module", "0", "weight"], torch.full((4,), 2.0))
    assert target["module", "0", "num_batches_tracked"] == 7


def test_hard_updates_copy_after_the_steps_that_were_asked_for_and_resume_from_a_state():
    loss = Loss(network(), create_target_params=True)
    update = utils.HardUpdate(loss, value_network_update_interval=2)
    with torch.no_grad():
        loss.net.module.bias.fill_(5)
    update.step()
    resumed = utils.HardUpdate(Loss(network(), create_target_params=True), value_network_update_interval=2)
    resumed.load_state_dict(update.state_dict())
    update.step()
    assert not loss.target_net_params["module", "bias"].eq(5).any()
    update.step()
    assert loss.target_net_params["module", "bias"].eq(5).all()
    assert (resumed.counter, update.counter) == (1, 0)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, RuntimeError),
        ({"eps": 2.0}, ValueError),
        ({"tau": -0.1}, ValueError),
        ({"eps": 0.9, "tau": 0.1}, ValueError),
    ],
)
def test_soft_updates_refuse_rates_that_make_no_sense(options, error):
    with pytest.raises(error, match=r"eps|tau"):
        utils.SoftUpdate(Loss(network(), create_target_params=True), **options)


def test_updaters_refuse_losses_without_targets_of_their_own():
    with pytest.raises(RuntimeError, match="delay_value"):
        utils.SoftUpdate(Loss(network()), tau=0.1)
    with pytest.raises(ValueError, match="LossModule"):
        utils.SoftUpdate(nn.Linear(1, 1), tau=0.1)


def test_targets_that_nothing_updates_are_told_of_once():
    loss = Loss(network(), create_target_params=True)
    with pytest.warns(UserWarning, match="SoftUpdate"):
        loss(TensorDict(o=torch.ones(2, 4)))
    loss(TensorDict(o=torch.ones(2, 4)))


def test_several_networks_share_what_another_trains_even_after_they_moved_or_loaded():
    body, head = nn.Linear(4, 3), nn.Linear(3, 2)
    loss = Loss(network(body), create_target_params=False)
    loss.convert_to_functional(network(body, head), "critic", expand_dim=3, compare_against=list(body.parameters()))
    names = [name for name, _ in loss.named_parameters()]
    assert "critic_params.module.1.weight" in names and "critic_params.module.0.weight" not in names
    loss.double()
    loss.load_state_dict(copy.deepcopy(loss.state_dict()))
    with torch.no_grad():
        body.bias.fill_(9)
    assert loss.critic_params["module", "0", "bias"].eq(9).all()
    assert loss.critic_params["module", "1", "weight"].shape == (3, 2, 3)


def test_one_network_uses_what_another_trains_without_training_it():
    body, head = nn.Linear(4, 3), nn.Linear(3, 2)
    loss = Loss(network(body))
    loss.convert_to_functional(network(body, head), "critic", compare_against=list(body.parameters()))
    names = [name for name, _ in loss.named_parameters()]
    assert "critic_params.module.1.weight" in names and "critic_params.module.0.weight" not in names
    with loss.critic_params.to_module(loss.critic):
        loss.critic(TensorDict(o=torch.ones(2, 4)))["x"].sum().backward()
    assert body.weight.grad is None and head.weight.grad is not None
    with torch.no_grad():
        body.bias.fill_(9)
    assert loss.critic_params["module", "0", "bias"].eq(9).all()


def test_several_networks_of_one_kind_start_apart_from_each_other():
    weights = Loss(network(), expand_dim=2).net_params["module", "weight"]
    assert not torch.equal(weights[0], weights[1]) and weights.requires_grad


def test_a_list_of_networks_is_stacked_as_it_is():
    nets = [network(), network()]
    weights = Loss(nets, expand_dim=2).net_params["module", "weight"]
    assert torch.equal(weights[1], nets[1].module.weight)
    with pytest.raises(RuntimeError, match="expand_dim"):
        Loss(nets, expand_dim=3)


@pytest.mark.parametrize("options", [{"create_target_params": True}, {"expand_dim": 2}], ids=str)
def test_networks_without_shapes_are_refused_where_values_are_needed(options):
    with pytest.raises(RuntimeError, match="shape"):
        Loss(TensorDictModule(nn.LazyLinear(3), ["o"], ["x"]), **options)


def test_losses_survive_copies_and_pickles_with_networks_and_parameters_tied():
    for other in (copy.deepcopy(Loss(network())), pickle.loads(pickle.dumps(Loss(network())))):
        assert next(other.net.parameters()) is next(other.parameters())


def test_stateful_networks_go_out_and_come_back():
    loss = Loss(network())
    net = loss.get_stateful_net("net", copy=True)
    assert net is not loss.net and next(net.parameters()) is next(loss.parameters())
    other = network()
    loss.from_stateful_net("net", other)
    assert torch.equal(loss.net_params["module", "weight"], other.module.weight)
    with pytest.raises(RuntimeError):
        loss.from_stateful_net("net", TensorDictModule(nn.Linear(2, 2), ["o"], ["x"]))


def test_parameters_are_drawn_anew_for_each_network():
    loss = Loss(network(), expand_dim=2, create_target_params=True)
    before = copy.deepcopy(loss.state_dict())
    loss.reset_parameters_recursive()
    assert not any(torch.equal(value, before[name]) for name, value in loss.state_dict().items())
    assert not torch.equal(*loss.net_params["module", "weight"])


def test_networks_with_dropout_draw_for_themselves():
    assert Loss(network(nn.Linear(4, 3), nn.Dropout())).vmap_randomness == "different"
    assert Loss(network()).vmap_randomness == "error"
    with pytest.raises(ValueError, match="randomness"):
        Loss(network()).set_vmap_randomness("some")
    with pytest.raises(TypeError, match="class"):
        common.add_random_module("Dropout")


def test_forward_takes_what_stands_for_distributions():
    class Told(common.LossModule):
        def forward(self, tensordict):
            return interaction_type()

    assert Told()(TensorDict()) is InteractionType.DETERMINISTIC
    assert interaction_type() is None


def test_keys_that_a_loss_does_not_have_are_refused_by_name():
    with pytest.raises(ValueError, match="zzz"):
        Loss(network()).set_keys(zzz="a")
    with pytest.raises(ValueError, match="loss_mask_key"):
        Loss(network()).loss_mask_key = 3


def test_masks_of_collectors_and_estimators_leave_steps_out():
    loss, errors = Loss(network()), torch.arange(6.0).view(2, 3)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    batch = TensorDict({"collector": {"mask": mask}}, [2, 3])
    torch.testing.assert_close(loss._reduce_loss(errors, batch), torch.tensor(4 / 3))
    assert loss._reduce_loss(errors, batch, reduction="none").tolist() == [[0, 1, 0], [3, 0, 0]]
    assert loss._reduce_loss(errors[..., None], batch, reduction="sum") == 4
    loss.loss_mask_key = None
    assert loss._reduce_loss(errors, batch) == 2.5


def test_weighted_means_are_divided_by_the_weights():
    errors, weights = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 1.0])
    assert utils._reduce(errors, "mean", weights=weights) == 1.25
    with pytest.raises(ValueError, match="weights"):
        utils._reduce(errors, "mean", weights=torch.ones(1))
    with pytest.raises(NotImplementedError, match="median"):
        utils._reduce(errors, "median")


def test_distances_are_not_reduced_and_refuse_to_broadcast():
    one, other = torch.tensor([3.0, 0.5]), torch.tensor([1.0, 1.0])
    assert utils.distance_loss(one, other, "l2").tolist() == [4, 0.25]
    assert utils.distance_loss(one, other, "l1").tolist() == [2, 0.5]
    assert utils.distance_loss(one, other, "smooth_l1").tolist() == [1.5, 0.125]
    with pytest.raises(RuntimeError, match="shape"):
        utils.distance_loss(one, other[:1], "l2")
    with pytest.raises(NotImplementedError, match="cosine"):
        utils.distance_loss(one, other, "cosine")


def test_networks_are_held_constant_parameter_by_parameter():
    net = nn.Linear(2, 2)
    net.weight.requires_grad_(False)
    with utils.hold_out_net(net):
        assert not any(each.requires_grad for each in net.parameters())
    assert [each.requires_grad for each in net.parameters()] == [False, True]


def test_grouped_optimizers_keep_what_they_accumulated():
    one, other = nn.Linear(1, 1), nn.Linear(1, 1)
    optimizers = [torch.optim.Adam(one.parameters(), lr=0.1), torch.optim.Adam(other.parameters(), lr=0.2)]
    one(torch.ones(1)).backward()
    optimizers[0].step()
    grouped = utils.group_optimizers(*optimizers)
    assert [group["lr"] for group in grouped.param_groups] == [0.1, 0.2]
    assert grouped.state[one.weight]["step"] == 1
    with pytest.raises(ValueError, match="class"):
        utils.group_optimizers(optimizers[0], torch.optim.SGD(other.parameters(), lr=0.1))


def test_learning_rates_follow_divergences_within_bounds():
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    schedule = utils.KLAdaptiveLR(optimizer, 0.01, factor=2.0, min_lr=0.04, max_lr=0.3)
    seen = []
    for kl in (0.021, 0.02, 0.03, torch.tensor(0.001), 0.0, 0.001, 0.001):
        schedule.step(kl)
        seen += schedule.get_last_lr()
    assert seen == pytest.approx([0.05, 0.05, 0.04, 0.08, 0.08, 0.16, 0.3])
    with pytest.raises(ValueError, match="finite"):
        schedule.step(float("nan"))


def test_several_networks_are_called_together_or_one_by_one():
    net = network()
    params = Loss(net, expand_dim=3).net_params
    batch = TensorDict(o=torch.ones(2, 4))
    together = utils._vmap_func(net, (None, 0))(batch, params)
    one_by_one = utils._vmap_func(net, (None, 0), pseudo_vmap=True)(batch, params)
    torch.testing.assert_close(together["x"], one_by_one["x"])


def test_estimators_of_values_are_known_by_name_and_can_be_added():
    from enum import Enum

    from flambeau.rl.objectives.value import GAE

    class Mine(Enum):
        OWN = "own"

    assert utils.default_value_kwargs("gae") == {"gamma": 0.99, "lmbda": 0.95, "differentiable": True}
    with pytest.raises(KeyError, match="nope"):
        utils.get_value_estimator_entry("nope")
    utils.register_value_estimator(Mine.OWN, default_kwargs={"lmbda": 0.5})(GAE)
    try:
        assert utils.get_value_estimator_entry("own").cls is GAE
        assert utils.default_value_kwargs("own") == {"lmbda": 0.5}
    finally:
        _estimator_choice._REGISTERED.pop(Mine.OWN)
