"""Recurrent layers that can be compiled into one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Recurrent"]

_KERNELS: dict[str, Callable[..., Any]] = {
    "LSTM": torch.lstm,
    "GRU": torch.gru,
    "RNN_RELU": torch.rnn_relu,
    "RNN_TANH": torch.rnn_tanh,
}


class Recurrent(nn.RNNBase):
    """`torch.nn.LSTM`, `GRU` or `RNN` by mode, with the same parameters and kernels.

    torch.compile refuses those three classes by name, but neither their base nor their kernels.

    Args:
        mode: "LSTM", "GRU", "RNN_RELU" or "RNN_TANH".
        input_size: channels of the input.
        hidden_size: channels of each direction.
        options: further arguments of `torch.nn.LSTM`; the input is batched.
    """

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Run from a state of zeros.

        Args:
            input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`.

        Returns:
            The output, with (directions x) hidden_size channels, and the last output of each layer and direction.
        """
        batch = input.shape[0 if self.batch_first else 1]
        start = input.new_zeros(self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size)
        output, last, *_ = _KERNELS[self.mode](
            input,
            (start, start) if self.mode == "LSTM" else start,
            [getattr(self, name) for name in self._flat_weights_names],
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
        )
        return output, last
