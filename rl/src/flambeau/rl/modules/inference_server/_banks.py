"""Rows of shared memory for requests and answers of known layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase


class Bank:
    """So many rows of one layout, in memory that processes share.

    Args:
        spec: what a row is like; its leaves are tensors on the CPU.
        rows: how many.
        name: of the specification, for messages.

    Raises:
        TypeError: a leaf is no tensor.
        ValueError: a leaf is on another device.
    """

    def __init__(self, spec: TensorDictBase, rows: int, name: str) -> None:
        for key, leaf in spec.items(True, True):
            if not isinstance(leaf, Tensor):
                raise TypeError(f"{name} has a {type(leaf).__name__} at {key!r}; rows of memory hold tensors alone.")
            if leaf.device.type != "cpu":
                raise ValueError(f"{name} is on {leaf.device} at {key!r}; rows of shared memory are on the CPU.")
        self.name = name
        self.rows: Any = _zeros(spec, rows).share_memory_()
        self.keys = list(self.rows.keys(True, True))

    def write(self, row: int, values: TensorDictBase, *, where: str) -> None:
        """Write one row; keys that it does not have are left out.

        Raises:
            KeyError: a key is missing.
            ValueError: a tensor has another shape or device.
        """
        for key in self.keys:
            value = values.get(key, None)
            if value is None:
                raise KeyError(
                    f"{where} has no {key!r}, which {self.name} has; it has {list(values.keys(True, True))}."
                )
            target = self.rows.get(key)[row]
            if value.shape != target.shape:
                raise ValueError(f"{where} is {tuple(value.shape)} at {key!r}, expected {tuple(target.shape)}.")
            target.copy_(value)

    def read(self, row: int, copy: bool) -> TensorDictBase:
        """One row: a copy, or the memory itself."""
        found: TensorDictBase = self.rows[row]
        return found.clone() if copy else found

    def like(self, count: int) -> TensorDictBase:
        """So many rows of private memory, one behind the other."""
        return _zeros(self.rows[0], count)

    def gather(self, rows: Sequence[int], out: TensorDictBase) -> None:
        """Copy rows, in this order, into the first rows of `out`: one copy a leaf."""
        index = torch.tensor(rows, dtype=torch.int64)
        for key in self.keys:
            torch.index_select(self.rows.get(key), 0, index, out=out.get(key)[: len(rows)])

    def scatter(self, rows: Sequence[int], values: TensorDictBase) -> None:
        """Write rows: one copy a leaf.

        Raises:
            KeyError: a key is missing.
        """
        index = torch.tensor(rows, dtype=torch.int64)
        for key in self.keys:
            value = values.get(key, None)
            if value is None:
                raise KeyError(
                    f"the policy's answer has no {key!r}, as {self.name} has; it has {list(values.keys(True, True))}."
                )
            self.rows.get(key).index_copy_(0, index, value.to("cpu", self.rows.get(key).dtype))


def _zeros(spec: TensorDictBase, rows: int) -> TensorDict:
    found = TensorDict(batch_size=[rows, *spec.batch_size])
    for key, leaf in spec.items(True, True):
        found.set(key, torch.zeros(rows, *leaf.shape, dtype=leaf.dtype))
    return found


def refuse_devices(request: TensorDictBase) -> None:
    """Look at where a request is.

    Raises:
        ValueError: a tensor is not on the CPU.
    """
    for key, leaf in request.items(True, True):
        if isinstance(leaf, Tensor) and leaf.device.type != "cpu":
            raise ValueError(f"the request is on {leaf.device} at {key!r}; send it from the CPU, the server moves it.")
