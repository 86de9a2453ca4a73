"""Linear layers with learned noise on their weights (Fortunato et al. 2018, arXiv:1706.10295)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from flambeau.data.tensordict.nn.probabilistic import InteractionType, interaction_type


class NoisyLinear(nn.Linear):
    """A linear layer whose weights are mu + sigma * epsilon, with epsilon an outer product of two vectors of noise.

    Noise is drawn when the layer is made and by `reset_noise`, not at each call: apply the function `reset_noise` to
    the whole network after each step of the optimizer.

    Args:
        in_features, out_features, bias, device, dtype: as of `nn.Linear`.
        std_init: sigma at first, times the square root of the number of inputs.
        use_exploration_type: add noise where `exploration_type()` is RANDOM; False: in training mode.
    """

    weight_mu: nn.Parameter
    weight_sigma: nn.Parameter
    bias_mu: nn.Parameter | None
    bias_sigma: nn.Parameter | None
    weight_epsilon: Tensor
    bias_epsilon: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        std_init: float = 0.5,
        use_exploration_type: bool | None = True,
    ) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.std_init = in_features, out_features, std_init
        self._use_exploration_type = use_exploration_type is None or use_exploration_type
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight_mu = nn.Parameter(torch.empty(out_features, in_features, **options))
        self.weight_sigma = nn.Parameter(torch.empty(out_features, in_features, **options))
        self.register_buffer("weight_epsilon", torch.empty(out_features, in_features, **options))
        if bias:
            self.bias_mu = nn.Parameter(torch.empty(out_features, **options))
            self.bias_sigma = nn.Parameter(torch.empty(out_features, **options))
            self.register_buffer("bias_epsilon", torch.empty(out_features, **options))
        else:
            self.bias_mu = None
        self.reset_parameters()
        self.reset_noise()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the means anew, and set the deviations back."""
        bound = 1 / math.sqrt(self.in_features)
        self.weight_mu.uniform_(-bound, bound)
        self.weight_sigma.fill_(self.std_init / math.sqrt(self.in_features))
        if self.bias_mu is not None and self.bias_sigma is not None:
            self.bias_mu.uniform_(-bound, bound)
            self.bias_sigma.fill_(self.std_init / math.sqrt(self.out_features))

    @torch.no_grad()
    def reset_noise(self) -> None:
        """Draw the noise anew."""
        inputs, outputs = self._noise(self.in_features), self._noise(self.out_features)
        self.weight_epsilon.copy_(outputs.outer(inputs))
        if self.bias_mu is not None and self.bias_epsilon is not None:
            self.bias_epsilon.copy_(outputs)

    def _noise(self, size: int) -> Tensor:
        x = torch.randn(size, device=self.weight_mu.device)
        return x.sign() * x.abs().sqrt()

    def _should_use_noise(self) -> bool:
        return interaction_type() is InteractionType.RANDOM if self._use_exploration_type else self.training

    @property
    def weight(self) -> Any:  # type: ignore[override]
        """The weight as it is now, (out_features, in_features)."""
        if self._should_use_noise():
            return self.weight_mu + self.weight_sigma * self.weight_epsilon
        return self.weight_mu

    @property
    def bias(self) -> Any:  # type: ignore[override]
        """The bias as it is now, (out_features,), or None."""
        if self.bias_mu is None or self.bias_sigma is None or self.bias_epsilon is None:
            return None
        if self._should_use_noise():
            return self.bias_mu + self.bias_sigma * self.bias_epsilon
        return self.bias_mu


class NoisyLazyLinear(LazyModuleMixin, NoisyLinear):
    """A `NoisyLinear` that takes its number of inputs from its first call.

    Args:
        out_features, bias, device, dtype, std_init, use_exploration_type: see `NoisyLinear`.
    """

    cls_to_become = NoisyLinear

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        std_init: float = 0.5,
        use_exploration_type: bool | None = True,
    ) -> None:
        super().__init__(0, 0, False, device, dtype, std_init, use_exploration_type)
        self.out_features = out_features
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        del self.weight_epsilon
        for name in ("weight_mu", "weight_sigma"):
            setattr(self, name, UninitializedParameter(**options))
        self.register_buffer("weight_epsilon", UninitializedBuffer(**options))
        if bias:
            for name in ("bias_mu", "bias_sigma"):
                setattr(self, name, UninitializedParameter(**options))
            self.register_buffer("bias_epsilon", UninitializedBuffer(**options))

    def reset_parameters(self) -> None:
        """Draw the means anew, once the size is known."""
        if self.in_features and not self.has_uninitialized_params():
            super().reset_parameters()

    def reset_noise(self) -> None:
        """Draw the noise anew, once the size is known."""
        if self.in_features and not self.has_uninitialized_params():
            super().reset_noise()

    def initialize_parameters(self, input: Tensor) -> None:
        """Make the parameters for an input (..., in_features)."""
        if not self.has_uninitialized_params():
            return
        with torch.no_grad():
            self.in_features = input.shape[-1]
            for name in ("weight_mu", "weight_sigma", "weight_epsilon"):
                getattr(self, name).materialize((self.out_features, self.in_features))
            if self.bias_mu is not None:
                for name in ("bias_mu", "bias_sigma", "bias_epsilon"):
                    getattr(self, name).materialize((self.out_features,))
            self.reset_parameters()
            self.reset_noise()

    @property
    def weight(self) -> Any:  # type: ignore[override]
        """The weight as it is now."""
        return super().weight

    @property
    def bias(self) -> Any:  # type: ignore[override]
        """The bias as it is now: None until the size is known."""
        return super().bias if self.in_features else None


def reset_noise(layer: nn.Module) -> None:
    """Draw a layer's noise anew, if it has any: `network.apply(reset_noise)`.

    Args:
        layer: any module.
    """
    if hasattr(layer, "reset_noise"):
        layer.reset_noise()  # type: ignore[operator]
