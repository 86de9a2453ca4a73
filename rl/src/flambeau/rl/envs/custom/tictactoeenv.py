"""Tic-tac-toe, for any batch size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Categorical, Composite, Unbounded
from flambeau.rl.envs.common import EnvBase

__all__ = ["TicTacToeEnv"]

# Rows, columns and diagonals, as numbers of fields.
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


class TicTacToeEnv(EnvBase):
    """Tic-tac-toe of two players, or of one against a player who moves at random.

    The environment keeps no state: board and turn come with every tensordict, of any batch size. Who completes a row, a
    column or a diagonal gets a reward of 1; the game is over then, or when the board is full.

    ====================  =======  =============================================================
    key                   shape    what
    ====================  =======  =============================================================
    board                 (3, 3)   1: of the player who is to move, 0: of the other, -1: of nobody
    turn                  (1,)     who is to move, 0 or 1
    mask                  (9,)     which fields are free
    action                ()       number of a field, row by row
    player0, player1      (1,)     each with its "reward"
    ====================  =======  =============================================================

    Args:
        single_player: player 1 moves by itself, at random.
        device: of all tensors.

    Example:
        >>> env = TicTacToeEnv()
        >>> 5 <= len(env.rollout(9)) <= 9
        True
    """

    _batch_locked = False

    def __init__(self, *, single_player: bool = False, device: Any = None) -> None:
        super().__init__(device=device)
        self.single_player = single_player
        board = Unbounded((3, 3), dtype=torch.int, device=self.device)
        self.full_observation_spec = Composite(
            board=board,
            turn=Categorical(2, (1,), dtype=torch.int, device=self.device),
            mask=Categorical(2, (9,), dtype=torch.bool, device=self.device),
        )
        self.full_state_spec = self.full_observation_spec.clone()
        reward = Unbounded((1,), device=self.device)
        self.full_reward_spec = Composite(player0=Composite(reward=reward), player1=Composite(reward=reward.clone()))
        end = Categorical(2, (1,), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), truncated=end.clone())
        self.action_spec = Categorical(9, (), device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            torch.manual_seed(seed)

    @staticmethod
    def win(board: Tensor, action: Tensor) -> Tensor:
        """Whether who holds a field has three in a row, column or diagonal with it.

        Args:
            board: (*batch, 3, 3).
            action: numbers of fields (*batch).

        Returns:
            (*batch), bool.
        """
        fields = board.flatten(-2)
        own = fields == fields.gather(-1, action.unsqueeze(-1).long())
        lines = torch.tensor(LINES, device=board.device)
        complete = own[..., lines].all(-1)
        through = (lines == action[..., None, None]).any(-1)
        return (complete & through).any(-1)

    @staticmethod
    def full(board: Tensor) -> Tensor:
        """Whether no field is free.

        Args:
            board: (*batch, 3, 3).

        Returns:
            (*batch, 1), bool.
        """
        return (board != -1).flatten(-2).all(-1, keepdim=True)

    @staticmethod
    def get_action_mask(board: Tensor) -> Tensor:
        """Which fields are free.

        Args:
            board: (*batch, 3, 3).

        Returns:
            (*batch, 9), bool.
        """
        return (board == -1).flatten(-2)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        size = Size([]) if tensordict is None else tensordict.batch_size
        board = torch.full((*size, 3, 3), -1, dtype=torch.int, device=self.device)
        turn = torch.zeros(*size, 1, dtype=torch.int, device=self.device)
        return self._seen(board, turn, size)

    def _seen(self, board: Tensor, turn: Tensor, size: Size) -> TensorDictBase:
        return TensorDict({"board": board, "turn": turn, "mask": self.get_action_mask(board)}, size, device=self.device)

    def _moved(self, board: Tensor, action: Tensor) -> Tensor:
        """The board after a move of the player who is to move, as the other one sees it."""
        fields = board.flatten(-2).scatter(-1, action.unsqueeze(-1).long(), 1)
        return torch.where(fields == -1, fields, 1 - fields).unflatten(-1, (3, 3))  # type: ignore[no-any-return]

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        board, turn, action = (tensordict.get(key) for key in ("board", "turn", "action"))
        size = tensordict.batch_size
        board = self._moved(board, action)
        won = self.win(board, action).unsqueeze(-1)
        rewards = [won & (turn == player) for player in (0, 1)]
        over = won | self.full(board)
        turn = 1 - turn
        if self.single_player:
            answer = self._random(self.get_action_mask(board))
            answered = self._moved(board, answer)
            rewards[1] = ~over & self.win(answered, answer).unsqueeze(-1)
            board = torch.where(over.unsqueeze(-1), board, answered)
            turn = torch.where(over, turn, 1 - turn)
            over = over | rewards[1] | self.full(board)
        out = self._seen(board, turn, size)
        for player, reward in enumerate(rewards):
            out.set((f"player{player}", "reward"), reward.to(torch.float32))
        return out.update({"done": over, "terminated": over.clone(), "truncated": torch.zeros_like(over)})

    @staticmethod
    def _random(mask: Tensor) -> Tensor:
        """A random free field; any where none is."""
        weights = torch.where(mask.any(-1, keepdim=True), mask, True).to(torch.float32)
        return torch.multinomial(weights.reshape(-1, 9), 1).reshape(mask.shape[:-1])

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write random actions into a tensordict, of free fields where it has a mask.

        Args:
            tensordict: default: a new one.
        """
        mask = None if tensordict is None else tensordict.get("mask", None)
        if tensordict is None or mask is None:
            return super().rand_action(tensordict)
        return tensordict.set("action", self._random(mask))
