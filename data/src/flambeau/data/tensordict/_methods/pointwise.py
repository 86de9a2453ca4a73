"""Elementwise arithmetic, on all tensors at once through `torch._foreach_*`.

Every method is made from a table: unary ones by name, binary ones by name and the operators they stand for. Where the
multi-tensor functions do not apply (tensor subclasses, functorch transforms) the same is done leaf by leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.alignment import aligned_leaves, broadcast_sides, with_default
from flambeau.data.tensordict._layout.foreach import fusible
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection

UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)  # fmt: skip
_TESTS = ["isfinite", "isnan", "isneginf", "isposinf", "isreal"]
# name -> whether there is a multi-tensor version
_BINARY = {
    "add": True, "sub": True, "mul": True, "div": True, "pow": True, "maximum": True, "minimum": True,
    "clamp_max": True, "clamp_min": True,
    "bitwise_and": False, "bitwise_or": False, "bitwise_xor": False, "logical_and": False, "remainder": False,
}  # fmt: skip


# In-place operations that only lists of tensors have.
_IN_PLACE: dict[str, Callable[..., Tensor]] = {
    "maximum_": lambda leaf, other: torch.maximum(leaf, torch.as_tensor(other), out=leaf),
    "minimum_": lambda leaf, other: torch.minimum(leaf, torch.as_tensor(other), out=leaf),
}


def run(name: str, leaves: list[Tensor], *others: Any, **kwargs: Any) -> list[Tensor]:
    """`torch.<name>` of every tensor, with one argument or one list of arguments for all.

    Args:
        name: of a function that has a multi-tensor form, with a trailing underscore for in place.
        leaves: the tensors.
        others: numbers, or lists as long as `leaves`.
        kwargs: further arguments of the function.
    """
    if not leaves:
        return []
    if fusible(leaves):
        result = getattr(torch, "_foreach_" + name)(leaves, *others, **kwargs)
        return leaves if result is None else list(result)
    function = getattr(Tensor, name, None) or _IN_PLACE[name]
    return [
        function(leaf, *[other[place] if isinstance(other, (list, tuple)) else other for other in others], **kwargs)
        for place, leaf in enumerate(leaves)
    ]


class PointwiseMethods(CollectionMethods):
    """Arithmetic. Non-tensor data take no part and stay."""

    def _pointwise(self, leaves: list[Tensor]) -> Any:
        """The result around new tensors; locked if this is."""
        result = self._rebuild(iter(leaves))
        if self.is_locked:
            result._lock_below(None)
        return result

    def _binary(self, name: str, fused: bool, other: Any, default: Any = None, **kwargs: Any) -> Any:
        if default is not None and isinstance(other, TensorCollection):
            result = with_default(self, other, default, lambda left, right: left._binary(name, fused, right, **kwargs))
            return result.lock_() if self.is_locked else result
        me, other = broadcast_sides(self, other)
        if me is not self:
            return me._binary(name, fused, other, **kwargs)
        leaves, others = aligned_leaves(self, other)
        if fused:
            results = run(name, leaves, others, **kwargs)
        else:
            function = getattr(torch, name)
            each = others if isinstance(others, list) else [others] * len(leaves)
            results = [function(leaf, item) for leaf, item in zip(leaves, each, strict=True)]
        # Upstream: a tensor over the batch gives a result that is not locked.
        return self._rebuild(iter(results)) if isinstance(other, Tensor) and other.ndim else self._pointwise(results)

    def _binary_(self, name: str, fused: bool, other: Any, **kwargs: Any) -> Self:
        leaves, others = aligned_leaves(self, other)
        if fused:
            run(name + "_", leaves, others, **kwargs)
            return self
        for place, leaf in enumerate(leaves):
            getattr(leaf, name + "_")(others[place] if isinstance(others, list) else others)
        return self

    def add(self, other: Any, *, alpha: float | None = None, default: Any = None) -> Self:
        """`self + alpha * other`.

        Args:
            other: a number, a tensor that broadcasts over the batch dimensions, or a collection of the same keys.
            alpha: a number.
            default: stands for entries that one side lacks; "intersection" drops those keys.
        """
        return self._binary("add", True, other, default, **({} if alpha is None else {"alpha": alpha}))

    def add_(self, other: Any, *, alpha: float | None = None) -> Self:
        """`add` in place."""
        return self._binary_("add", True, other, **({} if alpha is None else {"alpha": alpha}))

    def sub(self, other: Any, *, alpha: float | None = None, default: Any = None) -> Self:
        """`self - alpha * other`; arguments as `add`."""
        return self._binary("sub", True, other, default, **({} if alpha is None else {"alpha": alpha}))

    def sub_(self, other: Any, alpha: float | None = None) -> Self:
        """`sub` in place."""
        return self._binary_("sub", True, other, **({} if alpha is None else {"alpha": alpha}))

    def rsub(self, other: Any, *, alpha: float | None = None, default: Any = None) -> Self:
        """`other - alpha * self`; arguments as `add`."""
        if isinstance(other, TensorCollection):
            return other.sub(self, alpha=alpha, default=default)
        scaled = self.neg() if alpha is None else self.mul(-alpha)
        return scaled.add(other)

    def mod(self, other: Any) -> Self:
        """The remainder of division, with the sign of the divisor."""
        return self._binary("remainder", False, other)

    def clamp(self, min: Any = None, max: Any = None, *, out: Any = None) -> Self:
        """Limit every element to [min, max]; numbers, tensors or collections, None for no limit.

        Raises:
            TypeError: neither is given.
        """
        if min is None and max is None:
            raise TypeError("clamp: give min, max or both.")
        result = self if min is None else self.clamp_min(min)
        result = result if max is None else result.clamp_max(max)
        if result.is_locked and min is not None and max is not None:
            result.unlock_()  # upstream: unlike other arithmetic, and unlike either limit alone
        return result if out is None else out.update_(result)

    def lerp(self, end: Any, weight: Any) -> Self:
        """`self + weight * (end - self)`; `end` a collection or tensor, `weight` a number, tensor or collection."""
        return self._lerp("lerp", end, weight)

    def lerp_(self, end: Any, weight: Any) -> Self:
        """`lerp` in place."""
        return self._lerp("lerp_", end, weight)

    def _lerp(self, name: str, end: Any, weight: Any) -> Any:
        leaves, ends = aligned_leaves(self, end, always_list=True)
        _, weights = aligned_leaves(self, weight)
        results = run(name, leaves, ends, weights)
        return self if name.endswith("_") else self._pointwise(results)

    def addcmul(self, other1: Any, other2: Any, *, value: float | None = 1) -> Self:
        """`self + value * other1 * other2`, elementwise."""
        return self._pointwise(run("addcmul", *self._three(other1, other2), value=1 if value is None else value))

    def addcmul_(self, other1: Any, other2: Any, *, value: float | None = 1) -> Self:
        """`addcmul` in place."""
        run("addcmul_", *self._three(other1, other2), value=1 if value is None else value)
        return self

    def addcdiv(self, other1: Any, other2: Any, value: float | None = 1) -> Self:
        """`self + value * other1 / other2`, elementwise."""
        return self._pointwise(run("addcdiv", *self._three(other1, other2), value=1 if value is None else value))

    def addcdiv_(self, other1: Any, other2: Any, *, value: float | None = 1) -> Self:
        """`addcdiv` in place."""
        run("addcdiv_", *self._three(other1, other2), value=1 if value is None else value)
        return self

    def _three(self, other1: Any, other2: Any) -> tuple[list[Any], list[Any], list[Any]]:
        leaves, first = aligned_leaves(self, other1, always_list=True)
        return leaves, first, aligned_leaves(self, other2, always_list=True)[1]

    def zero_(self) -> Self:
        """Fill all tensors with zeros, in place."""
        run("zero_", self._leaves())
        return self

    def norm(self, *, out: Any = None, dtype: torch.dtype | None = None, key_transform: Any = None) -> Self:
        """The 2-norm of every tensor; a tensordict of numbers without batch dimensions.

        Args:
            out: takes the results.
            dtype: to convert to before.
            key_transform: key -> key of the result.
        """
        leaves = run("norm", self._leaves(), **({} if dtype is None else {"dtype": dtype}))
        result = rekeyed(self._scalars(leaves), key_transform)
        if self.is_locked:
            result.lock_()
        return result if out is None else out.update(result)

    def _scalars(self, leaves: list[Tensor]) -> Any:
        """A tensordict of the same keys without batch dimensions."""
        values = iter(leaves)
        return self._fast_apply(lambda _: next(values), batch_size=[], filter_empty=False)

    def __rpow__(self, other: Any) -> Self:
        return self._pointwise([torch.pow(other, leaf) for leaf in self._leaves()])

    def __rtruediv__(self, other: Any) -> Self:
        return self.reciprocal().mul(other)

    def __invert__(self) -> Self:
        return self._pointwise([~leaf for leaf in self._leaves()])


def rekeyed(td: Any, transform: Callable[[Any], Any] | None) -> Any:
    """With every part of every key transformed."""
    if transform is None:
        return td
    result = td.empty()
    for key, value in td._items():
        result._set_str(
            transform(key), rekeyed(value, transform) if isinstance(value, TensorCollection) else value, validated=True
        )
    return result


def _define(name: str, method: Callable[..., Any], doc: str) -> None:
    method.__name__, method.__qualname__, method.__doc__ = name, f"PointwiseMethods.{name}", doc
    setattr(PointwiseMethods, name, method)


def _define_unary(name: str) -> None:
    def method(self: Any) -> Any:
        return self._pointwise(run(name, self._leaves()))

    def method_(self: Any) -> Any:
        run(name + "_", self._leaves())
        return self

    _define(name, method, f"`torch.{name}` of every tensor.")
    _define(name + "_", method_, f"`torch.{name}` of every tensor, in place.")


def _define_test(name: str) -> None:
    function = getattr(torch, name)

    def method(self: Any) -> Any:
        return self._pointwise([function(leaf) for leaf in self._leaves()])

    _define(name, method, f"`torch.{name}` of every tensor.")


def _define_binary(name: str, fused: bool) -> None:
    def method(self: Any, other: Any, *, default: Any = None) -> Any:
        return self._binary(name, fused, other, default)

    def method_(self: Any, other: Any) -> Any:
        return self._binary_(name, fused, other)

    _define(name, method, f"`torch.{name}` of every tensor and `other`; arguments as `add`.")
    _define(name + "_", method_, f"`torch.{name}` of every tensor and `other`, in place.")


def _define_operator(operator: str, name: str, reverse: str | None = None) -> None:
    def method(self: Any, other: Any) -> Any:
        return getattr(self, name)(other)

    def method_(self: Any, other: Any) -> Any:
        return getattr(self, name + "_")(other)

    _define(f"__{operator}__", method, f"`{name}`.")
    _define(f"__i{operator}__", method_, f"`{name}_`.")
    if reverse is not None:

        def reversed_method(self: Any, other: Any) -> Any:
            return getattr(self, reverse)(other)

        _define(f"__r{operator}__", reversed_method, f"`{reverse}`.")


for _name in UNARY:
    _define_unary(_name)
for _name in _TESTS:
    _define_test(_name)
for _name, _fused in _BINARY.items():
    if not hasattr(PointwiseMethods, _name):
        _define_binary(_name, _fused)
for _operator, _name, _reverse in (
    ("add", "add", "add"),
    ("sub", "sub", "rsub"),
    ("mul", "mul", "mul"),
    ("truediv", "div", None),
    ("pow", "pow", None),
    ("and", "bitwise_and", "bitwise_and"),
    ("or", "bitwise_or", "bitwise_or"),
    ("xor", "bitwise_xor", "bitwise_xor"),
    ("mod", "remainder", None),
):
    _define_operator(_operator, _name, _reverse)


def _define_sign(operator: str, name: str) -> None:
    def method(self: Any) -> Any:
        return getattr(self, name)()

    _define(f"__{operator}__", method, f"`{name}`.")


_define_sign("neg", "neg")
_define_sign("abs", "abs")
