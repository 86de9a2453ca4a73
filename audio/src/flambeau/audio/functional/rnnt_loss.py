"""The transducer loss: minus the logarithm of the probability of all alignments of frames and labels.

The native kernels are `native/rnnt_loss.cpp`, those for CUDA and XPU `_rnnt_loss_triton.py`. Both leave for the
gradient no more than two numbers for each place of the lattice; the softmax over the classes is never kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.audio._native import LIBRARY, kernel
from flambeau.core.native import register_op

__all__ = ["rnnt_loss"]


def rnnt_loss(
    logits: Tensor,
    targets: Tensor,
    logit_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = -1,
    clamp: float = -1,
    reduction: str = "mean",
    fused_log_softmax: bool = True,
) -> Tensor:
    """Score targets by a transducer's output, over all ways to align them with the frames.

    Args:
        logits: (N, T, U + 1, classes), the joiner's output; float32, float64, or float16 and bfloat16, which are
            computed in float32.
        targets: (N, U) int32, classes other than blank; padding beyond `target_lengths` is not read.
        logit_lengths: (N,) int32, frames of each item, at least 1; the longest is T.
        target_lengths: (N,) int32, labels of each item; the longest is U.
        blank: its class; negative numbers count from the end.
        clamp: above 0, each item's gradient with respect to the logits is cut to [-clamp, clamp].
        reduction: "none", "mean" over the batch, or "sum". Upstream: losses are not divided by lengths; divide the
            result of "none" yourself where lengths differ much.
        fused_log_softmax: whether `logits` are logits. False: they are logarithms of probabilities already, and the
            gradient is that of those numbers, as they are.

    Returns:
        (N,) for "none", else (); dtype of `logits`. There is no second derivative.

    Raises:
        RuntimeError: wrong shapes or dtypes, lengths that do not fit, or a class that is not there.
        ValueError: another reduction.

    Example:
        >>> lengths = torch.tensor([1], dtype=torch.int32), torch.tensor([0], dtype=torch.int32)
        >>> rnnt_loss(torch.zeros(1, 1, 1, 2), torch.zeros(1, 0, dtype=torch.int32), *lengths)
        tensor(0.6931)

    References:
        Graves 2012, arXiv:1211.3711, section 2.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"rnnt_loss: reduction is {reduction!r}, expected 'none', 'mean' or 'sum'.")
    classes = logits.shape[-1]
    if not -classes <= blank < classes:
        raise RuntimeError(f"rnnt_loss: blank is class {blank}, expected a number from {-classes} to {classes - 1}.")
    scores = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) and logits.is_cpu else logits
    costs = torch.ops.flambeau_audio.rnnt_loss(
        scores, targets, logit_lengths, target_lengths, blank % classes, fused_log_softmax, clamp
    )[0]
    costs = costs.to(logits.dtype)
    if reduction == "none":
        return costs  # type: ignore[no-any-return]
    reduced: Tensor = costs.mean() if reduction == "mean" else costs.sum()
    return reduced


DTYPES = (torch.float32, torch.float64)


def check(
    logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int,
    dtypes: tuple[torch.dtype, ...] = DTYPES,
) -> None:  # fmt: skip
    """Shapes and dtypes, with the same sentences as `valid` in native/rnnt_loss.cpp."""
    if logits.dim() != 4:
        raise RuntimeError(
            f"rnnt_loss: logits has shape {tuple(logits.shape)}, expected (batch, time, target + 1, classes)."
        )
    if logits.dtype not in dtypes:
        raise RuntimeError(f"rnnt_loss: logits has dtype {logits.dtype}, expected float32 or float64; convert it.")
    given = [targets.dtype, logit_lengths.dtype, target_lengths.dtype]
    if given != [torch.int32] * 3:
        raise RuntimeError(
            "rnnt_loss: targets, logit_lengths and target_lengths have dtypes "
            f"{given[0]}, {given[1]} and {given[2]}, expected int32."
        )
    items, _, places, classes = logits.shape
    if targets.dim() != 2 or targets.shape[0] != items or targets.shape[1] + 1 != places:
        raise RuntimeError(
            f"rnnt_loss: targets has shape {tuple(targets.shape)}, expected ({items}, {places - 1}): the batch and one "
            "less than the places of logits."
        )
    shapes = tuple(logit_lengths.shape), tuple(target_lengths.shape)
    if shapes != ((items,), (items,)):
        raise RuntimeError(f"rnnt_loss: lengths have shapes {shapes[0]} and {shapes[1]}, expected ({items},) both.")
    if not 0 <= blank < classes:
        raise RuntimeError(f"rnnt_loss: blank is class {blank} of {classes}.")


def check_values(logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor) -> None:
    """Lengths and classes, with the same sentences as `valid_values`."""
    items, frames, places, classes = logits.shape
    if not items:
        return
    times, labels = logit_lengths.tolist(), target_lengths.tolist()
    for n, (time, label) in enumerate(zip(times, labels, strict=True)):
        if time < 1 or label < 0:
            raise RuntimeError(
                f"rnnt_loss: item {n} has {time} frames and {label} labels, expected at least 1 and 0."
            )  # fmt: skip
    if max(times) != frames:
        raise RuntimeError(
            f"rnnt_loss: input length mismatch: the longest of logit_lengths is {max(times)}, logits has {frames} "
            "frames."
        )
    if max(labels) + 1 != places:
        raise RuntimeError(
            f"rnnt_loss: output length mismatch: the longest of target_lengths is {max(labels)}, logits has {places} "
            "places, one more is expected."
        )
    read = torch.arange(targets.shape[1], device=targets.device) < target_lengths[:, None]
    wrong = targets[read & ((targets < 0) | (targets >= classes))]
    if len(wrong):
        raise RuntimeError(f"rnnt_loss: targets holds class {int(wrong[0])}, expected 0 to {classes - 1}.")


# --- shape-only twins -----------------------------------------------------------------------------


def _fake(
    logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int, fused: bool,
    clamp: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    check(logits, targets, logit_lengths, target_lengths, blank, (*DTYPES, torch.float16, torch.bfloat16))
    dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    sizes = logits.shape[:3]
    costs, normalisers, alphas = (logits.new_empty(size, dtype=dtype) for size in (sizes[:1], sizes, sizes))
    return costs, normalisers, alphas


def _fake_backward(grad: Tensor, logits: Tensor, *_: Any) -> Tensor:
    return logits.new_empty(logits.shape)


# --- reference ------------------------------------------------------------------------------------


def _scores(logits: Tensor, targets: Tensor, blank: int, fused: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Normalisers, and log-probabilities of blank and of the next label, (N, T, U + 1) each; no label is last."""
    normalisers = logits.logsumexp(-1) if fused else torch.zeros_like(logits[..., 0])
    stay = logits[..., blank] - normalisers
    # Padding may hold anything: it is masked by the caller.
    which = targets.clamp(0, logits.shape[-1] - 1).to(torch.int64)[:, None, :, None].expand(-1, logits.shape[1], -1, 1)
    advance = logits[:, :, :-1].gather(-1, which).squeeze(-1) - normalisers[:, :, :-1]
    return normalisers, stay, torch.nn.functional.pad(advance, (0, 1), value=-torch.inf)


def _inside(logits: Tensor, logit_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """Which places (N, T, U + 1) are of an item."""
    frames = torch.arange(logits.shape[1], device=logits.device) < logit_lengths[:, None]
    places = torch.arange(logits.shape[2], device=logits.device) <= target_lengths[:, None]
    return frames[:, :, None] & places[:, None, :]


def _alphas(stay: Tensor, advance: Tensor, inside: Tensor) -> Tensor:
    """Log-probabilities of reaching each place. Along each frame from label to label, then to the next frame."""
    rows: list[Tensor] = []
    for t in range(stay.shape[1]):
        if t == 0:
            entered = torch.full_like(stay[:, 0], -torch.inf)
            entered[:, 0] = 0
        else:
            entered = rows[-1] + stay[:, t - 1]
        places = [entered[:, 0]]
        for u in range(1, stay.shape[2]):
            places.append(torch.logaddexp(entered[:, u], places[-1] + advance[:, t, u - 1]))
        rows.append(torch.stack(places, 1).where(inside[:, t], -torch.inf))
    return torch.stack(rows, 1)


def _betas(stay: Tensor, advance: Tensor, inside: Tensor, ends: Tensor) -> Tensor:
    """Log-probabilities of finishing from each place; `ends` are the last places (N, T, U + 1)."""
    advance = advance.where(inside & inside.roll(-1, 2), -torch.inf)
    rows: list[Tensor] = []
    for t in reversed(range(stay.shape[1])):
        later = rows[-1] if rows else torch.full_like(stay[:, 0], -torch.inf)
        left = torch.where(ends[:, t], 0.0, later) + stay[:, t]
        places = [left[:, -1]]
        for u in reversed(range(stay.shape[2] - 1)):
            places.append(torch.logaddexp(left[:, u], places[-1] + advance[:, t, u]))
        rows.append(torch.stack(places[::-1], 1).where(inside[:, t], -torch.inf))
    return torch.stack(rows[::-1], 1)


def _ends(inside: Tensor, logit_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """The last place of each item."""
    last = torch.arange(inside.shape[1], device=inside.device) == (logit_lengths - 1)[:, None]
    final = torch.arange(inside.shape[2], device=inside.device) == target_lengths[:, None]
    return last[:, :, None] & final[:, None, :]


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype in DTYPES else logits.float()


def _reference(
    logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int, fused: bool,
    clamp: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    check(logits, targets, logit_lengths, target_lengths, blank, (*DTYPES, torch.float16, torch.bfloat16))
    logits = _wide(logits)
    check_values(logits, targets, logit_lengths, target_lengths)
    normalisers, stay, advance = _scores(logits, targets, blank, fused)
    inside = _inside(logits, logit_lengths, target_lengths)
    alphas = _alphas(stay, advance, inside)
    ends = _ends(inside, logit_lengths, target_lengths)
    costs = -torch.where(ends, alphas + stay, 0.0).sum((1, 2))
    return costs, normalisers.where(inside, 0.0), alphas


def _reference_backward(
    grad: Tensor, logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor,
    normalisers: Tensor, alphas: Tensor, costs: Tensor, blank: int, fused: bool, clamp: float,
) -> Tensor:  # fmt: skip
    given, logits = logits.dtype, _wide(logits)
    _, stay, advance = _scores(logits, targets, blank, fused)
    inside = _inside(logits, logit_lengths, target_lengths)
    ends = _ends(inside, logit_lengths, target_lengths)
    advance = advance.where(inside & inside.roll(-1, 2), -torch.inf)
    betas = _betas(stay, advance, inside, ends)
    reached = alphas + costs[:, None, None]
    to_frame = torch.nn.functional.pad(betas[:, 1:], (0, 0, 0, 1), value=-torch.inf)
    to_label = torch.nn.functional.pad(betas[:, :, 1:], (0, 1), value=-torch.inf)
    by_blank = (reached + stay + torch.where(ends, 0.0, to_frame)).exp()
    by_label = (reached + advance + to_label).exp()
    shares = (logits + (reached + betas - normalisers)[..., None]).exp() if fused else torch.zeros_like(logits)
    shares[..., blank] -= by_blank
    which = targets.clamp(0, logits.shape[-1] - 1).to(torch.int64)[:, None, :, None].expand(-1, logits.shape[1], -1, 1)
    shares[:, :, :-1].scatter_add_(-1, which, -by_label[:, :, :-1, None])
    shares = torch.where(inside[..., None], shares, 0.0)
    if clamp > 0:
        shares = shares.clamp(-clamp, clamp)
    return (shares * grad[:, None, None, None]).to(given)


# --- native kernels through ctypes ----------------------------------------------------------------

_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


def _native(
    logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int, fused: bool,
    clamp: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    check(logits, targets, logit_lengths, target_lengths, blank)
    check_values(logits, targets, logit_lengths, target_lengths)
    inputs = [given.contiguous() for given in (logits, targets, logit_lengths, target_lengths)]
    costs, normalisers, alphas = _fake(logits, targets, logit_lengths, target_lengths, blank, fused, clamp)
    kernel(f"fb_rnnt_loss_{_SUFFIX[logits.dtype]}", "pppp" + "nnnnnb" + "ppp" + "t")(
        *(given.data_ptr() for given in inputs), *logits.shape, blank, fused,
        *(made.data_ptr() for made in (normalisers, alphas, costs)), torch.get_num_threads(),
    )  # fmt: skip
    return costs, normalisers, alphas


def _native_backward(
    grad: Tensor, logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor,
    normalisers: Tensor, alphas: Tensor, costs: Tensor, blank: int, fused: bool, clamp: float,
) -> Tensor:  # fmt: skip
    inputs = [given.contiguous() for given in (grad, logits, targets, logit_lengths, target_lengths)]
    kept = [given.contiguous() for given in (normalisers, alphas, costs)]
    betas, result = torch.empty_like(kept[1]), torch.empty_like(inputs[1])
    kernel(f"fb_rnnt_loss_backward_{_SUFFIX[logits.dtype]}", "ppppp" + "nnnnnbd" + "ppppp" + "t")(
        *(given.data_ptr() for given in inputs), *logits.shape, blank, fused, clamp,
        *(given.data_ptr() for given in (*kept, betas, result)), torch.get_num_threads(),
    )  # fmt: skip
    return result


# --- gradient -------------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    logits, targets, logit_lengths, target_lengths, *ctx.arguments = inputs
    costs, normalisers, alphas = output
    ctx.save_for_backward(logits, targets, logit_lengths, target_lengths, normalisers, alphas, costs)


def _gradient(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    flow = torch.ops.flambeau_audio.rnnt_loss_backward(grad, *ctx.saved_tensors, *ctx.arguments)
    return (flow, *(None,) * 6)


def _no_second(ctx: Any, *grads: Any) -> Any:
    raise RuntimeError(
        "rnnt_loss: the second derivative is not defined; differentiate once, or detach what torch.autograd.grad gave."
    )


_INPUTS = "Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths"
_OPTIONS = "int blank, bool fused_log_softmax, float clamp"
register_op(
    f"rnnt_loss_backward(Tensor grad, {_INPUTS}, Tensor normalisers, Tensor alphas, Tensor costs, {_OPTIONS}) "
    "-> Tensor",
    library=LIBRARY,
    symbol=_native_backward,
    fake=_fake_backward,
    python=_reference_backward,
    triton="flambeau.audio.functional._rnnt_loss_triton:rnnt_loss_backward",
    backward=_no_second,
)
register_op(
    f"rnnt_loss({_INPUTS}, {_OPTIONS}) -> (Tensor costs, Tensor normalisers, Tensor alphas)",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    triton="flambeau.audio.functional._rnnt_loss_triton:rnnt_loss",
    backward=_gradient,
    setup_context=_keep,
)
