"""Rows as shards of MosaicML's streaming format."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def to_mds(td: Any, columns: dict[str, str] | None, writer: Any, options: dict[str, Any]) -> None:
    """See `TensorDict.to_mds`."""
    rows = td.flatten() if len(td.batch_size) > 1 else td
    if not rows.batch_size:
        raise ValueError("to_mds writes a sample for each position of the batch, and there is no batch dimension.")
    columns = columns or {key: _encoding(value, len(rows.batch_size)) for key, value in rows.items()}
    if writer is not None:
        _write(writer, rows, columns)
        return
    try:
        from streaming import MDSWriter
    except ImportError as error:
        raise ImportError(
            "to_mds writes with the package mosaicml-streaming, which is not installed. "
            "Run: pip install mosaicml-streaming"
        ) from error
    with MDSWriter(columns=columns, **options) as opened:
        _write(opened, rows, columns)


def _encoding(value: Any, ndim: int) -> str:
    if not isinstance(value, Tensor):
        return "str" if value._is_non_tensor and isinstance(_first(value.tolist()), str) else "pkl"
    dtype = str(value.dtype).removeprefix("torch.")
    shape = ",".join(map(str, value.shape[ndim:]))
    return f"ndarray:{dtype}:{shape}" if shape else f"ndarray:{dtype}"


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else values


def _write(writer: Any, rows: Any, columns: dict[str, str]) -> None:
    for row in rows.unbind(0):
        sample = row.to_dict(convert_tensors="numpy")
        writer.write({name: sample[name] for name in columns})
