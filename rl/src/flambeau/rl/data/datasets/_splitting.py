"""Trajectories as rows of equal length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import is_leaf_nontensor
from flambeau.rl.data.datasets._row_files import RowFiles

__all__ = ["split_rows"]


def split_rows(steps: Any, folder: Path) -> None:
    """Split steps (steps,) where ("next", "done") ends a trajectory, and write (trajectories, longest) to a folder.

    What is behind a trajectory's end is zero. "mask" tells steps from padding, and "traj_ids" is the number of the
    trajectory; both (trajectories, longest).

    Args:
        steps: a tensordict, which may be memory-mapped; one trajectory at a time is read.
        folder: empty.
    """
    ends = steps["next", "done"].reshape(steps.shape[0], -1).any(-1).clone()
    ends[-1] = True
    stops = ends.nonzero().flatten() + 1
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), stops[:-1]])
    longest = int((stops - starts).max())
    rows = RowFiles(folder, "trajectories", inner=(longest,))
    for number, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        part, length = steps[start:stop], stop - start
        made: dict[tuple[str, ...], Any] = {
            key if isinstance(key, tuple) else (key,): _padded(value, longest)
            for key, value in part.items(True, True, is_leaf=is_leaf_nontensor)
        }
        if ("next", "done") in made:  # what the data end with is an end, too
            made["next", "done"][0, length - 1] = True
        made["mask",] = (torch.arange(longest) < length)[None]
        made["traj_ids",] = torch.where(made["mask",], number, 0)
        rows.append(made, f"trajectory {number}")
    rows.finish()


def _padded(value: Any, longest: int) -> Any:
    """One row of a tensor's steps, or of texts."""
    if not isinstance(value, Tensor):
        texts = list(value.tolist()) if hasattr(value, "tolist") else list(value)
        return [texts + [""] * (longest - len(texts))]
    made = value.new_zeros(longest, *value.shape[1:])
    made[: len(value)] = value
    return made.as_subclass(Tensor)[None]
