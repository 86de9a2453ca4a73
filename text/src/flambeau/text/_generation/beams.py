"""Beam search, all sentences of a batch and all of their beams at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["search"]

# Ids (N * B, T) and, after the first step, which beams they continue (N * B,): scores of what is next, (N * B, V).
Step = Callable[[Tensor, Tensor | None], Tensor]


def search(
    start: Tensor,
    step: Step,
    *,
    num_beams: int,
    max_length: int,
    eos_idx: int,
    pad_idx: int,
    length_penalty: float = 1.0,
    early_stopping: bool = False,
) -> Tensor:
    """The best text of each row.

    A text's score is the sum of the logarithms of its tokens' probabilities, divided by their number to the power of
    `length_penalty`. Texts that have not ended when the length is reached count as they are.

    Args:
        start: (N, S), what texts begin with.
        step: scores of the next token.
        num_beams: how many texts are followed for each row.
        max_length: most tokens, those of `start` included.
        eos_idx: the token that ends a text.
        pad_idx: fills what comes after.
        length_penalty: 0 compares sums, 1 means, more favours longer texts.
        early_stopping: end a row with as many ended texts as there are beams, without waiting for better ones.

    Returns:
        (N, T), T at most `max_length`.
    """
    rows, begun = start.shape
    if not rows or begun >= max_length:
        return start
    ids = start.repeat_interleave(num_beams, 0)
    # All beams begin alike: only the first one counts until they differ.
    sums = torch.full((rows, num_beams), -torch.inf, device=start.device)
    sums[:, 0] = 0.0
    ended = _Ended(rows, num_beams, max_length, start)
    origins: Tensor | None = None
    for length in range(begun + 1, max_length + 1):
        logs = step(ids, origins).float().log_softmax(-1).view(rows, num_beams, -1)
        size = logs.shape[-1]
        totals, places = (sums[..., None] + logs).flatten(1).topk(min(2 * num_beams, num_beams * size), 1)
        beams, tokens = places // size, places % size
        origins = beams + torch.arange(rows, device=ids.device)[:, None] * num_beams
        grown = torch.cat([ids[origins], tokens[..., None]], -1)
        finishing = tokens == eos_idx
        norm = (length - begun) ** length_penalty
        # Beyond the first `num_beams` candidates, an end is worse than texts that go on.
        among = finishing & (torch.arange(totals.shape[1], device=ids.device) < num_beams)
        ended.add(grown, (totals / norm).masked_fill(~among, -torch.inf))
        sums, kept = totals.masked_fill(finishing, -torch.inf).topk(num_beams, 1)
        origins = origins.gather(1, kept).flatten()
        ids = grown.gather(1, kept[..., None].expand(-1, -1, length)).flatten(0, 1)
        if ended.close(sums, length - begun, max_length - begun, length_penalty, early_stopping):
            break
    # Rows that could still have become better: their texts count as far as they are.
    ended.add(ids.view(rows, num_beams, -1), sums / (ids.shape[1] - begun) ** length_penalty)
    return ended.best(pad_idx)


class _Ended:
    """The best ended texts of each row so far."""

    def __init__(self, rows: int, beams: int, max_length: int, start: Tensor) -> None:
        self.ids = start.new_zeros(rows, beams, max_length)
        self.lengths = start.new_zeros(rows, beams)
        self.scores = torch.full((rows, beams), -torch.inf, device=start.device)
        self.closed = torch.zeros(rows, dtype=torch.bool, device=start.device)

    def add(self, ids: Tensor, scores: Tensor) -> None:
        """Take texts (N, K, T) with their scores (N, K), -inf for none; rows that are closed stay as they are."""
        scores = scores.masked_fill(self.closed[:, None], -torch.inf)
        whole = functional.pad(ids, (0, self.ids.shape[2] - ids.shape[2]))
        lengths = torch.full_like(scores, ids.shape[2], dtype=self.lengths.dtype)
        self.scores, kept = torch.cat([self.scores, scores], 1).topk(self.scores.shape[1], 1)
        self.lengths = torch.cat([self.lengths, lengths], 1).gather(1, kept)
        everything = torch.cat([self.ids, whole], 1)
        self.ids = everything.gather(1, kept[..., None].expand(-1, -1, everything.shape[2]))

    def close(self, sums: Tensor, length: int, most: int, penalty: float, early: bool) -> bool:
        """Close the rows that cannot get a better text; returns whether that is all of them.

        Args:
            sums: of the texts that go on, (N, B), best first.
            length: their length.
            most: the longest that they can become.
            penalty: of lengths.
            early: as many ended texts as there are beams are enough.
        """
        enough = self.scores.isfinite().all(1)
        if not early:
            # Sums only fall; a positive penalty divides them by more, the longer a text becomes.
            reachable = sums[:, 0] / (most if penalty > 0 else length) ** penalty
            enough &= self.scores[:, -1] >= reachable
        self.closed |= enough | sums[:, 0].isneginf()
        return bool(self.closed.all())

    def best(self, pad_idx: int) -> Tensor:
        """The best text of each row, (N, T)."""
        ids, lengths = self.ids[:, 0], self.lengths[:, 0]
        places = torch.arange(ids.shape[1], device=ids.device)
        ids = ids.masked_fill(places >= lengths[:, None], pad_idx)
        return ids[:, : int(lengths.max())]
