"""LSTM and GRU layers in Python, step by step: they can be vmapped, compiled, and reset within a sequence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

States = tuple[Tensor, ...]


def lstm_step(x: Tensor, states: States, weights: list[Tensor | None]) -> States:
    """One step of an LSTM: (B, input) and hidden and cell state (B, hidden) -> these states."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    h, c = states
    gates = F.linear(x, _known(w_ih), b_ih) + F.linear(h, _known(w_hh), b_hh)
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return (h if w_hr is None else F.linear(h, w_hr)), c


def gru_step(x: Tensor, states: States, weights: list[Tensor | None]) -> States:
    """One step of a GRU: (B, input) and the state (B, hidden) -> the state."""
    w_ih, w_hh, b_ih, b_hh, _ = weights
    (h,) = states
    of_input, of_state = F.linear(x, _known(w_ih), b_ih), F.linear(h, _known(w_hh), b_hh)
    r_x, z_x, n_x = of_input.chunk(3, -1)
    r_h, z_h, n_h = of_state.chunk(3, -1)
    z = (z_x + z_h).sigmoid()
    n = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
    return (n + z * (h - n),)


def _known(weight: Tensor | None) -> Tensor:
    assert weight is not None  # only biases and projections may be absent
    return weight


def _weights(rnn: nn.RNNBase, layer: int, direction: int) -> list[Tensor | None]:
    suffix = f"_l{layer}" + ("_reverse" if direction else "")
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    return [getattr(rnn, f"{name}{suffix}", None) for name in names]


def run(
    rnn: nn.RNNBase,
    x: Tensor,
    states: States,
    mask: Tensor | None = None,
    restart: tuple[Tensor, States] | None = None,
) -> tuple[Tensor, States, list[States]]:
    """Run all layers of an LSTM or GRU over time.

    Args:
        rnn: its weights and options.
        x: (T, B, input).
        states: (layers * directions, B, hidden) each.
        mask: bool (T, B), False for steps that change nothing and give 0.
        restart: bool (T, B), True where a new sequence begins, and the states (T, layers, B, hidden) that it begins
            with; of layers with one direction alone.

    Returns:
        The output (T, B, directions * hidden), the last states, and the states after each step, (layers, B, hidden).
    """
    step = lstm_step if rnn.mode == "LSTM" else gru_step
    directions = 2 if rnn.bidirectional else 1
    last: list[States] = []
    every: list[list[States]] = []
    for layer in range(rnn.num_layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            weights = _weights(rnn, layer, direction)
            state = tuple(each[at] for each in states)
            seen: list[States] = []
            order = range(x.shape[0] - 1, -1, -1) if direction else range(x.shape[0])
            for t in order:
                if restart is not None:
                    begins = restart[0][t].unsqueeze(-1)
                    state = tuple(
                        torch.where(begins, new[t, at], old) for new, old in zip(restart[1], state, strict=True)
                    )
                moved = step(x[t], state, weights)
                if mask is not None:
                    valid = mask[t].unsqueeze(-1)
                    moved = tuple(torch.where(valid, new, old) for new, old in zip(moved, state, strict=True))
                state = moved
                seen.append(state)
            if direction:
                seen.reverse()
            out = torch.stack([each[0] for each in seen])
            outputs.append(out if mask is None else out * mask.unsqueeze(-1))
            last.append(state)
            every.append(seen)
        x = torch.cat(outputs, -1)
        if rnn.dropout and rnn.training and layer < rnn.num_layers - 1:
            x = F.dropout(x, rnn.dropout)
    steps = [tuple(torch.stack(parts) for parts in zip(*at_t, strict=True)) for at_t in zip(*every, strict=True)]
    return x, tuple(torch.stack(parts) for parts in zip(*last, strict=True)), steps


class _InPython:
    """`forward` of layers in Python."""

    def _run(self, input: Tensor, hx: Any, mask: Tensor | None) -> tuple[Tensor, States]:
        rnn: Any = self
        name = type(self).__name__
        if input.ndim != 3:
            raise ValueError(f"{name}: the input has {input.ndim} dimensions, expected 3: a batch of sequences.")
        x = input.transpose(0, 1) if rnn.batch_first else input
        if mask is not None:
            mask = mask.transpose(0, 1) if rnn.batch_first else mask
        if hx is None:
            layers = rnn.num_layers * (2 if rnn.bidirectional else 1)
            size = rnn.proj_size or rnn.hidden_size
            h = torch.zeros(layers, x.shape[1], size, dtype=x.dtype, device=x.device)
            hx = (h, h.new_zeros(layers, x.shape[1], rnn.hidden_size)) if rnn.mode == "LSTM" else (h,)
        out, states, _ = run(rnn, x, tuple(hx) if isinstance(hx, (tuple, list)) else (hx,), mask)
        return (out.transpose(0, 1) if rnn.batch_first else out), states


class LSTM(_InPython, nn.RNNBase):
    """`torch.nn.LSTM` in Python, for vmap and torch.compile; batch first unless told otherwise.

    It is no subclass of torch's, which torch.compile refuses.

    Args:
        input_size, hidden_size, num_layers, batch_first, bias, dropout, bidirectional, proj_size, device, dtype: as of
            `torch.nn.LSTM`.
        use_scan: kept as an attribute.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, batch_first: bool = True, bias: bool = True,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
        use_scan: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias=bias, batch_first=batch_first, dropout=dropout,
            bidirectional=bidirectional, proj_size=proj_size, device=device, dtype=dtype,
        )  # fmt: skip
        self.use_scan = use_scan

    def forward(self, input: Tensor, hx: Any = None, mask: Tensor | None = None) -> Any:
        """Run over sequences.

        Args:
            input: (B, T, input_size) if batch first, else (T, B, input_size).
            hx: hidden and cell state, (layers, B, hidden_size) each; 0 unless given.
            mask: bool, of the batch and time, False for steps that change nothing and give 0.

        Returns:
            Output, and the last hidden and cell state.
        """
        return self._run(input, hx, mask)


class GRU(_InPython, nn.RNNBase):
    """`torch.nn.GRU` in Python, for vmap and torch.compile; batch first unless told otherwise.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype: as of
            `torch.nn.GRU`.
        use_scan: kept as an attribute.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = True,
        dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None,
        use_scan: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias=bias, batch_first=batch_first, dropout=dropout,
            bidirectional=bidirectional, device=device, dtype=dtype,
        )  # fmt: skip
        self.use_scan = use_scan

    def forward(self, input: Tensor, hx: Any = None, mask: Tensor | None = None) -> Any:
        """Run over sequences; see `LSTM.forward`, with one state in place of two."""
        out, (state,) = self._run(input, hx, mask)
        return out, state


class LSTMCell(nn.RNNCellBase):
    """`torch.nn.LSTMCell` in Python, for vmap and torch.compile.

    Args:
        input_size, hidden_size, bias, device, dtype: as of `torch.nn.LSTMCell`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """One step: (B, input_size) or (input_size,) and the states, 0 unless given -> the states."""
        _check_cell(self, input)
        if hx is None:
            zeros = input.new_zeros(*input.shape[:-1], self.hidden_size)
            hx = (zeros, zeros)
        return self.lstm_cell(input, *hx)

    def lstm_cell(self, x: Tensor, hx: Tensor, cx: Tensor) -> tuple[Tensor, Tensor]:
        """One step from given states."""
        h, c = lstm_step(x, (hx, cx), [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, None])
        return h, c


class GRUCell(nn.RNNCellBase):
    """`torch.nn.GRUCell` in Python, for vmap and torch.compile.

    Args:
        input_size, hidden_size, bias, device, dtype: as of `torch.nn.GRUCell`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """One step: (B, input_size) or (input_size,) and the state, 0 unless given -> the state."""
        _check_cell(self, input)
        hx = input.new_zeros(*input.shape[:-1], self.hidden_size) if hx is None else hx
        return self.gru_cell(input, hx)

    def gru_cell(self, x: Tensor, hx: Tensor) -> Tensor:
        """One step from a given state."""
        return gru_step(x, (hx,), [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, None])[0]


def _check_cell(cell: Any, input: Tensor) -> None:
    if input.ndim not in (1, 2):
        raise ValueError(f"{type(cell).__name__}: the input has {input.ndim} dimensions, expected 1 or 2.")
