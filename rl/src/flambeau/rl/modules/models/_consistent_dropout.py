"""Dropout that uses the same mask when an action is learned from as when it was taken."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from flambeau.data.tensordict.nn.common import TensorDictModuleBase
from flambeau.rl.modules._transforms import transform


class ConsistentDropout(_DropoutNd):
    """Dropout whose mask is given and returned (Hausknecht and Wagener 2022, arXiv:2202.11818).

    Args:
        p: probability of a zero.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        """In training mode the input times a mask, and the mask; else the input alone.

        Args:
            x: any shape.
            mask: of that shape, 0 or 1 / (1 - p); drawn unless given.
        """
        if not self.training:
            return x
        if mask is None:
            mask = self.make_mask(input=x)
        return x * mask, mask

    def make_mask(self, *, input: Tensor | None = None, shape: Any = None) -> Tensor:
        """Draw a mask.

        Args:
            input: whose shape, dtype and device the mask gets.
            shape: the shape, if there is no input.

        Raises:
            RuntimeError: neither is given.
        """
        if input is not None:
            return torch.nn.functional.dropout(torch.ones_like(input), self.p, self.training)
        if shape is None:
            raise RuntimeError("make_mask: give `input`, whose shape the mask gets, or `shape`.")
        return torch.nn.functional.dropout(torch.ones(shape), self.p, self.training)


class ConsistentDropoutModule(TensorDictModuleBase):
    """A `ConsistentDropout` that keeps its mask in the tensordict, where the update finds it again.

    Args:
        p: probability of a zero.
        in_keys: the entry, and that of the mask; one unique to this module unless given.
        out_keys: where they go; `in_keys` unless given.
        input_shape: of one entry without batch, for `make_tensordict_primer`.
        input_dtype: of the entry, for the same; the default unless given.

    Raises:
        ValueError: there are not one or two keys.
    """

    def __init__(
        self,
        p: float,
        in_keys: Any,
        out_keys: Any = None,
        input_shape: torch.Size | None = None,
        input_dtype: torch.dtype | None = None,
    ) -> None:
        reads = _with_mask(in_keys, self)
        writes = list(reads) if out_keys is None else _with_mask(out_keys, self)
        if len(reads) != 2 or len(writes) != 2:
            raise ValueError(
                f"ConsistentDropoutModule: in_keys is {in_keys} and out_keys {out_keys}, expected the key of an entry, "
                "and at most that of a mask."
            )
        super().__init__()
        self.in_keys, self.out_keys = reads, writes
        self.input_shape, self.input_dtype = input_shape, input_dtype
        self.consistent_dropout = ConsistentDropout(p)

    def forward(self, tensordict: Any) -> Any:
        """In training mode mask the entry and keep the mask; else leave all as it is."""
        result = self.consistent_dropout(tensordict.get(self.in_keys[0]), mask=tensordict.get(self.in_keys[1], None))
        if not self.consistent_dropout.training:
            return tensordict.set(self.out_keys[0], result)
        value, mask = result
        return tensordict.set(self.out_keys[0], value).set(self.out_keys[1], mask)

    def make_tensordict_primer(self) -> Any:
        """A transform that draws a mask whenever an environment is reset.

        Raises:
            RuntimeError: `input_shape` was not given.
        """
        from flambeau.rl.data.tensor_specs import Unbounded

        if self.input_shape is None:
            raise RuntimeError(
                "ConsistentDropoutModule: the mask's shape is unknown; give `input_shape` when the module is made."
            )
        shape, dtype = torch.Size(self.input_shape), self.input_dtype or torch.get_default_dtype()

        def drawn() -> Tensor:
            return self.consistent_dropout.make_mask(input=torch.ones(shape, dtype=dtype))

        key = self.in_keys[1]
        return transform(
            "TensorDictPrimer", primers={key: Unbounded(dtype=dtype, shape=shape)}, default_value={key: drawn}
        )


def _with_mask(keys: Any, module: Any) -> list[Any]:
    found = [keys] if isinstance(keys, (str, tuple)) else list(keys)
    return [*found, f"mask_{id(module)}"] if len(found) == 1 else found
