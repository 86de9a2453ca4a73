"""Losses that imitate recorded actions, tell experts from agents, or reward what is new."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.core.testing.fill import tensor
from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import NormalParamExtractor, TensorDictModule
from flambeau.rl.modules import Actor, DiffusionActor, OneHotCategorical, ProbabilisticActor, TanhDelta, TanhNormal
from flambeau.rl.objectives import ACTLoss, BCLoss, DiffusionBCLoss, DTLoss, GAILLoss, OnlineDTLoss, RNDLoss

OBS, ACT = 4, 3


def gaussian():
    net = nn.Sequential(nn.Linear(OBS, 2 * ACT), NormalParamExtractor())
    module = TensorDictModule(net, ["observation"], ["loc", "scale"])
    return ProbabilisticActor(module, in_keys=["loc", "scale"], distribution_class=TanhNormal)


def point():
    module = TensorDictModule(nn.Linear(OBS, ACT), ["observation"], ["param"])
    return ProbabilisticActor(module, in_keys=["param"], distribution_class=TanhDelta)


def steps(shape=(5,)):
    return TensorDict({"observation": tensor("o", (*shape, OBS)), "action": tensor("a", (*shape, ACT)) * 0.9}, shape)


def test_cloning_by_a_distribution_is_minus_the_log_probability():
    actor, data = gaussian(), steps()
    expected = -actor.get_dist(data.clone()).log_prob(data["action"])
    torch.testing.assert_close(BCLoss(actor, reduction="none")(data)["loss_bc"], expected)


def test_cloning_without_a_distribution_or_by_one_of_a_point_is_a_squared_distance():
    for actor in (Actor(nn.Linear(OBS, ACT), in_keys=["observation"]), point()):
        data = steps()
        expected = (actor(data.clone())["action"] - data["action"]).square().mean()
        torch.testing.assert_close(BCLoss(actor)(data)["loss_bc"], expected)


def test_choices_are_cloned_as_numbers_and_as_one_hot_vectors():
    module = TensorDictModule(nn.Linear(OBS, ACT), ["observation"], ["logits"])
    actor = ProbabilisticActor(module, in_keys=["logits"], distribution_class=OneHotCategorical)
    data = steps()
    number = data["action"].argmax(-1)
    one_hot = BCLoss(actor, loss_function="cross_entropy")(data.set("action", nn.functional.one_hot(number, ACT)))
    numbers = BCLoss(actor, loss_function="cross_entropy")(data.set("action", number))
    torch.testing.assert_close(one_hot["loss_bc"], numbers["loss_bc"])


def test_padding_is_left_out_and_all_of_it_is_no_loss():
    actor = Actor(nn.Linear(OBS, ACT), in_keys=["observation"])
    loss = BCLoss(actor, loss_function="l1", reduction="none")
    loss.set_keys(pad_mask="pad")
    data = steps().set("pad", torch.tensor([False, True, True, True, True]))
    assert loss(data)["loss_bc"].shape == (ACT,)
    loss.reduction = "mean"
    assert loss(data.set("pad", torch.ones(5, dtype=torch.bool)))["loss_bc"] == 0


def test_a_mask_of_elements_needs_a_loss_of_elements():
    loss = BCLoss(gaussian())
    loss.set_keys(pad_mask="pad")
    with pytest.raises(RuntimeError, match="l1"):
        loss(steps().set("pad", torch.zeros(5, ACT, dtype=torch.bool)))
    with pytest.raises(ValueError, match="huber"):
        BCLoss(gaussian(), loss_function="huber")


def test_what_is_imitated_must_be_there():
    with pytest.raises(KeyError, match=r"set_keys\(action="):
        BCLoss(gaussian())(steps().exclude("action"))


def test_decision_transformers_compare_their_actions_with_recorded_ones():
    actor, data = point(), steps((2, 3))
    expected = (actor(data.clone())["action"] - data["action"]).square().mean()
    torch.testing.assert_close(DTLoss(actor)(data)["loss"], expected)


def test_online_decision_transformers_keep_their_entropy_by_a_temperature():
    loss = OnlineDTLoss(gaussian(), target_entropy=-100.0)
    out = loss(steps((2, 3)))
    (out["loss_log_likelihood"] + out["loss_entropy"] + out["loss_alpha"]).backward()
    assert loss.log_alpha.grad > 0  # more entropy than asked for: the temperature falls
    with pytest.raises(NotImplementedError):
        loss.make_value_estimator("td0")


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(OBS + ACT, 1)

    def forward(self, observation, action):
        return self.net(torch.cat([observation, action], -1)).sigmoid()


def both_kinds(shape=(6,)):
    data = steps(shape)
    data["collector_observation"] = data["observation"] + 2
    return data.set("collector_action", data["action"])


@pytest.mark.parametrize("penalty", [False, True])
def test_discriminators_learn_to_tell_experts_from_agents(penalty):
    torch.manual_seed(0)
    network = TensorDictModule(Discriminator(), ["observation", "action"], ["d_logits"])
    loss = GAILLoss(network, use_grad_penalty=penalty, gp_lambda=0.1)
    optimizer = torch.optim.Adam(loss.parameters(), 0.1)
    for _ in range(30):
        optimizer.zero_grad()
        loss(both_kinds())["loss"].backward()
        optimizer.step()
    agent = both_kinds().select("collector_observation", "collector_action")
    agent.rename_key_("collector_observation", "observation").rename_key_("collector_action", "action")
    assert network(both_kinds())["d_logits"].mean() > 0.5 > network(agent)["d_logits"].mean()


def test_novelty_fades_where_an_agent_has_been():
    torch.manual_seed(0)
    predictor, target = nn.Linear(OBS, 3), nn.Linear(OBS, 3)
    loss = RNDLoss(predictor, target, update_fraction=1.0)
    data = TensorDict({"next": {"observation": tensor("o", (8, OBS))}}, [8])
    optimizer = torch.optim.SGD(predictor.parameters(), 0.3)
    first = loss(data)["loss_predictor"].item()
    for _ in range(50):
        optimizer.zero_grad()
        loss(data)["loss_predictor"].backward()
        optimizer.step()
    assert loss(data)["loss_predictor"] < 0.1 * first
    assert not any(parameter.requires_grad for parameter in target.parameters())


def test_a_random_part_of_a_batch_trains_the_predictor():
    torch.manual_seed(0)
    loss = RNDLoss(nn.Linear(OBS, 3), nn.Linear(OBS, 3), reduction="none", update_fraction=0.5)
    counted = loss(TensorDict({"next": {"observation": torch.ones(1000, OBS)}}, [1000]))["loss_predictor"] > 0
    assert 400 < counted.sum() < 600
    with pytest.raises(ValueError, match="update_fraction"):
        RNDLoss(nn.Linear(1, 1), nn.Linear(1, 1), update_fraction=1.5)


def test_diffusion_policies_predict_the_noise_that_was_mixed_in():
    torch.manual_seed(0)
    loss = DiffusionBCLoss(DiffusionActor(action_dim=ACT, obs_dim=OBS, num_steps=5), reduction="none")
    found = loss(steps((2, 3)))["loss_diffusion_bc"]
    assert found.shape == (2, 3, ACT) and found.ge(0).all()
    found.sum().backward()
    assert all(parameter.grad is not None for parameter in loss.parameters())


class Autoencoder(nn.Module):
    def forward(self, observation, chunk):
        return chunk + 0.5, torch.ones(*chunk.shape[:-2], 3), torch.zeros(*chunk.shape[:-2], 3)


def test_chunks_are_reconstructed_by_latents_near_the_standard_normal_distribution():
    actor = TensorDictModule(Autoencoder(), ["observation", "action_chunk"], ["action_pred", "mu", "log_var"])
    data = TensorDict({"observation": torch.ones(2, OBS), "vla_action": {"chunk": torch.ones(2, 4, ACT)}}, [2])
    out = ACTLoss(actor, kl_weight=2.0)(data)
    assert out["loss_reconstruction"] == 0.5 and out["loss_kl"] == 1.5 and out["loss_act"] == 3.5


@pytest.mark.parametrize(
    "make",
    [
        lambda: BCLoss(gaussian()),
        lambda: DTLoss(point()),
        lambda: OnlineDTLoss(gaussian(), target_entropy=-1.0),
        lambda: DiffusionBCLoss(DiffusionActor(action_dim=ACT, obs_dim=OBS, num_steps=5)),
    ],
)
def test_losses_are_called_by_arguments_and_mask_steps(make):
    loss, data = make(), steps((4, 2))
    loss(observation=data["observation"], action=data["action"])
    loss.reduction = "none"
    mask = torch.tensor([True, True, False, False]).unsqueeze(-1).expand(4, 2)
    out = loss(data.set(("collector", "mask"), mask))
    for key, value in out.items():
        if key.startswith("loss"):
            assert not value[2:].any()
