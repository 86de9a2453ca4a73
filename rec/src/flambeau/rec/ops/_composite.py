"""Operators that only call others: what these do about devices, gradients and shapes holds for them as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import shorten

__all__ = ["register_composite"]


def register_composite(schema: str, function: Callable[..., Any]) -> None:
    """Define `torch.ops.flambeau_rec.<name>` as a function of other operators. Twice the same changes nothing.

    Unlike those of `register_op`, such an operator may return its arguments, as FBGEMM's do that hand offsets back.

    Args:
        schema: without namespace.
        function: what it does; autograd, fake tensors and compilers see the operators that it calls.
    """
    name = schema.partition("(")[0]
    if name in LIBRARY.operators:
        return
    fragment = LIBRARY.fragment()
    fragment.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    fragment.impl(name, function, "CompositeImplicitAutograd")
    overload = getattr(getattr(torch.ops, LIBRARY.namespace), name).default
    shorten(overload, function)
    LIBRARY.operators[name] = {"schema": schema, "provider": "composite", "triton": None, "overload": overload}
