"""Trading: prices, what trades gain and cost, and when an episode is cut off."""

from __future__ import annotations

import math

import pytest
import torch

from flambeau.rl.envs import check_env_specs
from flambeau.rl.envs.custom import FinancialRegimeEnv

HOLD, BUY, SELL = range(3)


def traded(env, actions, **options):
    td = env.reset(env.gen_params(**options))
    steps = []
    for action in actions:
        td = env.step(td.set("action", torch.tensor([action])))
        steps.append(td["next"])
        td = env.step_mdp(td)
    return steps


def test_it_keeps_to_its_specs():
    check_env_specs(FinancialRegimeEnv(seed=0))
    check_env_specs(FinancialRegimeEnv(seed=0, window_size=4))


def test_without_noise_prices_grow_by_the_drift():
    env = FinancialRegimeEnv(seed=0, window_size=3)
    (step,) = traded(env, [HOLD], window_size=3, volatility=0.0, drift=0.252, initial_price=10.0)
    assert step["price_history"].tolist() == pytest.approx([10, 10, 10 * math.exp(0.001)])


def test_trades_cost_and_gain():
    env = FinancialRegimeEnv(seed=0, window_size=3)
    options = {"volatility": 0.0, "drift": 0.252, "initial_price": 10.0, "transaction_cost": 0.01, "window_size": 3}
    day = math.expm1(0.001)
    rewards = [step["reward"].item() for step in traded(env, [SELL, BUY, BUY, HOLD, SELL, SELL], **options)]
    price = [10 * math.exp(0.001 * n) for n in range(6)]
    assert rewards == pytest.approx(
        [0, -0.01 * price[1] + 0.1 * day, 0.1 * day, 0.1 * day, price[4] / price[1] - 1 - 0.01 * price[4], 0], abs=1e-6
    )


def test_holdings_and_the_price_of_entry_are_kept():
    env = FinancialRegimeEnv(seed=3)
    steps = traded(env, [BUY, HOLD, SELL])
    assert [step["current_holdings"].item() for step in steps] == [True, True, False]
    assert steps[1]["entry_price"] == steps[0]["entry_price"] > 0 == steps[2]["entry_price"]


def test_an_episode_is_cut_off():
    steps = traded(FinancialRegimeEnv(seed=0), [HOLD, HOLD], max_steps=2)
    assert [(step["truncated"].item(), step["terminated"].item()) for step in steps] == [(False, False), (True, False)]


def test_batches_have_parameters_of_their_own_and_seeds_repeat_prices():
    env = FinancialRegimeEnv(window_size=4)
    params = env.gen_params(window_size=4, batch_size=[3])
    params["params", "initial_price"] = torch.tensor([1.0, 10.0, 100.0])
    env.set_seed(7)
    first = env.rollout(5, tensordict=env.reset(params), auto_reset=False)
    assert first.batch_size == (3, 5) and first["price_history"].shape == (3, 5, 4)
    assert first["price_history"].mean((1, 2)).div(torch.tensor([1.0, 10.0, 100.0])).sub(1).abs().max() < 0.3
    env.set_seed(7)
    again = env.rollout(5, tensordict=env.reset(params), auto_reset=False)
    assert torch.equal(first["price_history"], again["price_history"])


def test_windows_of_different_sizes_are_refused():
    params = FinancialRegimeEnv.gen_params(window_size=4)
    with pytest.raises(ValueError, match="window_size"):
        FinancialRegimeEnv(params, window_size=5)
