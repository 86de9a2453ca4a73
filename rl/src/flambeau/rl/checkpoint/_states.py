"""State dictionaries as JSON beside tensors, so that loading one runs no code of a pickle.

Each value is {"kind": ...}; tensors and arrays are named there, and stored by their names. The form is torchrl's, with
one more for tensordicts.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase

__all__ = ["decoded", "encoded"]

Encode = Callable[[Any], dict[str, Any]]


def encoded(state: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A state as JSON takes it, and the tensors in it by name.

    Raises:
        TypeError: something in it is of a type that has no form.
    """
    tensors: dict[str, Tensor] = {}

    def keep(tensor: Tensor) -> str:
        name = f"tensor_{len(tensors):08d}"
        tensors[name] = tensor.detach().contiguous()
        return name

    def encode(value: Any) -> dict[str, Any]:
        if value is None or type(value) in (bool, int, float, str):
            return {"kind": "value", "value": value}
        if isinstance(value, Tensor):
            return {"kind": "tensor", "key": keep(value), "device": str(value.device)}
        if isinstance(value, np.ndarray):
            return {
                "kind": "numpy",
                "key": keep(torch.as_tensor(np.ascontiguousarray(value))),
                "dtype": value.dtype.str,
            }
        for types, form in _FORMS:
            if isinstance(value, types):
                return form(value, encode)
        raise TypeError(
            f"a state holds a {type(value).__name__}, which has no form in a checkpoint; give the component "
            "StateDictCheckpointAdapter(payload_format='torch') if it comes from you alone."
        )

    return encode(state), tensors


def _mapping(value: Any, encode: Encode) -> dict[str, Any]:
    kind = "ordered_dict" if isinstance(value, OrderedDict) else "dict"
    form: dict[str, Any] = {"kind": kind, "items": [[encode(key), encode(each)] for key, each in value.items()]}
    metadata = getattr(value, "_metadata", None)  # versions of modules
    if metadata is not None:
        form["metadata"] = encode(metadata)
    return form


def _tensordict(value: Any, encode: Encode) -> dict[str, Any]:
    # Upstream's has no form of its own: tensordicts come back as dictionaries, which their owners do not expect.
    items = _mapping(dict(value.items()), encode)["items"]
    return {"kind": "tensordict", "items": items, "batch_size": list(value.batch_size)}


def _listed(kind: str) -> Callable[[Any, Encode], dict[str, Any]]:
    return lambda value, encode: {"kind": kind, "items": [encode(each) for each in value]}


_FORMS: tuple[tuple[Any, Callable[[Any, Encode], dict[str, Any]]], ...] = (
    (TensorDictBase, _tensordict),
    (Mapping, _mapping),
    (torch.Size, lambda value, encode: {"kind": "torch_size", "items": list(value)}),
    (tuple, _listed("tuple")),
    (list, _listed("list")),
    ((set, frozenset), _listed("set")),
    (slice, lambda value, encode: _listed("slice")((value.start, value.stop, value.step), encode)),
    (bytes, lambda value, encode: {"kind": "bytes", "value": base64.b64encode(value).decode()}),
    (complex, lambda value, encode: {"kind": "complex", "real": value.real, "imag": value.imag}),
    (np.generic, lambda value, encode: {"kind": "numpy_scalar", "dtype": value.dtype.str, "value": value.item()}),
    (torch.dtype, lambda value, encode: {"kind": "torch_dtype", "value": str(value).removeprefix("torch.")}),
    (torch.device, lambda value, encode: {"kind": "torch_device", "value": str(value)}),
    (Path, lambda value, encode: {"kind": "path", "value": str(value)}),
    ((bool, int, float, str), lambda value, encode: {"kind": "value", "value": _plain(value)}),
)


def _plain(value: Any) -> Any:
    """A number or text of a subclass, such as an enumeration's, as Python's own."""
    return next(kind(value) for kind in (bool, int, float, str) if isinstance(value, kind))


def decoded(form: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The state that `encoded` took apart.

    Raises:
        ValueError: the form is none, or a tensor is missing: the file is damaged.
    """
    if not isinstance(form, dict) or form.get("kind") not in _READERS:
        raise ValueError(f"a state has no value of the form {str(form)[:80]}: the checkpoint is damaged, or newer.")
    try:
        return _READERS[form["kind"]](form, tensors)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"a state has a {form['kind']} that cannot be read ({error}): the checkpoint is damaged."
        ) from error


def _items(form: dict[str, Any], tensors: Mapping[str, Tensor]) -> list[Any]:
    return [decoded(each, tensors) for each in form["items"]]


def _pairs(form: dict[str, Any], tensors: Mapping[str, Tensor]) -> list[tuple[Any, Any]]:
    return [(decoded(key, tensors), decoded(value, tensors)) for key, value in form["items"]]


def _ordered(form: dict[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    made = OrderedDict(_pairs(form, tensors))
    if "metadata" in form:
        made._metadata = decoded(form["metadata"], tensors)  # type: ignore[attr-defined]
    return made


_READERS: dict[str, Callable[[dict[str, Any], Mapping[str, Tensor]], Any]] = {
    "value": lambda form, tensors: form["value"],
    "tensor": lambda form, tensors: tensors[form["key"]],
    "numpy": lambda form, tensors: tensors[form["key"]].cpu().numpy().astype(np.dtype(form["dtype"]), copy=False),
    "numpy_scalar": lambda form, tensors: np.dtype(form["dtype"]).type(form["value"]),
    "dict": lambda form, tensors: dict(_pairs(form, tensors)),
    "ordered_dict": _ordered,
    "tensordict": lambda form, tensors: TensorDict(dict(_pairs(form, tensors)), form["batch_size"]),
    "list": _items,
    "tuple": lambda form, tensors: tuple(_items(form, tensors)),
    "set": lambda form, tensors: set(_items(form, tensors)),
    "slice": lambda form, tensors: slice(*_items(form, tensors)),
    "bytes": lambda form, tensors: base64.b64decode(form["value"]),
    "complex": lambda form, tensors: complex(form["real"], form["imag"]),
    "torch_size": lambda form, tensors: torch.Size(form["items"]),
    "torch_dtype": lambda form, tensors: _dtype(form["value"]),
    "torch_device": lambda form, tensors: torch.device(form["value"]),
    "path": lambda form, tensors: Path(form["value"]),
}


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"torch.{name} is no dtype")
    return found
