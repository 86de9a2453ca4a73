"""Alignment of known labels with frames, by the best path of a CTC model; the native kernel: `native/forced_align.cpp`.

The steps of the search take 2 bits for each frame and label, and for very long recordings no more than `_MOST_BYTES`:
then scores are kept now and then, and steps are computed a second time on the way back.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from flambeau.audio._native import LIBRARY, kernel
from flambeau.core.native import register_op

__all__ = ["TokenSpan", "forced_align", "merge_tokens"]

_MOST_BYTES = 2**28


def forced_align(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | None = None,
    target_lengths: Tensor | None = None,
    blank: int = 0,
) -> tuple[Tensor, Tensor]:
    """Find the most probable CTC path through given labels.

    Args:
        log_probs: (N, T, classes), logarithms of probabilities; float32, float64, or float16 and bfloat16, which are
            searched in float32.
        targets: (N, L) int32 or int64, classes other than blank; padding beyond `target_lengths` is not read.
        input_lengths: (N,), frames of each item; the longest is T. None means T for all.
        target_lengths: (N,), labels of each item; the longest is L. None means L for all.
        blank: its class.

    Returns:
        Paths (N, T), the class of each frame, in the dtype of `targets`, and scores (N, T), the logarithm of its
        probability, in the dtype of `log_probs` and differentiable. Beyond an item's frames they are blank and 0.

    Raises:
        ValueError: a target is blank or no class.
        RuntimeError: wrong shapes or dtypes, lengths that do not fit, or fewer frames than labels and repetitions,
            between which a blank must stand.

    Example:
        >>> log_probs = torch.tensor([[[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]]).log()
        >>> forced_align(log_probs, torch.tensor([[1, 1]]))[0]
        tensor([[1, 0, 1]])

    References:
        Kürzinger et al. 2020, arXiv:2007.09127; Graves et al. 2006, section 4.1.
    """
    if log_probs.dim() != 3 or targets.dim() != 2 or targets.shape[0] != log_probs.shape[0]:
        raise RuntimeError(
            f"forced_align: log_probs and targets have shapes {tuple(log_probs.shape)} and {tuple(targets.shape)}, "
            "expected (batch, time, classes) and (batch, length)."
        )
    if targets.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(f"forced_align: targets has dtype {targets.dtype}, expected int32 or int64; convert it.")
    frames_of = _lengths(input_lengths, log_probs.shape[0], log_probs.shape[1])
    labels_of = _lengths(target_lengths, *targets.shape)
    if not torch.compiler.is_compiling():
        _refuse_classes(targets, labels_of, blank, log_probs.shape[2])
    # The search is one long chain of small steps: the CPU is the place for it, whatever device the scores are on.
    wide = torch.float64 if log_probs.dtype == torch.float64 else torch.float32
    paths = torch.ops.flambeau_audio.forced_align(
        log_probs.detach().to("cpu", wide), targets.to("cpu", torch.int32), frames_of, labels_of, blank, _MOST_BYTES
    ).to(targets.device, targets.dtype)
    scores = log_probs.gather(-1, paths.to(log_probs.device, torch.int64).unsqueeze(-1)).squeeze(-1)
    if input_lengths is not None:
        here = torch.arange(log_probs.shape[1], device=log_probs.device) < frames_of.to(log_probs.device)[:, None]
        scores = torch.where(here, scores, 0.0)
    return paths, scores


def _lengths(given: Tensor | None, items: int, full: int) -> Tensor:
    return torch.full((items,), full, dtype=torch.int64) if given is None else given.to("cpu", torch.int64)


def _refuse_classes(targets: Tensor, labels_of: Tensor, blank: int, classes: int) -> None:
    if labels_of.shape != targets.shape[:1]:
        return  # the operator says so
    read = torch.arange(targets.shape[1]) < labels_of[:, None]
    used = targets[read.to(targets.device)]
    if bool((used == blank).any()):
        raise ValueError(f"forced_align: targets holds blank, class {blank}; take it out.")
    if bool(((used >= classes) | (used < 0)).any()):
        raise ValueError(
            f"forced_align: targets holds class {int(used.max())} or {int(used.min())}, expected 0 to {classes - 1}."
        )


@dataclass
class TokenSpan:
    """A label and the frames it takes up.

    Args:
        token: class of the label.
        start: first frame.
        end: frame after the last.
        score: mean of the frames' scores.
    """

    token: int
    start: int
    end: int
    score: float

    def __len__(self) -> int:
        """How many frames it takes up."""
        return self.end - self.start


def merge_tokens(tokens: Tensor, scores: Tensor, blank: int = 0) -> list[TokenSpan]:
    """Gather the frames of a path to spans of equal labels, without blanks.

    Args:
        tokens: (T,), the class of each frame, for example one path of `forced_align`.
        scores: (T,), of each frame.
        blank: its class.

    Returns:
        One span for each label, in order.

    Raises:
        ValueError: inputs that are not one-dimensional, or of different lengths.

    Example:
        >>> merge_tokens(torch.tensor([0, 3, 3, 0]), torch.tensor([0.5, 0.5, 1.0, 0.5]))
        [TokenSpan(token=3, start=1, end=3, score=0.75)]
    """
    if tokens.ndim != 1 or scores.ndim != 1 or len(tokens) != len(scores):
        raise ValueError(
            f"merge_tokens: tokens and scores have shapes {tuple(tokens.shape)} and {tuple(scores.shape)}, expected "
            "(T,) both."
        )
    if len(tokens) == 0:
        return []
    labels, sizes = torch.unique_consecutive(tokens, return_counts=True)
    ends = sizes.cumsum(0)
    sums = torch.zeros(len(labels), dtype=torch.float64, device=scores.device)
    places = torch.repeat_interleave(torch.arange(len(labels), device=scores.device), sizes.to(scores.device))
    means = sums.index_add(0, places, scores.detach().to(torch.float64)) / sizes.to(scores.device)
    rows = zip(labels.tolist(), (ends - sizes).tolist(), ends.tolist(), means.tolist(), strict=True)
    return [TokenSpan(*row) for row in rows if row[0] != blank]


def _check(log_probs: Tensor, targets: Tensor, frames_of: Tensor, labels_of: Tensor, blank: int) -> None:
    """The same sentences as `valid` in native/forced_align.cpp."""
    if log_probs.dim() != 3:
        raise RuntimeError(
            f"forced_align: log_probs has shape {tuple(log_probs.shape)}, expected (batch, time, classes)."
        )
    if log_probs.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(
            f"forced_align: log_probs has dtype {log_probs.dtype}, expected float32 or float64; convert it."
        )
    items = log_probs.shape[0]
    if targets.dim() != 2 or targets.shape[0] != items or targets.dtype != torch.int32:
        raise RuntimeError(
            f"forced_align: targets has shape {tuple(targets.shape)} and dtype {targets.dtype}, "
            f"expected ({items}, length) of int32."
        )
    fits = frames_of.shape == labels_of.shape == (items,) and frames_of.dtype == labels_of.dtype == torch.int64
    if not fits:
        raise RuntimeError(
            f"forced_align: lengths have shapes {tuple(frames_of.shape)} and {tuple(labels_of.shape)}, "
            f"expected ({items},) of int64 both."
        )
    if not 0 <= blank < log_probs.shape[2]:
        raise RuntimeError(f"forced_align: blank is class {blank} of {log_probs.shape[2]}.")


def _check_values(log_probs: Tensor, targets: Tensor, frames_of: Tensor, labels_of: Tensor, blank: int) -> None:
    """The same sentences as `valid_values`."""
    items, frames, classes = log_probs.shape
    if items and int(frames_of.max()) != frames:
        raise RuntimeError(
            f"forced_align: input length mismatch: the longest of input_lengths is {int(frames_of.max())}, log_probs "
            f"has {frames} frames."
        )
    if items and int(labels_of.max()) != targets.shape[1]:
        raise RuntimeError(
            f"forced_align: target length mismatch: the longest of target_lengths is {int(labels_of.max())}, targets "
            f"has {targets.shape[1]} labels."
        )
    rows = zip(frames_of.tolist(), labels_of.tolist(), targets.tolist(), strict=True)
    for n, (size, labels, row) in enumerate(rows):
        if size < 1 or labels < 0:
            raise RuntimeError(
                f"forced_align: item {n} has {size} frames and {labels} labels, expected at least 1 and 0."
            )  # fmt: skip
        wrong = next((label for label in row[:labels] if label == blank or not 0 <= label < classes), None)
        if wrong is not None:
            raise RuntimeError(
                f"forced_align: targets holds class {wrong}, expected 0 to {classes - 1} without blank, {blank}."
            )
        repeats = sum(row[i] == row[i - 1] for i in range(1, labels))
        if size < labels + repeats:
            raise RuntimeError(
                f"forced_align: targets length is too long for CTC: item {n} has {size} frames for {labels} labels and "
                f"{repeats} repetitions."
            )


def _fake(
    log_probs: Tensor, targets: Tensor, frames_of: Tensor, labels_of: Tensor, blank: int, most_bytes: int
) -> Tensor:  # fmt: skip
    _check(log_probs, targets, frames_of, labels_of, blank)
    return log_probs.new_empty(log_probs.shape[:2], dtype=torch.int32)


def _reference(
    log_probs: Tensor, targets: Tensor, frames_of: Tensor, labels_of: Tensor, blank: int, most_bytes: int
) -> Tensor:  # fmt: skip
    _check(log_probs, targets, frames_of, labels_of, blank)
    _check_values(log_probs, targets, frames_of, labels_of, blank)
    items, frames, _ = log_probs.shape
    read = torch.arange(targets.shape[1]) < labels_of[:, None]
    labels = torch.where(read, targets, blank).to(torch.int64)
    states = torch.full((items, 2 * targets.shape[1] + 1), blank, dtype=torch.int64)
    states[:, 1::2] = labels
    place = torch.arange(states.shape[1])
    previous = states.roll(2, 1)
    may_skip = (place % 2 == 1) & (place > 1) & (states != previous)
    scores = torch.where(place < 2, log_probs[:, 0].gather(1, states), -torch.inf)
    steps = torch.zeros(items, frames, states.shape[1], dtype=torch.uint8)
    for t in range(1, frames):
        padded = torch.nn.functional.pad(scores, (2, 0), value=-torch.inf)
        ways = torch.stack([scores, padded[:, 1:-1], torch.where(may_skip, padded[:, :-2], -torch.inf)])
        best, step = ways.max(0)
        there = (t < frames_of)[:, None]
        scores = torch.where(there, best + log_probs[:, t].gather(1, states), scores)
        steps[:, t] = torch.where(there, step, 0)
    final = 2 * labels_of
    ends = scores.gather(1, torch.stack([final, (final - 1).clamp(min=0)], 1))
    state = torch.where((ends[:, 0] > ends[:, 1]) | (final == 0), final, final - 1)
    path = torch.empty(items, frames, dtype=torch.int32)
    for t in reversed(range(frames)):
        path[:, t] = torch.where(t < frames_of, states.gather(1, state[:, None])[:, 0], blank)
        state = state - steps[:, t].gather(1, state[:, None])[:, 0]
    return path


def _native(
    log_probs: Tensor, targets: Tensor, frames_of: Tensor, labels_of: Tensor, blank: int, most_bytes: int
) -> Tensor:  # fmt: skip
    paths = _fake(log_probs, targets, frames_of, labels_of, blank, most_bytes)
    _check_values(log_probs, targets, frames_of, labels_of, blank)
    inputs = [given.contiguous() for given in (log_probs, targets, frames_of, labels_of)]
    suffix = "f32" if log_probs.dtype == torch.float32 else "f64"
    status = kernel(f"fb_forced_align_{suffix}", "ppppp" + "nnnnnn" + "t", "n")(
        *(given.data_ptr() for given in (*inputs, paths)), *log_probs.shape, targets.shape[1], blank, most_bytes,
        torch.get_num_threads(),
    )  # fmt: skip
    if status < 0:
        raise RuntimeError(f"forced_align: no memory left for {log_probs.shape[1]} frames.")
    return paths


register_op(
    "forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, "
    "int most_bytes) -> Tensor",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
)
