"""Specs and collections of tensors of either library as plain records."""

from __future__ import annotations

import contextlib
from typing import Any

import torch


def describe_rl(value: Any, recorder: Any, where: str) -> Any:
    """A spec by its shape, values and constraints; a collection by its entries; a box by its limits."""
    if isinstance(value, (type, torch.Tensor)):
        return NotImplemented
    if isinstance(value, torch.nn.Module) and not hasattr(type(value), "keys"):
        return NotImplemented  # environments: batches of them answer for names that they do not have themselves
    kind = recorder.class_name(type(value))
    if hasattr(value, "is_in") and hasattr(value, "rand"):
        return _spec(value, recorder, where, kind)
    if kind.endswith("Box") or kind == "BoxList":
        return _box(value, recorder, where, kind)
    if kind in ("NonTensorData", "NonTensorStack"):
        return {"type": kind, "batch_size": list(value.batch_size), "data": recorder.describe(value.tolist(), where)}
    if hasattr(value, "batch_size") and hasattr(value, "keys"):
        items = {str(key): recorder.describe(value.get(key), f"{where}[{key!r}]") for key in sorted(value.keys())}
        return {"type": kind, "batch_size": list(value.batch_size), "device": str(value.device), "items": items}
    return NotImplemented


def _spec(value: Any, recorder: Any, where: str, kind: str) -> Any:
    record = {"type": kind, "shape": list(value.shape), "device": str(value.device)}
    if hasattr(value, "keys"):
        record["items"] = {str(key): recorder.describe(item, f"{where}[{key!r}]") for key, item in value.items()}
        record["names"] = list(value.names) if kind == "Composite" else None
        record["locked"] = value.is_locked
        record["data_cls"] = recorder.describe(getattr(value, "data_cls", None), where)
        return record
    if kind == "Stacked":
        record["specs"] = [recorder.describe(each, f"{where}[{at}]") for at, each in enumerate(value._specs)]
        return record
    record |= {"dtype": str(value.dtype), "domain": value.domain, "space": _box(value.space, recorder, where, "")}
    record["mask"] = _plain(getattr(value, "mask", None))
    if kind == "NonTensor":
        record["example"] = recorder.describe(value.example_data, where)
        record["batched"] = value.batched
    return record


def _box(value: Any, recorder: Any, where: str, kind: str) -> Any:
    if value is None:
        return None
    record: dict[str, Any] = {"type": recorder.class_name(type(value)), "kind": kind}
    for name in ("n", "low", "high"):
        if hasattr(value, name):
            record[name] = _plain(getattr(value, name))
    if hasattr(value, "boxes"):
        record["boxes"] = [recorder.describe(each, f"{where}[{at}]") for at, each in enumerate(value.boxes)]
    return record


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.device.type == "meta":
        return [str(value.dtype), list(value.shape)]
    with contextlib.suppress(AttributeError):
        return [str(value.dtype), list(value.shape), [str(each) for each in value.flatten().tolist()]]
    return value
