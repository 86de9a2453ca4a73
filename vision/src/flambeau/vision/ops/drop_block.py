"""DropBlock: dropout of contiguous regions of feature maps.

References:
    Ghiasi et al. 2018, DropBlock: A regularization method for convolutional networks, arXiv:1810.12890.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

__all__ = ["DropBlock2d", "DropBlock3d", "drop_block2d", "drop_block3d"]


@fx.wrap  # it looks at sizes
def drop_block2d(
    input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06, training: bool = True
) -> Tensor:
    """Set square blocks of each feature map to zero, and scale the rest so that the sum of the mask is kept.

    The centres of blocks are drawn where a whole block fits, each with probability
    `p * H * W / (block_size^2 * (H - block_size + 1) * (W - block_size + 1))`, equation 1 of the paper.

    Args:
        input: (N, C, H, W), floating point.
        p: share of elements to drop (overlaps make it a little less), in [0, 1].
        block_size: side of a block, odd; where it is larger than the map, the largest odd size that fits is used.
        inplace: write the result into the input.
        eps: added to the number of kept elements, which divides.
        training: False returns the input as it is.

    Returns:
        The shape and memory format of the input.

    Raises:
        ValueError: `input` has not four dimensions, `p` is no probability, or `block_size` is even or below 1.
    """
    return _drop_block(input, p, block_size, inplace, eps, training, dimensions=2, max_pool=F.max_pool2d)


@fx.wrap
def drop_block3d(
    input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06, training: bool = True
) -> Tensor:
    """Set cubes of each feature volume to zero; as `drop_block2d`, with one more dimension.

    Args:
        input: (N, C, D, H, W), floating point.
        p: share of elements to drop (overlaps make it a little less), in [0, 1].
        block_size: side of a block, odd; where it is larger than the volume, the largest odd size that fits is used.
        inplace: write the result into the input.
        eps: added to the number of kept elements, which divides.
        training: False returns the input as it is.

    Returns:
        The shape and memory format of the input.

    Raises:
        ValueError: `input` has not five dimensions, `p` is no probability, or `block_size` is even or below 1.
    """
    return _drop_block(input, p, block_size, inplace, eps, training, dimensions=3, max_pool=F.max_pool3d)


def _drop_block(
    input: Tensor,
    p: float,
    block_size: int,
    inplace: bool,
    eps: float,
    training: bool,
    *,
    dimensions: int,
    max_pool: Callable[..., Tensor],
) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p is {p!r}, expected a probability from 0 to 1.")
    if block_size < 1 or block_size % 2 == 0:
        raise ValueError(f"block_size is {block_size!r}, expected an odd number: a block has a centre.")
    if input.ndim != dimensions + 2:
        raise ValueError(
            f"input has {input.ndim} dimensions, expected {dimensions + 2}: batch, channels and {dimensions} of space."
        )
    if not training or p == 0.0 or input.numel() == 0:
        return input
    space = input.shape[2:]
    smallest = min(space)
    block_size = min(block_size, smallest - 1 + smallest % 2)
    centres = [size - block_size + 1 for size in space]
    gamma = p * prod(space) / (block_size**dimensions * prod(centres))
    margin = block_size // 2
    blocks = torch.empty((*input.shape[:2], *centres), dtype=input.dtype, device=input.device).bernoulli_(gamma)
    blocks = F.pad(blocks, [margin] * (2 * dimensions))
    kept = 1 - max_pool(blocks, kernel_size=block_size, stride=1, padding=margin)
    # Half precision cannot count the elements of a large map.
    scale = kept.numel() / (eps + kept.sum(dtype=torch.promote_types(input.dtype, torch.float32)))
    if inplace:
        return input.mul_(kept).mul_(scale)
    return input * kept * scale


class DropBlock2d(nn.Module):
    """Drop square blocks of feature maps at random in train mode; see `drop_block2d`.

    Args:
        p: share of elements to drop, in [0, 1].
        block_size: side of a block, odd.
        inplace: write the result into the input.
        eps: added to the number of kept elements, which divides.
    """

    def __init__(self, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06) -> None:
        super().__init__()
        self.p = p
        self.block_size = block_size
        self.inplace = inplace
        self.eps = eps

    def forward(self, input: Tensor) -> Tensor:
        """Drop blocks of (N, C, H, W) in train mode; the input itself in eval mode."""
        return drop_block2d(input, self.p, self.block_size, self.inplace, self.eps, self.training)

    def extra_repr(self) -> str:
        """Probability, size of the blocks and whether the input is overwritten."""
        return f"p={self.p}, block_size={self.block_size}, inplace={self.inplace}"


class DropBlock3d(DropBlock2d):
    """Drop cubes of feature volumes at random in train mode; see `drop_block3d` and `DropBlock2d`."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop blocks of (N, C, D, H, W) in train mode; the input itself in eval mode."""
        return drop_block3d(input, self.p, self.block_size, self.inplace, self.eps, self.training)
