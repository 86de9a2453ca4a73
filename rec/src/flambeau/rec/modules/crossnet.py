"""Cross networks: products of features of growing degree (DCN, Wang et al. 2017; DCN v2, 2020, arXiv:2008.13535).

Layer l takes x_l and the input x_0, both (batch, in_features), and gives x_0 * (a linear map of x_l + bias) + x_l. The
networks differ in the linear map.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError

__all__ = ["CrossNet", "LowRankCrossNet", "LowRankMixtureCrossNet", "VectorCrossNet"]


def _kernels(count: int, *shape: int) -> nn.ParameterList:
    return nn.ParameterList(nn.Parameter(nn.init.xavier_normal_(torch.empty(*shape))) for _ in range(count))


def _biases(count: int, *shape: int) -> nn.ParameterList:
    return nn.ParameterList(nn.Parameter(torch.zeros(*shape)) for _ in range(count))


class CrossNet(nn.Module):
    """The linear map is a matrix.

    Args:
        in_features: columns of the input.
        num_layers: layers.
    """

    def __init__(self, in_features: int, num_layers: int) -> None:
        super().__init__()
        self._num_layers = num_layers
        self.kernels = _kernels(num_layers, in_features, in_features)
        self.bias = _biases(num_layers, in_features, 1)

    def forward(self, input: Tensor) -> Tensor:
        """(batch, in_features) to the same."""
        first = crossed = input.unsqueeze(2)
        for kernel, bias in zip(self.kernels, self.bias, strict=True):
            crossed = first * (torch.matmul(kernel, crossed) + bias) + crossed
        return crossed.squeeze(2)


class LowRankCrossNet(nn.Module):
    """The linear map is a product of two matrices of low rank.

    Args:
        in_features: columns of the input.
        num_layers: layers.
        low_rank: of the matrices, 1 or more.

    Raises:
        OptionError: a rank below 1.
    """

    def __init__(self, in_features: int, num_layers: int, low_rank: int = 1) -> None:
        super().__init__()
        _check_rank(low_rank)
        self._num_layers, self._low_rank = num_layers, low_rank
        self.W_kernels = _kernels(num_layers, in_features, low_rank)
        self.V_kernels = _kernels(num_layers, low_rank, in_features)
        self.bias = _biases(num_layers, in_features)

    def forward(self, input: Tensor) -> Tensor:
        """(batch, in_features) to the same."""
        crossed = input
        for wide, narrow, bias in zip(self.W_kernels, self.V_kernels, self.bias, strict=True):
            inner = nn.functional.linear(crossed, narrow)
            crossed = input * nn.functional.linear(inner, wide, bias) + crossed
        return crossed


class VectorCrossNet(nn.Module):
    """The linear map is a dot product with a vector.

    Args:
        in_features: columns of the input.
        num_layers: layers.
    """

    def __init__(self, in_features: int, num_layers: int) -> None:
        super().__init__()
        self._num_layers = num_layers
        self.kernels = _kernels(num_layers, in_features, 1)
        self.bias = _biases(num_layers, in_features, 1)

    def forward(self, input: Tensor) -> Tensor:
        """(batch, in_features) to the same."""
        first = crossed = input.unsqueeze(2)
        for kernel, bias in zip(self.kernels, self.bias, strict=True):
            crossed = torch.matmul(first, torch.tensordot(crossed, kernel, dims=([1], [0]))) + bias + crossed
        return crossed.squeeze(2)


class LowRankMixtureCrossNet(nn.Module):
    """The linear map is a mixture of experts of low rank, each with an activation between its matrices.

    Args:
        in_features: columns of the input.
        num_layers: layers.
        num_experts: in each layer, 1 or more; with more than one, gates weigh them by softmax.
        low_rank: of the matrices, 1 or more.
        activation: a module or function.

    Raises:
        OptionError: a rank or number of experts below 1.
    """

    def __init__(
        self,
        in_features: int,
        num_layers: int,
        num_experts: int = 1,
        low_rank: int = 1,
        activation: nn.Module | Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        _check_rank(low_rank)
        if num_experts < 1:
            raise OptionError(f"num_experts is {num_experts}, expected 1 or more.")
        self._num_layers, self._num_experts, self._low_rank = num_layers, num_experts, low_rank
        self._in_features = in_features
        self.U_kernels = _kernels(num_layers, num_experts, in_features, low_rank)
        self.V_kernels = _kernels(num_layers, num_experts, low_rank, in_features)
        self.bias = _biases(num_layers, in_features, 1)
        self.gates = (
            nn.ModuleList(nn.Linear(in_features, 1, bias=False) for _ in range(num_experts))
            if num_experts > 1
            else None
        )
        self._activation = activation
        self.C_kernels = _kernels(num_layers, num_experts, low_rank, low_rank)

    def forward(self, input: Tensor) -> Tensor:
        """(batch, in_features) to the same."""
        first = crossed = input.unsqueeze(2)
        for layer in range(self._num_layers):
            experts = [self._expert(layer, number, first, crossed) for number in range(self._num_experts)]
            if self.gates is None:
                mixed = experts[0]
            else:
                scores = torch.stack([gate(crossed.squeeze(2)) for gate in self.gates], 1)
                mixed = torch.matmul(torch.stack(experts, 2), scores.softmax(1))
            crossed = mixed + crossed
        return crossed.squeeze(2)

    def _expert(self, layer: int, number: int, first: Tensor, crossed: Tensor) -> Tensor:
        inner = self._activation(torch.matmul(self.V_kernels[layer][number], crossed))
        inner = self._activation(torch.matmul(self.C_kernels[layer][number], inner))
        found: Tensor = first * (torch.matmul(self.U_kernels[layer][number], inner) + self.bias[layer])
        return found.squeeze(2) if self.gates is not None else found


def _check_rank(low_rank: int) -> None:
    if low_rank < 1:
        raise OptionError(f"low_rank is {low_rank}, expected 1 or more.")
