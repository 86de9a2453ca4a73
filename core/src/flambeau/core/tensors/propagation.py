"""What operations on typed tensors return: the table of a type, and the one function that applies it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from sys import getrefcount
from typing import Any

import torch
from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

from flambeau.core.errors import TensorTypeError
from flambeau.core.tensors.fields import PerSample
from flambeau.core.tensors.info import Declared, IndexRule, Policy, info_of, is_typed
from flambeau.core.tensors.modes import CHECKS, RETURN_TYPE
from flambeau.core.tensors.wrapping import Carriers, carried, make, plain

# Operations that leave what a tensor means untouched. Copying (`__deepcopy__`) is a method of `TypedTensor`.
KEEPING = ("clone", "to", "detach", "requires_grad_", "pin_memory", "contiguous")
INDEXING = ("__getitem__", "select", "narrow", "split", "chunk", "tensor_split", "unbind")


def table(
    parent: Mapping[Callable[..., Any], Policy],
    propagate: Mapping[Any, Policy],
    index: str | IndexRule,
) -> dict[Callable[..., Any], Policy]:
    """Torch function -> policy, for a new type.

    Args:
        parent: the parent type's table.
        propagate: function, or name of a tensor method (which stands for the method and for the function of that
            name in `torch`) -> policy.
        index: the type's way with indexing; everything but `"unwrap"` adds rules for the indexing operations.

    Raises:
        TensorTypeError: an unknown method, or a policy that is none.
    """
    policies = dict(parent) or _initial()
    if index != "unwrap":
        policies |= {function: "index" for name in INDEXING for function in _functions(name)}
    for key, policy in propagate.items():
        if policy not in ("keep", "unwrap") and not callable(policy):
            raise TensorTypeError(f"propagate: {key!r}: {policy!r} is not 'keep', 'unwrap' or a rule.")
        for function in _functions(key) if isinstance(key, str) else (key,):
            policies[function] = policy
    return policies


def _initial() -> dict[Callable[..., Any], Policy]:
    policies: dict[Callable[..., Any], Policy] = {function: "keep" for name in KEEPING for function in _functions(name)}
    policies[Tensor.as_subclass] = "unwrap"  # who asks for a class gets it, whatever `set_return_type` says
    return policies


def _functions(name: str) -> Iterator[Callable[..., Any]]:
    found = [getattr(place, name) for place in (Tensor, torch) if hasattr(place, name)]
    if not found:
        raise TensorTypeError(f"propagate: torch.Tensor has no {name!r}; give the function itself.")
    yield from found


def torch_function(
    cls: type[Declared],
    function: Callable[..., Any],
    types: tuple[type, ...],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Run a torch function with types switched off, and give its results the type that the table says.

    The type is that of the first argument; where that is not typed the result is plain.
    """
    if len(types) > 1 and not all(map(_ours, types)):
        return NotImplemented  # another library's tensor takes part: let it try
    given = args
    if Carriers.exist:
        args, kwargs = carried(args), carried(kwargs)
    with DisableTorchFunctionSubclass():
        result = function(*args, **kwargs) if kwargs else function(*args)
    if len(types) > 1 or RETURN_TYPE.active:
        return _apply(function, given, args, kwargs or {}, result)
    info = cls.__tensor_type__
    policy = info.policies.get(function)
    if policy is None and not (args and result is args[0]):
        return result
    if policy == "keep" and type(result) is Tensor and not _compiling() and _fresh(result) and type(args[0]) is cls:
        # As in `kernels`: a new tensor that nobody else refers to becomes typed where it is.
        result.__class__ = cls
        for name in info.names:
            setattr(result, name, getattr(args[0], name))
        return result
    return _apply(function, given, args, kwargs or {}, result)


def _fresh(result: Tensor) -> bool:
    """Whether only the caller and this function refer to a tensor, and nothing has to be looked at."""
    return getrefcount(result) <= 3 and not CHECKS.active


def _apply(
    function: Callable[..., Any], given: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Any:
    owner = given[0] if given else None
    if not is_typed(owner):
        return _as_first_typed(given, result) if RETURN_TYPE.active and RETURN_TYPE.current() == "typed" else result
    info = info_of(type(owner))
    policy = info.policies.get(function)
    if policy is None:
        policy = "keep" if RETURN_TYPE.active and RETURN_TYPE.current() == "typed" else "unwrap"
    if result is args[0]:
        # The argument itself: of an operation in place, or one that had nothing to do.
        return owner if policy == "keep" or _in_place(function, kwargs) else plain(owner)
    if policy == "keep":
        return wrap_result(result, type(owner), info.metadata(owner))
    if policy == "unwrap":
        return result
    if policy == "index":
        return _follow_index(owner, function, args, kwargs, result)
    return _by_rule(policy, owner, function, args, kwargs, result)


def _as_first_typed(given: tuple[Any, ...], result: Any) -> Any:
    """A result with the type of the first typed argument, alone or in a list: `torch.stack([image, image])`."""
    for argument in given:
        for item in argument if isinstance(argument, (list, tuple)) else (argument,):
            if is_typed(item):
                return wrap_result(result, type(item), info_of(type(item)).metadata(item))
    return result


def _in_place(function: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    """Whether an operation changes its argument, by torch's rule for names: `add_`, `__iadd__`, `inplace=True`."""
    name = function.__name__
    return (name.endswith("_") and not name.endswith("__")) or name.startswith("__i") or bool(kwargs.get("inplace"))


def wrap_result(result: Any, cls: Any, metadata: Mapping[str, Any]) -> Any:
    """Type a plain tensor, or each tensor in a list or tuple; what is typed already (in-place results) stays."""
    if isinstance(result, Tensor):
        return result if is_typed(result) else make(result, cls, metadata)
    if type(result) in (tuple, list):
        return type(result)(wrap_result(item, cls, metadata) for item in result)
    if type(result).__module__ == "torch.return_types":  # of `max`, `sort` and others along a dimension
        return type(result)([wrap_result(item, cls, metadata) for item in result])
    return result


def _by_rule(
    rule: Any,
    owner: Declared,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
) -> Any:
    changes = rule(function, (owner, *args[1:]), kwargs, result)
    if changes is None:
        return result
    info = info_of(type(owner))
    info.refuse_unknown(type(owner).__name__, changes)
    return wrap_result(result, type(owner), {**info.metadata(owner), **changes})


def _ours(kind: type) -> bool:
    return issubclass(kind, Declared) or kind is Tensor


def _follow_index(
    owner: Declared, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Any:
    """The policy of the indexing operations: each piece gets the metadata that the type's index rule gives it."""
    if isinstance(result, Tensor):
        index = _index_of(function, args, kwargs, owner.dim())
        return result if index is None else index_piece(owner, result, index)
    pieces = []
    start = 0
    dim = _dim(function, args, kwargs, owner.dim())
    unbinding = function in (Tensor.unbind, torch.unbind)
    for piece in result:
        with DisableTorchFunctionSubclass():
            stop = start + (1 if unbinding else piece.shape[dim])
        here = start if unbinding else slice(start, stop)
        pieces.append(index_piece(owner, piece, (slice(None),) * dim + (here,)))
        start = stop
    return type(result)(pieces)


def index_piece(owner: Any, piece: Tensor, index: tuple[Any, ...]) -> Tensor:
    """The piece `owner[index]` with its type, or plain where the rule or the type's layout says so."""
    info = info_of(type(owner))
    if info.layout.shape_problem(piece.shape) is not None:
        return piece
    rule = info.index if callable(info.index) else follow_samples
    metadata = rule(info.metadata(owner), index)
    return piece if metadata is None else make(piece, type(owner), metadata)


def follow_samples(metadata: dict[str, Any], index: tuple[Any, ...]) -> dict[str, Any] | None:
    """The index rule `"keep"`: one value for all stays; of per-sample values those of the first dimension's index.

    Returns:
        The piece's metadata, or None where the index is of a form that does not tell (`x[..., 0]`, `x[None]`).
    """
    if not any(isinstance(value, PerSample) for value in metadata.values()):
        return metadata
    chosen: dict[str, Any] = {}
    for name, value in metadata.items():
        chosen[name] = pick(value, index[0] if index else slice(None)) if isinstance(value, PerSample) else value
    return None if any(value is NotImplemented for value in chosen.values()) else chosen


def pick(values: PerSample, index: Any) -> Any:
    """The values of the samples that an index of the batch dimension selects; NotImplemented for other indices."""
    if isinstance(index, slice):
        return PerSample(values[index])
    if isinstance(index, Tensor) and index.dim() == 1:
        index = index.nonzero().flatten().tolist() if index.dtype == torch.bool else index.tolist()
    if isinstance(index, list):
        chosen = [place for place, wanted in enumerate(index) if wanted] if _is_mask(index) else index
        return PerSample(values[place] for place in chosen)
    if index is None or index is Ellipsis or isinstance(index, (bool, tuple)):
        return NotImplemented
    if isinstance(index, Tensor) and index.dim() > 1:
        return NotImplemented
    return values[operator.index(index)]


def _is_mask(index: list[Any]) -> bool:
    return bool(index) and all(isinstance(item, bool) for item in index)


def _index_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], ndim: int
) -> tuple[Any, ...] | None:
    """The index that an operation with one result stands for."""
    if function is Tensor.__getitem__:
        index = args[1]
        return index if isinstance(index, tuple) else (index,)
    dim = _dim(function, args, kwargs, ndim)
    if function in (Tensor.select, torch.select):
        here = args[2] if len(args) > 2 else kwargs["index"]
    else:
        start = int(args[2] if len(args) > 2 else kwargs["start"])
        here = slice(start, start + int(args[3] if len(args) > 3 else kwargs["length"]))
    return (slice(None),) * dim + (here,)


def _dim(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], ndim: int) -> int:
    """The dimension that an operation works along, counted from the front."""
    place = 1 if function in _DIM_FIRST else 2
    dim: int = args[place] if len(args) > place else kwargs.get("dim", 0)
    return dim % ndim


_DIM_FIRST = (
    Tensor.select, torch.select, Tensor.narrow, torch.narrow, Tensor.unbind, torch.unbind,
)  # fmt: skip
_compiling = torch.compiler.is_dynamo_compiling
