"""Predictions corrected by what was counted: histogram binning, for all examples together or by a feature's value.

Histogram binning (B. Zadrozny, C. Elkan, 2001) cuts predictions into bins and mixes each with the positive rate that
its bin had.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "generic_histogram_binning_calibration_by_feature",
    "histogram_binning_calibration",
    "histogram_binning_calibration_by_feature",
]

Calibrated = tuple[Tensor, Tensor]


def histogram_binning_calibration(
    logit: Tensor,
    bin_num_examples: Tensor,
    bin_num_positives: Tensor,
    positive_weight: float,
    lower_bound: float,
    upper_bound: float,
    bin_ctr_in_use_after: int,
    bin_ctr_weight_value: float,
) -> Calibrated:
    """Calibrate predictions by bins of equal width.

    A prediction is p = sigmoid(logit + log(positive_weight)). Where its bin has had more than `bin_ctr_in_use_after`
    examples, the result is w * positives / examples + (1 - w) * p, else p.

    Args:
        logit: (N,) floating.
        bin_num_examples: (bins,) how many examples each bin has had.
        bin_num_positives: (bins,) how many of them were positive.
        positive_weight: what negatives were sampled by, > 0.
        lower_bound: where the first bin begins.
        upper_bound: where the last one ends.
        bin_ctr_in_use_after: see above.
        bin_ctr_weight_value: w, in [0, 1].

    Returns:
        The calibrated predictions (N,) of the dtype of `logit`, and their bins (N,) int64.

    Raises:
        RuntimeError: counts of different sizes.
    """
    return OPS.histogram_binning_calibration(  # type: ignore[no-any-return]
        logit, bin_num_examples, bin_num_positives, positive_weight, lower_bound, upper_bound, bin_ctr_in_use_after,
        bin_ctr_weight_value,
    )  # fmt: skip


def histogram_binning_calibration_by_feature(
    logit: Tensor,
    segment_value: Tensor,
    segment_lengths: Tensor,
    num_segments: int,
    bin_num_examples: Tensor,
    bin_num_positives: Tensor,
    num_bins: int,
    positive_weight: float,
    lower_bound: float,
    upper_bound: float,
    bin_ctr_in_use_after: int,
    bin_ctr_weight_value: float,
) -> Calibrated:
    """Calibrate predictions by bins of equal width, with counts of their own for each value of a feature.

    Args:
        logit: (N,) floating.
        segment_value: the values of the feature, example by example.
        segment_lengths: (N,) how many values each example has. One with exactly one value v, 0 <= v < `num_segments`,
            is in segment v + 1; all others are in segment 0.
        num_segments: how many values there are.
        bin_num_examples: ((num_segments + 1) * num_bins,) see `histogram_binning_calibration`, like the following.
        bin_num_positives: the same shape.
        num_bins: of each segment.
        positive_weight: > 0.
        lower_bound: where a segment's first bin begins.
        upper_bound: where its last one ends.
        bin_ctr_in_use_after: examples.
        bin_ctr_weight_value: in [0, 1].

    Returns:
        As `histogram_binning_calibration`; bins are numbered through all segments.

    Raises:
        RuntimeError: counts that do not fit the segments and bins, other shapes.
    """
    return OPS.histogram_binning_calibration_by_feature(  # type: ignore[no-any-return]
        logit, segment_value, segment_lengths, num_segments, bin_num_examples, bin_num_positives, num_bins,
        positive_weight, lower_bound, upper_bound, bin_ctr_in_use_after, bin_ctr_weight_value,
    )  # fmt: skip


def generic_histogram_binning_calibration_by_feature(
    logit: Tensor,
    segment_value: Tensor,
    segment_lengths: Tensor,
    num_segments: int,
    bin_num_examples: Tensor,
    bin_num_positives: Tensor,
    bin_boundaries: Tensor,
    positive_weight: float,
    bin_ctr_in_use_after: int,
    bin_ctr_weight_value: float,
) -> Calibrated:
    """`histogram_binning_calibration_by_feature` with bins between boundaries.

    Args:
        logit: (N,) floating.
        segment_value: as there, like the following that are not named here.
        segment_lengths: (N,).
        num_segments: how many values there are.
        bin_num_examples: ((num_segments + 1) * bins,).
        bin_num_positives: the same shape.
        bin_boundaries: (bins - 1,) ascending. A prediction is in the bin behind the last boundary below it.
        positive_weight: > 0.
        bin_ctr_in_use_after: examples.
        bin_ctr_weight_value: in [0, 1].
    """
    return OPS.generic_histogram_binning_calibration_by_feature(  # type: ignore[no-any-return]
        logit, segment_value, segment_lengths, num_segments, bin_num_examples, bin_num_positives, bin_boundaries,
        positive_weight, bin_ctr_in_use_after, bin_ctr_weight_value,
    )  # fmt: skip


def _predictions(logit: Tensor, positive_weight: float) -> Tensor:
    return torch.sigmoid(logit.double() + math.log(positive_weight))


def _mix(
    logit: Tensor, predicted: Tensor, bins: Tensor, examples: Tensor, positives: Tensor, least: int, weight: float
) -> Calibrated:
    place = bins.clamp(0, examples.shape[0] - 1)
    counted, positive = examples[place], positives[place]
    rate = positive.double() / counted
    mixed = torch.where(counted > least, rate * weight + predicted * (1 - weight), predicted)
    return mixed.to(logit.dtype), bins


def _check(op: str, examples: Tensor, positives: Tensor, size: int | None) -> None:
    expected = "as many" if size is None else f"({size},)"
    require(
        examples.dim() == 1 and examples.shape == positives.shape and (size is None or examples.shape[0] == size),
        f"{op}: bin_num_examples has shape {tuple(examples.shape)} and bin_num_positives {tuple(positives.shape)}, "
        f"expected {expected} of both.",
    )


def _even_bins(predicted: Tensor, lower: float, upper: float, bins: int) -> Tensor:
    # Upstream: bins have the width that the bounds give them, but begin at 0.
    return (predicted / ((upper - lower) / bins)).ceil().long() - 1


def _segments(op: str, logit: Tensor, values: Tensor, lengths: Tensor, segments: int) -> Tensor:
    """(N,) int64: the segment of each example, 0 to `segments`."""
    require_indices(op, "segment_value", values)
    require_indices(op, "segment_lengths", lengths)
    require(
        lengths.shape == logit.shape,
        f"{op}: segment_lengths has shape {tuple(lengths.shape)}, expected {tuple(logit.shape)}: one for each logit.",
    )
    if values.shape[0] == 0:
        return torch.zeros_like(lengths, dtype=torch.int64)
    begins = lengths.cumsum(0) - lengths
    value = values[begins.clamp(0, values.shape[0] - 1)].long()
    known = (lengths == 1) & (value >= 0) & (value < segments)
    return torch.where(known, value + 1, 0)


def _plain(
    logit: Tensor,
    examples: Tensor,
    positives: Tensor,
    positive_weight: float,
    lower: float,
    upper: float,
    least: int,
    weight: float,
) -> Calibrated:
    _check("histogram_binning_calibration", examples, positives, None)
    predicted = _predictions(logit, positive_weight)
    bins = _even_bins(predicted, lower, upper, examples.shape[0])
    return _mix(logit, predicted, bins, examples, positives, least, weight)


def _by_feature(
    logit: Tensor,
    values: Tensor,
    lengths: Tensor,
    segments: int,
    examples: Tensor,
    positives: Tensor,
    count: int,
    positive_weight: float,
    lower: float,
    upper: float,
    least: int,
    weight: float,
) -> Calibrated:
    op = "histogram_binning_calibration_by_feature"
    _check(op, examples, positives, (segments + 1) * count)
    predicted = _predictions(logit, positive_weight)
    segment = _segments(op, logit, values, lengths, segments)
    bins = _even_bins(predicted, lower, upper, count) + segment * count
    return _mix(logit, predicted, bins, examples, positives, least, weight)


def _generic(
    logit: Tensor,
    values: Tensor,
    lengths: Tensor,
    segments: int,
    examples: Tensor,
    positives: Tensor,
    boundaries: Tensor,
    positive_weight: float,
    least: int,
    weight: float,
) -> Calibrated:
    op = "generic_histogram_binning_calibration_by_feature"
    count = boundaries.shape[0] + 1
    _check(op, examples, positives, (segments + 1) * count)
    predicted = _predictions(logit, positive_weight)
    segment = _segments(op, logit, values, lengths, segments)
    bins = torch.searchsorted(boundaries.to(predicted.dtype).contiguous(), predicted) + segment * count
    return _mix(logit, predicted, bins, examples, positives, least, weight)


_COUNTS = "Tensor bin_num_examples, Tensor bin_num_positives"
_USE = "SymInt bin_ctr_in_use_after, float bin_ctr_weight_value"
_SEGMENTS = "Tensor segment_value, Tensor segment_lengths, SymInt num_segments"
register_composite(
    f"histogram_binning_calibration(Tensor logit, {_COUNTS}, float positive_weight, float lower_bound, float "
    f"upper_bound, {_USE}) -> (Tensor, Tensor)",
    _plain,
)
register_composite(
    f"histogram_binning_calibration_by_feature(Tensor logit, {_SEGMENTS}, {_COUNTS}, SymInt num_bins, float "
    f"positive_weight, float lower_bound, float upper_bound, {_USE}) -> (Tensor, Tensor)",
    _by_feature,
)
register_composite(
    f"generic_histogram_binning_calibration_by_feature(Tensor logit, {_SEGMENTS}, {_COUNTS}, Tensor bin_boundaries, "
    f"float positive_weight, {_USE}) -> (Tensor, Tensor)",
    _generic,
)
