"""Indexing a lazy stack: the part of the index at the stack dimension chooses tensordicts, the rest goes to each."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._conversion.entries import convert
from flambeau.data.tensordict._layout.index import indexed_size, normal_index
from flambeau.data.tensordict._layout.keys import key_path, missing_key
from flambeau.data.tensordict._lazy_stack.members import StackMethods
from flambeau.data.tensordict._methods.access import AccessMethods
from flambeau.data.tensordict._td import make_td
from flambeau.data.tensordict._tensorcollection import TensorCollection


class _Parts(NamedTuple):
    """An index taken apart."""

    rest: tuple[Any, ...]  # for each tensordict
    chosen: Any  # at the stack dimension: an int, a slice or a 1-D tensor; None where it is not as simple
    place: int  # of the stack dimension in the result


def take_apart(index: Any, stack_dim: int, ndim: int) -> _Parts | None:
    """Split a normal index; None where tensors at several dimensions depend on one another."""
    parts = index if type(index) is tuple else (index,)
    position, place, tensors = 0, 0, 0
    before: list[Any] = []
    chosen: Any = None
    after: list[Any] = []
    found = False
    for part in parts:
        if part is None or isinstance(part, bool):
            (after if found else before).append(part)
            place += 0 if found else 1
            continue
        width = 1
        if isinstance(part, Tensor):
            if part.dtype is torch.bool:
                if part.ndim > 1 and position <= stack_dim < position + part.ndim:
                    return None
                width = part.ndim
            tensors += 1
        if not found and position <= stack_dim < position + width:
            chosen, found = part, True
        else:
            (after if found else before).append(part)
            if not found:
                place += _kept(part)
        position += width
    if not found:
        before += [slice(None)] * (stack_dim - position)
        place += max(0, stack_dim - position)
        chosen = slice(None)
    mixed = tensors > 1 or (tensors and any(type(part) is int for part in parts))
    if mixed and type(chosen) is int and _one_run(parts):
        return _Parts((*before, *after), chosen, place)
    if mixed and not (type(chosen) is slice and _one_run(after) and not any(map(_advanced, before))):
        return None
    return _Parts((*before, *after), chosen, place)


def _advanced(part: Any) -> bool:
    return type(part) is int or isinstance(part, Tensor)


def _one_run(parts: Any) -> bool:
    """Whether integers and tensors stand side by side, so that the dimension they give stays where they are."""
    flags = "".join("x" if _advanced(part) else "." for part in parts)
    return "." not in flags.strip(".")


def _kept(part: Any) -> int:
    """How many dimensions of the result come of one part."""
    if isinstance(part, slice):
        return 1
    if isinstance(part, Tensor):
        return 1 if part.dtype is torch.bool else part.ndim
    return 0


class LazyIndexing(StackMethods):
    """`stack[index]`, read and written."""

    def _index(self, index: Any) -> Any:
        index = normal_index(index, len(self.batch_size))
        if index is True:
            return self.unsqueeze(0)  # as None; for the tensordicts it would be a mask, which copies
        if type(index) is int and self.stack_dim == 0:
            return self._element(index)
        parts = take_apart(index, self.stack_dim, len(self.batch_size))
        if parts is None:
            return self._index_jointly(index)
        rest = _trimmed(parts.rest)
        if type(parts.chosen) is int:
            td = self._element(parts.chosen)
            return td[rest] if rest else td
        tds = self._chosen(parts.chosen)
        masked = isinstance(parts.chosen, Tensor) and parts.chosen.dtype is torch.bool
        if masked:
            tds = [td.clone() for td in tds]  # what a mask selects is a copy, as of tensors
        result = self._restacked([td[rest] for td in tds] if rest else tds, parts)
        if not tds:
            result._element_size = indexed_size(self._element_size, rest) if rest else self._element_size
        return result if masked else self._locked_alike(result)

    def _element(self, position: int) -> Any:
        if not -len(self.tensordicts) <= position < len(self.tensordicts):
            raise IndexError(f"index {position} is out of range for a stack of {len(self.tensordicts)} tensordicts.")
        return self.tensordicts[position]

    def _chosen(self, chosen: Any) -> list[Any]:
        if isinstance(chosen, slice):
            return self.tensordicts[chosen]
        positions = chosen.nonzero().flatten() if chosen.dtype is torch.bool else chosen.flatten()
        return [self._element(position) for position in positions.tolist()]

    def _restacked(self, tds: list[Any], parts: _Parts) -> Any:
        chosen = parts.chosen
        if isinstance(chosen, Tensor) and chosen.dtype is not torch.bool and chosen.ndim != 1:
            if chosen.ndim == 0:
                return tds[0]
            return self._nest(tds, chosen.shape, parts.place)
        return self._like(tds, parts.place)

    def _nest(self, tds: list[Any], shape: torch.Size, place: int) -> Any:
        """Stacks of stacks, for several dimensions that begin at `place`."""
        if len(shape) == 1:
            return self._like(tds, place)
        step = max(1, len(tds) // shape[0]) if shape[0] else 0
        rows = [tds[start * step : (start + 1) * step] for start in range(shape[0])]
        return self._like([self._nest(row, shape[1:], place) for row in rows], place)

    def _index_jointly(self, index: Any) -> Any:
        """An index whose tensors depend on one another: of a dense stack, or by element where there is none."""
        if (picked := self._picked(index)) is not None:
            return picked
        if self._is_even():
            return self._dense()[index]
        rows = self._positions()[index]
        elements = [self._at(torch.unravel_index(row, self.batch_size)) for row in rows.flatten()]
        return self._nest(elements, rows.shape, 0) if rows.ndim else elements[0]

    def _picked(self, index: Any) -> Any:
        """One element for each place of 1-D integer tensors, the stack dimension's among them; else None."""
        parts = list(index) if type(index) is tuple else [index]
        tensors = [place for place, part in enumerate(parts) if isinstance(part, Tensor)]
        simple = all(parts[place].ndim <= 1 for place in tensors)
        if not simple or any(part is None or isinstance(part, bool) for part in parts):
            return None
        if self.stack_dim not in tensors or not _one_run(parts):
            return None
        masked = any(parts[place].dtype is torch.bool for place in tensors)
        columns = torch.broadcast_tensors(*[_as_positions(parts[place]) for place in tensors])
        found = []
        for row in zip(*[column.tolist() for column in columns], strict=True):
            for place, position in zip(tensors, row, strict=True):
                parts[place] = position
            rest = _trimmed((*parts[: self.stack_dim], *parts[self.stack_dim + 1 :]))
            td = self._element(parts[self.stack_dim])
            found.append(td[rest] if rest else td)
        if masked:
            found = [td.clone() for td in found]
        place = sum(isinstance(part, slice) for part in parts[: tensors[0]])
        result = self._like(found, place)
        if not found:
            size = indexed_size(self.batch_size, index)
            result._element_size = torch.Size((*size[:place], *size[place + 1 :]))
        return result if masked else self._locked_alike(result)

    def _positions(self) -> Tensor:
        size = self.batch_size
        return torch.arange(size.numel()).reshape(size)

    def _at(self, place: Any) -> Any:
        place = [int(one) for one in place]
        chosen = place.pop(self.stack_dim)
        return self.tensordicts[chosen][tuple(place)] if place else self.tensordicts[chosen]

    # --- writing

    def _set_index(self, index: Any, value: Any) -> None:
        index = normal_index(index, len(self.batch_size))
        parts = take_apart(index, self.stack_dim, len(self.batch_size))
        if parts is not None and type(parts.chosen) is int:
            _assign(self._element(parts.chosen), _trimmed(parts.rest), value)
            return
        value = self._value_for(index, value)
        if parts is None or (isinstance(parts.chosen, Tensor) and parts.chosen.ndim != 1):
            self._set_jointly(index, value)
            return
        tds = self._chosen(parts.chosen)
        rest = _trimmed(parts.rest)
        # Upstream: positions in a list or tensor take over entries of other shapes; others are written in place.
        masked = isinstance(parts.chosen, Tensor) and parts.chosen.dtype is torch.bool
        listed = isinstance(parts.chosen, Tensor) and not masked
        spread = isinstance(value, TensorCollection) or (isinstance(value, Tensor) and value.ndim > parts.place)
        for td, part in zip(tds, value.unbind(parts.place) if spread else [value] * len(tds), strict=True):
            _assign(td, rest, part, replace=listed, copy_new=masked)

    def _value_for(self, index: Any, value: Any) -> Any:
        """What is written, of the batch size that the index selects; numbers stay numbers."""
        if not isinstance(value, (TensorCollection, dict, Tensor)):
            return value
        if isinstance(value, Tensor):
            size = indexed_size(self.batch_size, index)
            return value if value.ndim == 0 or value.ndim >= len(size) else value.expand(size)
        if isinstance(value, TensorCollection) and -1 in self.batch_size:
            return value
        size = indexed_size(self.batch_size, index)
        value = convert(value, size, self.device)
        return value if value.batch_size[: len(size)] == size else self._fitted(value, size)

    def _set_jointly(self, index: Any, value: Any) -> None:
        rows = self._positions()[index]
        places = torch.unravel_index(rows.flatten(), self.batch_size)
        chosen, others = places[self.stack_dim], [*places[: self.stack_dim], *places[self.stack_dim + 1 :]]
        flat = value
        if isinstance(value, (Tensor, TensorCollection)) and len(value.shape) >= rows.ndim:
            flat = value.reshape(-1) if isinstance(value, TensorCollection) else value.flatten(0, max(rows.ndim - 1, 0))
        for position in chosen.unique().tolist():
            where = chosen == position
            sub = tuple(other[where] for other in others)
            part = flat[where] if isinstance(flat, (Tensor, TensorCollection)) and len(flat.shape) else flat
            if sub:
                self.tensordicts[position][sub] = part
            else:
                _assign(self.tensordicts[position], (), part[-1] if isinstance(part, TensorCollection) else part)

    def _set_at_str(self, key: str, value: Any, index: Any) -> None:
        """Write a part of one entry: through a stack of that entry's holders."""
        if self._get_first(key) is None:
            AccessMethods._set_at_str(self, key, value, index)
            return
        only = self._like([td.select(key) for td in self.tensordicts])
        if isinstance(value, (Tensor, TensorCollection)) and len(value.shape):
            value = make_td({key: value}, indexed_size(self.batch_size, normal_index(index, len(self.batch_size))))
        only._set_index(index, value)
        for td, changed in zip(self.tensordicts, only.tensordicts, strict=True):
            entry = changed._get_str(key)
            before = td._get_str(key)
            if entry is not before:
                entry = before._replaced_by(entry) if getattr(before, "_is_non_tensor", False) else entry
                td._set_str(key, entry, validated=True, ignore_lock=True)

    def update_at_(
        self,
        input_dict_or_td: Any,
        idx: Any,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Any = None,
    ) -> Self:
        """Write a part of each entry of a tensordict; see `TensorDictBase.update_at_`."""
        if not isinstance(input_dict_or_td, TensorCollection):
            raise TypeError(f"update_at_ takes a tensordict, not a {type(input_dict_or_td).__name__}.")
        source = input_dict_or_td
        if keys_to_update is not None:
            source = source.select(*([keys_to_update] if isinstance(keys_to_update, str) else keys_to_update))
        for key in source.keys(True, True):
            if self._peek_path(key_path(key)) is None:
                raise missing_key(key, self._key_names())
        self._set_index(idx, source)
        return self

    def _get_first(self, key: str) -> Any:
        return self.tensordicts[0]._peek_str(key) if self.tensordicts else None


def _as_positions(part: Tensor) -> Tensor:
    return part.nonzero().flatten() if part.dtype is torch.bool else part


def _trimmed(rest: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without slices at the end that take everything."""
    parts = list(rest)
    while parts and type(parts[-1]) is slice and parts[-1] == slice(None):
        parts.pop()
    return tuple(parts)


def _assign(td: Any, rest: tuple[Any, ...], value: Any, *, replace: bool = False, copy_new: bool = False) -> None:
    """Write into a tensordict of the stack: into its tensors, or with `replace` in place of those of another shape.

    Entries that it lacks are added, as they are or as copies.
    """
    if rest:
        td[rest] = value
        return
    if not isinstance(value, (TensorCollection, dict)):
        td[...] = value
        return
    value = convert(value, td.batch_size, td.device)
    for key, item in value._items():
        target = td._get_str(key)
        if isinstance(target, TensorCollection) and not target._is_non_tensor:
            _assign(target, (), item, replace=replace, copy_new=copy_new)
        elif isinstance(target, Tensor) and isinstance(item, Tensor):
            td._set_str(key, item, inplace=not replace or target.shape == item.shape)
        else:
            td._set_str(key, item.clone() if copy_new and target is None else item)
