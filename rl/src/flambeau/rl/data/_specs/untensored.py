"""Specs of what are no tensors, and of a choice between specs."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Size

from flambeau.data.tensordict import NonTensorData, NonTensorStack, is_tensor_collection
from flambeau.rl.data._specs import shapes
from flambeau.rl.data._specs.base import TensorSpec
from flambeau.rl.data._specs.shapes import Change, as_size

_ONE = Size([1])


class NonTensor(TensorSpec):
    """Any Python objects, as `NonTensorData` or `NonTensorStack`.

    Args:
        shape: of the spec.
        device: of the data; default: none.
        dtype: kept for upstream's signature.
        example_data: what `rand`, `zero` and `one` give.
        batched: give one object for all positions, leading ones included, not a stack over the leading ones.
        feature_dims: how many of the last dimensions belong to one value; default: all.

    Example:
        >>> NonTensor(shape=(), example_data="a word").rand().data
        'a word'
    """

    def __init__(
        self,
        shape: Any = _ONE,
        device: Any = None,
        dtype: torch.dtype | None = None,
        example_data: Any = None,
        batched: bool | None = None,
        feature_dims: int | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(shape, int):
            shape = Size([shape])
        domain = kwargs.pop("domain", None)
        super().__init__(shape, None, device, dtype, domain)
        self.example_data = example_data
        self.batched = bool(batched)
        self.feature_dims = self.ndim if feature_dims is None else feature_dims

    def _batch(self, shape: Any) -> Size:
        return super()._batch([shape] if isinstance(shape, int) else shape)

    def _fields(self) -> dict[str, Any]:
        return super()._fields() | {"example_data": self.example_data}

    def _like(self, shape: Size, device: Any) -> Self:
        dims = min(self.feature_dims, len(shape))
        return type(self)(shape, device, self.dtype, self.example_data, self.batched, dims, domain=self.domain)

    def _changed(self, shape: Size, change: Change) -> Self:
        return self._like(shape, self.device)

    def clone(self) -> Self:
        """A spec with the same example."""
        return self._like(self.shape, self.device)

    def to(self, dest: torch.dtype | torch.device | str | int) -> Self:
        """On another device; a dtype changes nothing."""
        return self if isinstance(dest, torch.dtype) else self._like(self.shape, torch.device(dest))

    def cardinality(self) -> Any:
        """Unknown.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("The values of a NonTensor spec cannot be counted.")

    def enumerate(self, use_mask: bool = False) -> Any:
        """Impossible.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("The values of a NonTensor spec cannot be enumerated.")

    def index(self, index: Any, tensor_to_index: Any) -> Any:
        """Impossible.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Values of a NonTensor spec are no indices.")

    def rand(self, shape: Any = None) -> Any:
        """The example, with the given leading dimensions."""
        size = self._leading(shape)
        inner = size[len(size) - self.feature_dims :]
        data = NonTensorData(self.example_data, batch_size=inner, device=self.device)
        if self.batched:
            return NonTensorData(self.example_data, batch_size=size, device=self.device)
        return data.expand(size) if len(size) > len(inner) else data

    def zero(self, shape: Any = None) -> Any:
        """The example, with the given leading dimensions."""
        return self.rand(shape)

    def one(self, shape: Any = None) -> Any:
        """The example, with the given leading dimensions."""
        return self.rand(shape)

    def is_in(self, val: Any) -> bool:
        """Whether a value is non-tensor data of the spec's device and dtype.

        Args:
            val: its last dimensions must be the spec's.
        """
        if isinstance(val, torch.Tensor):
            return False
        if not is_tensor_collection(val):
            return self.shape == Size([])
        shape = getattr(val, "shape", Size([]))
        return (
            isinstance(val, (NonTensorData, NonTensorStack)) and shape[len(shape) - self.ndim :] == self.shape
        ) and val.device == self.device

    def _project(self, val: Any) -> Any:
        raise TypeError(
            f"{type(val).__name__} is no non-tensor data of shape {tuple(self.shape)}, and cannot become any."
        )

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise unless a value is non-tensor data.

        Raises:
            TypeError: it is a tensor.
        """
        if isinstance(value, torch.Tensor):
            named = "" if key is None else f" of {key!r}"
            raise TypeError(f"The value{named} is a tensor, but the spec is NonTensor.")

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """A value as non-tensor data of the spec's shape."""
        if isinstance(val, (NonTensorData, NonTensorStack)):
            val = val.tolist() if isinstance(val, NonTensorStack) else val.data
        return NonTensorData(val, batch_size=self.shape, device=self.device)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """The value itself."""
        return val

    def __eq__(self, other: object) -> Any:
        return (
            isinstance(other, NonTensor)
            and self.shape == other.shape
            and self.device == other.device
            and self.dtype == other.dtype
            and bool(self.example_data == other.example_data)
        )


class Choice(TensorSpec):
    """One of several specs, drawn at random.

    Args:
        choices: specs, or non-tensor data, of one class, shape, dtype and device.

    Raises:
        TypeError: a choice is something else, or they differ in class.
        ValueError: there are none, or they differ in shape, dtype or device.

    Example:
        >>> from flambeau.rl.data import Categorical
        >>> Choice([Categorical(3), Categorical(4)]).is_in(torch.tensor(3))
        True
    """

    def __init__(self, choices: list[TensorSpec | NonTensorData | NonTensorStack]) -> None:
        choices = list(choices)
        if not choices:
            raise ValueError("Choice needs at least one spec to choose from.")
        first: Any = choices[0]
        for each in choices:
            if not isinstance(each, (TensorSpec, NonTensorData, NonTensorStack)):
                raise TypeError(
                    f"Each choice must be a TensorSpec, NonTensorData or NonTensorStack, but got {type(each).__name__}."
                )
            if type(each) is not type(first):
                raise TypeError(
                    f"All choices must be of one class; got {type(first).__name__} and {type(each).__name__}."
                )
            for name in ("shape", "dtype", "device"):
                if getattr(each, name, None) != getattr(first, name, None):
                    raise ValueError(
                        f"Choices differ in {name}, which has to be one for all: {getattr(first, name, None)} and "
                        f"{getattr(each, name, None)}."
                    )
        super().__init__(first.shape, None, first.device, getattr(first, "dtype", None), None)
        self._choices: list[Any] = [each.clone() for each in choices]

    def _with(self, choices: list[Any]) -> Self:
        return type(self)(choices)

    def _changed(self, shape: Size, change: Change) -> Self:
        raise NotImplementedError  # every operation goes to the choices

    def _each(self, name: str, *args: Any) -> Self:
        return self._with([getattr(each, name)(*args) for each in self._choices])

    def expand(self, *shape: Any) -> Self:
        """With choices of a larger shape."""
        return self._each("expand", as_size(shape))

    def unsqueeze(self, dim: int) -> Self:
        """With choices of one dimension more."""
        shapes.dimension(dim, self.ndim + 1)
        return self._each("unsqueeze", dim)

    def squeeze(self, dim: int | None = None) -> Self:
        """With choices without dimensions of size 1."""
        if dim is not None and not -self.ndim <= dim < self.ndim:
            raise IndexError(f"Dimension out of range: the shape {tuple(self.shape)} has no dimension {dim}.")
        return self._with([each.squeeze() if dim is None else each.squeeze(dim) for each in self._choices])

    def _reshape(self, shape: Size) -> Self:
        return self._each("reshape", shape)

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """One spec for each position along a dimension."""
        return tuple(
            self._with(list(parts)) for parts in zip(*(each.unbind(dim) for each in self._choices), strict=True)
        )

    def __getitem__(self, idx: Any) -> Any:
        return self._with([each[idx] for each in self._choices])

    def clone(self) -> Self:
        """With clones of the choices."""
        return self._with(self._choices)

    def to(self, dest: torch.dtype | torch.device | str | int) -> Self:
        """With choices of another dtype, or on another device."""
        return self._each("to", dest)

    @property
    def num_choices(self) -> int:
        """How many specs there are to choose from."""
        return len(self._choices)

    def _chosen(self, name: str, shape: Any) -> Any:
        at = int(torch.randint(self.num_choices, ())) if name == "rand" else 0
        choice = self._choices[at]
        if isinstance(choice, TensorSpec):
            return getattr(choice, name)(shape)
        batch = self._batch(shape)
        return choice.expand(*batch, *choice.batch_size) if batch else choice

    def rand(self, shape: Any = None) -> Any:
        """A random value of one of the specs, drawn for all leading positions together."""
        return self._chosen("rand", shape)

    def zero(self, shape: Any = None) -> Any:
        """Zeros of the first spec."""
        return self._chosen("zero", shape)

    def one(self, shape: Any = None) -> Any:
        """Ones of the first spec."""
        return self._chosen("one", shape)

    def is_in(self, val: Any) -> bool:
        """Whether a value is in one of the specs, or is one of the data."""
        for choice in self._choices:
            if isinstance(choice, TensorSpec):
                if choice.is_in(val):
                    return True
            elif isinstance(val, type(choice)) and val.tolist() == choice.tolist():
                return True
        return False

    def _project(self, val: Any) -> Any:
        raise NotImplementedError("Choice cannot project: no one of its specs is the right one.")

    def index(self, index: Any, tensor_to_index: Any) -> Any:
        """Impossible.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Values of a Choice are no indices.")

    def cardinality(self) -> Any:
        """The sum over the specs; data count as one each."""
        return sum(each.cardinality() if isinstance(each, TensorSpec) else 1 for each in self._choices)

    def enumerate(self, use_mask: bool = False) -> list[Any]:
        """All values of all specs, as a list."""
        values: list[Any] = []
        for each in self._choices:
            values.extend(each.enumerate(use_mask) if isinstance(each, TensorSpec) else [each])
        return values

    def __eq__(self, other: object) -> Any:
        return (
            isinstance(other, Choice)
            and self.num_choices == other.num_choices
            and all(bool(mine == its) for mine, its in zip(self._choices, other._choices, strict=True))
        )
