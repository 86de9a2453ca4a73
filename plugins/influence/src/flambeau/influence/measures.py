"""How good attributions are: against retraining, and at finding mislabelled examples.

The linear datamodeling score is of Park, Georgiev, Ilyas, Leclerc and Madry, "TRAK: Attributing Model Behavior at
Scale", 2023, arXiv:2303.14186: do summed scores rank subsets of the training data as models do that were trained on
them?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from flambeau.influence.errors import InfluenceError

__all__ = ["leave_one_out", "linear_datamodeling_score", "mislabel_auc", "random_subsets", "subset_outputs"]

Fit = Callable[[Tensor, int], Tensor]
"""`fit(positions, seed)`: train on these examples alone, and give what is explained of each test example, (test,)."""


def random_subsets(examples: int, subsets: int, share: float = 0.5, seed: int = 0) -> Tensor:
    """Random subsets of training examples of one size.

    Args:
        examples: how many there are.
        subsets: how many to draw.
        share: of the examples that are in each, in (0, 1).
        seed: of the draws.

    Returns:
        (subsets, examples), bool.
    """
    if not 0 < share < 1:
        raise InfluenceError(f"share is {share}, expected a number between 0 and 1.")
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(subsets, examples, generator=generator).argsort(dim=1).argsort(dim=1)
    return order < max(1, round(share * examples))


def subset_outputs(fit: Fit, subsets: Tensor, repeats: int = 1) -> Tensor:
    """What models say that were trained on subsets.

    Args:
        fit: see `Fit`; the seed is another for each repetition.
        subsets: (subsets, train), bool.
        repeats: trainings whose mean is taken, against the noise of single ones.

    Returns:
        (subsets, test).
    """
    _require_subsets(subsets)
    return torch.stack([_mean_output(fit, row.nonzero().squeeze(1), repeats) for row in subsets])


def leave_one_out(fit: Fit, examples: int, repeats: int = 1) -> Tensor:
    """What each training example truly does: how much less is given without it.

    It takes `(examples + 1) * repeats` trainings; the truth for small models.

    Args:
        fit: see `Fit`.
        examples: how many training examples there are, 2 or more.
        repeats: trainings whose mean is taken.

    Returns:
        (test, examples): output with all examples, less output without the one.
    """
    if examples < 2:
        raise InfluenceError(f"examples is {examples}, expected 2 or more: one is left out.")
    everything = torch.arange(examples)
    whole = _mean_output(fit, everything, repeats)
    without = [_mean_output(fit, everything[everything != left_out], repeats) for left_out in range(examples)]
    return torch.stack([whole - output for output in without], dim=1)


def linear_datamodeling_score(scores: Tensor, subsets: Tensor, outputs: Tensor) -> Tensor:
    """Spearman's correlation of summed scores and outputs of models trained on subsets.

    Args:
        scores: attributions (test, train), high where a training example raises the output.
        subsets: (subsets, train), bool.
        outputs: (subsets, test), as `subset_outputs` gives them.

    Returns:
        (test,), in [-1, 1]; NaN where one of the two is the same for all subsets. The mean is what is reported.

    Raises:
        InfluenceError: shapes do not fit.
    """
    _require_subsets(subsets)
    if scores.dim() != 2 or subsets.shape[1] != scores.shape[1] or outputs.shape != (len(subsets), len(scores)):
        raise InfluenceError(
            f"scores {tuple(scores.shape)}, subsets {tuple(subsets.shape)} and outputs {tuple(outputs.shape)} do "
            "not fit, expected (test, train), (subsets, train) and (subsets, test)."
        )
    predicted = scores.double() @ subsets.to(scores.device).double().T
    first, second = (_ranks(rows) for rows in (predicted, outputs.to(scores.device).double().T))
    first, second = (rows - rows.mean(1, keepdim=True) for rows in (first, second))
    return torch.as_tensor((first * second).sum(1) / (first.norm(dim=1) * second.norm(dim=1)))


def mislabel_auc(scores: Tensor, mislabelled: Tensor | Sequence[bool]) -> float:
    """How well scores tell mislabelled examples from others: the area under the ROC curve.

    Args:
        scores: (examples,), high where suspicious, such as self influence.
        mislabelled: (examples,), bool.

    Returns:
        The probability that a mislabelled example has the higher score; equal scores count half, 0.5 is chance.

    Raises:
        InfluenceError: shapes differ, or all examples are of one kind.
    """
    wrong = torch.as_tensor(mislabelled, dtype=torch.bool, device=scores.device)
    if scores.dim() != 1 or wrong.shape != scores.shape:
        raise InfluenceError(f"scores {tuple(scores.shape)} and mislabelled {tuple(wrong.shape)} do not fit.")
    if scores.isnan().any():
        raise InfluenceError("scores has NaN, which has no rank.")
    count = int(wrong.sum())
    rest = len(wrong) - count
    if not count or not rest:
        raise InfluenceError("mislabelled is the same for all examples, expected both kinds.")
    ranks = _ranks(scores.unsqueeze(0))[0]
    return float((ranks[wrong].sum() - count * (count + 1) / 2) / (count * rest))


def _mean_output(fit: Fit, positions: Tensor, repeats: int) -> Tensor:
    if repeats < 1:
        raise InfluenceError(f"repeats is {repeats}, expected 1 or more.")
    return torch.stack([fit(positions, seed).detach() for seed in range(repeats)]).mean(0)


def _require_subsets(subsets: Tensor) -> None:
    if subsets.dtype != torch.bool or subsets.dim() != 2:
        raise InfluenceError(f"subsets is {subsets.dtype} {tuple(subsets.shape)}, expected bool (subsets, train).")


def _ranks(rows: Tensor) -> Tensor:
    """Ranks from 1 in each row, float64; equal values share the mean of theirs."""
    found = []
    for row in rows:
        _, group, counts = torch.unique(row, return_inverse=True, return_counts=True)
        last = counts.cumsum(0).double()
        found.append((last - (counts.double() - 1) / 2)[group])
    return torch.stack(found)
