"""Where the resolution of a mobile backbone changes."""

from __future__ import annotations

from torch import nn

__all__ = ["stage_indices"]


def stage_indices(features: nn.Sequential) -> list[int]:
    """Positions of the first layer, of every block that halves the resolution (C1 to C4), and of the last layer.

    A block at which a dilated backbone would have halved it counts too.
    """
    halving = [index for index, block in enumerate(features) if getattr(block, "_is_cn", False)]
    return [0, *halving, len(features) - 1]
