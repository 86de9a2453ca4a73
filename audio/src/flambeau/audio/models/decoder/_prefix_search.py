"""CTC prefix beam search over batches, on any device.

A prefix has two log-probabilities, of the paths that end in a blank and of those that do not. All prefixes of all
utterances go through a frame together: their probabilities of staying as they are, and of growing by each token, make
one
matrix for each utterance, of which the best `beam` entries are the next prefixes. A prefix that grows into one that is
there already adds its probability to that one.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["prefix_search"]

Hypotheses = list[list[tuple[list[int], float]]]
Advance = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def prefix_search(log_prob: Tensor, lengths: Tensor, beam: int, nbest: int, skip: float) -> Hypotheses:
    """The best token sequences of each utterance.

    Args:
        log_prob: (batch, frames, tokens), the blank first.
        lengths: (batch,), frames of each utterance.
        beam: most prefixes.
        nbest: sequences to return.
        skip: frames in which the blank is more probable are skipped.

    Returns:
        For each utterance (tokens, log-probability), best first.
    """
    batch, _, symbols = log_prob.shape
    frames, counts = _frames(log_prob, lengths, skip)
    state = _State(batch, beam, log_prob.device)
    columns = torch.arange(batch, device=log_prob.device)
    through = (_fused() if log_prob.device.type in ("cuda", "xpu") else None) or advance
    for step in range(int(counts.max()) if batch else 0):
        active = step < counts
        state.step(through, log_prob[columns, frames[:, step]], active, symbols)
    return state.results(nbest)


def _frames(log_prob: Tensor, lengths: Tensor, skip: float) -> tuple[Tensor, Tensor]:
    """The frames of each utterance that count, first in order, and how many: (batch, frames) and (batch,)."""
    frames = log_prob.shape[1]
    kept = torch.arange(frames, device=log_prob.device) < lengths.unsqueeze(1)
    if skip < 1:
        kept &= log_prob[..., 0] <= math.log(skip) if skip > 0 else log_prob[..., 0] == -math.inf
    # A stable sort by "does not count" brings those that do to the front in their order.
    return (~kept).to(torch.uint8).argsort(dim=1, stable=True), kept.sum(1)


class _State:
    """The prefixes of a batch: probabilities, last tokens, identity; and the way each came about.

    Identity is a hash of the tokens, 62 bits, which is also that of the prefix without its last token.
    """

    def __init__(self, batch: int, beam: int, device: torch.device) -> None:
        self.blank = torch.full((batch, beam), -math.inf, device=device)
        self.blank[:, 0] = 0.0
        self.token = torch.full((batch, beam), -math.inf, device=device)
        self.last = torch.zeros(batch, beam, dtype=torch.int64, device=device)
        self.identity = torch.zeros(batch, beam, dtype=torch.int64, device=device)
        self.parent = torch.full((batch, beam), -1, dtype=torch.int64, device=device)
        # Prefixes that are not there must not be taken for one that is.
        self.identity[:, 1:] = -2 - torch.arange(beam - 1, device=device)
        self._ways: list[tuple[Tensor, Tensor]] = []

    def step(self, through: Advance, frame: Tensor, active: Tensor, symbols: int) -> None:
        """Go on by (batch, tokens) where `active`."""
        blank, token, grown = through(self.blank, self.token, self.last, self.identity, self.parent, frame)
        beam = blank.shape[1]
        whole = torch.cat([torch.logaddexp(blank, token), grown.flatten(1)], dim=1)
        _, best = whole.topk(beam, dim=1)
        stays = best < beam
        source = torch.where(stays, best, (best - beam) // (symbols - 1))
        added = torch.where(stays, 0, (best - beam) % (symbols - 1) + 1)
        picked = whole.gather(1, best)
        pick = functools.partial(torch.gather, dim=1, index=source)
        old = pick(self.identity)
        self._put("blank", torch.where(stays, pick(blank), -math.inf), active)
        self._put("token", torch.where(stays, pick(token), picked), active)
        self._put("parent", torch.where(stays, pick(self.parent), old), active)
        self._put("identity", torch.where(stays, old, longer(old, added)), active)
        self._put("last", torch.where(stays, pick(self.last), added), active)
        same = torch.arange(beam, device=source.device).expand_as(source)
        self._ways.append((torch.where(active.unsqueeze(1), source, same), torch.where(active.unsqueeze(1), added, 0)))

    def _put(self, name: str, value: Tensor, active: Tensor) -> None:
        setattr(self, name, torch.where(active.unsqueeze(1), value, getattr(self, name)))

    def results(self, nbest: int) -> Hypotheses:
        """The best sequences and their log-probabilities."""
        scores, order = torch.logaddexp(self.blank, self.token).sort(dim=1, descending=True, stable=True)
        scores, places = scores[:, :nbest], order[:, :nbest]
        columns = []
        for source, added in reversed(self._ways):
            columns.append(added.gather(1, places))
            places = source.gather(1, places)
        tokens = torch.stack(columns[::-1], dim=2).tolist() if columns else [[[]] * nbest] * len(scores)
        return [
            [
                ([token for token in row if token], score)
                for row, score in zip(rows, values, strict=True)
                if score > -math.inf
            ]
            for rows, values in zip(tokens, scores.tolist(), strict=True)
        ]


def longer(identity: Tensor, token: Tensor) -> Tensor:
    """The identity of a prefix with one more token."""
    mixed = (identity ^ (identity >> 31)) * 0x7FB5D329728EA185 + token * 0x1DADEF4BC2DD44D9
    return (mixed ^ (mixed >> 27)) & 0x3FFFFFFFFFFFFFFF


def advance(
    blank: Tensor, token: Tensor, last: Tensor, identity: Tensor, parent: Tensor, frame: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Through a frame: log-probabilities of staying with a blank and with a token, and of growing by each token.

    Args:
        blank: (batch, beam), log-probabilities of the prefixes' paths that end in a blank.
        token: (batch, beam), of those that do not.
        last: (batch, beam), last tokens, 0 where there is none.
        identity: (batch, beam), of the prefixes.
        parent: (batch, beam), identity of the prefixes without their last tokens.
        frame: (batch, tokens).

    Returns:
        (batch, beam) twice, and (batch, beam, tokens - 1).
    """
    whole = torch.logaddexp(blank, token)
    stays = (token + frame.gather(1, last)).masked_fill(last == 0, -math.inf)
    # Growing by the token a prefix ends in takes a blank between.
    tokens = torch.arange(frame.shape[1], device=frame.device)
    repeats = last.unsqueeze(2) == tokens
    grown = torch.where(repeats, blank.unsqueeze(2), whole.unsqueeze(2)) + frame.unsqueeze(1)
    # What would grow into a prefix that is there adds to it instead.
    joins = (parent.unsqueeze(2) == identity.unsqueeze(1)) & (last > 0).unsqueeze(2)
    wanted = last.unsqueeze(2).expand(-1, -1, joins.shape[2]).transpose(1, 2)
    arriving = grown.gather(2, wanted).transpose(1, 2).masked_fill(~joins, -math.inf)
    taken = torch.zeros_like(grown, dtype=torch.uint8)
    taken.scatter_reduce_(2, wanted, joins.transpose(1, 2).to(torch.uint8), reduce="amax")
    grown = grown.masked_fill(taken.bool(), -math.inf)
    return whole + frame[:, :1], torch.logaddexp(stays, arriving.amax(2)), grown[..., 1:]


def _fused() -> Advance | None:
    """The same in one kernel, where Triton is installed."""
    if importlib.util.find_spec("triton") is None:
        return None
    from flambeau.audio.models.decoder import _prefix_search_triton

    return _prefix_search_triton.advance
