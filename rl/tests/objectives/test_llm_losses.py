"""Losses of language models: tokens that count, bounds of ratios, divergences."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.rl.modules.distributions import LLMMaskedCategorical
from flambeau.rl.objectives.llm import DAPO, CISPOLoss, GRPOLoss, GRPOLossOutput, k3_kl_token_estimate


class Model(nn.Module):
    """Distributions of tokens by a table of logits."""

    in_keys, out_keys = [("tokens", "full")], [("log_probs", "full")]

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 7)

    def _get_sft_dist(self, tensordict):
        return LLMMaskedCategorical(self.table(tensordict["tokens", "full"]), tensordict["mask"])

    _get_rlhf_dist = _get_generic_dist = _get_sft_dist


def batch(model, fallen=0.0, advantage=1.0):
    """Two answers of five and three tokens, drawn when they were `exp(fallen)` times as likely."""
    torch.manual_seed(0)
    mask = torch.tensor([[True] * 5, [False] * 2 + [True] * 3])
    data = TensorDict({"tokens": {"full": torch.randint(7, (2, 5))}, "mask": mask}, [2])
    score = model._get_sft_dist(data).log_prob(data["tokens", "full"]).detach()
    data["log_probs"] = TensorDict({"full": score + fallen}, [2])
    data["next"] = TensorDict({"ref_log_probs": {"full": score}}, [2])
    data["advantage"] = torch.full((2, 5, 1), advantage)
    return data


def test_answers_with_an_advantage_become_likelier():
    model = Model()
    data, loss = batch(model), GRPOLoss(model, entropy_bonus=False)
    optimizer = torch.optim.SGD(loss.parameters(), 1.0)
    for _ in range(3):
        found = loss(data)
        optimizer.zero_grad()
        found.loss_objective.backward()
        optimizer.step()
    assert isinstance(found, GRPOLossOutput) and found.kl_approx < 0 and found.loss_objective < -1


def test_ratios_beyond_their_bounds_earn_nothing_more():
    model = Model()
    data = batch(model, fallen=-1.0)
    torch.testing.assert_close(GRPOLoss(model)(data).loss_objective.detach(), torch.tensor(-1.2))
    torch.testing.assert_close(DAPO(model, clip_epsilon=(0.2, 0.28))(data).loss_objective.detach(), torch.tensor(-1.28))
    data["advantage"] = -data["advantage"]
    assert GRPOLoss(model)(data).loss_objective > 2.7
    torch.testing.assert_close(CISPOLoss(model)(data).loss_objective.detach(), torch.tensor(1.2))


def test_tokens_that_a_mask_leaves_out_do_not_count():
    model = Model()
    data = batch(model)
    data["advantage"][1, :2] = 1000
    assert GRPOLoss(model)(data).loss_objective == -1
    each = GRPOLoss(model, reduction="none")(data).loss_objective
    assert each.shape == (2, 5, 1) and not each[1, :2].any()
    data["advantage"][1] = 3
    assert GRPOLoss(model)(data).loss_objective == -14 / 8
    assert GRPOLoss(model, aggregation="prompt_mean")(data).loss_objective == -2


def test_tokens_that_drifted_away_can_be_left_out():
    model = Model()
    data = batch(model)
    data["log_probs", "full"][0, 0] -= 3
    assert GRPOLoss(model)(data).ESS < 0.5
    torch.testing.assert_close(GRPOLoss(model, kl_mask_threshold=1.0)(data).ESS, torch.tensor(1.0))


def test_divergences_count_by_their_coefficients():
    model = Model()
    found = GRPOLoss(model, kl_to_ref_coeff=0.5, kl_to_inference_coeff=2.0)(batch(model, fallen=1.0))
    assert found.kl_to_ref == 0
    torch.testing.assert_close(found.loss_kl_to_inference.detach(), 2 * found.kl_to_inference)
    torch.testing.assert_close(found.kl_to_inference, torch.tensor(1.0).exp() - 2)
    assert k3_kl_token_estimate(torch.randn(9), torch.randn(9)).min() >= 0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"zzz": 1}, "zzz"),
        ({"aggregation": "median"}, "aggregation"),
        ({"masking_strategy": "all"}, "masking_strategy"),
    ],
)
def test_arguments_that_make_no_sense_are_named(options, name):
    with pytest.raises((TypeError, ValueError), match=name):
        GRPOLoss(Model(), **options)


def test_what_is_missing_in_a_batch_is_named():
    model = Model()
    with pytest.raises(ValueError, match="advantage"):
        GRPOLoss(model)(batch(model).exclude("advantage"))
    with pytest.raises(KeyError, match="log_probs"):
        GRPOLoss(model)(batch(model).exclude("log_probs"))
    with pytest.raises(ValueError, match="shape"):
        GRPOLoss(model)(batch(model).set("advantage", torch.ones(2, 5)))
