"""Random parts of sequences."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["RandomCropTensorDict"]


class RandomCropTensorDict(Transform):
    """A part of each sequence, of a given length, that begins anywhere.

    Args:
        sub_seq_len: the length.
        sample_dim: the dimension of time; negative ones are counted from the last of the batch.
        mask_key: of a mask that is True at what is no padding; parts are taken from there.

    Raises:
        RuntimeError: a sequence is shorter.
    """

    def __init__(self, sub_seq_len: int, sample_dim: int = -1, mask_key: NestedKey | None = None) -> None:
        super().__init__()
        self.sub_seq_len = sub_seq_len
        if sample_dim > 0:
            raise ValueError(f"sample_dim is counted from the last dimension, or 0; got {sample_dim}.")
        self.sample_dim = sample_dim
        self.mask_key = mask_key

    def forward(self, tensordict: Any) -> Any:
        """A part of each sequence.

        Args:
            tensordict: (..., time, ...) in its batch.

        Returns:
            The same with `sub_seq_len` steps.
        """
        shape = tensordict.batch_size
        dim = self.sample_dim + len(shape) if self.sample_dim < 0 else self.sample_dim
        if self.mask_key is None:
            lengths = None
            longest = shape[dim]
        else:
            mask = tensordict.get(self.mask_key)
            lengths = mask.reshape(shape).to(torch.int64).cumsum(dim).max(dim, keepdim=True).values
            longest = int(lengths.min())
        if longest < self.sub_seq_len:
            raise RuntimeError(
                f"A sequence of {longest} steps, along dimension {dim} of the batch size {tuple(shape)}, has no part "
                f"of {self.sub_seq_len}; choose a smaller sub_seq_len."
            )
        starts_shape = [*shape]
        starts_shape[dim] = 1
        if lengths is None:
            starts = torch.randint(shape[dim] - self.sub_seq_len + 1, starts_shape, device=tensordict.device)
        else:
            starts = (torch.rand(starts_shape, device=lengths.device) * (lengths - self.sub_seq_len + 1)).to(
                torch.int64
            )
        line = [1] * len(shape)
        line[dim] = self.sub_seq_len
        at = starts + torch.arange(self.sub_seq_len, device=starts.device).reshape(line)
        return tensordict.gather(dim, at)
