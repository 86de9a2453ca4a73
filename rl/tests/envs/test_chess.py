"""Chess: moves in notation, rewards, ends, and where an episode may begin."""

from __future__ import annotations

import hashlib

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import check_env_specs
from flambeau.rl.envs.custom import ChessEnv

pytest.importorskip("chess", reason="needs python-chess")


def played(fen, move):
    env = ChessEnv(include_fen=True, include_san=True, mask_actions=False)
    td = env.reset(TensorDict({"fen": fen}))
    return env.step(td.set("action", torch.tensor(env.san_moves.index(move))))["next"]


@pytest.mark.parametrize(
    "options",
    [{}, {"include_legal_moves": True}, {"include_fen": True, "include_pgn": True, "include_san": True},
     {"include_fen": True, "stateful": False}, {"include_pgn": True, "stateful": False},
     {"include_fen": True, "include_hash": True}, {"include_fen": True, "mask_actions": False}],
)  # fmt: skip
def test_it_keeps_to_its_specs(options):
    check_env_specs(ChessEnv(**options))


def test_moves_are_numbered_as_upstream_numbers_them():
    moves = ChessEnv().base_env.san_moves
    assert len(moves) == len(set(moves)) == 29275
    assert hashlib.sha256("\n".join(moves).encode()).hexdigest()[:16] == "518e6b3e01f48aee"


@pytest.mark.parametrize(
    ("fen", "move", "reward"),
    [
        ("6k1/5ppp/8/8/8/8/8/R3K3 w Q - 0 1", "Ra8#", 1.0),
        ("7k/8/5Q2/6K1/8/8/8/8 w - - 0 1", "Qf7", 0.5),  # stalemate
        ("7k/8/8/8/8/8/1r6/K7 w - - 0 1", "Kxb2", 0.5),  # nobody can win
        ("7k/8/8/6K1/8/8/8/R7 w - - 99 80", "Ra2", 0.5),  # fifty moves
        ("7k/8/8/6K1/8/8/8/R7 w - - 0 1", "Ra2", 0.0),
    ],
)
def test_who_mates_wins_and_a_draw_is_worth_a_half(fen, move, reward):
    found = played(fen, move)
    assert found["reward"].item() == reward
    assert found["done"].item() == found["terminated"].item() == bool(reward)
    assert found["san"] == move


def test_an_illegal_move_is_refused():
    with pytest.raises(ValueError, match="illegal"):
        played("7k/8/8/6K1/8/8/8/R7 w - - 0 1", "Kb2")
    with pytest.raises(ValueError, match="29274"):
        played("7k/8/8/6K1/8/8/8/R7 w - - 0 1", "")


def test_a_game_that_is_over_is_no_beginning():
    with pytest.raises(ValueError, match="over"):
        ChessEnv(include_fen=True).reset(TensorDict({"fen": "8/8/8/8/8/5k2/6q1/7K w - - 0 1"}))


def test_random_moves_are_legal_and_the_mask_says_which_are():
    env = ChessEnv(include_fen=True, include_legal_moves=True)
    td = env.reset()
    legal = td["legal_moves"][td["legal_moves"] < 29275]
    assert torch.equal(td["action_mask"].nonzero().squeeze(-1), legal.sort().values)
    base = env.base_env
    assert base.cardinality(td) == len(base.all_actions(td)) == len(base.get_legal_moves()) == 20
    moves = {base.san_moves[base.rand_action(td.clone())["action"]] for _ in range(20)}
    assert moves <= set(base.get_legal_moves())
    assert "e2e4" in base.get_legal_moves(uci=True)


@pytest.mark.parametrize("notation", ["fen", "pgn"])
def test_an_environment_without_state_reads_the_game(notation):
    env = ChessEnv(stateful=False, **{f"include_{notation}": True})
    first = env.reset()
    move = env.base_env.san_moves.index("e4")
    once, again = (env.step(first.clone().set("action", torch.tensor(move)))["next"] for _ in range(2))
    assert once[notation] == again[notation] != first[notation]
    assert len(env.base_env.get_legal_moves(once)) == 20 and not once["turn"]
    with pytest.raises(RuntimeError, match="include_fen"):
        ChessEnv(stateful=False)


def test_positions_are_found_again_by_their_hashes():
    env = ChessEnv(include_fen=True, include_hash=True, include_hash_inv=True)
    seen = env.rand_step(env.reset())["next"]
    assert env.reset(TensorDict({"fen_hash": seen["fen_hash"]}))["fen"] == seen["fen"]


def test_a_broken_game_is_refused():
    env = ChessEnv(include_pgn=True)
    with pytest.raises(ValueError, match="portable"):
        env.reset(TensorDict({"pgn": "1. e5 e5 2. Qxh9"}))
