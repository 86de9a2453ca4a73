"""Latent world models, two-hot scalars, a critic of several groups of agents."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Bounded
from flambeau.rl.modules import (
    CrossCriticGroupSpec,
    CrossGroupCritic,
    ObsDecoder,
    ObsEncoder,
    RSSMPosterior,
    RSSMPrior,
    RSSMRollout,
    SafeModule,
    SymExpTwoHot,
)
from flambeau.rl.modules.models.model_based import two_hot_decode, two_hot_encode


@given(st.floats(-3, 3))
def test_the_mean_of_a_two_hot_encoding_is_the_value_within_the_support(x):
    bins = torch.tensor([-2.0, -1.0, 0.5, 2.0], dtype=torch.float64)
    encoded = two_hot_encode(torch.tensor(x, dtype=torch.float64), bins)
    assert int((encoded > 0).sum()) <= 2
    torch.testing.assert_close((encoded * bins).sum(), torch.tensor(x, dtype=torch.float64).clamp(-2, 2))


def test_equal_logits_are_exactly_zero_on_a_symmetric_support():
    head = SymExpTwoHot(255)
    assert float(head(torch.zeros(255))) == 0.0
    assert torch.equal(head.bins, -head.bins.flip(0))


def test_a_support_needs_two_values():
    with pytest.raises(ValueError, match="K >= 2"):
        two_hot_encode(torch.zeros(3), torch.zeros(1))
    torch.testing.assert_close(two_hot_decode(torch.zeros(3), torch.tensor([0.0, 1.0, 5.0])), torch.tensor(2.0))


def test_images_go_to_vectors_and_back_to_their_size():
    assert ObsEncoder(channels=4)(torch.zeros(2, 3, 3, 64, 64)).shape == (2, 3, 128)
    assert ObsDecoder(channels=4)(torch.zeros(2, 3, 5), torch.zeros(2, 3, 6)).shape == (2, 3, 3, 64, 64)
    with pytest.raises(RuntimeError, match="num_layers is 0"):
        ObsEncoder(num_layers=0)
    with pytest.raises(ValueError, match="kernel_sizes has 1 elements"):
        ObsDecoder(kernel_sizes=[4])


def test_rollouts_start_each_step_from_the_last_posterior():
    torch.manual_seed(0)
    prior = SafeModule(
        RSSMPrior(Bounded(-1, 1, (2,)), 6, 6, 3, action_dim=2), ["state", "belief", "action"],
        [("next", "prior_mean"), ("next", "prior_std"), "_", ("next", "belief")],
    )  # fmt: skip
    posterior = SafeModule(
        RSSMPosterior(6, 3, rnn_hidden_dim=6, obs_embed_dim=5), [("next", "belief"), ("next", "encoded")],
        [("next", "post_mean"), ("next", "post_std"), ("next", "state")],
    )  # fmt: skip
    start = TensorDict(
        {
            "state": torch.zeros(2, 4, 3), "belief": torch.zeros(2, 4, 6), "action": torch.randn(2, 4, 2),
            "next": {"encoded": torch.randn(2, 4, 5)},
        },
        [2, 4],
    )  # fmt: skip
    out = RSSMRollout(prior, posterior)(start)
    assert out.batch_size == (2, 4)
    for key in ("state", "belief"):
        torch.testing.assert_close(out[key][:, 1:], out["next", key][:, :-1])
    assert not bool(start["state"].any())


def groups():
    return {
        "a": CrossCriticGroupSpec(3, 2, ("a", "o"), ("a", "v")),
        "b": CrossCriticGroupSpec(4, 3, ("b", "o"), ("b", "v")),
    }


def test_values_of_a_group_depend_on_the_other_s_observations():
    critic = CrossGroupCritic(groups(), detach_groups=["b"])
    td = TensorDict({"a": {"o": torch.randn(5, 2, 3)}, "b": {"o": torch.randn(5, 3, 4, requires_grad=True)}}, [5])
    values = critic(td.clone())["a", "v"]
    changed = td.clone()
    changed["b", "o"] = changed["b", "o"] + 1
    assert values.shape == (5, 2, 1) and not torch.allclose(values, critic(changed)["a", "v"])
    values.sum().backward()
    assert td["b", "o"].grad is None


def test_groups_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="at least one group"):
        CrossGroupCritic({})
    with pytest.raises(ValueError, match=r"detach_groups has \['z'\]"):
        CrossGroupCritic(groups(), detach_groups=["z"])
    with pytest.raises(ValueError, match="group 'b'"):
        CrossGroupCritic(groups())(TensorDict({"a": {"o": torch.zeros(2, 3)}, "b": {"o": torch.zeros(2, 4)}}))
