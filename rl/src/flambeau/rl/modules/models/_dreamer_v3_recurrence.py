"""The gated recurrent unit of DreamerV3, whose recurrent maps are block-diagonal (arXiv:2301.04104, appendix B)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from flambeau.rl.modules.models._dreamer_v3_layers import BlockLinear, RMSNorm, normed_layers, reset_all_weights
from flambeau.rl.modules.models._dreamer_v3_scan import scan_over_time


def in_blocks(blocked: Tensor, shared: Tensor, num_blocks: int) -> Tensor:
    """Blocks of the first tensor, each followed by the whole second one: (*batch, n), (*batch, m)."""
    blocks = blocked.unflatten(-1, (num_blocks, -1))
    repeated = shared.unsqueeze(-2).expand(*blocks.shape[:-1], shared.shape[-1])
    return torch.cat([blocks, repeated], -1).flatten(-2)


def gated(gates: Tensor, hidden: Tensor, num_blocks: int, update_bias: float) -> Tensor:
    """The next hidden state: (*batch, 3 * H) of reset, candidate and update in each block, (*batch, H)."""
    reset, candidate, update = gates.unflatten(-1, (num_blocks, -1)).chunk(3, -1)
    reset, candidate, update = reset.flatten(-2), candidate.flatten(-2), update.flatten(-2)
    candidate = torch.tanh(torch.sigmoid(reset) * candidate)
    update = torch.sigmoid(update + update_bias)
    return update * candidate + (1 - update) * hidden


class DreamerV3BlockGRUCell(nn.Module):
    """One step of DreamerV3's block-diagonal GRU.

    Args:
        input_size: size of inputs.
        hidden_size: H, size of hidden states, divisible by `num_blocks`.
        projection_size: size that inputs and hidden states are mapped to before the blocks share them.
        num_blocks: number of independent blocks.
        num_layers: block-linear layers before the gates.
        activation_class: makes an elementwise activation without parameters.
        norm_eps: added to mean squares.
        update_bias: added to the update gate's logits; below 0, states change slowly at first.
        device: of the parameters.

    Raises:
        ValueError: sizes do not divide or are not positive, or the activation has parameters.
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, projection_size: int = 512, num_blocks: int = 8,
        num_layers: int = 1, activation_class: type[nn.Module] | Callable[..., Any] = nn.SiLU,
        norm_eps: float = 1e-4, update_bias: float = -1.0, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, value in (("num_blocks", num_blocks), ("num_layers", num_layers)):
            if value < 1:
                raise ValueError(f"{type(self).__name__}: {name} is {value}, expected at least 1.")
        if hidden_size % num_blocks:
            raise ValueError(
                f"{type(self).__name__}: hidden_size is {hidden_size}, expected a multiple of {num_blocks} blocks."
            )
        self.input_size, self.hidden_size, self.projection_size = input_size, hidden_size, projection_size
        self.num_blocks, self.num_layers = num_blocks, num_layers
        self.norm_eps, self.update_bias = norm_eps, update_bias
        self.activation = activation_class()
        if isinstance(self.activation, nn.Module) and any(True for _ in self.activation.parameters()):
            raise ValueError(
                f"{type(self).__name__}: activation_class has parameters, expected one without, as nn.SiLU."
            )
        self.input_linear = nn.Linear(input_size, projection_size, device=device)
        self.input_norm = RMSNorm(projection_size, norm_eps, device)
        self.hidden_linear = nn.Linear(hidden_size, projection_size, device=device)
        self.hidden_norm = RMSNorm(projection_size, norm_eps, device)
        first = hidden_size + 2 * projection_size * num_blocks
        sizes = [first] + [hidden_size] * (num_layers - 1)
        self.dynamic_linears = nn.ModuleList(BlockLinear(size, hidden_size, num_blocks, device) for size in sizes)
        self.dynamic_norms = nn.ModuleList(RMSNorm(hidden_size, norm_eps, device) for _ in sizes)
        self.gates = BlockLinear(hidden_size, 3 * hidden_size, num_blocks, device)
        reset_all_weights(self)

    def project_input(self, value: Tensor) -> Tensor:
        """The part of a step that no state enters: (*batch, input_size) -> (*batch, projection_size)."""
        projected: Tensor = self.activation(self.input_norm(self.input_linear(value)))
        return projected

    def step_projected(self, projected_input: Tensor, hidden: Tensor) -> Tensor:
        """The rest of a step: (*batch, projection_size), (*batch, H) -> (*batch, H)."""
        projected = self.activation(self.hidden_norm(self.hidden_linear(hidden)))
        value = in_blocks(hidden, torch.cat([projected_input, projected], -1), self.num_blocks)
        for linear, norm in zip(self.dynamic_linears, self.dynamic_norms, strict=True):
            value = self.activation(norm(linear(value)))
        return gated(self.gates(value), hidden, self.num_blocks, self.update_bias)

    def forward(self, input: Tensor, hidden: Tensor | None = None) -> Tensor:
        """(*batch, input_size), (*batch, H) or None for zeros -> (*batch, H).

        Raises:
            ValueError: a shape is another.
        """
        if input.shape[-1] != self.input_size:
            raise ValueError(
                f"input: its last dimension is {input.shape[-1]}, expected input_size = {self.input_size}."
            )
        shape = (*input.shape[:-1], self.hidden_size)
        if hidden is None:
            hidden = input.new_zeros(shape)
        if hidden.shape != shape:
            raise ValueError(f"hidden: its shape is {tuple(hidden.shape)}, expected {shape}.")
        return self.step_projected(self.project_input(input), hidden)


class DreamerV3BlockGRU(nn.Module):
    """DreamerV3's block-diagonal GRU over sequences; the batch comes first.

    Args:
        input_size, hidden_size, projection_size, num_blocks, num_layers, activation_class, norm_eps, update_bias,
            device: as in `DreamerV3BlockGRUCell`.
        recurrent_backend: "reference" is differentiated as it runs. "scan" keeps the hidden states alone and computes
            each step again on the way back, which needs a fraction of the memory. "triton" is "scan" with steps that
            `torch.compile` makes Triton kernels of, on CUDA. Only "reference" can be differentiated twice.

    Raises:
        ValueError: as the cell, or an unknown backend.

    Example:
        >>> gru = DreamerV3BlockGRU(6, 8, projection_size=4, num_blocks=2)
        >>> output, hidden = gru(torch.randn(3, 5, 6))
        >>> output.shape, hidden.shape
        (torch.Size([3, 5, 8]), torch.Size([3, 8]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, projection_size: int = 512, num_blocks: int = 8,
        num_layers: int = 1, activation_class: type[nn.Module] | Callable[..., Any] = nn.SiLU,
        norm_eps: float = 1e-4, update_bias: float = -1.0,
        recurrent_backend: Literal["reference", "scan", "triton"] = "reference", device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if recurrent_backend not in ("reference", "scan", "triton"):
            raise ValueError(
                f"recurrent_backend: it is {recurrent_backend!r}, expected 'reference', 'scan' or 'triton'."
            )
        self.recurrent_backend = recurrent_backend
        self.cell = DreamerV3BlockGRUCell(
            input_size, hidden_size, projection_size=projection_size, num_blocks=num_blocks, num_layers=num_layers,
            activation_class=activation_class, norm_eps=norm_eps, update_bias=update_bias, device=device,
        )  # fmt: skip

    def forward(
        self, input: Tensor, hidden: Tensor | None = None, is_init: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run over a sequence.

        Args:
            input: (B, T, input_size), T > 0.
            hidden: (B, H); zeros unless given.
            is_init: bool, (B, T) or (B, T, 1): where the state before the step is dropped.

        Returns:
            Hidden states (B, T, H), and the last of them (B, H).

        Raises:
            ValueError: a shape or dtype is another.
            RuntimeError: "triton" is asked for on other devices than CUDA.
        """
        hidden, is_init = self._checked(input, hidden, is_init)
        if self.recurrent_backend == "triton" and not input.is_cuda:
            raise RuntimeError(
                "recurrent_backend: 'triton' needs tensors on CUDA; use 'reference' or 'scan' elsewhere."
            )
        projected = self.cell.project_input(input)
        if self.recurrent_backend != "reference":
            output = scan_over_time(self.cell, projected, hidden, is_init, compiled=self.recurrent_backend == "triton")
            return output, output[:, -1]
        outputs = []
        for at in range(input.shape[1]):
            hidden = self.cell.step_projected(projected[:, at], hidden.masked_fill(is_init[:, at, None], 0))
            outputs.append(hidden)
        return torch.stack(outputs, 1), hidden

    def _checked(self, input: Tensor, hidden: Tensor | None, is_init: Tensor | None) -> tuple[Tensor, Tensor]:
        if input.ndim != 3 or input.shape[-1] != self.cell.input_size:
            raise ValueError(f"input: its shape is {tuple(input.shape)}, expected (B, T, {self.cell.input_size}).")
        batch, steps = input.shape[:2]
        if not steps:
            raise ValueError("input: it has no steps, expected at least one.")
        if hidden is None:
            hidden = input.new_zeros(batch, self.cell.hidden_size)
        if hidden.shape != (batch, self.cell.hidden_size):
            raise ValueError(f"hidden: its shape is {tuple(hidden.shape)}, expected {(batch, self.cell.hidden_size)}.")
        if is_init is None:
            is_init = torch.zeros(batch, steps, dtype=torch.bool, device=input.device)
        if is_init.dtype != torch.bool or is_init.shape not in ((batch, steps), (batch, steps, 1)):
            raise ValueError(
                f"is_init: it is {is_init.dtype} of shape {tuple(is_init.shape)}, expected bool of shape "
                f"{(batch, steps)} or {(batch, steps, 1)}."
            )
        return hidden, is_init.reshape(batch, steps)


class LatentBlockGRU(nn.Module):
    """The block-diagonal GRU of `RSSMPriorV3`, which projects belief, state and action each by themselves.

    Args:
        state_size, action_size: sizes of states and actions.
        hidden_size: of their projections.
        belief_size: H, divisible by `num_blocks`.
        num_blocks, num_layers, norm_eps, device: as in `DreamerV3BlockGRUCell`.
    """

    def __init__(
        self, state_size: int, action_size: int, hidden_size: int, belief_size: int, num_blocks: int, num_layers: int,
        norm_eps: float, device: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_blocks = num_blocks
        self.belief_projection = nn.Sequential(*normed_layers([belief_size, hidden_size], norm_eps, device))
        self.state_projection = nn.Sequential(*normed_layers([state_size, hidden_size], norm_eps, device))
        self.action_projection = nn.Sequential(*normed_layers([action_size, hidden_size], norm_eps, device))
        layers: list[nn.Module] = []
        size = belief_size + 3 * hidden_size * num_blocks
        for _ in range(num_layers):
            layers.append(BlockLinear(size, belief_size, num_blocks, device))
            layers += [RMSNorm(belief_size, norm_eps, device), nn.SiLU()]
            size = belief_size
        self.hidden_layers = nn.Sequential(*layers)
        self.gates = BlockLinear(size, 3 * belief_size, num_blocks, device)
        reset_all_weights(self)

    def forward(self, state: Tensor, belief: Tensor, action: Tensor) -> Tensor:
        """(*batch, S), (*batch, H), (*batch, A) -> the next belief, (*batch, H)."""
        # Actions outside [-1, 1] are scaled down to it, without a gradient (appendix B).
        action = action / action.abs().clamp(min=1).detach()
        parts = (self.belief_projection(belief), self.state_projection(state), self.action_projection(action))
        value = self.hidden_layers(in_blocks(belief, torch.cat(parts, -1), self.num_blocks))
        return gated(self.gates(value), belief, self.num_blocks, -1.0)
