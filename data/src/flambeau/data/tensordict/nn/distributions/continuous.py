"""A point mass, and what turns a network's outputs into the parameters of a normal distribution."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch import distributions as D
from torch.types import Number

from flambeau.data.tensordict.nn.utils import mappings

__all__ = ["AddStateIndependentNormalScale", "Delta", "NormalParamExtractor"]


class NormalParamExtractor(nn.Module):
    """Split the last dimension into a location and a positive scale.

    Args:
        scale_mapping: see `mappings`.
        scale_lb: the scale's lower bound.

    Example:
        >>> loc, scale = NormalParamExtractor()(torch.zeros(2, 4))
        >>> scale.shape, float(scale[0, 0])
        (torch.Size([2, 2]), 1.0)
    """

    def __init__(self, scale_mapping: str = "biased_softplus_1.0", scale_lb: Number = 1e-4) -> None:
        super().__init__()
        self.scale_mapping = mappings(scale_mapping)
        self.scale_lb = scale_lb

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Map (..., 2 K) and others to (..., K), (..., K) and the others as they are."""
        tensor, *others = tensors
        loc, scale = tensor.chunk(2, -1)
        return loc, self.scale_mapping(scale).clamp_min(self.scale_lb), *others


class AddStateIndependentNormalScale(nn.Module):
    """Add a scale that is learned, but does not depend on the input.

    Args:
        scale_shape: of the scale; as many last dimensions of the location must have these sizes. None is one number.
        scale_mapping: see `mappings`; what is learned is its argument.
        scale_lb: the scale's lower bound.
        device: of the parameter.
        make_param: False keeps it as a buffer, which is not learned.
        init_value: of the argument.
    """

    def __init__(
        self,
        scale_shape: torch.Size | int | tuple[int, ...] | None = None,
        *,
        scale_mapping: str = "exp",
        scale_lb: Number = 1e-4,
        device: torch.device | None = None,
        make_param: bool = True,
        init_value: float = 0.0,
    ) -> None:
        super().__init__()
        shape = (scale_shape,) if isinstance(scale_shape, int) else tuple(scale_shape or ())
        self.scale_lb, self.scale_shape = scale_lb, torch.Size(shape)
        self.scale_mapping = mappings(scale_mapping)
        value = torch.full(shape, init_value, device=device)
        self.state_independent_scale = nn.Parameter(value) if make_param else nn.Buffer(value)

    def forward(self, loc: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        """Map (..., *scale_shape) and others to the location, the scale of the same shape, and the others.

        Raises:
            RuntimeError: the last dimensions of `loc` are not `scale_shape`.
        """
        if self.scale_shape and loc.shape[-len(self.scale_shape) :] != self.scale_shape:
            sizes = ", ".join(map(str, self.scale_shape))
            raise RuntimeError(f"loc has shape {tuple(loc.shape)}, expected (..., {sizes}).")
        scale = self.scale_mapping(self.state_independent_scale).clamp_min(self.scale_lb)
        return loc, scale.expand_as(loc), *others


class Delta(D.Distribution):
    """All probability on one value.

    Args:
        param: (*batch_shape, *event_shape), the value.
        atol, rtol: how far a value may be from it to count as equal.
        batch_shape: () unless given.
        event_shape: what is left of the shape.
    """

    arg_constraints: dict[str, D.constraints.Constraint] = {}
    has_rsample = True

    def __init__(
        self,
        param: Tensor,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        batch_shape: torch.Size | Sequence[int] | None = None,
        event_shape: torch.Size | Sequence[int] | None = None,
    ) -> None:
        if batch_shape is None:
            # As upstream: without a word about shapes, all of it is one event.
            batch_shape = () if event_shape is None else param.shape[: param.dim() - len(event_shape)]
        if event_shape is None:
            event_shape = param.shape[len(batch_shape) :]
        self.atol, self.rtol = atol, rtol
        super().__init__(torch.Size(batch_shape), torch.Size(event_shape), validate_args=False)
        self.update(param)

    def update(self, param: Tensor) -> None:
        """Put the mass on another value."""
        self.param = param

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: object = None) -> Delta:
        """The same for a larger batch."""
        param = self.param.expand(*batch_shape, *self.event_shape)
        return Delta(param, self.atol, self.rtol, torch.Size(batch_shape), self.event_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Infinity where all of an event is equal, minus infinity elsewhere; (...,) of the batch."""
        equal = (value - self.param).abs() <= self.atol + self.rtol * self.param.abs()
        if self.event_shape:
            equal = equal.flatten(-len(self.event_shape)).all(-1)
        dtype = self.param.dtype if self.param.is_floating_point() else torch.get_default_dtype()
        return torch.where(equal, torch.inf, -torch.inf).to(dtype)

    def sample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> Tensor:
        """The value, (*sample_shape, ...), without its gradient."""
        return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> Tensor:
        """The value, (*sample_shape, ...)."""
        return self.param.expand(*(sample_shape or ()), *self.param.shape)

    @property
    def mode(self) -> Tensor:
        """The value."""
        return self.param

    @property
    def mean(self) -> Tensor:
        """The value."""
        return self.param

    @property
    def deterministic_sample(self) -> Tensor:
        """The value."""
        return self.param
