"""Functions of torch on tensordicts: the table that `__torch_function__` looks into.

`torch.stack(tds)` and the like come here with whatever mix of collections their arguments hold.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn._reduction import legacy_get_string

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.alignment import aligned_leaves, broadcast_sides
from flambeau.data.tensordict._layout.keys import listing
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._unbatched import UnbatchedTensor
from flambeau.data.tensordict._utils_options import lazy_legacy

T = TypeVar("T")

TD_FUNCTIONS: dict[Any, Callable[..., Any]] = {}
LAZY_TD_FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def implements_for_td(torch_function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what a function of torch does with tensordicts."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        TD_FUNCTIONS[torch_function] = function
        return function

    return register


def implements_for_lazy_td(torch_function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what a function of torch does where its first argument is, or holds, a lazy stack."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        LAZY_TD_FUNCTIONS[torch_function] = function
        return function

    return register


def call_torch_function(func: Any, types: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function of the table; NotImplemented, and so a TypeError of torch, for others."""
    function = TD_FUNCTIONS.get(func)
    if function is None or not all(issubclass(kind, (Tensor, TensorCollection)) for kind in types):
        return NotImplemented
    return function(*args, **kwargs)


def _forward(name: str) -> Callable[..., Any]:
    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    return call


# Functions that are methods of the same name and arguments.
_METHODS = """
    unbind split chunk tensor_split squeeze unsqueeze permute transpose swapaxes swapdims movedim moveaxis flatten
    unflatten reshape clone detach flip fliplr flipud roll rot90 tile narrow broadcast_to atleast_1d atleast_2d
    atleast_3d repeat_interleave masked_select maximum
"""
for _name in _METHODS.split():
    TD_FUNCTIONS[getattr(torch, _name)] = _forward(_name)


# Reductions, by the method of the same name; `gather` without `sparse_grad`.
for _name in (
    "sum", "mean", "var", "std", "nansum", "nanmean", "prod", "amax", "amin", "logsumexp", "cummax", "cummin", "gather",
):  # fmt: skip
    TD_FUNCTIONS[getattr(torch, _name)] = _forward(_name)


@implements_for_td(torch.equal)
def _equal(input: Any, other: Any) -> bool:
    """Whether both have the same batch size, keys and values."""
    if not isinstance(other, TensorCollection) or input.batch_size != other.batch_size:
        return False
    if input._is_lazy_stack:
        parts = other.unbind(input.stack_dim)
        return all(_equal(td, part) for td, part in zip(input.tensordicts, parts, strict=True))
    keys = set(input.keys(True, True))
    return keys == set(other.keys(True, True)) and all(torch.equal(input.get(key), other.get(key)) for key in keys)


@implements_for_td(torch.stack)
def _stack(tensors: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    tensors = list(tensors)
    if not tensors:
        raise RuntimeError("stack: the list of tensordicts is empty.")
    kind = _combiner(tensors)
    if out is None and lazy_legacy() and kind._combine_rank <= classes.LazyStackedTensorDict._combine_rank:
        return classes.LazyStackedTensorDict.lazy_stack(tensors, dim)
    return kind._stack_of(tensors, dim, out)


@implements_for_td(torch.cat)
def _cat(tensors: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    tensors = list(tensors)
    if not tensors:
        raise RuntimeError("cat: the list of tensordicts is empty.")
    return _combiner(tensors)._cat_of(tensors, dim, out)


def _combiner(tensors: list[Any]) -> Any:
    """The class that combines a list: the one of the highest `_combine_rank`, a lazy stack before a TensorDict."""
    kind = type(tensors[0])
    if all(type(item) is kind for item in tensors):
        return kind
    return max((type(item) for item in tensors), key=lambda one: getattr(one, "_combine_rank", 0))


def stack_tensordicts(tds: list[Any], dim: int, out: Any) -> Any:
    """A dense stack; keys and shapes must agree."""
    first = tds[0]
    size = first.batch_size
    ndim = len(size) + 1
    if not -ndim <= dim < ndim:
        raise IndexError(f"stack: dimension {dim} is out of range for tensordicts of batch size {list(size)}.")
    dim %= ndim
    _check_alike(tds, size, "stack", RuntimeError)
    new = torch.Size((*size[:dim], len(tds), *size[dim:]))
    if out is not None:
        return _into(out, tds, new, lambda values, target: torch.stack(values, dim, out=target))
    data = {
        key: torch.stack([td._get_str(key) for td in tds], dim)
        if not isinstance(value, UnbatchedTensor)
        else value._within(new)
        for key, value in first._items()
    }
    names = first._names_or_none()
    return first._result(data, new, first.device, None if names is None else [*names[:dim], None, *names[dim:]])


def cat_tensordicts(tds: list[Any], dim: int, out: Any) -> Any:
    """A dense concatenation; keys, and shapes but for `dim`, must agree."""
    first = tds[0]
    size = first.batch_size
    dim = first._dim(dim)
    _check_alike(tds, None, "cat", KeyError)
    total = sum([td.batch_size[dim] for td in tds])
    new = torch.Size((*size[:dim], total, *size[dim + 1 :]))
    if out is not None:
        return _into(out, tds, new, lambda values, target: torch.cat(values, dim, out=target))
    data = {
        key: torch.cat([td._get_str(key) for td in tds], dim)
        if not isinstance(value, UnbatchedTensor)
        else value._within(new)
        for key, value in first._items()
    }
    names = first._names_or_none()
    return first._result(data, new, first.device, None if names is None else list(names))


def _into(out: Any, tds: list[Any], size: torch.Size, combine: Callable[[list[Any], Any], Any]) -> Any:
    """Combine straight into the tensors of `out`, without temporaries; keys that it lacks are added."""
    if out.batch_size != size:
        raise RuntimeError(f"`out` has batch size {list(out.batch_size)}, but the result has {list(size)}.")
    for key in tds[0]._key_names():
        values = [td._get_str(key) for td in tds]
        target = out._get_str(key)
        if target is None:
            out._set_str(key, combine(values, None))
        elif isinstance(target, Tensor) or not target._is_non_tensor:
            combine(values, target)
        else:
            out._set_str(key, combine(values, None), ignore_lock=True)
    return out


def _check_alike(tds: list[Any], size: torch.Size | None, what: str, error: type[Exception]) -> None:
    """Raise unless all have the same keys and, where asked for, the batch size."""
    keys = tds[0]._key_names()
    for position, td in enumerate(tds):
        if size is not None and td.batch_size != size:
            raise RuntimeError(
                f"{what}: tensordict {position} has batch size {list(td.batch_size)}, the first has {list(size)}; "
                "lazy_stack takes tensordicts of different sizes."
            )
        if td._key_names() != keys:
            odd = set(keys) ^ set(td._key_names())
            raise error(
                f"{what}: the keys of tensordict {position} differ from the first's in {listing(sorted(odd))}; "
                "lazy_stack takes tensordicts of different keys."
            )


def _loss(function: Callable[..., Any]) -> Callable[..., Any]:
    """An elementwise loss on two collections of the same keys.

    It is a number for each entry, without batch dimensions, or with reduction="none" the losses of all elements.
    """
    signature = inspect.signature(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        input, target = given.pop("input"), given.pop("target")
        size_average, reduce = given.pop("size_average", None), given.pop("reduce", None)
        if size_average is not None or reduce is not None:
            given["reduction"] = legacy_get_string(size_average, reduce)
        reduction = given.setdefault("reduction", "mean")
        if reduction not in ("none", "mean", "sum"):
            raise ValueError(f'{function.__name__}: reduction is {reduction!r}; use "none", "mean" or "sum".')
        if not isinstance(input, TensorCollection):  # the losses are symmetric
            input, target = target, input
        if input._is_tensorclass:
            weight = given.get("weight")
            given["weight"] = weight._tensordict if isinstance(weight, TensorCollection) else weight
            return input._wrap(call(input._tensordict, target, **given))
        input, target = broadcast_sides(input, target)
        whole = input if reduction == "none" else input._dense()
        leaves, targets = aligned_leaves(whole, target, always_list=True)
        weights: list[Any] = [{}] * len(leaves)
        if given.get("weight") is not None:
            weights = [{"weight": weight} for weight in aligned_leaves(whole, given["weight"], always_list=True)[1]]
        results = []
        for leaf, opposite, weight in zip(leaves, targets, weights, strict=True):
            options = {**given, **{name: value.expand_as(leaf) for name, value in weight.items()}}
            results.append(function(leaf, opposite.expand_as(leaf), **options))
        # Upstream: unlike arithmetic, unlocked.
        return whole._rebuild(iter(results)) if reduction == "none" else whole._scalars(results)

    return call


for _function in (torch.nn.functional.mse_loss, torch.nn.functional.l1_loss, torch.nn.functional.smooth_l1_loss):
    TD_FUNCTIONS[_function] = _loss(_function)


def _only(values: Any) -> Any:
    return values[0] if isinstance(values, (tuple, list)) and len(values) == 1 else values


@implements_for_td(torch.autograd.grad)
def _grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of all tensors of `outputs` by those of `inputs`, under the keys of `inputs`; unused ones lack."""
    outputs, inputs, grad_outputs = map(_only, (outputs, inputs, grad_outputs))  # torch makes tuples of them
    for name, value in (("outputs", outputs), ("inputs", inputs), ("grad_outputs", grad_outputs)):
        if not isinstance(value, TensorCollection) and not (value is None and name == "grad_outputs"):
            raise ValueError(f"grad: {name} is a {type(value).__name__} beside tensordicts; give a tensordict.")
    leaves = outputs._leaves()
    weights = None if grad_outputs is None else aligned_leaves(outputs, grad_outputs)[1]
    gradients = iter(
        torch.autograd.grad(
            leaves,
            inputs._leaves(),
            weights,
            retain_graph=retain_graph,
            create_graph=create_graph,
            allow_unused=allow_unused,
            is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
    )
    return inputs._fast_apply(lambda _: next(gradients), filter_empty=False, propagate_lock=True)


@implements_for_td(torch.where)
def where(condition: Any, input: Any, other: Any, *, out: Any = None) -> Any:
    """`torch.where` of tensordicts: `input` where `condition` holds, else `other`."""
    return input.where(condition, other, out=out)


def _like(name: str) -> Callable[..., Any]:
    function = getattr(torch, name)

    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        made = input._fast_apply(lambda item: function(item, *args, **kwargs), propagate_lock=True)
        return made if device is None else made.to(torch.device(device))  # non-tensor entries, too

    return call


for _name in ("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"):
    TD_FUNCTIONS[getattr(torch, _name)] = _like(_name)
