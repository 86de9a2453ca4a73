"""From plain tensors to typed ones and back: single tensors and whole trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

from flambeau.core.errors import MetadataError, TensorTypeError
from flambeau.core.tensors.info import CLASSES, Declared, info_of, is_typed
from flambeau.core.tensors.modes import CHECKS

Typed = TypeVar("Typed", bound=Declared)


class Carriers:
    """Typed tensors around tensors that must stay the objects they are.

    A tensor with a dispatcher of its own (a fake one while a program is exported, a distributed one) cannot change
    its class, and `torch.func` marks the very tensors that it gave a function. The typed tensor is empty then and
    carries the tensor as an attribute. Every way into a typed tensor looks for it, once `exist` says there are any.
    """

    exist = False
    empty = torch.empty(0)


def make(tensor: Tensor, cls: type[Typed], metadata: Mapping[str, Any]) -> Typed:
    """A typed view of a tensor. Metadata is complete and trusted; the tensor itself is not changed."""
    if CHECKS.active:
        check_layout(tensor, cls)
    if type(tensor) is not Tensor and has_own_dispatch(tensor):
        return carry(tensor, cls, metadata)
    if torch.compiler.is_dynamo_compiling():
        cls = CLASSES[cls].cls  # type: ignore[assignment]  # `cast` would hide from Dynamo what it is
    with DisableTorchFunctionSubclass():
        typed = tensor.as_subclass(cls)
    for name, value in metadata.items():
        setattr(typed, name, value)
    return typed


def carry(tensor: Tensor, cls: type[Typed], metadata: Mapping[str, Any]) -> Typed:
    """A typed tensor around a tensor that stays the same object; see `Carriers`."""
    Carriers.exist = True
    with DisableTorchFunctionSubclass():
        typed = Carriers.empty.as_subclass(cls)
    typed._carried = tensor
    for name, value in metadata.items():
        setattr(typed, name, value)
    return typed


def plain(tensor: Tensor) -> Tensor:
    """The tensor without its type: same memory, same place in the autograd graph."""
    if Carriers.exist and (inner := carried(tensor)) is not tensor:
        return cast("Tensor", inner)
    if torch.compiler.is_dynamo_compiling():
        # Dynamo refuses `as_subclass(Tensor)`; with the type switched off any operator gives a plain tensor.
        with DisableTorchFunctionSubclass():
            return cast("Tensor", torch.ops.aten.alias.default(tensor))
    with DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


def carried(value: Any) -> Any:
    """What operators are to be run on while types are switched off: the value, or the tensor that it carries."""
    if torch.compiler.is_dynamo_compiling():
        return value  # Dynamo gives typed tensors no tensors to carry
    if isinstance(value, Declared):
        return value if value._carried is None else value._carried
    if type(value) in (list, tuple):
        return type(value)(map(carried, value))
    if type(value) is dict:
        return {key: carried(item) for key, item in value.items()}
    return value


def has_own_dispatch(tensor: Tensor) -> bool:
    """Whether a tensor's class handles operators below autograd, as fake and distributed tensors do."""
    return type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__


def check_layout(tensor: Tensor, cls: type[Declared]) -> None:
    """Compare a tensor with what its type declares, where checks are on.

    Raises:
        MetadataError: shape or dtype does not fit.
    """
    if not CHECKS.current():
        return
    with DisableTorchFunctionSubclass():
        problem = info_of(cls).layout.problem(carried(tensor))
    if problem is not None:
        raise MetadataError(f"{cls.__name__}: {problem}.")


def wrap(tensor: Tensor, *, like: Typed, **metadata: Any) -> Typed:
    """Give a tensor the class and metadata of another.

    Args:
        tensor: any shape; its memory is shared.
        like: a typed tensor; subclasses of registered types keep their class.
        metadata: fields to change.

    Returns:
        A `type(like)` over the same memory.

    Raises:
        TensorTypeError: `like` is not typed, or a field is unknown.
        MetadataError: a value is refused.
    """
    if not is_typed(like):
        raise TensorTypeError(f"wrap: like={type(like).__name__} is not a tensor type; use a TypedTensor.")
    cls = type(like)
    info = info_of(cls)
    merged = info.metadata(like)
    if metadata:
        info.refuse_unknown(cls.__name__, metadata)
        for name, value in metadata.items():
            info.fields[name].check(cls.__name__, name, value)
        merged.update(metadata)
    return make(plain(tensor) if is_typed(tensor) else tensor, cls, merged)


@dataclass(frozen=True)
class TreeSpec:
    """Where the typed tensors of a tree were, and what they were; made by `unwrap`, used by `rewrap`."""

    structure: pytree.TreeSpec
    types: tuple[tuple[type[Declared], tuple[tuple[str, Any], ...]] | None, ...]

    @property
    def typed(self) -> bool:
        """Whether there was any typed tensor."""
        return any(entry is not None for entry in self.types)


def unwrap(tree: Any) -> tuple[Any, TreeSpec]:
    """Take the types off every tensor in a tree of lists, tuples, dictionaries and other pytree nodes.

    Returns:
        The same tree with plain tensors over the same memory, and what `rewrap` needs to undo it. Other leaves stay.
    """
    leaves, structure = flatten(tree)
    types = tuple(
        (type(leaf), tuple(info_of(type(leaf)).metadata(leaf).items())) if is_typed(leaf) else None for leaf in leaves
    )
    bare = [plain(leaf) if is_typed(leaf) else leaf for leaf in leaves]
    return pytree.tree_unflatten(bare, structure), TreeSpec(structure, types)


def rewrap(tree: Any, spec: TreeSpec) -> Any:
    """Put the types back that `unwrap` took off.

    Args:
        tree: of the same structure as the tree that was unwrapped; its tensors may be new ones.
        spec: the second result of `unwrap`.

    Returns:
        The tree with typed tensors where there were some; leaves that are no tensors any more stay as they are.

    Raises:
        TensorTypeError: the structures differ.
    """
    leaves, structure = flatten(tree)
    if structure != spec.structure:
        raise TensorTypeError(f"rewrap: the tree is {structure}, expected the structure of {spec.structure}.")
    retyped = [
        leaf if entry is None or not isinstance(leaf, Tensor) else make(leaf, entry[0], dict(entry[1]))
        for leaf, entry in zip(leaves, spec.types, strict=True)
    ]
    return pytree.tree_unflatten(retyped, structure)


def flatten(tree: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """Leaves and structure of a tree, in which typed tensors are leaves, whatever they are to pytree."""
    return pytree.tree_flatten(tree, is_leaf=is_typed)
