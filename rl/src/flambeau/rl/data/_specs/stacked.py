"""Stacks of specs that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import dedent
from typing import Any, Self

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import LazyStackedTensorDict
from flambeau.rl.data._specs import shapes
from flambeau.rl.data._specs.base import TensorSpec, ragged
from flambeau.rl.data._specs.composite import NO_DEFAULT_RL, Composite
from flambeau.rl.data._specs.shapes import Change, as_size
from flambeau.rl.data._specs.text import indented


def _common(sizes: Sequence[Size]) -> Size:
    """Sizes with -1 where they differ."""
    if any(len(size) != len(sizes[0]) for size in sizes):
        raise ValueError(f"Specs of a stack must have as many dimensions; got {[tuple(size) for size in sizes]}.")
    return Size(each[0] if len(set(each)) == 1 else -1 for each in zip(*sizes, strict=True))


class _LazyStackedMixin:
    """What both kinds of stacks do alike: hand operations on to the specs, and look after the stacked dimension."""

    _specs: Any
    dim: int

    def _start(self, specs: Sequence[Any], dim: int) -> None:
        if not specs:
            raise ValueError(f"{type(self).__name__} needs at least one spec.")
        self._specs = list(specs)
        if dim < 0:
            raise ValueError(f"The dimension of a stack counts from the front: got dim={dim}.")
        self.dim = dim

    @property
    def stack_dim(self) -> int:
        """The dimension along which the specs are stacked."""
        return self.dim

    def _size(self) -> Size:
        common = _common([spec.shape for spec in self._specs])
        return Size([*common[: self.dim], len(self._specs), *common[self.dim :]])

    def _again(self, specs: Sequence[Any], dim: int) -> Any:
        return type(self)(*specs, dim=dim)  # type: ignore[call-arg]

    def _all(self, dim: int, function: Callable[[Any], Any]) -> Any:
        return self._again([function(spec) for spec in self._specs], dim)

    def clone(self) -> Any:
        """A stack of clones."""
        return self._all(self.dim, lambda spec: spec.clone())

    def to(self, dest: torch.dtype | torch.device | str | int) -> Any:
        """With specs of another dtype, or on another device."""
        return self._all(self.dim, lambda spec: spec.to(dest))

    def clear_device_(self) -> Any:
        """Forget the device of the specs that can do without."""
        for spec in self._specs:
            spec.clear_device_()
        return self

    def __len__(self) -> int:
        return self._size()[0]

    def unbind(self, dim: int = 0) -> Any:
        """One spec for each position along a dimension; along the stacked one, the specs themselves, as a list."""
        ndim = len(self._size())
        if not -ndim <= dim < ndim:
            raise ValueError(f"A stack of shape {tuple(self._size())} has no dimension {dim} to unbind.")
        dim %= ndim
        if dim == self.dim:
            return list(self._specs)
        inner, stack = (dim, self.dim - 1) if dim < self.dim else (dim - 1, self.dim)
        return tuple(
            self._again(parts, stack) for parts in zip(*(spec.unbind(inner) for spec in self._specs), strict=True)
        )

    def unsqueeze(self, dim: int) -> Any:
        """With a dimension of size 1 before `dim`."""
        dim = shapes.dimension(dim, len(self._size()) + 1)
        if dim <= self.dim:
            return self._all(self.dim + 1, lambda spec: spec.unsqueeze(dim))
        return self._all(self.dim, lambda spec: spec.unsqueeze(dim - 1))

    def squeeze(self, dim: int | None = None) -> Any:
        """Without the dimension `dim`, if its size is 1; without all of those where it is None."""
        size = self._size()
        if dim is None:
            spec: Any = self
            for at in reversed(range(len(size))):
                if spec.shape[at] == 1:
                    spec = spec.squeeze(at)
            return spec
        dim = shapes.dimension(dim, len(size))
        if size[dim] != 1:
            return self
        if dim == self.dim:
            return self._specs[0]
        if dim < self.dim:
            return self._all(self.dim - 1, lambda spec: spec.squeeze(dim))
        return self._all(self.dim, lambda spec: spec.squeeze(dim - 1))

    def expand(self, *shape: Any) -> Any:
        """To a larger shape, which ends with the stack's own."""
        target, size = as_size(shape), self._size()
        extra = len(target) - len(size)
        last = target[extra:] if extra >= 0 else ()
        if len(last) != len(size) or any(
            new not in (old, -1) and old not in (1, -1) for old, new in zip(size, last, strict=True)
        ):
            raise RuntimeError(f"A stack of shape {tuple(size)} cannot be expanded to {tuple(target)}.")
        dim = self.dim + extra

        def each(spec: Any) -> Any:
            inner = [*target[:dim], *target[dim + 1 :]]
            own = spec.shape
            fitted = [
                own[at - extra] if at >= extra and (size_ == -1 or _is_ragged(size, at - extra, self.dim)) else size_
                for at, size_ in enumerate(inner)
            ]
            return spec.expand(tuple(fitted))

        return self._all(dim, each)

    def _indexed(self, idx: Any) -> Any:
        size = self._size()
        parts = list(shapes.without_ellipsis(idx, len(size)))
        inner: list[Any] = []
        outer: Any = slice(None)
        at, before = 0, 0
        for part in parts:
            if part is None:
                inner.append(None)
                before += at <= self.dim
                continue
            if isinstance(part, Tensor) and part.dtype is torch.bool and part.ndim > 1:
                raise IndexError("Stacks of specs take masks of one dimension only.")
            if at == self.dim:
                outer = part
            else:
                inner.append(part)
                before -= at < self.dim and _is_number(part)
            at += 1
        specs = [spec[tuple(inner)] if inner else spec for spec in self._specs]
        dim = self.dim + before
        if _is_number(outer):
            return specs[int(outer)]
        if isinstance(outer, slice):
            chosen = specs[outer]
        else:
            positions = torch.arange(len(specs))[torch.as_tensor(outer)]
            if positions.ndim != 1:
                raise IndexError("Stacks of specs take indices of one dimension only.")
            chosen = [specs[position] for position in positions.tolist()]
        if not chosen:
            raise IndexError(f"The index {idx} leaves nothing of a stack of {len(specs)} specs.")
        return torch.stack(chosen, dim)

    def __eq__(self, other: object) -> Any:
        return (
            isinstance(other, _LazyStackedMixin)
            and type(other) is type(self)
            and self.dim == other.dim
            and len(self._specs) == len(other._specs)
            and all(bool(mine == its) for mine, its in zip(self._specs, other._specs, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


def _is_ragged(size: Size, at: int, dim: int) -> bool:
    return size[at if at < dim else at + 1] == -1


def _is_number(part: Any) -> bool:
    if isinstance(part, Tensor):
        return part.ndim == 0 and part.dtype is not torch.bool
    return hasattr(part, "__index__") and not isinstance(part, bool)


class Stacked(_LazyStackedMixin, TensorSpec):
    """Specs of one class that differ, along a dimension. Sizes in which they differ read -1.

    Args:
        specs: the specs.
        dim: the dimension along which they are stacked.

    Example:
        >>> from flambeau.rl.data import Bounded
        >>> torch.stack([Bounded(-1, 1, (2,)), Bounded(0, 2, (2,))])
        StackedBoundedContinuous(
            shape=torch.Size([2, 2]), device=cpu, dtype=torch.float32, domain=continuous)
    """

    def __init__(self, *specs: Any, dim: int) -> None:
        self._start(specs, dim)
        self._encode_memo_dict = {}
        self._memoizes = False

    @property
    def shape(self) -> Size:  # type: ignore[override]
        """Of the stack, with -1 for sizes in which the specs differ."""
        return self._size()

    @property
    def dtype(self) -> Any:
        """The dtype of the first spec."""
        return self._specs[0].dtype

    @property  # type: ignore[misc]
    def device(self) -> Any:
        """The device of the first spec."""
        return self._specs[0].device

    @property
    def domain(self) -> Any:
        """Empty: the specs have one each."""
        return ""

    @property
    def space(self) -> Any:
        """There is none in common.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("A stack of specs has no space in common; its specs have one each.")

    def __getitem__(self, idx: Any) -> Any:
        return self._indexed(idx)

    def _changed(self, shape: Size, change: Change) -> Self:
        raise NotImplementedError  # every operation goes to the specs

    def _reshape(self, shape: Size) -> Self:
        raise NotImplementedError("Stacked specs cannot be reshaped: their specs may differ in shape.")

    def make_neg_dim(self, dim: int) -> None:
        """Write -1 for the size of a dimension in every spec, in place."""
        dim = shapes.dimension(dim, self.ndim)
        if dim == self.dim:
            raise ValueError("The stacked dimension has as many entries as there are specs.")
        for spec in self._specs:
            spec.make_neg_dim(dim if dim < self.dim else dim - 1)

    def _joined(self, values: list[Any], leading: int) -> Any:
        dim = self.dim + leading
        if dim == 0:
            return ragged(values)
        if all(value.shape == values[0].shape for value in values):
            return torch.stack(values, dim)
        raise RuntimeError(
            "Values of different shapes can be stacked along the first dimension only, as a nested tensor; this stack "
            f"is along dimension {dim}."
        )

    def _drawn(self, name: str, shape: Any) -> Any:
        batch = self._batch(shape)
        return self._joined([getattr(spec, name)(batch) for spec in self._specs], len(batch))

    def rand(self, shape: Any = None) -> Any:
        """Random values: a nested tensor, or a tensor where there are leading dimensions and one shape."""
        return self._drawn("rand", shape)

    def zero(self, shape: Any = None) -> Any:
        """Zeros, alike."""
        return self._drawn("zero", shape)

    def one(self, shape: Any = None) -> Any:
        """Ones, alike."""
        return self._drawn("one", shape)

    def _parts(self, value: Any) -> Sequence[Any]:
        parts: Sequence[Any] = value.unbind(self.dim - len(self.shape) if not value.is_nested else self.dim)
        return parts

    def is_in(self, value: Any) -> bool:
        """Whether each part of a value is in its spec."""
        return all(bool(spec.is_in(part)) for spec, part in zip(self._specs, self._parts(value), strict=True))

    def _project(self, val: Any) -> Any:
        return self._joined([spec.project(part) for spec, part in zip(self._specs, self._parts(val), strict=True)], 0)

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise unless each part of a value has the dtype of its spec."""
        for spec, part in zip(self._specs, self._parts(value), strict=True):
            spec.type_check(part, key)

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """A value from those of the specs, along the stacked dimension.

        Args:
            val: a sequence with one value for each spec.
            ignore_device: leave tensors where they are.
        """
        parts = self._parts(val) if isinstance(val, Tensor) else list(val)
        encoded = [
            spec.encode(part, ignore_device=ignore_device) for spec, part in zip(self._specs, parts, strict=True)
        ]
        return self._joined(encoded, 0)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """A value as an array, or as a list of arrays where their shapes differ."""
        parts = [spec.to_numpy(part, safe) for spec, part in zip(self._specs, self._parts(val), strict=True)]
        if any(part.shape != parts[0].shape for part in parts):
            return parts
        import numpy as np

        return np.stack(parts, self.dim)

    def cardinality(self, *args: Any, **kwargs: Any) -> Any:
        """Not defined.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("`cardinality` is not defined for Stacked specs; its specs have one each.")

    def enumerate(self, use_mask: bool = False) -> Any:
        """All values of the specs, stacked, where they have as many.

        Raises:
            NotImplementedError: there is no end of them.
        """
        return torch.stack([spec.enumerate(use_mask) for spec in self._specs], self.dim + 1)

    def index(self, index: Any, tensor_to_index: Any) -> Any:
        """Not defined.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("`index` is not defined for Stacked specs; its specs have it each.")

    def __repr__(self) -> str:
        first = self._specs[0]
        facts = f"shape={self.shape}, device={self.device}, dtype={self.dtype}, domain={first.domain}"
        return f"Stacked{type(first).__name__}(\n{indented(facts)})"


class StackedComposite(_LazyStackedMixin, Composite):
    """Composites that differ, along a dimension; the spec of a lazily stacked TensorDict.

    Args:
        specs: the composites.
        dim: the dimension along which they are stacked.

    Example:
        >>> from flambeau.rl.data import Composite, Unbounded
        >>> stack = torch.stack([Composite(a=Unbounded(3), b=Unbounded(1)), Composite(a=Unbounded(3))])
        >>> list(stack.keys()), list(stack[0].keys())
        (['a'], ['a', 'b'])
    """

    def __init__(self, *specs: Any, dim: int) -> None:
        self._start(specs, dim)
        self._locked = False
        self._recursive = False
        self._parents = []
        self._names = None
        self._encode_memo_dict = {}
        self._memoizes = False
        self.data_cls = None
        self.step_mdp_static = all(spec.step_mdp_static for spec in specs)

    @property
    def shape(self) -> Size:
        """The batch size of the stack."""
        return self._size()

    @shape.setter
    def shape(self, value: Any) -> None:
        if Size(value) != self.shape:
            raise RuntimeError("The shape of StackedComposite is that of its composites; set theirs.")

    @property
    def device(self) -> Any:
        """The device of the composites, None where they differ."""
        devices = {spec.device for spec in self._specs}
        return devices.pop() if len(devices) == 1 else None

    @device.setter
    def device(self, value: Any) -> None:
        for spec in self._specs:
            spec.device = value

    def _entries(self) -> Iterator[tuple[str, Any]]:
        """Specs that all composites have, stacked."""
        for key, first in self._specs[0]._entries():
            if all(key in spec for spec in self._specs[1:]):
                yield key, None if first is None else torch.stack([spec[key] for spec in self._specs], self.dim)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._entries())

    def __contains__(self, item: object) -> bool:
        return all(item in spec for spec in self._specs)

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether there is nothing in any of the composites."""
        return all(spec.is_empty(recurse) for spec in self._specs)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, str) or (isinstance(idx, tuple) and idx and isinstance(idx[0], str)):
            return torch.stack([spec[idx] for spec in self._specs], self.dim)
        return self._indexed(idx)

    def get(self, item: Any, default: Any = NO_DEFAULT_RL) -> Any:
        """The spec at a key, stacked, or the default where a composite lacks it."""
        try:
            return self[item]
        except KeyError:
            return default

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_lock()
        parts = [None] * len(self._specs) if value is None else value.unbind(self.dim)
        if len(parts) < len(self._specs):
            raise ValueError(
                f"The spec {key!r} has {len(parts)} parts along dimension {self.dim}, the stack {len(self._specs)}."
            )
        for spec, part in zip(self._specs, parts, strict=False):
            spec[key] = part

    def __delitem__(self, key: Any) -> None:
        self._check_lock()
        for spec in self._specs:
            del spec[key]

    def set(self, name: Any, spec: Any) -> Self:
        """Set a spec, whose parts along the stacked dimension go to the composites."""
        self[name] = spec
        return self

    def update(self, dict: Any) -> Self:
        """Set all specs of another composite or mapping."""
        for key, spec in dict.items():
            self[key] = spec
        return self

    def empty(self) -> Any:
        """A composite of the same shape and device, with nothing in it."""
        return torch.stack([spec.empty() for spec in self._specs], self.dim)

    @property
    def names(self) -> list[str | None]:
        """Names of the dimensions of the batch."""
        names = list(self._specs[0].names)
        return [*names[: self.dim], None, *names[self.dim :]]

    @names.setter
    def names(self, value: Any) -> None:
        for spec in self._specs:
            spec.names = None if value is None else [*value[: self.dim], *value[self.dim + 1 :]]

    def lock_(self, recurse: bool | None = None) -> Self:
        """Refuse changes, of the composites as well."""
        self._locked = True
        for spec in self._specs:
            spec.lock_(recurse)
        return self

    def unlock_(self, recurse: bool | None = None) -> Self:
        """Allow changes again."""
        self._locked = False
        for spec in self._specs:
            spec.unlock_(recurse)
        return self

    def _reshape(self, shape: Size) -> Self:
        raise NotImplementedError("StackedComposite cannot be reshaped: its composites may differ in shape.")

    def _stack(self, parts: list[Any], leading: int) -> Any:
        return LazyStackedTensorDict(*parts, stack_dim=self.dim + leading)

    def _drawn(self, name: str, shape: Any) -> Any:
        batch = self._batch(shape)
        return self._stack([getattr(spec, name)(batch) for spec in self._specs], len(batch))

    def _unbound(self, val: Any) -> Sequence[Any]:
        parts: Sequence[Any] = val.unbind(len(val.batch_size) - self.ndim + self.dim)
        return parts

    def is_in(self, value: Any) -> bool:
        """Whether each part of a TensorDict is in its composite."""
        return all(spec.is_in(part) for spec, part in zip(self._specs, self._unbound(value), strict=True))

    def project(self, val: Any) -> Any:
        """A TensorDict whose parts are projected by their composites."""
        parts = [spec.project(part) for spec, part in zip(self._specs, self._unbound(val), strict=True)]
        return self._stack(parts, len(val.batch_size) - self.ndim)

    def type_check(self, value: Any, selected_keys: Any = None) -> None:
        """Raise unless everything in each part of a TensorDict has the dtype of its spec."""
        for spec, part in zip(self._specs, self._unbound(value), strict=True):
            spec.type_check(part, selected_keys)

    def encode(self, vals: Any, *, ignore_device: bool = False) -> Any:
        """A lazily stacked TensorDict, from one value for each composite."""
        parts = self._unbound(vals) if hasattr(vals, "batch_size") else list(vals)
        encoded = [
            spec.encode(part, ignore_device=ignore_device) for spec, part in zip(self._specs, parts, strict=True)
        ]
        return self._stack(encoded, 0)

    def cardinality(self, *args: Any, **kwargs: Any) -> Any:
        """Not defined.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("`cardinality` is not defined for StackedComposite; its composites have one each.")

    def enumerate(self, use_mask: bool = False) -> Any:
        """All values of the composites, stacked.

        Raises:
            NotImplementedError: there is no end of them.
        """
        return self._stack([spec.enumerate(use_mask) for spec in self._specs], 1)

    def repr_exclusive_keys(self) -> str:
        """The specs that not all composites have, as text."""
        common = set(self)
        lines = []
        for at, spec in enumerate(self._specs):
            own = [f"{key}: {each}" for key, each in spec._entries() if key not in common]
            if own:
                lines.append(f"{at} ->\n" + indented(",\n".join(own)))
        body = indented(",\n".join(lines)) + "}" if lines else "}"
        return indented("exclusive_fields={\n" + body)

    def __repr__(self) -> str:
        fields = indented(",\n".join(f"{key}: {spec}" for key, spec in self._entries()))
        parts = [f"fields={{\n{fields}}}", dedent(self.repr_exclusive_keys())]
        parts += [f"device={self.device}", f"shape={self.shape}", f"stack_dim={self.dim}"]
        return f"{type(self).__name__}(\n{indented((',' + chr(10)).join(parts))})"


@TensorSpec.implements_for_spec(torch.stack)
def _stack_specs(specs: Sequence[Any], dim: int = 0) -> Any:
    """`torch.stack` of specs: an expanded spec where they are equal, else a stack."""
    specs = list(specs)
    first = specs[0]
    for spec in specs:
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"Specs can be stacked with specs only; got {type(spec).__name__}.")
    composite = isinstance(first, Composite)
    if any(isinstance(spec, Composite) if not composite else not isinstance(spec, Composite) for spec in specs) or (
        not composite and any(type(spec) is not type(first) for spec in specs)
    ):
        raise RuntimeError(f"Specs of one class can be stacked; got {sorted({type(spec).__name__ for spec in specs})}.")
    if any(spec.ndim != first.ndim for spec in specs):
        raise RuntimeError(
            f"Specs of a stack must have as many dimensions; got shapes {[tuple(spec.shape) for spec in specs]}."
        )
    dim = shapes.dimension(dim, first.ndim + 1)
    if all(spec is first or bool(spec == first) for spec in specs[1:]):
        size = list(first.shape)
        size.insert(dim, len(specs))
        return first.clone().unsqueeze(dim).expand(tuple(size))
    kind = StackedComposite if composite else Stacked
    return kind(*specs, dim=dim)


@TensorSpec.implements_for_spec(torch.squeeze)
def _squeeze_spec(spec: Any, dim: int | None = None) -> Any:
    return spec.squeeze(dim)


@TensorSpec.implements_for_spec(torch.unsqueeze)
def _unsqueeze_spec(spec: Any, dim: int) -> Any:
    return spec.unsqueeze(dim)


@TensorSpec.implements_for_spec(torch.unbind)
def _unbind_spec(spec: Any, dim: int = 0) -> Any:
    return spec.unbind(dim)
