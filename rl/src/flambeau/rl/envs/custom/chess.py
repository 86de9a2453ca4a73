"""Chess, by the rules of python-chess."""

from __future__ import annotations

import functools
import importlib
import io
from typing import Any

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import NonTensorData, TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Binary, Bounded, Categorical, Composite, NonTensor, Unbounded
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.custom._san import san_moves
from flambeau.rl.envs.transforms import ActionMask, Compose, Hash, TransformedEnv

__all__ = ["ChessEnv"]

HASH_BYTES = 32
MOST_LEGAL_MOVES = 219
"""More than any position has; positions with fewer are filled up."""


class _ChessMeta(type(EnvBase)):  # type: ignore[misc]
    def __call__(cls, **kwargs: Any) -> Any:
        env = super().__call__(**kwargs)
        transforms = env._first_transforms()
        if not transforms:
            return env
        return TransformedEnv(env, transforms[0] if len(transforms) == 1 else Compose(*transforms))


class _NotationHash(Hash):
    """The hashes of notations, which are given in their place as well."""

    def transform_state_spec(self, state_spec: Any, test_input_spec: Any = None) -> Any:
        for key in self.out_keys_inv:
            state_spec[key] = Unbounded((HASH_BYTES,), dtype=torch.uint8)
        return state_spec

    def transform_action_spec(self, action_spec: Any, test_input_spec: Any = None) -> Any:
        return action_spec


class ChessEnv(EnvBase, metaclass=_ChessMeta):
    """Chess of two players, who move in turn.

    Actions number the 29,275 moves that standard algebraic notation can write. Who checkmates is rewarded with 1; a
    draw, by rule or by claim, is worth 0.5 to who brings it about; everything else 0.

    ===========  ========  =====================================================================================
    key          shape     what
    ===========  ========  =====================================================================================
    turn         ()        bool: whether white is to move
    action_mask  (29275,)  which moves are legal; with `mask_actions`
    legal_moves  (219,)    their numbers, filled up with 29275; with `include_legal_moves`
    fen          -         the position in Forsyth-Edwards notation; with `include_fen`
    pgn          -         the game in portable game notation; with `include_pgn`
    san          -         the move that led here, "<start>" at the beginning; with `include_san`
    *_hash       (32,)     uint8: of each of the last three; with `include_hash`
    pixels       (3,H,W)   uint8: a picture of the board; with `pixels`
    ===========  ========  =====================================================================================

    Args:
        stateful: the environment keeps the game; else it is read from the tensordict, from "fen" or "pgn".
        include_san: see above.
        include_fen: see above; an episode may be begun from any position that is given.
        include_pgn: see above; likewise.
        include_legal_moves: see above.
        include_hash: see above.
        include_hash_inv: positions may be given by their hashes as well, once they were seen.
        mask_actions: give the mask, and choose random actions by it.
        pixels: draw the board, which needs cairosvg, torchvision and Pillow.

    Returns:
        The environment with its transforms, in a `TransformedEnv`, unless it has none.

    Raises:
        ImportError: chess, or what draws, is not installed.
        RuntimeError: neither `stateful` nor a notation to read the game from.

    Example:
        >>> env = ChessEnv(include_fen=True)
        >>> env.reset()["fen"]
        'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1'
    """

    def __init__(
        self,
        *,
        stateful: bool = True,
        include_san: bool = False,
        include_fen: bool = False,
        include_pgn: bool = False,
        include_legal_moves: bool = False,
        include_hash: bool = False,
        include_hash_inv: bool = False,
        mask_actions: bool = True,
        pixels: bool = False,
    ) -> None:
        if not stateful and not (include_fen or include_pgn):
            raise RuntimeError(
                "An environment that keeps no game reads it from the data; give include_fen or include_pgn."
            )
        super().__init__(batch_size=Size([]))
        self.stateful = stateful
        self.include_san = include_san
        self.include_fen = include_fen
        self.include_pgn = include_pgn
        self.include_legal_moves = include_legal_moves
        self.include_hash = include_hash
        self.include_hash_inv = include_hash_inv
        self.mask_actions = mask_actions
        self.pixels = pixels
        self.__dict__["_board"] = self.lib.Board()
        self._make_specs()

    def _make_specs(self) -> None:
        seen: dict[str, Any] = {"turn": Categorical(2, (), dtype=torch.bool)}
        if self.include_legal_moves:
            seen["legal_moves"] = Bounded(0, len(san_moves()), shape=(MOST_LEGAL_MOVES,), dtype=torch.int64)
        for name in self._notations():
            seen[name] = NonTensor(shape=(), example_data="any")
        if self.pixels:
            picture = self._picture(self.lib.Board())
            seen["pixels"] = Unbounded(picture.shape, dtype=torch.uint8)
        self.full_state_spec = Composite(seen).clone()
        if self.mask_actions:
            seen["action_mask"] = Binary(len(san_moves()), shape=(len(san_moves()),), dtype=torch.bool)
        self.full_observation_spec = Composite(seen)
        self.action_spec = Categorical(len(san_moves()), (), dtype=torch.int64)
        self.reward_spec = Unbounded((1,), dtype=torch.float32)
        end = Categorical(2, (1,), dtype=torch.bool)
        self.full_done_spec = Composite(done=end, terminated=end.clone())

    def _notations(self) -> list[str]:
        wanted = {"san": self.include_san, "fen": self.include_fen, "pgn": self.include_pgn}
        return [name for name, given in wanted.items() if given]

    def _first_transforms(self) -> list[Any]:
        transforms: list[Any] = []
        if self.include_hash:
            names = self._notations()
            hashes = [f"{name}_hash" for name in names]
            inverse = (names, hashes) if self.include_hash_inv else (None, None)
            transforms.append(_NotationHash(names, hashes, *inverse))
        if self.mask_actions:
            transforms.append(ActionMask())
        return transforms

    @property
    def lib(self) -> Any:
        """The module of python-chess.

        Raises:
            ImportError: it is not installed.
        """
        return _module("chess")

    @property
    def san_moves(self) -> list[str]:
        """The moves that actions number; the last is none."""
        return list(san_moves())

    # Games

    def _set_seed(self, seed: int | None) -> None:
        """Nothing but the choice of actions is random."""

    def _game(self, tensordict: TensorDictBase | None) -> Any:
        """The board of this state, with the moves that led to it where they are known."""
        if self.stateful:
            return self.__dict__["_board"]
        if tensordict is None:
            raise ValueError("An environment that keeps no game needs a tensordict with 'fen' or 'pgn'.")
        return self._given(tensordict)

    def _given(self, tensordict: TensorDictBase) -> Any:
        pgn, fen = tensordict.get("pgn", None), tensordict.get("fen", None)
        # A game tells more than a position, if it is one of this environment's.
        if pgn is not None and self.include_pgn:
            return self._from_pgn(str(_text(pgn)))
        if fen is None:
            raise ValueError(f"There is neither 'fen' nor 'pgn'; there is {sorted(map(str, tensordict.keys()))}.")
        return self.lib.Board(_text(fen))

    def _from_pgn(self, pgn: str) -> Any:
        game = _module("chess.pgn").read_game(io.StringIO(pgn))
        if game is None or game.errors:
            raise ValueError(f"No game in portable game notation: {pgn!r:.200}.")
        return game.end().board()

    def _first_board(self, tensordict: TensorDictBase | None) -> Any:
        if tensordict is None or all(tensordict.get(key, None) is None for key in ("fen", "pgn")):
            return self.lib.Board()
        fen = tensordict.get("fen", None)
        board = self.lib.Board(_text(fen)) if fen is not None else self._from_pgn(str(_text(tensordict.get("pgn"))))
        if board.is_game_over():
            raise ValueError(f"The game is over in the position {board.fen()!r}; begin with another.")
        return board

    def _seen(self, board: Any, san: str) -> TensorDict:
        found = TensorDict({"turn": torch.tensor(board.turn)}, [])
        written = {"san": lambda: san, "fen": board.fen, "pgn": lambda: self._pgn(board)}
        for name in self._notations():
            found.set(name, NonTensorData(written[name](), []))
        if self.mask_actions or self.include_legal_moves:
            numbers = torch.tensor([_numbers()[board.san(move)] for move in board.legal_moves], dtype=torch.int64)
            if self.include_legal_moves:
                filling = torch.full((MOST_LEGAL_MOVES - len(numbers),), len(san_moves()))
                found.set("legal_moves", torch.cat([numbers, filling]))
            if self.mask_actions:
                found.set("action_mask", torch.zeros(len(san_moves()), dtype=torch.bool).index_fill_(0, numbers, True))
        if self.pixels:
            found.set("pixels", self._picture(board))
        return found

    def _pgn(self, board: Any) -> str:
        return str(_module("chess.pgn").Game.from_board(board))

    @staticmethod
    def _picture(board: Any) -> Tensor:
        try:
            cairosvg, image = importlib.import_module("cairosvg"), importlib.import_module("PIL.Image")
        except ImportError as error:
            raise ImportError("Pictures of boards need cairosvg and Pillow; pip install cairosvg pillow.") from error
        drawn = cairosvg.svg2png(bytestring=_module("chess.svg").board(board).encode())
        picture = image.open(io.BytesIO(drawn)).convert("RGB")
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        return pixels.reshape(picture.height, picture.width, 3).permute(2, 0, 1).contiguous()

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        board = self._first_board(tensordict)
        self.__dict__["_board"] = board
        found = self._seen(board, "<start>")
        end = torch.zeros(1, dtype=torch.bool)
        return found.update({"done": end, "terminated": end.clone()})

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        board = self._game(tensordict).copy()
        number = int(tensordict.get("action"))
        if not 0 <= number < len(san_moves()) - 1:
            raise ValueError(f"Actions number {len(san_moves()) - 1} moves; got {number}.")
        san = san_moves()[number]
        board.push_san(san)
        self.__dict__["_board"] = board
        over = board.is_game_over(claim_draw=True)
        reward = 1.0 if board.is_checkmate() else 0.5 if over else 0.0
        end = torch.tensor([over])
        return self._seen(board, san).update({"reward": torch.tensor([reward]), "done": end, "terminated": end.clone()})

    # Actions

    def get_legal_moves(self, tensordict: TensorDictBase | None = None, uci: bool = False) -> list[str]:
        """The legal moves of a position.

        Args:
            tensordict: with the game, for environments that keep none.
            uci: write moves such as "e2e4"; else such as "e4".
        """
        board = self._game(tensordict)
        return [move.uci() if uci else board.san(move) for move in board.legal_moves]

    def _legal_actions(self, tensordict: TensorDictBase | None) -> Tensor:
        mask = None if tensordict is None else tensordict.get("action_mask", None)
        if mask is not None:
            return mask.nonzero().squeeze(-1)  # type: ignore[no-any-return]
        moves = self.get_legal_moves(tensordict)
        return torch.tensor(sorted(_numbers()[move] for move in moves), dtype=torch.int64)

    def cardinality(self, tensordict: TensorDictBase | None = None) -> int:
        """How many moves are legal in a position.

        Args:
            tensordict: with a mask, or the game; default: a new one.
        """
        return len(self._legal_actions(self.reset() if tensordict is None else tensordict))

    def all_actions(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """The legal moves of a position.

        Args:
            tensordict: with a mask, or the game; default: a new one.

        Returns:
            A tensordict with the numbers of the moves (moves,) at "action".
        """
        actions = self._legal_actions(self.reset() if tensordict is None else tensordict)
        return TensorDict({"action": actions}, [len(actions)])

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write a random legal move into a tensordict.

        Args:
            tensordict: with a mask, or the game; default: a new one.

        Raises:
            ValueError: the game is over.
        """
        actions = self._legal_actions(tensordict)
        if not len(actions):
            raise ValueError("There are no legal moves: the game is over; call reset().")
        tensordict = TensorDict({}, []) if tensordict is None else tensordict
        return tensordict.set("action", actions[torch.randint(len(actions), ())])


@functools.cache
def _numbers() -> dict[str, int]:
    return {move: number for number, move in enumerate(san_moves())}


def _text(value: Any) -> Any:
    return getattr(value, "data", value)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError("ChessEnv plays by python-chess, which is not installed; pip install chess.") from error
