"""Distributions of continuous actions: bounded normals and single values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributions as D
from torch.distributions import constraints
from torch.nn import functional as F

from flambeau.rl.modules.distributions import truncated_normal
from flambeau.rl.modules.distributions.utils import FasterTransformedDistribution, safeatanh, safetanh

__all__ = [
    "Delta",
    "IndependentNormal",
    "NormalParamWrapper",
    "SafeTanhTransform",
    "TanhDelta",
    "TanhNormal",
    "TruncatedNormal",
    "uniform_sample_delta",
    "uniform_sample_tanhnormal",
]

Bound = Tensor | float
Scale = Tensor | float | Callable[[Tensor], Tensor]
_LOG_2 = 0.6931471805599453
_LOG_ROOT_2_PI = 0.9189385332046727


class IndependentNormal(D.Independent[D.Normal]):
    """A normal distribution whose last dimensions are one event.

    Args:
        loc: (..., *event_shape).
        scale: standard deviation: a tensor that broadcasts with `loc`, a number, or a function that makes it of `loc`
            (`torch.ones_like`), which needs no copy between devices.
        upscale: see `tanh_loc`.
        tanh_loc: keep the location within (-upscale, upscale), by upscale * tanh(loc / upscale).
        event_dim: how many last dimensions are the event.
        kwargs: of `torch.distributions.Normal`.

    Example:
        >>> IndependentNormal(torch.zeros(3, 4), torch.ones_like).log_prob(torch.zeros(3, 4)).shape
        torch.Size([3])
    """

    num_params = 2

    def __init__(
        self,
        loc: Tensor,
        scale: Scale,
        upscale: float = 5.0,
        tanh_loc: bool = False,
        event_dim: int = 1,
        **kwargs: Any,
    ) -> None:
        self.tanh_loc, self.upscale = tanh_loc, upscale
        self._event_dim, self._kwargs = event_dim, {"validate_args": False, **kwargs}
        self._scale_log: Tensor | None = None
        super().__init__(self._normal(loc, scale), event_dim, validate_args=False)

    def _normal(self, loc: Tensor, scale: Scale) -> D.Normal:
        loc = _bounded_loc(loc, self.upscale) if self.tanh_loc else loc
        return D.Normal(loc, _scale_of(scale, loc), **self._kwargs)

    def update(self, loc: Tensor, scale: Scale) -> None:
        """Take other parameters."""
        self._scale_log = None
        super().__init__(self._normal(loc, scale), self._event_dim, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> IndependentNormal:
        """The same for a larger batch."""
        base = self.base_dist.expand(torch.Size([*batch_shape, *self.event_shape]))
        return IndependentNormal(base.loc, base.scale, event_dim=self._event_dim, **self._kwargs)

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Draw (*sample_shape, ...), with gradients of the parameters."""
        return _drawn(self.base_dist, sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability density of values (..., *event_shape)."""
        base = self.base_dist
        if base._validate_args or not self._event_dim:
            return super().log_prob(value)  # type: ignore[no-any-return, no-untyped-call]
        distance = (value - base.loc) / base.scale
        halves = torch.addcmul(self._log_scale(), distance, distance, value=0.5)
        return self._constant(-_LOG_ROOT_2_PI) - halves.sum(self._event())

    def entropy(self) -> Tensor:
        """The entropy of each element of the batch, in nats."""
        if not self._event_dim:
            return super().entropy()  # type: ignore[no-any-return, no-untyped-call]
        return self._log_scale().sum(self._event()) + self._constant(0.5 + _LOG_ROOT_2_PI)

    def _log_scale(self) -> Tensor:
        """The logarithm of the deviation, which scores and entropies share."""
        if self._scale_log is None:
            self._scale_log = self.base_dist.scale.log()
        return self._scale_log

    def _event(self) -> list[int]:
        return list(range(-self._event_dim, 0))

    def _constant(self, each: float) -> float:
        """What each of an event's numbers adds."""
        return each * self.event_shape.numel()

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.base_dist.mean

    @property
    def deterministic_sample(self) -> Tensor:
        """The location."""
        return self.base_dist.mean


class SafeTanhTransform(D.TanhTransform):
    """tanh that stays invertible: its values keep away from -1 and 1 by the resolution of their dtype."""

    def _call(self, x: Tensor) -> Tensor:
        return safetanh(x, torch.finfo(x.dtype).resolution)

    def _inverse(self, y: Tensor) -> Tensor:
        return safeatanh(y, torch.finfo(y.dtype).resolution)


class NormalParamWrapper(nn.Module):
    """Was deprecated before it came here.

    Args:
        operator, scale_mapping, scale_lb: as they were.

    Raises:
        RuntimeError: always; `NormalParamExtractor` takes its place.
    """

    def __init__(
        self, operator: nn.Module, scale_mapping: str = "biased_softplus_1.0", scale_lb: float = 0.0001
    ) -> None:
        raise RuntimeError(
            "NormalParamWrapper is deprecated: put flambeau.data.tensordict.nn.NormalParamExtractor("
            f"{scale_mapping!r}, {scale_lb}) behind the module in an nn.Sequential."
        )


class TruncatedNormal(D.Independent[truncated_normal.TruncatedNormal]):
    """A normal distribution within [low, high], whose last dimension is the event.

    Args:
        loc, scale: (..., K), of the distribution that is cut.
        upscale: see `tanh_loc`.
        low, high: bounds of the values, numbers or tensors that broadcast.
        tanh_loc: keep the location within (-upscale, upscale), by upscale * tanh(loc / upscale).

    Raises:
        RuntimeError: `high` is not above `low`.
    """

    num_params = 2
    arg_constraints = {"loc": constraints.real, "scale": constraints.greater_than(1e-6)}

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor,
        upscale: Bound = 5.0,
        low: Bound = -1.0,
        high: Bound = 1.0,
        tanh_loc: bool = False,
    ) -> None:
        _check_bounds("TruncatedNormal", low, high)
        self.tanh_loc, self.upscale = tanh_loc, upscale
        self.low = torch.as_tensor(low, dtype=loc.dtype, device=loc.device)
        self.high = torch.as_tensor(high, dtype=loc.dtype, device=loc.device)
        self.update(loc, scale)

    def update(self, loc: Tensor, scale: Tensor) -> None:
        """Take other parameters."""
        self.device = loc.device
        self.loc = _bounded_loc(loc, self.upscale) if self.tanh_loc else loc
        self.scale = scale
        base = truncated_normal.TruncatedNormal(self.loc, scale, self.low, self.high, validate_args=False)
        super().__init__(base, 1, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> TruncatedNormal:
        """The same for a larger batch."""
        shape = torch.Size([*batch_shape, *self.event_shape])
        scale = torch.as_tensor(self.scale, dtype=self.loc.dtype, device=self.loc.device)
        return TruncatedNormal(self.loc.expand(shape), scale.expand(shape), low=self.low, high=self.high)

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> Any:
        """[low, high]."""
        return constraints.independent(constraints.interval(self.low, self.high), 1)

    @property
    def min(self) -> Tensor:
        """The lower bound."""
        return self.low

    @property
    def max(self) -> Tensor:
        """The upper bound."""
        return self.high

    @property
    def mode(self) -> Tensor:
        """The location, or the bound that is nearest to it."""
        return torch.minimum(torch.maximum(self.loc, self.low), self.high)

    @property
    def deterministic_sample(self) -> Tensor:
        """The mean."""
        return self.mean

    def log_prob(self, value: Tensor, **kwargs: Any) -> Tensor:
        """Of values (..., K) -> (...); minus infinity where one of them is out of bounds."""
        outside = (value < self.low) | (value > self.high)
        # Within the bounds by a hair, where rounding may leave a value that was drawn.
        margin = truncated_normal.TruncatedNormal.eps
        inside = torch.minimum(torch.maximum(value, self.low + margin), self.high - margin)
        log_prob: Tensor = super().log_prob(inside, **kwargs)  # type: ignore[no-untyped-call]  # torch's
        return log_prob.masked_fill(outside.any(-1), -torch.inf)


class TanhNormal(FasterTransformedDistribution):
    """The tanh of a normal variable, stretched to [low, high].

    Args:
        loc: (..., *event_shape).
        scale: standard deviation before tanh: a tensor that broadcasts with `loc`, a number, or a function that makes
            it of `loc` (`torch.ones_like`), which needs no copy between devices.
        upscale: see `tanh_loc`.
        low, high: bounds of the values, numbers or tensors that broadcast.
        event_dims: how many last dimensions are the event; min(1, loc.ndim) unless given.
        tanh_loc: keep the location within (-upscale, upscale), by upscale * tanh(loc / upscale).
        safe_tanh: keep values away from the bounds by the resolution of their dtype, so that each has a finite
            log-probability.

    Raises:
        RuntimeError: `high` is not above `low`.

    Example:
        >>> dist = TanhNormal(torch.zeros(3, 4), torch.ones_like, low=-2.0, high=2.0)
        >>> dist.deterministic_sample.abs().max(), dist.log_prob(torch.zeros(3, 4)).shape
        (tensor(0.), torch.Size([3]))

    References:
        Haarnoja et al. 2018, arXiv:1801.01290, appendix C.
    """

    num_params = 2
    arg_constraints = {"loc": constraints.real, "scale": constraints.greater_than(1e-6)}

    def __init__(
        self,
        loc: Tensor,
        scale: Scale,
        upscale: Bound = 5.0,
        low: Bound = -1.0,
        high: Bound = 1.0,
        event_dims: int | None = None,
        tanh_loc: bool = False,
        safe_tanh: bool = True,
    ) -> None:
        _check_bounds("TanhNormal", low, high)
        self.tanh_loc, self.upscale, self._safe = tanh_loc, upscale, safe_tanh
        self.device = loc.device
        self._event_dims = min(1, loc.ndim) if event_dims is None else event_dims
        self._stretched = isinstance(low, Tensor) or isinstance(high, Tensor) or low != -1.0 or high != 1.0
        self.low = torch.as_tensor(low, device=loc.device)
        self.high = torch.as_tensor(high, device=loc.device)
        if self._stretched:
            self._middle, self._half = (self.high + self.low) / 2, (self.high - self.low) / 2
        self.update(loc, scale)

    def update(self, loc: Tensor, scale: Scale) -> None:
        """Take other parameters."""
        self.loc = _bounded_loc(loc, self.upscale) if self.tanh_loc else loc
        self.scale = _scale_of(scale, self.loc)
        base: D.Distribution = D.Normal(self.loc, self.scale, validate_args=False)
        if self._event_dims:
            base = D.Independent(base, self._event_dims, validate_args=False)
        self.base_dist = base
        D.Distribution.__init__(self, base.batch_shape, base.event_shape, validate_args=False)

    @property
    def transforms(self) -> list[D.Transform]:  # type: ignore[override]
        """What is done to the normal variable, for torch's formulas of divergences."""
        squash = SafeTanhTransform() if self._safe else D.TanhTransform()
        if not self._stretched:
            return [squash]
        return [D.ComposeTransform([squash, D.AffineTransform(self._middle, self._half)])]

    @property
    def root_dist(self) -> D.Normal:
        """The normal distribution before tanh, without events."""
        base: Any = self.base_dist
        normal: D.Normal = base.base_dist if self._event_dims else base
        return normal

    def expand(self, batch_shape: Any, _instance: Any = None) -> TanhNormal:
        """The same for a larger batch."""
        shape = torch.Size([*batch_shape, *self.event_shape])
        low, high = (self.low, self.high) if self._stretched else (-1.0, 1.0)
        normal = self.root_dist
        return TanhNormal(
            normal.loc.expand(shape), normal.scale.expand(shape), low=low, high=high, event_dims=self._event_dims,
            safe_tanh=self._safe,
        )  # fmt: skip

    # --- between the normal variable and the value

    def _squash(self, x: Tensor) -> Tensor:
        y = safetanh(x, torch.finfo(x.dtype).resolution) if self._safe else x.tanh()
        return y * self._half + self._middle if self._stretched else y

    def _unsquash(self, value: Tensor) -> Tensor:
        y = (value - self._middle) / self._half if self._stretched else value
        return safeatanh(y, torch.finfo(y.dtype).resolution) if self._safe else y.atanh()

    def _log_prob_before(self, x: Tensor) -> Tensor:
        """The log-probability of the value that a normal variable becomes."""
        # log(1 - tanh(x)^2), in a form that does not overflow
        log_slope = 2.0 * (_LOG_2 - x - F.softplus(-2.0 * x))
        if self._stretched:
            log_slope = log_slope + self._half.abs().log()
        if self._event_dims:
            log_slope = log_slope.sum(tuple(range(-self._event_dims, 0)))
        log_prob: Tensor = self.base_dist.log_prob(x)
        return log_prob - log_slope

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Draw (*sample_shape, ...), without gradients."""
        with torch.no_grad():
            return self._squash(self.base_dist.sample(torch.Size(sample_shape)))

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Draw (*sample_shape, ...), with gradients of the parameters."""
        return self._squash(_drawn(self.root_dist, sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Of values (..., *event_shape) -> (...)."""
        return self._log_prob_before(self._unsquash(value))

    def rsample_and_log_prob(self, sample_shape: Any = ()) -> tuple[Tensor, Tensor]:
        """Draw with gradients, and score the very normal variable that was drawn.

        `log_prob` of a value that was rounded near a bound is that of another normal variable; this is exact.

        Args:
            sample_shape: first dimensions of the draw.
        """
        x = _drawn(self.root_dist, sample_shape)
        return self._squash(x), self._log_prob_before(x)

    def sample_and_log_prob(self, sample_shape: Any = ()) -> tuple[Tensor, Tensor]:
        """The same without gradients through the draw; the log-probability has those of the parameters."""
        x = self.base_dist.sample(torch.Size(sample_shape))
        return self._squash(x), self._log_prob_before(x)

    # --- values that stand for it

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """[low, high]."""
        return constraints.independent(constraints.interval(self.low, self.high), self._event_dims)

    @property
    def min(self) -> Tensor:
        """The lower bound."""
        return self.low

    @property
    def max(self) -> Tensor:
        """The upper bound."""
        return self.high

    @property
    def deterministic_sample(self) -> Tensor:
        """The value of the location, which is the median."""
        return self._squash(self.root_dist.mean)

    @property
    def mode(self) -> Tensor:
        """Has no formula.

        Raises:
            RuntimeError: always; see `deterministic_sample` and `get_mode`.
        """
        raise RuntimeError(
            "the mode of TanhNormal has no formula. Use InteractionType.DETERMINISTIC for the value of the location, "
            "or get_mode(), which searches."
        )

    @property
    def mean(self) -> Tensor:
        """Has no formula.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "the mean of TanhNormal has no formula; use the mean of some samples: dist.sample((1000,)).mean(0)."
        )

    def get_mode(self, steps: int = 200) -> Tensor:
        """The likeliest value, by search, without gradients.

        A mode solves x = loc + 2 scale^2 tanh(x). The right side grows with x, so that steps from beyond the largest
        and the smallest solution go monotonically to these, and the global mode is one of them.

        Args:
            steps: of the search.
        """
        with torch.no_grad():
            loc, pull = self.root_dist.loc, 2 * self.root_dist.scale**2
            above, below = loc + pull, loc - pull
            for _ in range(steps):
                above, below = loc + pull * above.tanh(), loc + pull * below.tanh()

            def score(x: Tensor) -> Tensor:
                return (x - loc) ** 2 / pull + 2.0 * (_LOG_2 - x - F.softplus(-2.0 * x))

            return self._squash(torch.where(score(above) <= score(below), above, below))


def uniform_sample_tanhnormal(dist: TanhNormal, size: Any = None) -> Tensor:
    """Draw uniformly between the bounds of a distribution.

    Args:
        dist: has the bounds.
        size: of the result; the shape of one sample unless given.
    """
    shape = torch.Size([*dist.batch_shape, *dist.event_shape]) if size is None else torch.Size(size)
    uniform = torch.rand(shape, dtype=dist.loc.dtype, device=dist.loc.device)
    return uniform * (dist.max - dist.min) + dist.min


class Delta(D.Distribution):
    """All probability on one value.

    Args:
        param: (*batch_shape, *event_shape), the value.
        atol, rtol: how far a value may be from it to count as equal.
        batch_shape, event_shape: one tells the other; without both the last dimension is the event.
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
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
            batch_shape = param.shape[: param.ndim - (min(1, param.ndim) if event_shape is None else len(event_shape))]
        if event_shape is None:
            event_shape = param.shape[len(batch_shape) :]
        self.atol, self.rtol = atol, rtol
        self.update(param)
        super().__init__(torch.Size(batch_shape), torch.Size(event_shape), validate_args=False)

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

    @torch.no_grad()
    def sample(self, size: Any = None) -> Tensor:
        """The value, (*size, ...), without its gradient."""
        return self.rsample(size)

    def rsample(self, size: Any = None) -> Tensor:
        """The value, (*size, ...)."""
        return self.param.expand(torch.Size([*(size or ()), *self.param.shape]))

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


class TanhDelta(FasterTransformedDistribution):
    """All probability on the tanh of a value, stretched to [low, high].

    Args:
        param: (..., *event_shape). Upstream: it counts from the middle of the bounds: tanh is taken of
            param + (low + high) / 2, if they are not -1 and 1.
        low, high: bounds, numbers or tensors that broadcast.
        event_dims: how many last dimensions are the event.
        atol, rtol: how far, before tanh, a value may be off to count as equal.
        safe: keep away from the bounds by the resolution of the dtype.

    Raises:
        RuntimeError: `high` is not above `low`.
    """

    arg_constraints = {"loc": constraints.real}

    def __init__(
        self,
        param: Tensor,
        low: Bound = -1.0,
        high: Bound = 1.0,
        event_dims: int = 1,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        safe: bool = True,
    ) -> None:
        _check_bounds("TanhDelta", low, high)
        stretched = isinstance(low, Tensor) or isinstance(high, Tensor) or low != -1.0 or high != 1.0
        self.low = torch.as_tensor(low, device=param.device)
        self.high = torch.as_tensor(high, device=param.device)
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        self._shift = middle if stretched else None
        transform: D.Transform = SafeTanhTransform() if safe else D.TanhTransform()
        if stretched:
            transform = D.ComposeTransform([transform, D.AffineTransform(middle, half)])
        loc = param if self._shift is None else param + self._shift
        base = Delta(loc, atol, rtol, event_shape=loc.shape[loc.ndim - event_dims :])
        super().__init__(base, transform)

    def update(self, net_output: Tensor) -> None:
        """Put the mass on another value."""
        delta: Any = self.base_dist
        delta.update(net_output if self._shift is None else net_output + self._shift)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """[low, high]."""
        return constraints.independent(constraints.interval(self.low, self.high), len(self.event_shape))

    @property
    def min(self) -> Tensor:
        """The lower bound."""
        return self.low

    @property
    def max(self) -> Tensor:
        """The upper bound."""
        return self.high

    @property
    def mode(self) -> Tensor:
        """The value."""
        delta: Any = self.base_dist
        value: Tensor = delta.param
        for transform in self.transforms:
            value = transform(value)
        return value

    @property
    def deterministic_sample(self) -> Tensor:
        """The value."""
        return self.mode

    @property
    def mean(self) -> Tensor:
        """Upstream: has none.

        Raises:
            AttributeError: always; see `mode`.
        """
        raise AttributeError("the mean of TanhDelta is not defined; its one value is `mode`.")


def uniform_sample_delta(dist: Delta, size: Any = None) -> Tensor:
    """Standard normal values of a sample's shape, as upstream has it for a distribution without bounds.

    Args:
        dist: has the shape.
        size: first dimensions of the result.
    """
    return torch.randn_like(dist.sample(size))


_uniform_sample_delta = uniform_sample_delta


def _drawn(normal: D.Normal, sample_shape: Any) -> Tensor:
    """A draw with gradients; torch's own fills in place, which vmap refuses."""
    shape = normal._extended_shape(torch.Size(sample_shape))
    return normal.loc + normal.scale * torch.randn(shape, dtype=normal.loc.dtype, device=normal.loc.device)


def _bounded_loc(loc: Tensor, upscale: Bound) -> Tensor:
    return (loc / upscale).tanh() * upscale


def _scale_of(scale: Any, loc: Tensor) -> Tensor:
    if isinstance(scale, Tensor):
        return scale
    if callable(scale):
        made: Tensor = scale(loc)
        return made
    return torch.full_like(loc, scale)


def _check_bounds(name: str, low: Bound, high: Bound) -> None:
    """Numbers and tensors in main memory: a look at others would wait for their device, and break a graph."""
    tensors = [bound for bound in (low, high) if isinstance(bound, Tensor)]
    if tensors and (torch.compiler.is_compiling() or any(map(_is_hidden, tensors))):
        return
    wrong: Any = high <= low
    if bool(wrong.any()) if tensors else wrong:
        raise RuntimeError(f"{name}: high is {high}, expected more than low, {low}, everywhere.")


def _is_hidden(bound: Tensor) -> bool:
    return bound.device.type != "cpu" or torch._C._functorch.is_functorch_wrapped_tensor(bound)
