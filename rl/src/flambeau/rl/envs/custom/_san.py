"""Every move of chess in standard algebraic notation, in the order that numbers of actions count."""

from __future__ import annotations

import functools
from collections.abc import Iterator

__all__ = ["san_moves"]

_FILES = "abcdefgh"
_BOARD = range(8)
_KNIGHT = [(x, y) for x in (-2, -1, 1, 2) for y in (-2, -1, 1, 2) if abs(x) != abs(y)]
_STRAIGHT = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if (x == 0) != (y == 0)]
_DIAGONAL = [(x, y) for x in (-1, 1) for y in (-1, 1)]

Square = tuple[int, int]


@functools.cache
def san_moves() -> tuple[str, ...]:
    """All 29,275 of them: shorter ones first, then by their letters, and last the empty one, which is none.

    A move of a piece may say where it comes from, by file, by rank or by both, where a second piece of the kind, which
    does not stand in its way, may make the rest of it ambiguous; any move may give check or checkmate.
    """
    moves = {move + end for move in (*_pawns(), *_pieces(), "O-O", "O-O-O") for end in ("", "+", "#")}
    return (*sorted(moves, key=lambda move: (len(move), move)), "")


def _name(square: Square) -> str:
    return f"{_FILES[square[0]]}{square[1] + 1}"


def _pawns() -> Iterator[str]:
    for x, y in ((x, y) for x in _BOARD for y in _BOARD):
        ways = ["", *(f"{_FILES[side]}x" for side in (x - 1, x + 1) if side in _BOARD)]
        for way in ways:
            if y in (0, 7):
                yield from (f"{way}{_name((x, y))}={piece}" for piece in "BNQR")
            else:
                yield way + _name((x, y))


def _pieces() -> Iterator[str]:
    for piece in "BKNQR":
        for target in ((x, y) for x in _BOARD for y in _BOARD):
            for origin in ("", *_origins(piece, target)):
                yield from (f"{piece}{origin}{way}{_name(target)}" for way in ("", "x"))


def _origins(piece: str, target: Square) -> set[str]:
    """What may have to be said of where a piece comes from."""
    if piece == "K":
        return set()
    rays = list(_rays(piece, target))
    found: set[str] = set()
    for number, ray in enumerate(rays):
        # Of two pieces in one line the further one cannot move here.
        others = [square for other, squares in enumerate(rays) if other != number for square in squares]
        for x, y in ray:
            same_file, same_rank = any(a == x for a, _ in others), any(b == y for _, b in others)
            if others and any(a != x for a, _ in others):
                found.add(_FILES[x])
            if same_file:
                found.add(str(y + 1))
            if same_file and same_rank:
                found.add(_name((x, y)))
    return found


def _rays(piece: str, target: Square) -> Iterator[list[Square]]:
    """The lines on which a piece reaches a square, each from near to far."""
    if piece == "N":
        steps, reach = _KNIGHT, 1
    else:
        steps = {"B": _DIAGONAL, "R": _STRAIGHT, "Q": _DIAGONAL + _STRAIGHT}[piece]
        reach = 7
    for dx, dy in steps:
        line = [(target[0] + n * dx, target[1] + n * dy) for n in range(1, reach + 1)]
        ray = [square for square in line if square[0] in _BOARD and square[1] in _BOARD]
        if ray:
            yield ray
