"""Batch norm that uses running statistics in training too."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["BatchRenorm1d"]


class BatchRenorm1d(nn.Module):
    """Batch renormalization over all dimensions but the second (Ioffe 2017, arXiv:1702.03275).

    Args:
        num_features: size of the second dimension.
        momentum: weight of a batch in the running statistics.
        eps: added to variances.
        max_r, max_d: how far scale and shift may differ from those of batch norm.
        warmup_steps: how many batches are normalized as by batch norm.
        smooth: go over to renormalization bit by bit during them.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        *,
        momentum: float = 0.01,
        eps: float = 1e-5,
        max_r: float = 3.0,
        max_d: float = 5.0,
        warmup_steps: int = 10000,
        smooth: bool = False,
    ) -> None:
        super().__init__()
        self.num_features, self.momentum, self.eps = num_features, momentum, eps
        self.max_r, self.max_d, self.warmup_steps, self.smooth = max_r, max_d, warmup_steps, smooth
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.int64))
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize (N, num_features, ...), and in training mode move the running statistics.

        Raises:
            ValueError: there are fewer than two dimensions.
        """
        if x.ndim < 2:
            raise ValueError(f"BatchRenorm1d: x has {x.ndim} dimensions, expected (N, {self.num_features}, ...).")
        shape = [1, self.num_features, *[1] * (x.ndim - 2)]
        if self.training:
            x_hat = self._renormalized(x, shape)
        else:
            std = (self.running_var + self.eps).sqrt()
            x_hat = (x - self.running_mean.view(shape)) / std.view(shape)
        return self.weight.view(shape) * x_hat + self.bias.view(shape)

    def _renormalized(self, x: Tensor, shape: list[int]) -> Tensor:
        dims = [dim for dim in range(x.ndim) if dim != 1]
        mean, variance = x.mean(dims), x.var(dims, unbiased=False)
        std, running_std = (variance + self.eps).sqrt(), (self.running_var + self.eps).sqrt()
        # On the scale of the running statistics, as constants: gradients see batch norm times r plus d.
        r = (std.detach() / running_std).clamp(1 / self.max_r, self.max_r)
        d = ((mean.detach() - self.running_mean) / running_std).clamp(-self.max_d, self.max_d)
        progress = self._progress()
        r, d = 1 + (r - 1) * progress, d * progress
        x_hat = (x - mean.view(shape)) / std.view(shape) * r.view(shape) + d.view(shape)
        with torch.no_grad():
            self.running_mean.lerp_(mean.detach(), self.momentum)
            count = x.numel() // self.num_features
            self.running_var.lerp_(variance.detach() * (count / max(count - 1, 1)), self.momentum)
            self.num_batches_tracked.add_(1)
        return x_hat

    def _progress(self) -> Tensor:
        """How far warm-up has come, from 0 to 1."""
        steps = self.num_batches_tracked
        if self.smooth and self.warmup_steps:
            return (steps / self.warmup_steps).clamp(max=1.0)
        return (steps >= self.warmup_steps).to(self.running_mean.dtype)
