"""Recurrent layers that keep their state in a tensordict, step by step or over whole sequences."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

from flambeau.data.tensordict.nn.common import TensorDictModuleBase, dispatch
from flambeau.data.tensordict.nn.utils import set_skip_existing
from flambeau.rl.modules._transforms import transform
from flambeau.rl.modules.tensordict_module import _recurrent_layers
from flambeau.rl.modules.tensordict_module._recurrent_layers import GRU as GRU
from flambeau.rl.modules.tensordict_module._recurrent_layers import LSTM as LSTM
from flambeau.rl.modules.tensordict_module._recurrent_layers import GRUCell as GRUCell
from flambeau.rl.modules.tensordict_module._recurrent_layers import LSTMCell as LSTMCell
from flambeau.rl.modules.tensordict_module._rnn_precision import check_precision

__all__ = [
    "GRU",
    "LSTM",
    "GRUCell",
    "GRUModule",
    "LSTMCell",
    "LSTMModule",
    "canonicalize_rnn_subset",
    "recurrent_mode",
    "set_recurrent_mode",
]

# --- the mode

_mode: bool | None = None


def recurrent_mode() -> bool | None:
    """What `set_recurrent_mode` has set; None leaves it to each module."""
    return _mode


class set_recurrent_mode(contextlib.ContextDecorator):
    """Set whether recurrent modules take sequences, along the last dimension of the batch, or single steps.

    Args:
        mode: True or "recurrent" for sequences, False or "sequential" for steps, None to leave it to each module.

    Raises:
        ValueError: another mode.
    """

    def __init__(self, mode: bool | Literal["recurrent", "sequential"] | None = True) -> None:
        if isinstance(mode, str):
            if mode.lower() not in ("recurrent", "sequential"):
                raise ValueError(f"the recurrent mode is {mode!r}, expected True, False, 'recurrent' or 'sequential'.")
            mode = mode.lower() == "recurrent"
        self.mode = mode

    def clone(self) -> set_recurrent_mode:
        """A fresh one with the same mode."""
        return type(self)(self.mode)

    def _recreate_cm(self) -> Any:
        return self.clone()  # each call of a decorated function remembers for itself what was set before

    def __enter__(self) -> None:
        global _mode
        self._before, _mode = _mode, self.mode

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _mode
        _mode = self._before


# --- modules


class _RecurrentModule(TensorDictModuleBase):
    """What the two modules share; they differ in their layers and in how many states there are."""

    _attribute: str  # of the layer
    _plain: type[nn.RNNBase]
    _in_python: type[nn.RNNBase]
    _states: tuple[str, ...]

    def __init__(
        self, layer: Any, sizes: dict[str, Any], python_based: bool, backend: str, recompute: str, precision: str,
        in_key: Any, in_keys: Any, out_key: Any, out_keys: Any, default_recurrent_mode: bool | None,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        if backend not in ("auto", "pad", "scan", "triton"):
            raise ValueError(f"{name}: recurrent_backend is {backend!r}, expected 'auto', 'pad', 'scan' or 'triton'.")
        if recompute not in ("none", "full"):
            raise ValueError(f"{name}: recurrent_recompute is {recompute!r}, expected 'none' or 'full'.")
        if recompute == "full" and backend not in ("scan", "triton"):
            raise ValueError(
                f"{name}: recurrent_recompute='full' needs recurrent_backend='scan' or 'triton', got {backend!r}."
            )
        check_precision(precision)
        self.recurrent_backend, self.recurrent_recompute = backend, recompute
        self.recurrent_matmul_precision = precision
        self.in_keys, self.out_keys = self._keys(in_key, in_keys, out_key, out_keys)
        setattr(self, self._attribute, self._layer(layer, sizes, python_based))
        self.default_recurrent_mode = default_recurrent_mode

    def _keys(self, in_key: Any, in_keys: Any, out_key: Any, out_keys: Any) -> tuple[list[Any], list[Any]]:
        found = []
        for what, one, several, states in (
            ("in", in_key, in_keys, list(self._states)),
            ("out", out_key, out_keys, [("next", key) for key in self._states]),
        ):
            if (one is None) == (several is None):
                raise ValueError(
                    f"{type(self).__name__}: give either {what}_keys or {what}_key, got {several} and {one}."
                )
            keys = [one, *states] if one is not None else list(several)
            allowed = {1 + len(states)} | ({2 + len(states)} if what == "in" else set())
            if len(keys) not in allowed:
                marks = ", and of is_init if it has another name" if what == "in" else ""
                raise ValueError(
                    f"{type(self).__name__}: {what}_keys is {keys}, expected those of the value and of {len(states)} "
                    f"state(s){marks}."
                )
            if what == "in" and len(keys) == 1 + len(states):
                keys.append("is_init")
            found.append(keys)
        return found[0], found[1]

    def _layer(self, layer: Any, sizes: dict[str, Any], python_based: bool) -> nn.RNNBase:
        name = type(self).__name__
        if layer is not None:
            if sizes["input_size"] is not None or sizes["hidden_size"] is not None:
                raise ValueError(f"{name}: give either `{self._attribute}` or the sizes of a new one.")
            if not layer.batch_first:
                raise ValueError(f"{name}: the {self._attribute} has batch_first=False, expected True.")
            found: nn.RNNBase = layer
            return found
        if not sizes["batch_first"]:
            raise ValueError(f"{name}: batch_first is False, expected True.")
        for size in ("input_size", "hidden_size"):
            if sizes[size] is None:
                raise ValueError(f"{name}: {size} is None, expected a number.")
        made: Any = self._in_python if python_based else self._plain
        result: nn.RNNBase = made(**sizes)
        return result

    @property
    def _rnn(self) -> Any:
        return getattr(self, self._attribute)

    def _made_of(self, kind: Any) -> Any:
        rnn = self._rnn
        sizes = {
            name: getattr(rnn, name)
            for name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
        }
        if rnn.mode == "LSTM":
            sizes["proj_size"] = rnn.proj_size
        parameter = next(rnn.parameters())
        other = kind(**sizes, device="meta", dtype=parameter.dtype)
        for name, value in rnn.named_parameters():
            setattr(other, name, value)
        if not isinstance(other, self._in_python):
            other._flat_weight_refs = [None] * len(other._flat_weights_names)
            other._flat_weights = [getattr(other, name) for name in other._flat_weights_names]
        other.train(rnn.training)
        setattr(self, self._attribute, other)
        return self

    def make_python_based(self) -> Any:
        """Put the layer in Python in the place of torch's, with the same parameters; this module."""
        return self if isinstance(self._rnn, self._in_python) else self._made_of(self._in_python)

    def make_cudnn_based(self) -> Any:
        """Put torch's layer in the place of that in Python, with the same parameters; this module."""
        return self._made_of(self._plain) if isinstance(self._rnn, self._in_python) else self

    def make_tensordict_primer(self) -> Any:
        """A transform that gives an environment's tensordicts the states, 0 at the beginning.

        Raises:
            KeyError: an output state is not ("next", the input state).
        """
        from flambeau.rl.data.tensor_specs import Unbounded

        count = len(self._states)
        for key, written in zip(self.in_keys[1 : 1 + count], self.out_keys[1 : 1 + count], strict=True):
            if written != ("next", *((key,) if isinstance(key, str) else key)):
                raise KeyError(
                    f"{type(self).__name__}: the state {key!r} is written to {written!r}; a primer needs "
                    f"('next', {key!r}), so that an environment hands it on."
                )
        rnn = self._rnn
        layers = rnn.num_layers * (2 if rnn.bidirectional else 1)
        sizes = [rnn.proj_size or rnn.hidden_size, rnn.hidden_size]
        primers = {
            key: Unbounded(shape=(layers, size), dtype=next(rnn.parameters()).dtype)
            for key, size in zip(self.in_keys[1 : 1 + count], sizes, strict=False)
        }
        return transform("TensorDictPrimer", primers)

    @property
    def canonical_keys(self) -> list[Any]:
        """The keys that it reads and writes."""
        return list(dict.fromkeys([*self.in_keys, *self.out_keys]))

    def canonicalize(self, data: Any, *, inplace: bool = False) -> Any:
        """Make the entries that it reads and writes contiguous.

        Args:
            data: a tensordict.
            inplace: change it, rather than a copy.
        """
        return canonicalize_rnn_subset(data, [self], inplace=inplace)

    @property
    def recurrent_mode(self) -> bool:
        """Whether it takes sequences, as `set_recurrent_mode` or else its default says."""
        mode = recurrent_mode()
        return bool(self.default_recurrent_mode) if mode is None else mode

    @property
    def temporal_mode(self) -> bool:
        """Removed.

        Raises:
            RuntimeError: always; see `recurrent_mode`.
        """
        raise RuntimeError("temporal_mode was removed upstream; use recurrent_mode.")

    def set_recurrent_mode(self, mode: bool = True) -> Any:
        """Removed.

        Raises:
            RuntimeError: always; see the context manager of that name, and `default_recurrent_mode`.
        """
        raise RuntimeError(
            f"{type(self).__name__}.set_recurrent_mode was removed upstream; use the context manager "
            "set_recurrent_mode(True), or the argument default_recurrent_mode."
        )

    # --- calls

    @dispatch(auto_batch_size=False)
    @set_skip_existing(None)
    def forward(self, tensordict: Any) -> Any:
        """Run one step, or sequences along the last dimension of the batch.

        States count where a sequence begins: of sequences at their first step, and where `is_init` is True. Absent
        states are 0.

        Args:
            tensordict: the value (*batch, input_size), and `is_init` (*batch, 1); states (*batch, layers, hidden_size).

        Returns:
            The tensordict with output and next states; of sequences the states are 0 but where one ends.

        Raises:
            KeyError: the value or `is_init` is absent.
            ValueError: in recurrent mode, there is no dimension of time.
        """
        recurrent = self.recurrent_mode
        value_key, *state_keys, init_key = self.in_keys
        value, begins = self._get(tensordict, value_key), self._get(tensordict, init_key)
        batch = tensordict.shape
        if recurrent and not batch:
            raise ValueError(
                f"{type(self).__name__}: recurrent mode needs a batch dimension, of time; the tensordict has none."
            )
        steps = batch[-1] if recurrent else 1
        rows = batch.numel() // max(steps, 1) if batch.numel() else 0
        x = value.reshape(rows, steps, value.shape[-1])
        begins = begins.reshape(rows, steps, -1).any(-1)
        states = self._initial(tensordict, state_keys, rows, steps, x)
        if recurrent:
            out, after = self._sequences(x, states, begins)
        else:
            keep = ~begins[:, 0, None, None]
            out, after = self._one_run(x, tuple(torch.where(keep, each[:, 0], 0.0) for each in states))
            after = tuple(each.unsqueeze(1) for each in after)
        tensordict.set(self.out_keys[0], out.reshape(*batch, out.shape[-1]))
        for key, state in zip(self.out_keys[1:], after, strict=True):
            tensordict.set(key, state.reshape(*batch, *state.shape[2:]))
        return tensordict

    def _get(self, tensordict: Any, key: Any) -> Tensor:
        found = tensordict.get(key, None)
        if found is None:
            raise KeyError(
                f"{type(self).__name__}: there is no {key!r}; the tensordict has "
                f"{list(tensordict.keys(True, True))[:10]}."
                + (" InitTracker writes it." if key == self.in_keys[-1] else "")
            )
        return found  # type: ignore[no-any-return]

    def _initial(self, tensordict: Any, keys: list[Any], rows: int, steps: int, x: Tensor) -> tuple[Tensor, ...]:
        """The states of the tensordict, (rows, steps, layers, hidden) each."""
        rnn = self._rnn
        layers = rnn.num_layers * (2 if rnn.bidirectional else 1)
        sizes = [rnn.proj_size or rnn.hidden_size, rnn.hidden_size]
        found = []
        for key, size in zip(keys, sizes, strict=False):
            state = tensordict.get(key, None)
            if state is None:
                found.append(torch.zeros(rows, steps, layers, size, dtype=x.dtype, device=x.device))
            else:
                found.append(state.reshape(rows, steps, layers, size))
        return tuple(found)

    def _one_run(self, x: Any, states: tuple[Tensor, ...]) -> tuple[Any, tuple[Tensor, ...]]:
        """Run the layer from states (rows, layers, hidden); the output, and the last states in the same form."""
        given = tuple(each.transpose(0, 1).contiguous() for each in states)
        out, last = self._rnn(x, given if len(given) > 1 else given[0])
        last = last if isinstance(last, tuple) else (last,)
        return out, tuple(each.transpose(0, 1) for each in last)

    def _sequences(self, x: Tensor, states: tuple[Tensor, ...], begins: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        first = torch.zeros_like(begins)
        first[:, :1] = True
        begins = begins | first  # what is read in before is the state of the tensordict
        if self._steps_alone():
            return self._stepwise(x, states, begins)
        return self._packed(x, states, begins)

    def _steps_alone(self) -> bool:
        if self.recurrent_backend == "scan":
            return True
        return self.recurrent_backend == "auto" and torch.compiler.is_compiling() and not self._rnn.bidirectional

    def _stepwise(self, x: Tensor, states: tuple[Tensor, ...], begins: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Step by step: no shape depends on where sequences begin."""
        if self._rnn.bidirectional:
            return self._packed(x, states, begins)

        def run(x: Tensor, begins: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
            by_time = tuple(each.permute(1, 2, 0, 3) for each in states)
            out, _, seen = _recurrent_layers.run(
                self._rnn,
                x.transpose(0, 1),
                tuple(each[0] for each in by_time),
                None,
                (begins.transpose(0, 1), by_time),
            )
            after = tuple(torch.stack(parts).permute(2, 0, 1, 3) for parts in zip(*seen, strict=True))
            return out.transpose(0, 1), *after

        if self.recurrent_recompute == "full" and torch.is_grad_enabled():
            out, *after = checkpoint(run, x, begins, *states, use_reentrant=False)
        else:
            out, *after = run(x, begins, *states)
        last = torch.ones_like(begins)
        last[:, :-1] = begins[:, 1:]
        return out, tuple(torch.where(last[..., None, None], each, 0.0) for each in after)

    def _packed(self, x: Tensor, states: tuple[Tensor, ...], begins: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Each sequence as a row of its own, in one call of the layer."""
        rows, steps = begins.shape
        starts = begins.flatten().nonzero().squeeze(-1)
        ends = torch.cat([starts[1:], starts.new_tensor([rows * steps])])
        lengths = ends - starts
        from_states = tuple(each.flatten(0, 1)[starts] for each in states)
        if len(starts) == rows:
            out, last = self._one_run(x, from_states)
        else:
            parts = x.flatten(0, 1).split(lengths.tolist())
            padded = nn.utils.rnn.pad_sequence(list(parts), batch_first=True)
            if isinstance(self._rnn, self._in_python):
                valid = torch.arange(padded.shape[1], device=x.device) < lengths.unsqueeze(-1)
                given = tuple(each.transpose(0, 1) for each in from_states)
                padded_out, final = self._rnn(padded, given if len(given) > 1 else given[0], valid)
                last = tuple(e.transpose(0, 1) for e in (final if isinstance(final, tuple) else (final,)))
            else:
                packed = pack_padded_sequence(padded, lengths.cpu(), batch_first=True, enforce_sorted=False)
                packed_out, last = self._one_run(packed, from_states)
                padded_out, _ = pad_packed_sequence(packed_out, batch_first=True)
            valid = torch.arange(padded_out.shape[1], device=x.device) < lengths.unsqueeze(-1)
            out = padded_out[valid].view(rows, steps, -1)
        after = []
        for each in last:
            placed = each.new_zeros(rows * steps, *each.shape[1:])
            after.append(placed.index_copy(0, ends - 1, each).unflatten(0, (rows, steps)))
        return out, tuple(after)


class LSTMModule(_RecurrentModule):
    """An LSTM that reads and writes a tensordict, one step at a time, or sequences; see `set_recurrent_mode`.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size, bidirectional: of the LSTM.
        python_based: use the `LSTM` in Python, which can be vmapped.
        recurrent_backend: how sequences that begin within a row are run: "pad" makes each a row of its own; "scan" goes
            step by step, so that no shape depends on values; "auto" is "scan" while compiling, else "pad"; "triton" is
            accepted, and the same as "pad".
        recurrent_compute_dtype, recurrent_matmul_precision: accepted for compatibility.
        recurrent_recompute: "full" computes the steps of "scan" again in the backward pass, to save memory.
        in_key, out_key: of value and output, with states `recurrent_state_h` and `recurrent_state_c`, written to
            ("next", ...).
        in_keys, out_keys: in their place, of value or output, hidden and cell state.
        device: of the parameters.
        lstm: an LSTM to use, with `batch_first=True`.
        default_recurrent_mode: the mode where `set_recurrent_mode` sets none; False unless given.

    Raises:
        ValueError: arguments contradict one another, or are missing.

    Example:
        >>> module = LSTMModule(3, 4, in_key="obs", out_key="hidden")
        >>> td = TensorDict(obs=torch.zeros(2, 5, 3), is_init=torch.zeros(2, 5, 1, dtype=torch.bool), batch_size=[2, 5])
        >>> with set_recurrent_mode(True):
        ...     print(module(td)["hidden"].shape)
        torch.Size([2, 5, 4])
    """

    DEFAULT_IN_KEYS = ["recurrent_state_h", "recurrent_state_c"]
    DEFAULT_OUT_KEYS = [("next", "recurrent_state_h"), ("next", "recurrent_state_c")]
    _attribute, _plain, _in_python = "lstm", nn.LSTM, LSTM
    _states = ("recurrent_state_h", "recurrent_state_c")

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0,
        proj_size: int = 0,
        bidirectional: bool = False,
        python_based: bool = False,
        recurrent_backend: str = "pad",
        recurrent_compute_dtype: torch.dtype = torch.float32,
        recurrent_recompute: str = "none",
        recurrent_matmul_precision: str = "auto",
        *,
        in_key: Any = None,
        in_keys: Any = None,
        out_key: Any = None,
        out_keys: Any = None,
        device: Any = None,
        lstm: nn.LSTM | None = None,
        default_recurrent_mode: bool | None = None,
    ) -> None:
        sizes = {
            "input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers, "bias": bias,
            "batch_first": batch_first, "dropout": dropout, "proj_size": proj_size, "bidirectional": bidirectional,
            "device": device,
        }  # fmt: skip
        super().__init__(
            lstm, sizes, python_based, recurrent_backend, recurrent_recompute, recurrent_matmul_precision, in_key,
            in_keys, out_key, out_keys, default_recurrent_mode,
        )  # fmt: skip
        self.recurrent_compute_dtype = recurrent_compute_dtype


class GRUModule(_RecurrentModule):
    """A GRU that reads and writes a tensordict, one step at a time, or sequences; see `set_recurrent_mode`.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: of the GRU.
        python_based, recurrent_backend, recurrent_compute_dtype, recurrent_recompute, recurrent_matmul_precision,
            device, default_recurrent_mode: see `LSTMModule`.
        in_key, out_key: of value and output, with the state `recurrent_state`, written to ("next", ...).
        in_keys, out_keys: in their place, of value or output and state.
        gru: a GRU to use, with `batch_first=True`.

    Raises:
        ValueError: arguments contradict one another, or are missing.
    """

    DEFAULT_IN_KEYS = ["recurrent_state"]
    DEFAULT_OUT_KEYS = [("next", "recurrent_state")]
    _attribute, _plain, _in_python = "gru", nn.GRU, GRU
    _states = ("recurrent_state",)

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0,
        bidirectional: bool = False,
        python_based: bool = False,
        recurrent_backend: str = "pad",
        recurrent_compute_dtype: torch.dtype = torch.float32,
        recurrent_recompute: str = "none",
        recurrent_matmul_precision: str = "auto",
        *,
        in_key: Any = None,
        in_keys: Any = None,
        out_key: Any = None,
        out_keys: Any = None,
        device: Any = None,
        gru: nn.GRU | None = None,
        default_recurrent_mode: bool | None = None,
    ) -> None:
        sizes = {
            "input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers, "bias": bias,
            "batch_first": batch_first, "dropout": dropout, "bidirectional": bidirectional, "device": device,
        }  # fmt: skip
        super().__init__(
            gru, sizes, python_based, recurrent_backend, recurrent_recompute, recurrent_matmul_precision, in_key,
            in_keys, out_key, out_keys, default_recurrent_mode,
        )  # fmt: skip
        self.recurrent_compute_dtype = recurrent_compute_dtype


def canonicalize_rnn_subset(data: Any, modules: Iterable[Any], *, inplace: bool = False) -> Any:
    """Make the entries that recurrent modules read and write contiguous, and leave the others.

    Args:
        data: a tensordict.
        modules: `LSTMModule`s and `GRUModule`s.
        inplace: change it, rather than a copy.
    """
    result = data if inplace else data.copy()
    for key in dict.fromkeys(key for module in modules for key in module.canonical_keys):
        value = result.get(key, None)
        if value is not None:
            result.set(key, value.contiguous())
    return result
