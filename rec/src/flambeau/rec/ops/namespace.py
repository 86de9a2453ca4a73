"""`torch.ops.fbgemm` for programs that call it, where FBGEMM itself is not there."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import torch

from flambeau.rec.ops._announced import OPERATORS

__all__ = ["register_fbgemm_namespace"]

_fragments: list[Any] = []  # registrations live as long as what made them


def register_fbgemm_namespace() -> None:
    """Let `torch.ops.fbgemm.<name>` be `torch.ops.flambeau_rec.<name>`, for every operator that there is.

    Programs written for FBGEMM's operators then run unchanged, compiled ones too. Nothing happens where FBGEMM is
    loaded, whose operators stay, or at a second call. FBGEMM cannot be loaded afterwards.
    """
    if _fragments or "fbgemm_gpu" in sys.modules:
        return
    known = {name.partition("::")[2] for name in torch._C._dispatch_get_all_op_names() if name.startswith("fbgemm::")}
    open_library: Any = torch.library.Library
    fragment = open_library("fbgemm", "FRAGMENT")
    _fragments.append(fragment)
    for module in sorted(set(OPERATORS.values())):
        import_module(module)
    for name in OPERATORS:
        if name in known:
            continue
        operator = getattr(torch.ops.flambeau_rec, name).default
        _, _, signature = str(operator._schema).partition("(")
        fragment.define(f"{name}({signature}", tags=(torch.Tag.pt2_compliant_tag,))
        fragment.impl(name, operator, "CompositeImplicitAutograd")
