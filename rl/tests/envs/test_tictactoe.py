"""Tic-tac-toe: who wins, when it is over, and how boards look to each player."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import TicTacToeEnv, check_env_specs


def played(env, actions):
    td = env.reset()
    for action in actions:
        step = env.step(td.set("action", torch.tensor(action)))
        td = env.step_mdp(step)
    return step["next"]


@pytest.mark.parametrize("single_player", [False, True])
def test_it_keeps_to_its_specs(single_player):
    check_env_specs(TicTacToeEnv(single_player=single_player))


@pytest.mark.parametrize(
    ("actions", "rewards"),
    [
        ((0, 3, 1, 4, 2), (1, 0)),  # a row
        ((0, 1, 3, 4, 8, 7), (0, 1)),  # a column
        ((0, 1, 4, 2, 8), (1, 0)),  # a diagonal
        ((2, 0, 4, 1, 6), (1, 0)),  # the other one
        ((0, 1, 2, 4, 3, 5, 7, 6, 8), (0, 0)),  # nobody
    ],
)
def test_three_in_a_line_win(actions, rewards):
    last = played(TicTacToeEnv(), actions)
    assert last["done"] and not played(TicTacToeEnv(), actions[:-1])["done"]
    assert (last["player0", "reward"].item(), last["player1", "reward"].item()) == rewards


def test_a_board_is_seen_by_the_player_who_is_to_move():
    first, second = played(TicTacToeEnv(), (0,)), played(TicTacToeEnv(), (0, 3))
    assert first["board"][0, 0] == 0 and first["turn"] == 1
    assert second["board"][0, 0] == 1 and second["board"][1, 0] == 0 and second["turn"] == 0


def test_random_games_of_a_batch_are_fair_and_legal():
    torch.manual_seed(0)
    env = TicTacToeEnv()
    rollout = env.rollout(9, auto_reset=False, tensordict=env.reset(TensorDict({}, [64])), break_when_any_done=False)
    taken = rollout["action"].unsqueeze(-1)
    assert rollout["mask"].gather(-1, taken).all()


def test_a_single_player_is_answered_at_random():
    torch.manual_seed(0)
    env = TicTacToeEnv(single_player=True)
    for _ in range(20):
        rollout = env.rollout(9)
        assert (rollout["turn"] == 0).all()
        assert rollout["next", "done"][-1]
        won = rollout["next", "player0", "reward"].sum() + rollout["next", "player1", "reward"].sum()
        full = TicTacToeEnv.full(rollout["next", "board"][-1])
        assert won == 1 or full
