"""Work that is done within the backward pass: when the gradient of a module's result, or parameter, is there."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from flambeau.rec.distributed.composable.table_batched_embedding_slice import TableBatchedEmbeddingSlice
from flambeau.rec.distributed.model_parallel import get_unwrapped_module
from flambeau.rec.distributed.types import LazyAwaitable, NoWait, ShardingType
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

__all__ = [
    "FirstGradTensorFinder",
    "GradTensorFinder",
    "InjectionSite",
    "InjectionTargetType",
    "OutputDistTensorFinder",
    "register_backward_hook",
    "will_hook_fire",
]


class InjectionTargetType(Enum):
    """Whose gradient work waits for."""

    PARAM_GRAD = "param_grad"
    ACTIVATION = "activation"


class GradTensorFinder(abc.ABC):
    """Finds the tensor of a module's call whose gradient work waits for."""

    @abc.abstractmethod
    def __call__(self, input: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> torch.Tensor | None:
        """The tensor; None where there is none.

        Args:
            input: arguments of the call without names.
            kwargs: those with names.
            output: its result.
        """


@dataclass
class FirstGradTensorFinder(GradTensorFinder):
    """Finds the first tensor that takes gradients.

    Tensors are looked for in lists, tuples and dictionaries, in keyed tensors, and in jagged tensors, whose weights
    count where their values take no gradients.

    Args:
        use_input: whether arguments are searched, and not the result.
    """

    use_input: bool = False

    def __call__(self, input: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> torch.Tensor | None:
        """The tensor; None where there is none."""
        return _first([*input, *kwargs.values()] if self.use_input else output)


def _first(value: Any) -> torch.Tensor | None:
    value = LazyAwaitable._wait_async(value)
    if isinstance(value, torch.Tensor):
        return value if value.requires_grad else None
    if isinstance(value, KeyedTensor):
        return _first(value.values())
    if isinstance(value, (JaggedTensor, KeyedJaggedTensor)):
        return _first([value.values(), value.weights_or_none()])
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return next((found for part in parts if (found := _first(part)) is not None), None)


@dataclass
class OutputDistTensorFinder(GradTensorFinder):
    """Finds what a sharded module's look-up of tables of one sharding type gives, where the module is under way.

    Its gradient comes before that of the exchange of results between processes, so that work overlaps with that.

    Args:
        sharding_type: of the tables.
    """

    sharding_type: ShardingType = ShardingType.TABLE_WISE

    def __call__(self, input: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> torch.Tensor | None:
        """The tensor; None where no tables are spread in this way. The result is that of a sharded collection."""
        awaitables = getattr(output, "_awaitables", None)
        kinds = getattr(output, "_sharding_types", None)
        if awaitables is None or not kinds:
            raise RuntimeError(
                f"the result is a {type(output).__name__}, expected one of a sharded collection, which is under way."
            )
        for at, kind in enumerate(kinds):
            if kind == self.sharding_type.value:
                found = awaitables[at].wait()
                awaitables[at] = NoWait(found)  # a result can be waited for once
                return _first(found)
        return None


@dataclass
class InjectionSite:
    """Where work is done in the backward pass.

    Args:
        fqn: path of a module in the model.
        tensor_finder: finds the tensor of its calls, for `InjectionTargetType.ACTIVATION`.
        target_type: whether the gradient of such a tensor, or of a parameter, is waited for.
        hook_position: which of the module's parameters, from 0 (first) to 1 (last), for `PARAM_GRAD`.
    """

    fqn: str
    tensor_finder: GradTensorFinder
    target_type: InjectionTargetType = InjectionTargetType.ACTIVATION
    hook_position: float = 1.0


def will_hook_fire(p: torch.Tensor) -> bool:
    """Whether autograd, and not a kernel of tables, writes the gradient of a parameter, and calls hooks on it."""
    from torch.distributed._shard.sharded_tensor import ShardedTensor  # type: ignore[attr-defined]

    return p.requires_grad and not isinstance(p, (ShardedTensor, TableBatchedEmbeddingSlice))


def _module(model: nn.Module, fqn: str) -> nn.Module:
    modules: dict[str, nn.Module] = dict(get_unwrapped_module(model).named_modules())
    if fqn not in modules:
        raise OptionError(f"the model has no module {fqn!r}; it has {sorted(name for name in modules if name)}.")
    return modules[fqn]


def register_backward_hook(
    site: InjectionSite, model: nn.Module, hook_fn: Callable[[torch.Tensor], None]
) -> RemovableHandle:
    """Call a function in each backward pass, when a gradient is there.

    Args:
        site: whose gradient.
        model: in wrappers or not.
        hook_fn: called with the gradient.

    Returns:
        A handle whose `remove` ends this.

    Raises:
        OptionError: the model has no such module, or it has no parameter that takes gradients of autograd.
    """
    module = _module(model, site.fqn)
    if site.target_type is InjectionTargetType.PARAM_GRAD:
        params = [param for param in module.parameters() if will_hook_fire(param)]
        if not params:
            raise OptionError(f"module {site.fqn!r} has no parameters whose gradients autograd writes.")
        if not 0.0 <= site.hook_position <= 1.0:
            raise OptionError(f"hook_position is {site.hook_position}; expected 0 to 1.")
        chosen = params[round(site.hook_position * (len(params) - 1))]

        def arrived(param: torch.Tensor) -> None:
            assert param.grad is not None
            hook_fn(param.grad)

        handle: RemovableHandle = chosen.register_post_accumulate_grad_hook(arrived)
        return handle
    if site.target_type is not InjectionTargetType.ACTIVATION:
        raise OptionError(f"target_type is {site.target_type!r}; expected an InjectionTargetType.")

    def called(_: nn.Module, input: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if not torch.is_grad_enabled():
            return
        tensor = site.tensor_finder(input, kwargs, output)
        if tensor is None:
            raise RuntimeError(
                f"{type(site.tensor_finder).__name__} found no tensor that takes gradients in a call of {site.fqn!r}."
            )
        tensor.register_hook(hook_fn)

    return module.register_forward_hook(called, with_kwargs=True)
