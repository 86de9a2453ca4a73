"""Reading entries of a lazy stack: stacked, as a list, padded, or as a nested tensor."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.defaults import NO_DEFAULT
from flambeau.data.tensordict._layout.keys import dotted, key_path, missing_key
from flambeau.data.tensordict._layout.printing import entry_text, listing_of
from flambeau.data.tensordict._lazy_stack.members import StackMethods
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._unbatched import UnbatchedTensor

_HOW = (
    "ask for it with get(key, as_list=True), get(key, as_padded_tensor=True) or get(key, as_nested_tensor=True), "
    "or index the stack first."
)


class LazyReading(StackMethods):
    """What a lazy stack shows of its tensordicts."""

    def _key_names(self) -> Any:
        """The keys that all tensordicts have, in the order of the first."""
        if not self.tensordicts:
            return {}.keys()
        first, *rest = [td._key_names() for td in self.tensordicts]
        if all(names == first for names in rest):
            return first
        return dict.fromkeys([key for key in first if all(key in names for names in rest)]).keys()

    @property
    def depth(self) -> int:
        """How deep collections are nested in the tensordicts, 0 where none is."""
        return max([td.depth for td in self.tensordicts], default=0)

    def valid_keys(self) -> Any:
        """The keys that all tensordicts have."""
        return self.keys()

    def _items(self) -> Any:
        return [(key, self._get_str(key)) for key in self._key_names()]

    def _walk_keys(self, include_nested: bool, leaves_only: bool, is_leaf: Any, sort: bool) -> Iterator[Any]:
        """Keys without the stacking of entries, whose shapes may differ."""
        found = []
        for key in self._key_names():
            value = self.tensordicts[0]._peek_str(key)
            nested = isinstance(value, TensorCollection) and not value._is_non_tensor
            kind = self.entry_class(key)
            leaf = not issubclass(kind, TensorCollection) if is_leaf is None else is_leaf(kind)
            if include_nested and nested and not (leaf and leaves_only):
                for below in self._get_str(key).keys(True, leaves_only, is_leaf):
                    found.append((key, *below) if type(below) is tuple else (key, below))
            if leaf or not leaves_only:
                found.append(key)
        return iter(sorted(found, key=dotted) if sort else found)

    def _get_str(self, key: str, default: Any = None, **kwargs: Any) -> Any:
        values = []
        for td in self.tensordicts:
            value = td._get_str(key)
            if value is None:
                return default
            values.append(value)
        if not values:
            return default
        entry = self._stacked(key, values, kwargs)
        return entry if self.hook_out is None else self.hook_out(entry)

    def _peek_str(self, key: str) -> Any:
        """A nested stack, or the first of the tensors, which need not be of one shape."""
        values = [td._peek_str(key) for td in self.tensordicts]
        if not values or any(value is None for value in values):
            return None
        first = values[0]
        return self._nested(values) if isinstance(first, TensorCollection) and not first._is_non_tensor else first

    def _stacked(self, key: str, values: list[Any], how: dict[str, Any]) -> Any:
        if isinstance(values[0], TensorCollection):
            if values[0]._is_non_tensor:
                made = classes.RaggedNonTensorStack._made(values, self.stack_dim)
                if hasattr(made, "_owner"):  # what is assigned to its items reaches the tensordicts
                    made.__dict__["_owner"] = (self, key)
                return made
            return self._nested(values)
        if isinstance(values[0], UnbatchedTensor):
            return values[0]._within(self.batch_size)
        if how.get("as_list"):
            return values
        if how.get("as_padded_tensor"):
            return padded(values, self.stack_dim, how.get("padding_value", 0.0), how.get("padding_side", "right"))
        if how.get("as_nested_tensor"):
            return self._nested_tensor(key, values, how.get("layout"))
        shape = values[0].shape
        for value in values:
            if value.shape != shape:
                raise RuntimeError(
                    f"{key!r} has shapes {list(shape)} and {list(value.shape)} in this lazy stack and cannot be "
                    f"stacked; {_HOW}"
                )
        return torch.stack(values, self.stack_dim)

    def _nested(self, values: list[Any]) -> Any:
        """The stack of nested collections, which shares them with the tensordicts."""
        kind = type(values[0])
        if kind._is_tensorclass:
            return kind._lazy_stack_of(values, self.stack_dim)
        stack = self._like(values)
        stack._stack_dim_name = self._stack_dim_name
        if self.is_locked:
            stack._is_locked = True
        return stack

    def _nested_tensor(self, key: str, values: list[Tensor], layout: torch.layout | None) -> Tensor:
        if self.stack_dim != 0:
            raise RuntimeError(
                f"{key!r}: a nested tensor is made along dimension 0, but the stack dimension is {self.stack_dim}."
            )
        return torch.nested.as_nested_tensor(values, layout=torch.jagged if layout is None else layout)

    def get(
        self,
        key: Any,
        *args: Any,
        as_list: bool = False,
        as_padded_tensor: bool = False,
        as_nested_tensor: bool = False,
        padding_side: str = "right",
        layout: torch.layout | None = None,
        padding_value: float | int | bool = 0.0,
        **kwargs: Any,
    ) -> Any:
        """The entry of a key, stacked.

        Args:
            key: a string or a tuple of strings.
            args: what to give where there is none, as `default`.
            as_list: give the tensors of the tensordicts, in a list.
            as_padded_tensor: fill the smaller ones up and stack them.
            as_nested_tensor: give a nested tensor.
            padding_side: "right" or "left".
            layout: of the nested tensor, `torch.jagged` by default.
            padding_value: to fill with.
            kwargs: `default`, by name.

        Raises:
            RuntimeError: the shapes differ, and nothing was said of how to put them together.
        """
        default = args[0] if args else kwargs.pop("default", NO_DEFAULT)
        how: dict[str, Any] = {}
        if as_list or as_padded_tensor or as_nested_tensor:
            how = {
                "as_list": as_list, "as_padded_tensor": as_padded_tensor, "as_nested_tensor": as_nested_tensor,
                "padding_side": padding_side, "padding_value": padding_value, "layout": layout,
            }  # fmt: skip
        value = self._get_path(key_path(key), **how)
        return self._or_default(key, default) if value is None else value

    def get_nestedtensor(self, key: Any, default: Any = NO_DEFAULT, *, layout: torch.layout | None = None) -> Any:
        """The entry of a key as a nested tensor, of strided layout by default.

        Raises:
            KeyError: no such entry, and no default.
        """
        value = self._get_path(key_path(key), as_nested_tensor=True, layout=layout or torch.strided)
        if value is not None:
            return value
        if default is NO_DEFAULT:
            raise missing_key(key, self._key_names())
        return default

    def entry_class(self, key: Any) -> type:
        """The class of an entry, without stacking it."""
        path = key_path(key)
        for td in self.tensordicts:
            if td._peek_path(path) is None:
                raise missing_key(key, self._key_names())
        kind = self.tensordicts[0].entry_class(key)
        if issubclass(kind, TensorCollection) and not kind._is_non_tensor and not kind._is_tensorclass:
            return type(self)
        return kind

    def get_item_shape(self, key: Any) -> torch.Size:
        """The shape of an entry, -1 where the tensordicts' differ."""
        shapes = [td.get_item_shape(key) for td in self.tensordicts]
        if any(len(shape) != len(shapes[0]) for shape in shapes):
            return torch.Size([-1])
        size = [each[0] if len(set(each)) == 1 else -1 for each in zip(*shapes, strict=True)]
        return torch.Size((*size[: self.stack_dim], len(shapes), *size[self.stack_dim :]))

    def non_tensor_items(self, include_nested: bool = False) -> Any:
        """Pairs of key and non-tensor entry."""
        found: list[tuple[Any, Any]] = []
        for key in self._key_names():
            first = self.tensordicts[0]._peek_str(key)
            if not isinstance(first, TensorCollection):
                continue
            value = self._get_str(key)
            if first._is_non_tensor:
                found.append((key, value))
            elif include_nested:
                below = value.non_tensor_items(include_nested=True)
                found += [((key, *(path if isinstance(path, tuple) else (path,))), item) for path, item in below]
        return tuple(found)

    def data_ptr(self, *, storage: bool = False) -> Any:
        """The addresses of each tensordict's tensors, under its position as a string."""
        below = {str(place): td.data_ptr(storage=storage) for place, td in enumerate(self.tensordicts)}
        return classes.make_td(below, torch.Size(()))

    def _repr_fields(self) -> list[tuple[str, str]]:
        """The entries of all tensordicts, with -1 where sizes differ, and those that only some of them have."""
        shared = self._key_names()
        apart = []
        for place, td in enumerate(self.tensordicts):
            only = [(key, _text_in(td, key)) for key in td._key_names() if key not in shared]
            if only:
                apart.append(f"    {place} ->\n{textwrap.indent(listing_of(only), '    ')}")
        common = listing_of((key, self._entry_text(key)) for key in shared)
        return [("fields", common), ("exclusive_fields", ",\n".join(apart))]

    def _entry_text(self, key: str) -> str:
        first = self.tensordicts[0]._peek_str(key)
        if isinstance(first, TensorCollection):
            return entry_text(self._get_str(key))
        shape = self.get_item_shape(key)
        return entry_text(self._get_str(key)) if -1 not in shape else entry_text(first, shape)

    def _repr_extras(self) -> list[tuple[str, Any]]:
        return [("stack_dim", self.stack_dim)]


def _text_in(td: Any, key: str) -> str:
    """How an entry of a tensordict, which may be a lazy stack itself, is shown."""
    return td._entry_text(key) if td._is_lazy_stack else entry_text(td._get_str(key))


def padded(values: list[Tensor], dim: int, fill: Any, side: str) -> Tensor:
    """Tensors filled up to a common shape and stacked.

    Raises:
        ValueError: an unknown side, or numbers of dimensions differ.
    """
    if side not in ("left", "right"):
        raise ValueError(f'padding_side is {side!r}; use "left" or "right".')
    if any(value.ndim != values[0].ndim for value in values):
        raise ValueError("tensors with different numbers of dimensions cannot be padded to one shape.")
    largest = [max(sizes) for sizes in zip(*[value.shape for value in values], strict=True)]
    out = values[0].new_full((len(values), *largest), fill)
    for place, value in enumerate(values):
        starts = [(big - small if side == "left" else 0) for big, small in zip(largest, value.shape, strict=True)]
        spans = [slice(start, start + size) for start, size in zip(starts, value.shape, strict=True)]
        where: tuple[Any, ...] = (place, *spans)
        out[where] = value
    return out.movedim(0, dim)
