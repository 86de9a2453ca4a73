"""Numbers of steps, in whole batches."""

from __future__ import annotations

import warnings

from flambeau.rl._utils import rl_warnings


def frames_of_each(frames_per_batch: int, parts: int, what: str) -> int:
    """How many steps each of several takes, so that all together take as many as were asked for, or a few more.

    Args:
        frames_per_batch: steps that were asked for.
        parts: by how many they are shared.
        what: who these are, for the warning.

    Raises:
        ValueError: there are less than one.
    """
    if frames_per_batch < 1:
        raise ValueError(f"frames_per_batch must be 1 or more; got {frames_per_batch}.")
    each = -(-frames_per_batch // parts)
    if each * parts != frames_per_batch and rl_warnings():
        warnings.warn(
            f"A batch has {each * parts} steps, not {frames_per_batch}: as many from each of the {parts} {what}.",
            stacklevel=5,
        )
    return each


def frames_in_all(total_frames: int | None, frames_per_batch: int) -> float:
    """The number of steps after which a collector ends; infinity for none.

    Args:
        total_frames: what the user said; -1 or None for no end.
        frames_per_batch: steps of a batch.
    """
    if total_frames is None or total_frames < 0:
        return float("inf")
    rest = int(total_frames) % frames_per_batch
    if rest and rl_warnings():
        warnings.warn(
            f"total_frames={total_frames} is no multiple of frames_per_batch={frames_per_batch}: "
            f"{frames_per_batch - rest} more steps are taken.",
            stacklevel=5,
        )
    return total_frames


def random_frames(init_random_frames: int | None, frames_per_batch: int) -> int:
    """The number of steps that are random at first, in whole batches.

    Args:
        init_random_frames: what the user said; None, 0 or less for none.
        frames_per_batch: steps of a batch.
    """
    random = max(0, init_random_frames or 0)
    if random % frames_per_batch:
        more = -(-random // frames_per_batch) * frames_per_batch
        if rl_warnings():
            warnings.warn(
                f"init_random_frames={random} is no multiple of frames_per_batch={frames_per_batch}: {more} steps are "
                "random.",
                stacklevel=5,
            )
        random = more
    return random
