"""Sparse types of either library as plain records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

COMMON = ("values", "weights_or_none", "lengths", "offsets")
KEYED = (
    "keys", "stride", "stride_per_key", "stride_per_key_per_rank", "variable_stride_per_key", "length_per_key",
    "offset_per_key", "lengths_offset_per_key", "index_per_key", "inverse_indices_or_none",
)  # fmt: skip
DENSE = ("keys", "key_dim", "length_per_key", "offset_per_key", "values")
FIELDS = {"JaggedTensor": COMMON, "KeyedJaggedTensor": (*COMMON, *KEYED), "KeyedTensor": DENSE}


def describe_sparse(value: Any, recorder: Any, where: str) -> Any:
    """Every public property, or the class of the error that reading it raises."""
    fields = FIELDS.get(type(value).__name__)
    if fields is None or isinstance(value, type):
        return NotImplemented

    def field(read: Callable[[], Any], name: str) -> Any:
        try:
            found = recorder.describe(read(), f"{where}.{name}")
        except Exception:
            return "raises"
        # What is found out once and kept shares memory with nothing, or with itself.
        return {key: part for key, part in found.items() if key != "memory"} if isinstance(found, dict) else found

    record = {name: field(getattr(value, name), name) for name in fields}
    return {"type": type(value).__name__, "is": recorder.identity(value, where), **record}
