"""Typed tensors: tensors that know what they hold, declared once, handled right by everything that handles tensors.

::

    @tensor_type(name="wave", fields={"rate": int}, shape="... channels time", index="keep")
    class Wave(TypedTensor): ...

    @functional
    def reverse(waveform):            # plain tensors, and Wave until it has a kernel of its own
        return waveform.flip(-1)

    @register_kernel(reverse, Wave)
    def reverse_wave(waveform, *, rate): ...

`TypedTensor` says what operations return; `functional` and `register_kernel` choose implementations by type;
`collate` and `unbatch`, `unwrap` and `rewrap`, `to_record` and `from_record` take typed tensors to batches, to plain
trees, and to storage, and back; `compiled` takes them through `torch.compile`, `through` through `torch.func`, `export`
through `torch.export`.
"""

from __future__ import annotations

from flambeau.core.errors import MetadataError, TensorTypeError
from flambeau.core.tensors.base import TypedTensor
from flambeau.core.tensors.checking import checked
from flambeau.core.tensors.collation import collate, unbatch
from flambeau.core.tensors.compiling import compiled
from flambeau.core.tensors.declare import tensor_type
from flambeau.core.tensors.describe import summary
from flambeau.core.tensors.fields import Field, PerSample
from flambeau.core.tensors.functionals import functional, get_kernel, register_kernel
from flambeau.core.tensors.info import Pad, TensorTypeInfo
from flambeau.core.tensors.layout import Layout
from flambeau.core.tensors.modes import set_checks, set_return_type
from flambeau.core.tensors.parcels import export, exported, through
from flambeau.core.tensors.records import from_record, to_record
from flambeau.core.tensors.wrapping import TreeSpec, rewrap, unwrap, wrap

__all__ = [
    "Field",
    "Layout",
    "MetadataError",
    "Pad",
    "PerSample",
    "TensorTypeError",
    "TensorTypeInfo",
    "TreeSpec",
    "TypedTensor",
    "checked",
    "collate",
    "compiled",
    "export",
    "exported",
    "from_record",
    "functional",
    "get_kernel",
    "register_kernel",
    "rewrap",
    "set_checks",
    "set_return_type",
    "summary",
    "tensor_type",
    "through",
    "to_record",
    "unbatch",
    "unwrap",
    "wrap",
]
