"""Coordinates of simulations, for what shows them elsewhere."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.render.config import parse_nested_key

__all__ = ["extract_qpos_trajectory"]


def extract_qpos_trajectory(rollout: TensorDictBase, qpos_key: Any = "qpos") -> list[list[float]]:
    """Coordinates of a recorded episode, step by step.

    Args:
        rollout: data of the episode, (time,) or (1, time).
        qpos_key: of the coordinates (time, number), a key or a text with dots.

    Raises:
        KeyError: there are none.
        ValueError: they are of another shape.

    Example:
        >>> import torch
        >>> from flambeau.data.tensordict import TensorDict
        >>> extract_qpos_trajectory(TensorDict({"qpos": torch.ones(2, 3)}, [2]))
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    key = parse_nested_key(qpos_key)
    found = rollout.get(key, None)
    if found is None:
        raise KeyError(f"There are no coordinates at {key!r}; there is {list(rollout.keys(True, True))}.")
    if found.ndim == 3 and found.shape[0] == 1:
        found = found[0]
    if found.ndim != 2:
        raise ValueError(f"Coordinates are (time, number); those at {key!r} have shape {tuple(found.shape)}.")
    return found.tolist()  # type: ignore[no-any-return]
