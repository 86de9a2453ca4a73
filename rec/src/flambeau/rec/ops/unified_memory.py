"""Memory that the host and an accelerator share, by the names of FBGEMM's operators.

There is no such memory here: what asks for it gets the host's, pinned where there is an accelerator, and no tensor is
said to be in it, as in FBGEMM's build for the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._short_calls import OPS

__all__ = ["is_uvm_tensor", "new_managed_tensor", "new_unified_tensor"]


def new_managed_tensor(self: Tensor, sizes: Sequence[int]) -> Tensor:
    """Zeros on the host.

    Args:
        self: whose dtype they have.
        sizes: their shape.
    """
    return OPS.new_managed_tensor(self, sizes)  # type: ignore[no-any-return]


def new_unified_tensor(self: Tensor, sizes: Sequence[int], is_host_mapped: bool) -> Tensor:
    """Zeros on the host.

    Args:
        self: whose dtype they have.
        sizes: their shape.
        is_host_mapped: which of two kinds of shared memory. Without effect.
    """
    return OPS.new_unified_tensor(self, sizes, is_host_mapped)  # type: ignore[no-any-return]


def is_uvm_tensor(t: Tensor) -> bool:
    """Whether a tensor is in shared memory: never."""
    return OPS.is_uvm_tensor(t)  # type: ignore[no-any-return]


def _new(self: Tensor, sizes: Sequence[int], is_host_mapped: bool = False) -> Tensor:
    return torch.zeros(sizes, dtype=self.dtype, pin_memory=self.is_cuda)


def _is_shared(t: Tensor) -> bool:
    return False


def _refuse(t: Tensor) -> Tensor:
    raise RuntimeError(f"the tensor is on {t.device}, and not in memory that is shared with the host; use t.cpu().")


for _name in ("new_managed_tensor", "new_host_mapped_tensor", "new_vanilla_managed_tensor"):
    register_composite(f"{_name}(Tensor self, int[] sizes) -> Tensor", _new)
register_composite("new_unified_tensor(Tensor self, int[] sizes, bool is_host_mapped) -> Tensor", _new)
for _name in ("is_uvm_tensor", "uvm_storage"):
    register_composite(f"{_name}(Tensor t) -> bool", _is_shared)
for _name in ("uvm_to_cpu", "uvm_to_cpu_clone"):
    register_composite(f"{_name}(Tensor t) -> Tensor", _refuse)
