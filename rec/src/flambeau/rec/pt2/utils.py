"""Inputs made ready for compilation, and functions that are compiled when they are first used."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "default_pipeline_input_transformer",
    "deregister_fake_classes",
    "kjt_for_pt2_tracing",
    "pt2_compile_callable",
    "register_fake_classes",
]

Function = TypeVar("Function", bound=Callable[..., Any])

_SPARSE = ("id_list_features", "id_score_list_features")


def kjt_for_pt2_tracing(kjt: KeyedJaggedTensor, convert_to_vb: bool = False) -> KeyedJaggedTensor:
    """Features whose numbers of ids a compiler does not specialize on.

    Args:
        kjt: features of a batch.
        convert_to_vb: whether the result has a batch of its own for each feature, and what tells the full batch, also
            where the features had not.

    Returns:
        Features of the same content, without anything that was derived from it.
    """
    variable = kjt.variable_stride_per_key()
    size = kjt.stride()
    inverse = kjt.inverse_indices_or_none()
    strides: Any = None
    if variable or convert_to_vb:
        by_feature = kjt.stride_per_key()
        strides = kjt.stride_per_key_per_rank() if variable else None
        strides = torch.tensor(strides or [[one] for one in by_feature], dtype=torch.int32)
    if convert_to_vb and not variable and inverse is None:
        keys = kjt.keys()
        inverse = (keys, torch.arange(size, dtype=torch.int64, device=kjt.device()).expand(len(keys), -1).contiguous())
    return KeyedJaggedTensor(
        kjt.keys(),
        _of_any_size(kjt.values()),
        None if kjt.weights_or_none() is None else _of_any_size(kjt.weights()),
        lengths=kjt.lengths(),
        stride=None if strides is not None else size,
        stride_per_key_per_rank=strides,
        inverse_indices=inverse,
    )


def _of_any_size(tensor: Tensor) -> Tensor:
    """The same memory, of whose first size a compiler knows nothing."""
    found = tensor.detach() if not tensor.requires_grad else tensor
    torch._dynamo.decorators.mark_unbacked(found, 0)
    return found


def default_pipeline_input_transformer(inp: Any) -> Any:
    """A batch whose sparse features are made ready for compilation, in place.

    Args:
        inp: a batch; its `id_list_features` and `id_score_list_features` are, where it has them.

    Returns:
        The batch.
    """
    for name in _SPARSE:
        found = getattr(inp, name, None)
        if isinstance(found, KeyedJaggedTensor):
            setattr(inp, name, kjt_for_pt2_tracing(found))
    return inp


def register_fake_classes() -> None:
    """Have torch trace objects of operators' classes, where such classes are there.

    Operators here keep nothing but tensors. Where FBGEMM is loaded beside them, its counters and queues can be traced.
    """
    for name, fake in _FAKES.items():
        if _known(name) and not torch._library.fake_class_registry.has_fake_class(_full(name)):
            torch._library.register_fake_class(name)(fake)  # type: ignore[attr-defined]


def deregister_fake_classes() -> None:
    """Undo `register_fake_classes`."""
    for name in _FAKES:
        if torch._library.fake_class_registry.has_fake_class(_full(name)):
            torch._library.fake_class_registry.deregister_fake_class(name)


def _full(name: str) -> str:
    return "__torch__.torch.classes." + name.replace("::", ".")


def _known(name: str) -> bool:
    space, _, kind = name.partition("::")
    try:
        return getattr(getattr(torch.classes, space), kind) is not None
    except RuntimeError:  # torch's answer to a class that nobody registered
        return False


class _FakeAtomicCounter:
    """A counter, as a program sees it."""

    def __init__(self, counter_: int) -> None:
        self.counter_ = counter_

    @classmethod
    def __obj_unflatten__(cls, flat_obj: Any) -> _FakeAtomicCounter:
        return cls(**dict(flat_obj))

    def increment(self) -> int:
        """Count one up."""
        self.counter_ += 1
        return self.counter_

    def decrement(self) -> int:
        """Count one down."""
        self.counter_ -= 1
        return self.counter_

    def reset(self) -> None:
        """Begin at 0."""
        self.counter_ = 0

    def get(self) -> int:
        """The count."""
        return self.counter_

    def set(self, val: int) -> None:
        """Begin at a number."""
        self.counter_ = val


class _FakeTensorQueue:
    """A queue of tensors, as a program sees it."""

    def __init__(self, queue: list[Tensor], init_tensor: Tensor) -> None:
        self.queue, self.init_tensor = queue, init_tensor

    @classmethod
    def __obj_unflatten__(cls, flattened_ctx: Any) -> _FakeTensorQueue:
        return cls(**dict(flattened_ctx))

    def push(self, x: Tensor) -> None:
        """Add behind the last."""
        self.queue.append(x)

    def pop(self) -> Tensor:
        """Take the first off."""
        return self.queue.pop(0) if self.queue else self.init_tensor

    def top(self) -> Tensor:
        """The first."""
        return self.queue[0] if self.queue else self.init_tensor

    def size(self) -> int:
        """How many there are."""
        return len(self.queue)


_FAKES: dict[str, type[Any]] = {"fbgemm::AtomicCounter": _FakeAtomicCounter, "fbgemm::TensorQueue": _FakeTensorQueue}


def pt2_compile_callable(f: Function) -> Function:
    """A method that is compiled for objects which ask for it.

    Where the object has a true `pt2_compile`, the method is compiled by `torch.compile` when it is first called, once
    for all objects; otherwise it runs as it is.

    Args:
        f: the method.
    """
    compiled: list[Any] = []

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not (args and getattr(args[0], "pt2_compile", False)) or torch.compiler.is_compiling():
            return f(*args, **kwargs)
        if not compiled:
            compiled.append(torch.compile(f))
        return compiled[0](*args, **kwargs)

    return run  # type: ignore[return-value]
