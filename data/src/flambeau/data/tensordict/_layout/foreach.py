"""When `torch._foreach_*` may run over a list of tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

_PLAIN = frozenset({Tensor, Parameter})


def fusible(values: list[Any]) -> bool:
    """Whether all are plain tensors, outside of functorch's transforms, which know no multi-tensor functions.

    Integers beside tensors that require gradients are refused too: autograd has no formula for such a list.
    """
    if not _PLAIN.issuperset([type(value) for value in values]):
        return False
    if torch.compiler.is_compiling():
        return True
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    if not torch.is_grad_enabled() or not any([value.requires_grad for value in values]):  # noqa: C419 lists are faster
        return True
    return all([value.is_floating_point() for value in values])  # noqa: C419
