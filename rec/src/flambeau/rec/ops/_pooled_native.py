"""The native kernels of pooled look-ups through ctypes: `native/pooled_lookup.cpp` says what they are given."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.ops._library import LIBRARY

_POINTER, _LONG, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
FORMATS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
_FIELDS = 11  # of `Feature`


class _Bags(ctypes.Structure):
    _fields_ = [
        *((name, _POINTER) for name in ("features", "indices", "offsets", "weights")),
        *((name, _LONG) for name in ("count", "total", "bags")),
        *((name, _INT) for name in ("wide_indices", "wide_offsets", "threads")),
    ]


@dataclass(frozen=True)
class _Functions:
    forward: Callable[..., Any]
    tables_backward: Callable[..., Any]
    weights_backward: Callable[..., Any]


@cache
def _functions() -> _Functions:
    take = LIBRARY.function
    return _Functions(
        take("fb_pooled_forward", [_POINTER, _POINTER, _POINTER], _INT),
        take("fb_pooled_tables_backward", [_POINTER, _POINTER, _POINTER, _POINTER, _LONG], None),
        take("fb_pooled_weights_backward", [_POINTER, _POINTER, _POINTER], None),
    )


class Bags:
    """What a call is given, kept alive as long as it runs.

    Args:
        addresses: of the tables, 0 where they are not read.
        rows: of each table.
        dims: columns of each table.
        dtypes: of each table.
        indices: see `pooled_lookup`, as are all that follow.
        offsets: see there.
        weights: see there.
        reads: see there.
        starts: see there.
        sizes: see there.
        means: see there.
        flat: see there.
    """

    def __init__(
        self,
        addresses: Sequence[int],
        rows: Sequence[int],
        dims: Sequence[int],
        dtypes: Sequence[torch.dtype],
        indices: Tensor,
        offsets: Tensor,
        weights: Tensor | None,
        reads: Sequence[int],
        starts: Sequence[int],
        sizes: Sequence[int],
        means: Sequence[int],
        flat: bool,
    ) -> None:
        self._kept = (
            indices.contiguous(),
            offsets.contiguous(),
            None if weights is None else weights.detach().to(torch.float32).contiguous(),
        )
        facts: list[int] = []
        place = before = 0
        width = sum([dims[table] for table in reads])
        for table, start, size, mean in zip(reads, starts, sizes, means, strict=True):
            dim = dims[table]
            stride = dim if flat else width
            kind = FORMATS[dtypes[table]]
            facts += (addresses[table], rows[table], dim, start, size, place, stride, mean, table, before, kind)
            place += dim * size if flat else dim
            before += size
        self._facts = (_LONG * len(facts))(*facts)
        self.shape = (place,) if flat else (sizes[0] if len(sizes) else 0, width)
        ids, ends, factors = self._kept
        self._bags = _Bags(
            ctypes.addressof(self._facts),
            ids.data_ptr(),
            ends.data_ptr(),
            None if factors is None else factors.data_ptr(),
            len(facts) // _FIELDS,
            ids.numel(),
            before,
            ids.dtype == torch.int64,
            ends.dtype == torch.int64,
            torch.get_num_threads(),
        )
        self._address = ctypes.addressof(self._bags)

    def forward(self) -> tuple[Tensor | None, tuple[int, int, int]]:
        """The result, float32; or None, and what does not fit: which kind, which feature, which number."""
        output = torch.empty(self.shape)
        fault = (_LONG * 3)()
        if _functions().forward(self._address, output.data_ptr(), fault):
            return None, (fault[0], fault[1], fault[2])
        return output, (0, 0, 0)

    def add_tables_gradients(self, gradient: Tensor, found: Sequence[Tensor]) -> None:
        """Add to the gradient of each table, float32."""
        addresses = (_POINTER * len(found))(*[one.data_ptr() for one in found])
        rows = (_LONG * len(found))(*[len(one) for one in found])
        _functions().tables_backward(self._address, gradient.data_ptr(), addresses, rows, len(found))

    def weights_backward(self, gradient: Tensor) -> Tensor:
        """The gradient of each index's weight, float32."""
        found = torch.empty(self._bags.total)
        _functions().weights_backward(self._address, gradient.data_ptr(), found.data_ptr())
        return found
