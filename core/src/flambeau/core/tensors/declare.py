"""`tensor_type`, the decorator that declares a tensor type."""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, cast

import torch

from flambeau.core.errors import TensorTypeError
from flambeau.core.registry import TENSOR_TYPES
from flambeau.core.tensors import propagation
from flambeau.core.tensors.base import TypedTensor
from flambeau.core.tensors.fields import Field
from flambeau.core.tensors.functionals import register_kernel
from flambeau.core.tensors.info import Batch, IndexRule, Pad, Policy, TensorTypeInfo
from flambeau.core.tensors.info import declare as record
from flambeau.core.tensors.layout import Kind, Layout

Class = TypeVar("Class", bound=type[TypedTensor])


def tensor_type(
    *,
    name: str,
    fields: Mapping[str, Any] | None = None,
    shape: str | None = None,
    event_ndim: int | None = None,
    dtypes: torch.dtype | Kind | Iterable[torch.dtype | Kind] = (),
    propagate: Mapping[Any, Policy] | None = None,
    batch: Batch | Literal["pad"] | None = None,
    index: Literal["keep", "unwrap"] | IndexRule | None = None,
    kernels: Mapping[Callable[..., Any] | str, Callable[..., Any]] | None = None,
    summary: str | None = None,
    plot: str | None = None,
) -> Callable[[Class], Class]:
    """Declare a subclass of `TypedTensor`, once, for everything that handles tensors.

    What is not given is inherited from the parent type. The class is registered in `TENSOR_TYPES`, with pytree
    unless it is to be a leaf (see `TypedTensor`), with DataLoader's collation, and for
    `torch.load(weights_only=True)`.

    Args:
        name: short name in the registry, e.g. `"image"`.
        fields: metadata name -> `Field`, or a mapping of its arguments, or just the type. Added to the parent's.
        shape: pattern such as `"... C H W"` or `"... 4"`, see `Layout`. Checked under `set_checks(True)`, and by
            `index="keep"`.
        event_ndim: trailing dimensions of one sample; by default counted from `shape`.
        dtypes: dtypes, or kinds (`"floating"`, `"complex"`, `"integer"`, `"bool"`), that fit; empty for all.
        propagate: torch function, or name of a tensor method, -> `"keep"`, `"unwrap"`, or a rule
            `(function, args, kwargs, result) -> metadata to change`, None for a plain result.
        batch: `"stack"` (default), `"list"`, `"pad"` or a `Pad`, or a function from the list of samples to the batch.
        index: `"unwrap"` (default): indexing gives plain tensors. `"keep"`: pieces that still fit `shape` keep type
            and metadata. Or a rule `(metadata, index) -> metadata`, None for a plain piece.
        kernels: functional, or `"package.module:name"`, -> kernel; see `register_kernel`.
        summary: `"module:function"`, value -> one line.
        plot: `"module:function"`, value -> HTML, shown by notebooks.

    Raises:
        TensorTypeError: the class does not derive from `TypedTensor`, a field is named like a tensor attribute, or a
            part of the declaration is not understood.
        DuplicateNameError: the plugin has another type of this name.
    """

    def declare(cls: Class) -> Class:
        if not issubclass(cls, TypedTensor):
            raise TensorTypeError(f"tensor_type: {cls!r} does not derive from TypedTensor; make it a subclass.")
        parent = cls.__tensor_type__
        declared = {**parent.fields, **{key: Field.of(value) for key, value in (fields or {}).items()}}
        _refuse_fields(cls, declared)
        described = shape is not None or event_ndim is not None or dtypes != ()
        chosen_index = parent.index if index is None else index
        chosen_batch: Any = parent.batch if batch is None else batch
        info = TensorTypeInfo(
            name=name,
            fields=declared,
            layout=Layout.of(shape, event_ndim, dtypes) if described else parent.layout,
            policies=propagation.table(parent.policies, propagate or {}, chosen_index),
            batch=_batch(cls, chosen_batch, declared),
            index=chosen_index,
            tree=parent.tree,
            summary=summary or parent.summary,
            plot=plot or parent.plot,
        )
        TENSOR_TYPES.register(name, cls, info={"fields": list(declared), "shape": info.layout.shape})
        record(cls, info)
        torch.serialization.add_safe_globals(_classes_of(declared.values()))
        for functional, kernel in (kernels or {}).items():
            register_kernel(functional, cls)(kernel)
        return cls

    return declare


def _refuse_fields(cls: type, fields: Mapping[str, Field]) -> None:
    for name in fields:
        if not name.isidentifier() or hasattr(torch.Tensor, name) or name in ("data", "dtype", "device"):
            raise TensorTypeError(
                f"tensor_type: {cls.__name__}: a field cannot be called {name!r}; "
                "choose an identifier that torch.Tensor does not use."
            )


def _batch(cls: type, batch: Any, fields: Mapping[str, Field]) -> Batch:
    chosen = Pad() if batch == "pad" else batch
    if not (chosen in ("stack", "list") or isinstance(chosen, Pad) or callable(chosen)):
        raise TensorTypeError(f"tensor_type: {cls.__name__}: batch={batch!r}; use stack, list, pad or a function.")
    if isinstance(chosen, Pad) and chosen.lengths is not None and chosen.lengths not in fields:
        raise TensorTypeError(f"tensor_type: {cls.__name__}: Pad.lengths names no field: {chosen.lengths!r}.")
    return cast("Batch", chosen)


def _classes_of(fields: Iterable[Field]) -> list[Any]:
    """Classes of metadata values, to be allowed when a file is loaded; those of the standard library are already."""
    found: list[Any] = []
    pending = [declared.type for declared in fields]
    while pending:
        kind = pending.pop()
        pending.extend(argument for argument in typing.get_args(kind) if isinstance(argument, type))
        if isinstance(kind, type) and (issubclass(kind, enum.Enum) or kind.__module__ not in ("builtins", "types")):
            found.append(kind)
    return found
