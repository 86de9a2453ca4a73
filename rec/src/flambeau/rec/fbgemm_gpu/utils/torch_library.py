"""Operators of a namespace, which several modules may declare and implement."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from flambeau.rec.errors import OptionError

__all__ = ["TorchLibraryFragment"]

_SCHEMA = re.compile(r"^\s*([\w.]+)\s*\(.*\)\s*->\s*.+$", re.DOTALL)


class TorchLibraryFragment:
    """A part of a namespace of operators. What was declared or implemented already stays as it is.

    Args:
        namespace: of `torch.ops`.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.lib = torch.library.Library(namespace, "FRAGMENT")

    def define(self, schema: str) -> None:
        """Declare an operator, unless there is one of its name.

        Args:
            schema: such as "add(Tensor a, Tensor b) -> Tensor".

        Raises:
            ValueError: it is no schema.
        """
        match = _SCHEMA.match(schema)
        if match is None:
            raise OptionError(f"{schema!r} is no schema of an operator; expected 'name(Type argument) -> Type'.")
        if not self._known(match[1]):
            self.lib.define(schema)

    def _known(self, name: str) -> bool:
        operator, _, overload = name.partition(".")
        packet = getattr(getattr(torch.ops, self.namespace), operator, None)
        return packet is not None and (not overload or overload in packet.overloads())

    def register_dispatch(self, op_name: str, dispatch_key: str, fn: Callable[..., Any]) -> None:
        """Implement an operator for a kind of tensors, unless that was done.

        Args:
            op_name: the operator.
            dispatch_key: such as "CPU", "CUDA", "Meta" or "Autograd".
            fn: does it.

        Raises:
            AssertionError: there is no such kind; also a ValueError.
            RuntimeError: there is no such operator.
        """
        if dispatch_key not in _KEYS:
            raise OptionError(f"dispatch_key is {dispatch_key!r}; expected one of {', '.join(sorted(_KEYS))}.")
        qualified = f"{self.namespace}::{op_name}"
        if not torch._C._dispatch_has_kernel_for_dispatch_key(qualified, dispatch_key):
            if dispatch_key == "Meta":
                torch.library.register_fake(qualified, fn, lib=self.lib)
            else:
                self.lib.impl(op_name, fn, dispatch_key)

    def register(self, op_name: str, functors: dict[str, Callable[..., Any]]) -> None:
        """Implement an operator for several kinds of tensors.

        Args:
            op_name: the operator.
            functors: what does it, by kind.
        """
        for key, function in functors.items():
            self.register_dispatch(op_name, key, function)


_KEYS = frozenset({
    "CPU", "CUDA", "MTIA", "Meta", "Autograd", "AutogradCPU", "AutogradCUDA", "AutogradMeta", "AutogradMTIA",
    "CompositeImplicitAutograd", "CompositeExplicitAutograd", "QuantizedCPU", "QuantizedCUDA", "SparseCPU", "XPU",
})  # fmt: skip
