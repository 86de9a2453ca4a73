"""Averages of tables over steps: a copy that trades places with its table, or half of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

__all__ = ["average_and_swap", "average_in_place"]


def _is_due(step: int, every: float, start: float) -> bool:
    return int(every) > 0 and step % int(every) == 0 and step >= int(start)


def average_in_place(weights: Sequence[Tensor], step: int, mode: Mapping[str, float]) -> None:
    """Move the second half of each row towards the first, which is trained.

    Args:
        weights: (rows, columns) each; changed in place.
        step: counted from 1.
        mode: `step_ema`, how many steps lie between two averages; `step_start`, the first step that may have one;
            `step_ema_coef`, how far the second half moves: 1 makes it a copy.
    """
    if not _is_due(step, mode["step_ema"], mode["step_start"]):
        return
    for table in weights:
        half = table.shape[1] // 2
        table[:, half : 2 * half].lerp_(table[:, :half], mode["step_ema_coef"])


def average_and_swap(
    weights: Sequence[Tensor], averages: Sequence[Tensor], step: int, mode: Mapping[str, float]
) -> None:
    """Take tables into their averages, and put averages in their place every now and then.

    Args:
        weights: (rows, columns) each; changed in place.
        averages: alike, of their own dtype and device; changed in place.
        step: counted from 1.
        mode: `step_ema` and `step_swap`, how many steps lie between two averages and between two swaps, which go
            together with one; `step_start`, the first step that may have one, at which averages begin as copies;
            `step_ema_coef`, what averages keep of themselves.
    """
    step_swap = int(mode["step_swap"])
    if not _is_due(step, mode["step_ema"], mode["step_start"]):
        return
    kept = 0.0 if step <= int(mode["step_start"]) else mode["step_ema_coef"]
    for table, average in zip(weights, averages, strict=True):
        average.lerp_(table.to(average.device, average.dtype), 1.0 - kept)
        if step_swap > 0 and step % step_swap == 0:
            table.copy_(average)
