"""The transducer loss for CUDA and XPU, in Triton. Imported when it is first needed, because it needs Triton.

Four kernels: one program for each place of the lattice sums the softmax and keeps the two log-probabilities that the
lattice needs; one program for each item walks through the frames, forward or backward, and along each frame by a scan:
a place is reached from the frame before or from the label before, x[u] = logadd(entered[u], x[u - 1] + label[u - 1]),
which is a linear recurrence in the logarithmic semiring; the last kernel writes the gradient. Sums are float32, or
float64 for float64 logits; half precision is read and written as it is.
"""

# Triton is not there on most machines, and its functions' arguments are of its own kinds.
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.audio.functional.rnnt_loss import DTYPES, check, check_values

# Classes that a program works on at once.
_MOST_CLASSES = 1024
# Programs of a scan hold all places of a frame in registers.
_MOST_PLACES = 65536


def rnnt_loss(
    logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int, fused: bool,
    clamp: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`torch.ops.flambeau_audio.rnnt_loss` on tensors of an accelerator."""
    check(logits, targets, logit_lengths, target_lengths, blank, (*DTYPES, torch.float16, torch.bfloat16))
    check_values(logits, targets, logit_lengths, target_lengths)
    scores, labels = logits.contiguous(), _labels(targets)
    items, frames, places, _ = scores.shape
    normalisers, stay, advance = _normalise(scores, labels, blank, fused)
    alphas = torch.empty_like(normalisers)
    costs = normalisers.new_empty(items)
    if items:
        with _on(logits.device):
            _forward[(items,)](
                stay, advance, logit_lengths.contiguous(), target_lengths.contiguous(), alphas, costs, frames, places,
                BLOCK=_block(places),
            )  # fmt: skip
    return costs, normalisers, alphas


def rnnt_loss_backward(
    grad: Tensor, logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor,
    normalisers: Tensor, alphas: Tensor, costs: Tensor, blank: int, fused: bool, clamp: float,
) -> Tensor:  # fmt: skip
    """Its gradient."""
    scores, labels = logits.contiguous(), _labels(targets)
    items, frames, places, classes = scores.shape
    result, betas = torch.empty_like(scores), torch.empty_like(normalisers)
    if not items:
        return result
    frames_of, labels_of = logit_lengths.contiguous(), target_lengths.contiguous()
    _, stay, advance = _normalise(scores, labels, blank, fused)
    with _on(logits.device):
        _backward[(items,)](stay, advance, frames_of, labels_of, betas, frames, places, BLOCK=_block(places))
        _gradient[(items * frames * places,)](
            scores, labels, grad.contiguous(), normalisers, stay, advance, alphas.contiguous(), betas,
            costs.contiguous(), frames_of, labels_of, result, frames, places, classes, blank, clamp,
            FUSED=fused, CLAMPED=clamp > 0, BLOCK=_class_block(classes),
        )  # fmt: skip
    return result


def _labels(targets: Tensor) -> Tensor:
    """Targets with one more column: no pointer is null, also without labels."""
    return torch.nn.functional.pad(targets, (0, 1)).contiguous()


def _normalise(scores: Tensor, labels: Tensor, blank: int, fused: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Normalisers, and log-probabilities of blank and of the next label, each (items, frames, places)."""
    items, frames, places, classes = scores.shape
    wide = torch.float64 if scores.dtype == torch.float64 else torch.float32
    made = [torch.empty(items, frames, places, dtype=wide, device=scores.device) for _ in range(3)]
    if made[0].numel():
        with _on(scores.device):
            _sum[(items * frames * places,)](
                scores, labels, *made, frames, places, classes, blank, FUSED=fused, BLOCK=_class_block(classes)
            )
    return made[0], made[1], made[2]


def _class_block(classes: int) -> int:
    return int(min(triton.next_power_of_2(classes), _MOST_CLASSES))


def _block(places: int) -> int:
    if places > _MOST_PLACES:
        raise RuntimeError(f"rnnt_loss: {places - 1} labels, expected at most {_MOST_PLACES - 1}; cut the targets.")
    return int(max(triton.next_power_of_2(places), 2))


def _on(device: torch.device) -> Any:
    """Triton launches on the current device: make it the tensors' own."""
    return torch.get_device_module(device).device(device)


@triton.jit
def _sum(
    scores, labels, normalisers, stay, advance, frames, places, classes, blank,
    FUSED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One place: log sum exp over its classes, by running maximum and sum."""
    cell = tl.program_id(0).to(tl.int64)
    kind = normalisers.dtype.element_ty
    row = scores + cell * classes
    best = tl.full([1], float("-inf"), dtype=kind)
    total = tl.zeros([1], dtype=kind)
    if FUSED:
        for begin in range(0, classes, BLOCK):
            some = begin + tl.arange(0, BLOCK)
            given = tl.load(row + some, mask=some < classes, other=float("-inf")).to(kind)
            higher = tl.maximum(best, tl.max(given, axis=0))
            # Where all is -inf so far, the difference would be no number.
            origin = tl.where(higher == float("-inf"), 0.0, higher)
            total = total * tl.exp(best - origin) + tl.sum(tl.exp(given - origin), axis=0)
            best = higher
        normaliser = tl.sum(best + tl.log(total), axis=0)
    else:
        normaliser = tl.sum(total, axis=0)
    place = cell % places
    label = tl.load(labels + cell // (frames * places) * places + place)
    # Padding may hold any number: what it would name is not read.
    there = (place + 1 < places) & (label >= 0) & (label < classes)
    by_label = tl.load(row + tl.where(there, label, 0)).to(kind) - normaliser
    tl.store(normalisers + cell, normaliser)
    tl.store(stay + cell, tl.load(row + blank).to(kind) - normaliser)
    tl.store(advance + cell, tl.where(there, by_label, float("-inf")))


@triton.jit
def _log_add(a, b):
    high = tl.maximum(a, b)
    origin = tl.where(high == float("-inf"), 0.0, high)
    return tl.where(high == float("-inf"), high, origin + tl.log(tl.exp(a - origin) + tl.exp(b - origin)))


@triton.jit
def _join(step_a, reached_a, step_b, reached_b):
    """Two stretches of x[u] = logadd(entered[u], x[u - 1] + step[u]), one after the other."""
    return step_a + step_b, _log_add(reached_a + step_b, reached_b)


@triton.jit
def _forward(stay, advance, frames_of, labels_of, alphas, costs, frames, places, BLOCK: tl.constexpr):
    item = tl.program_id(0).to(tl.int64)
    last_frame = tl.load(frames_of + item) - 1
    last_place = tl.load(labels_of + item)
    place = tl.arange(0, BLOCK)
    inside = place < places
    there = place <= last_place
    kind = alphas.dtype.element_ty
    entered = tl.where(place == 0, 0.0, float("-inf")).to(kind)
    cost = tl.zeros([BLOCK], dtype=kind)
    for frame in range(frames):
        row = (item * frames + frame) * places
        # Along the frame: from the place before, by its label.
        step = tl.load(advance + row + place - 1, mask=inside & (place > 0), other=float("-inf"))
        _, alpha = tl.associative_scan((step, entered), 0, _join)
        alpha = tl.where(there & (frame <= last_frame), alpha, float("-inf"))
        tl.store(alphas + row + place, alpha, mask=inside)
        by_blank = tl.load(stay + row + place, mask=inside, other=float("-inf"))
        entered = alpha + by_blank
        cost = tl.where((frame == last_frame) & (place == last_place), -entered, cost)
    tl.store(costs + item, tl.sum(cost, axis=0))


@triton.jit
def _backward(stay, advance, frames_of, labels_of, betas, frames, places, BLOCK: tl.constexpr):
    item = tl.program_id(0).to(tl.int64)
    last_frame = tl.load(frames_of + item) - 1
    last_place = tl.load(labels_of + item)
    # Places from the last one down, so that the scan runs against the labels' order.
    place = places - 1 - tl.arange(0, BLOCK)
    inside = place >= 0
    there = inside & (place <= last_place)
    kind = betas.dtype.element_ty
    later = tl.full([BLOCK], float("-inf"), dtype=kind)
    for back in range(frames):
        frame = frames - 1 - back
        row = (item * frames + frame) * places
        left = tl.where((frame == last_frame) & (place == last_place), 0.0, later)
        by_blank = tl.load(stay + row + place, mask=inside, other=float("-inf"))
        step = tl.load(advance + row + place, mask=there & (place < last_place), other=float("-inf"))
        _, beta = tl.associative_scan((step, left + by_blank), 0, _join)
        later = tl.where(there & (frame <= last_frame), beta, float("-inf"))
        tl.store(betas + row + place, later, mask=inside)


@triton.jit
def _gradient(
    scores, labels, grads, normalisers, stay, advance, alphas, betas, costs, frames_of, labels_of, result,
    frames, places, classes, blank, clamp,
    FUSED: tl.constexpr, CLAMPED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    cell = tl.program_id(0).to(tl.int64)
    kind = alphas.dtype.element_ty
    place, frame, item = cell % places, cell // places % frames, cell // (frames * places)
    last_frame = tl.load(frames_of + item) - 1
    last_place = tl.load(labels_of + item)
    there = (frame <= last_frame) & (place <= last_place)
    ends = (frame == last_frame) & (place == last_place)
    reached = tl.load(alphas + cell) + tl.load(costs + item)
    goes_on, has_label = there & (frame < last_frame), there & (place < last_place)
    to_frame = tl.where(goes_on, tl.load(betas + cell + tl.where(goes_on, places, 0)), float("-inf"))
    to_frame = tl.where(ends, 0.0, to_frame)
    to_label = tl.load(betas + cell + tl.where(has_label, 1, 0))
    by_blank = tl.where(there, tl.exp(reached + tl.load(stay + cell) + to_frame), 0.0)
    by_label = tl.where(has_label, tl.exp(reached + tl.load(advance + cell) + to_label), 0.0)
    shift = reached + tl.load(betas + cell) - tl.load(normalisers + cell)
    label = tl.load(labels + item * places + place)
    scale = tl.load(grads + item).to(kind)
    for begin in range(0, classes, BLOCK):
        some = begin + tl.arange(0, BLOCK)
        share = tl.zeros([BLOCK], dtype=kind)
        if FUSED:
            row = tl.load(scores + cell * classes + some, mask=some < classes, other=float("-inf")).to(kind)
            share = tl.where(there & (shift > float("-inf")), tl.exp(row + shift), 0.0)
        share -= tl.where(some == blank, by_blank, 0.0)
        share -= tl.where((some == label) & has_label, by_label, 0.0)
        if CLAMPED:
            share = tl.minimum(tl.maximum(share, -clamp), clamp)
        tl.store(result + cell * classes + some, (share * scale).to(result.dtype.element_ty), mask=some < classes)
