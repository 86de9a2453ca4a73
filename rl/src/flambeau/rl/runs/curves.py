"""Learning curves, as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["draw_curves"]


def draw_curves(
    curves: Sequence[Sequence[dict[str, float]]], path: str | Path, *, title: str, threshold: float | None = None
) -> Path:
    """Draw returns by frames, a line a run, with the range of one standard deviation of episodes.

    Args:
        curves: rows with "frames", "return" and "std", of each run.
        path: the picture, such as "curve.png".
        title: above it.
        threshold: a return that is drawn as a line.

    Returns:
        The path.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("learning curves are drawn by matplotlib. Run: pip install 'flambeau-rl[train]'") from error
    # No `pyplot`: it would keep the figure, and choose a screen.
    figure = Figure(figsize=(6.4, 4.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    for number, rows in enumerate(curves):
        frames = [row["frames"] for row in rows]
        means = [row["return"] for row in rows]
        (line,) = axes.plot(
            frames, means, marker=".", linewidth=1.5, label=f"seed {number}" if len(curves) > 1 else None
        )
        low = [row["return"] - row["std"] for row in rows]
        high = [row["return"] + row["std"] for row in rows]
        axes.fill_between(frames, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    if threshold is not None:
        axes.axhline(threshold, color="black", linestyle="--", linewidth=1, label=f"{threshold:g}")
    axes.set_xlabel("steps")
    axes.set_ylabel("return of an episode")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    if len(curves) > 1 or threshold is not None:
        axes.legend(loc="lower right")
    figure.savefig(path)
    return Path(path)
