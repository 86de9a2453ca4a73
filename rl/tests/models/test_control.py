"""The embedded policies: what their records say is what they do."""

from __future__ import annotations

import json

import pytest
import torch

from flambeau.core.cli import main
from flambeau.core.weights import get_model
from flambeau.data.tensordict import TensorDict
from flambeau.rl.models import ControlPolicy, cartpole_policy, pendulum_policy
from flambeau.rl.runs import episode_returns
from flambeau.rl.weights.control import CartPole_Policy_Weights, Pendulum_Policy_Weights

MEMBERS = [(cartpole_policy, CartPole_Policy_Weights.PPO_V1), (pendulum_policy, Pendulum_Policy_Weights.SAC_V1)]


@pytest.mark.parametrize(("build", "weights"), MEMBERS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_the_return_is_the_one_that_is_on_record(build, weights):
    policy = build(weights=weights).eval()
    returns = episode_returns(weights.meta["environment"], policy.act, episodes=100, seed=2_000_003)
    (record,) = weights.meta["_metrics"].values()
    assert float(returns.mean()) == pytest.approx(record["return"], abs=0.06)
    assert float(returns.std(unbiased=False)) == pytest.approx(record["standard deviation"], abs=0.06)


@pytest.mark.parametrize(("build", "weights"), MEMBERS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_it_does_as_well_from_other_first_states(build, weights):
    policy = build(weights=weights).eval()
    returns = episode_returns(weights.meta["environment"], policy.act, episodes=100, seed=7)
    assert float(returns.mean()) > {"CartPole-v1": 475, "Pendulum-v1": -200}[weights.meta["environment"]]


@pytest.mark.parametrize(("build", "weights"), MEMBERS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_facts_are_true(build, weights):
    policy = build()
    assert sum(parameter.numel() for parameter in policy.parameters()) == weights.meta["num_params"]
    assert weights.value.size < 1_000_000


def test_choices_are_one_hot_and_controls_within_limits():
    choice = ControlPolicy(4, 2).act(TensorDict({"observation": torch.randn(5, 4)}, [5]))["action"]
    assert choice.sum(-1).tolist() == [1] * 5
    control = ControlPolicy(3, 1, limits=(-2.0, 2.0)).act(TensorDict({"observation": 100 * torch.randn(5, 3)}, [5]))
    assert float(control["action"].detach().abs().max()) <= 2


def test_activations_are_checked():
    with pytest.raises(ValueError, match="activation must be 'tanh' or 'relu'; got 'sine'"):
        ControlPolicy(4, 2, activation="sine")


def test_it_is_found_by_name():
    policy = get_model("rl/cartpole_policy", weights="DEFAULT")
    assert isinstance(policy, ControlPolicy)


def test_predict_prints_returns_and_films(tmp_path, capsys):
    assert main(["predict", "--env", "Pendulum-v1", "--top", "2", "--out", str(tmp_path / "run.mp4"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["episode"] for row in printed["rows"]] == [1, 2]
    assert printed["weights"] == "rl/pendulum_policy:SAC_V1"
    assert all(-500 < row["return"] <= 0 for row in printed["rows"])
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "run.mp4")) as container:
        assert sum(1 for _ in container.decode(video=0)) == 201


def test_predict_refuses_another_environment(capsys):
    assert main(["predict", "--env", "Acrobot-v1", "--model", "cartpole_policy"]) != 0
    assert "is trained in CartPole-v1" in capsys.readouterr().err
    assert main(["predict", "--env", "CartPole-v11"]) != 0
    assert "Close: CartPole-v1" in capsys.readouterr().err
