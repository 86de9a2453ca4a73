"""Small networks to test with."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from flambeau.rl.modules.models.models import MLP

__all__ = ["BiasModule", "CatLinear", "LSTMNet", "NonSerializableBiasModule", "call_value_nets"]


class BiasModule(nn.Module):
    """Adds a number that is trained, by which one sees whether weights arrive.

    Args:
        value: the number.
    """

    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.tensor(value))

    def forward(self, x: Tensor) -> Tensor:
        """The input plus the number.

        Args:
            x: of any shape.
        """
        return x + self.bias


class NonSerializableBiasModule(BiasModule):
    """A `BiasModule` that cannot be pickled."""

    def __getstate__(self) -> NoReturn:
        raise RuntimeError("A NonSerializableBiasModule cannot be pickled, which is what it is for.")


class CatLinear(nn.Module):
    """A linear layer of several inputs, one behind the other.

    Args:
        in_features: size of all of them.
        out_features: size of the output.

    Example:
        >>> CatLinear(5, 2)(torch.zeros(3), torch.zeros(2)).shape
        torch.Size([2])
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, *tensors: Tensor) -> Tensor:
        """The layer's output.

        Args:
            tensors: (..., size) each.
        """
        out: Tensor = self.linear(torch.cat(tensors, -1))
        return out


class LSTMNet(nn.Module):
    """A perceptron, an LSTM and a linear layer, of steps (batch, size) or of sequences (batch, time, size).

    Gives the output, and states before and behind, (batch, layers, size) or, of sequences, (batch, time, layers, size):
    the first before the first step, the last behind the last, zeros elsewhere.

    Args:
        out_features: size of the output.
        lstm_kwargs: of `torch.nn.LSTM`.
        mlp_kwargs: of `MLP`.
        device: of the parameters.
        lstm_backend: "torch", or "torchrl" for the one in Python.

    Raises:
        ValueError: there is no such backend.

    Example:
        >>> net = LSTMNet(10, {"input_size": 5, "hidden_size": 5}, {"in_features": 4, "out_features": 5})
        >>> [tuple(each.shape) for each in net(torch.zeros(7, 4))[:2]]
        [(7, 10), (7, 1, 5)]
    """

    def __init__(
        self,
        out_features: int,
        lstm_kwargs: Any,
        mlp_kwargs: Any,
        device: Any = None,
        *,
        lstm_backend: str | None = None,
    ) -> None:
        super().__init__()
        if lstm_backend not in (None, "torch", "torchrl"):
            raise ValueError(f"LSTMNet: lstm_backend is {lstm_backend!r}, expected 'torch' or 'torchrl'.")
        from flambeau.rl.modules.tensordict_module.rnn import LSTM

        kind: Any = LSTM if lstm_backend == "torchrl" else nn.LSTM
        self.mlp = MLP(device=device, **mlp_kwargs)
        self.lstm = kind(device=device, **{**lstm_kwargs, "batch_first": True})
        self.linear = nn.LazyLinear(out_features, device=device)

    def forward(
        self, input: Tensor, hidden0_in: Tensor | None = None, hidden1_in: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Output, and states before and behind.

        Args:
            input: (batch, size) or (batch, time, size).
            hidden0_in: state before, as it is given; default: zeros.
            hidden1_in: state of the cells before, likewise.
        """
        single = input.ndim == 2
        features = self.mlp(input.unsqueeze(1) if single else input)
        batch, time = features.shape[:2]
        size = (batch, self.lstm.num_layers, self.lstm.hidden_size)
        before = [self._first(state, features.new_zeros(size), single) for state in (hidden0_in, hidden1_in)]
        found, behind = self.lstm(features, tuple(state.transpose(0, 1).contiguous() for state in before))
        behind = [state.transpose(0, 1) for state in behind]
        out = self.linear(found)
        if single:
            return out.squeeze(1), before[0], before[1], behind[0], behind[1]
        spread = [self._among(state, time, 0) for state in before] + [self._among(state, time, -1) for state in behind]
        return out, spread[0], spread[1], spread[2], spread[3]

    @staticmethod
    def _first(state: Tensor | None, zeros: Tensor, single: bool) -> Tensor:
        if state is None:
            return zeros
        return state if single else state[:, 0]

    @staticmethod
    def _among(state: Tensor, time: int, at: int) -> Tensor:
        spread = state.new_zeros(state.shape[0], time, *state.shape[1:])
        spread[:, at] = state
        return spread


def call_value_nets(
    value_net: Any, data: Any, params: Any, next_params: Any, single_call: bool, value_key: Any, detach_next: bool,
    vmap_randomness: str = "error",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Values of steps, and of what follows them.

    Args:
        value_net: reads observations and writes values.
        data: (*batch, time), with "next".
        params: of the network, for steps.
        next_params: for what follows; None for the same.
        single_call: call the network once, for all steps and what follows the last; each step follows the one before.
        value_key: of values.
        detach_next: no gradients of the values that follow.
        vmap_randomness: as for `torch.vmap`, where both are called at once.

    Returns:
        Both, (*batch, time, 1).
    """
    in_keys = value_net.in_keys
    present, following = data.select(*in_keys, strict=False), data.get("next").select(*in_keys, strict=False)
    time = len(data.batch_size) - 1
    if single_call:
        every = torch.cat([present, following.narrow(time, data.batch_size[time] - 1, 1)], time)
        with _given(value_net, params):
            values = value_net(every).get(value_key)
        steps, nexts = values.narrow(time, 0, data.batch_size[time]), values.narrow(time, 1, data.batch_size[time])
    else:
        with _given(value_net, params):
            steps = value_net(present.copy()).get(value_key)
        with _given(value_net, params if next_params is None else next_params):
            nexts = value_net(following.copy()).get(value_key)
    return steps, nexts.detach() if detach_next else nexts


def _given(network: Any, params: Any) -> Any:
    import contextlib

    return contextlib.nullcontext() if params is None else params.to_module(network)
