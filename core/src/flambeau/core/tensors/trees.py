"""Registration of each tensor type: with pytree if it is to be a node, for DataLoader's collation, safe unpickling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._C._functorch import (
    is_functorch_wrapped_tensor,
    maybe_current_level,
    maybe_get_level,
    peek_interpreter_stack,
)
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch.utils.data._utils.collate import default_collate_fn_map
from torch.utils.weak import WeakIdKeyDictionary

from flambeau.core.tensors import collation
from flambeau.core.tensors.fields import PerSample
from flambeau.core.tensors.info import Declared, info_of
from flambeau.core.tensors.wrapping import carry, make, plain

Built = TypeVar("Built")

_twins: WeakIdKeyDictionary = WeakIdKeyDictionary()

# "module:qualname" -> class, for records that name a class.
BY_PATH: dict[str, type[Declared]] = {}


def register(cls: type[Declared]) -> None:
    """Make a class known where exact classes count. A class of the same name (a reloaded module) takes over."""
    name = class_path(cls)
    BY_PATH[name] = cls
    if info_of(cls).tree == "node":
        pytree.register_pytree_node(
            cls,
            _flatten,
            lambda leaves, context: build(cls, next(iter(leaves)), context),
            serialized_type_name=name,
            to_dumpable_context=lambda context: to_json(cls, context),
            from_dumpable_context=lambda data: from_json(cls, data),
            flatten_with_keys_fn=_flatten_with_keys,
        )
    else:
        _let_compiled_graphs_take_leaves()
    default_collate_fn_map[cls] = collation.collate_typed
    torch.serialization.add_safe_globals([cls, PerSample])


def _let_compiled_graphs_take_leaves() -> None:
    """Switch off the check of custom operators' aliases in the first run of each compiled graph.

    While it watches, torch (2.13) refuses operators on tensors of any class but its own, unless pytree takes them
    apart: a compiled model then fails on a typed batch when it is called first. The check only warns of operators that
    return their arguments.
    """
    from torch._functorch import config

    if hasattr(config, "check_custom_op_aliasing"):
        config.check_custom_op_aliasing = False


def class_path(cls: type) -> str:
    """`"module:qualname"` of a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


# The context is a tuple of values in the order of the type's fields: comparable, and constant to compilers.
def _flatten(value: Declared) -> tuple[list[Tensor], tuple[Any, ...]]:
    return [bare(value)], tuple(info_of(type(value)).metadata(value).values())


def _flatten_with_keys(value: Declared) -> tuple[list[tuple[pytree.KeyEntry, Tensor]], tuple[Any, ...]]:
    leaves, context = _flatten(value)
    return [(pytree.GetAttrKey("data"), leaves[0])], context


def bare(value: Declared) -> Tensor:
    """The plain tensor of a typed one, while a transform may be under way."""
    return _at_transform_level(value, lambda: _plain_counterpart(value))


def build(cls: type[Declared], leaf: Any, context: tuple[Any, ...]) -> Any:
    """The typed tensor of a plain one and of its metadata in order, while a transform may be under way."""
    if not isinstance(leaf, Tensor):
        return leaf  # a tree of something else (specifications, shapes): there is no tensor to give a type
    metadata = dict(zip(info_of(cls).names, context, strict=True))
    if not torch.compiler.is_dynamo_compiling() and is_functorch_wrapped_tensor(leaf):
        return carry(leaf, cls, metadata)
    return _at_transform_level(leaf, lambda: make(leaf, cls, metadata))


def _plain_counterpart(value: Declared) -> Tensor:
    """The plain tensor of a typed one, the same object each time while nothing about it changes.

    Who takes a tree apart twice may go by identity: `torch.export` finds the sizes that may vary so.
    """
    if torch.compiler.is_dynamo_compiling() or value._carried is not None or not torch.is_grad_enabled():
        return plain(value)  # views made without gradients may not be changed in place later on: do not keep any
    if is_functorch_wrapped_tensor(value) or value.layout is not torch.strided:
        return plain(value)
    twin: Tensor | None = _twins.get(value)
    if twin is None or _properties(twin) != _properties(value):
        _twins[value] = twin = plain(value)
    return twin


def _properties(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.data_ptr(), tensor.dtype, tensor.requires_grad


def _at_transform_level(tensor: Tensor, build: Callable[[], Built]) -> Built:
    """Run `build` at the level of `torch.func` transforms that a tensor belongs to.

    A transform takes its arguments apart and together while it is already under way. An operator run then would
    belong to the transform, and its result would be refused as an argument, or outlive the transform.
    """
    if torch.compiler.is_compiling() or peek_interpreter_stack() is None:
        return build()
    if maybe_get_level(tensor) >= (maybe_current_level() or 0):
        return build()
    with temporarily_pop_interpreter_stack():
        return _at_transform_level(tensor, build)


def to_json(cls: type[Declared], context: tuple[Any, ...]) -> Any:
    """Metadata in order as JSON."""
    fields = info_of(cls).fields
    return [declared.to_json(value) for declared, value in zip(fields.values(), context, strict=True)]


def from_json(cls: type[Declared], data: Any) -> tuple[Any, ...]:
    """Undo `to_json`."""
    fields = info_of(cls).fields
    return tuple(declared.from_json(value) for declared, value in zip(fields.values(), cast("Any", data), strict=True))
