"""`TypedTensorDict`: tensordicts with declared entries.

A subclass declares its entries as annotations; they are attributes then, and the constructor wants them::

    class State(TypedTensorDict):
        position: Tensor
        label: NotRequired[Tensor]

    state = State(position=torch.zeros(5, 3), batch_size=[5])
    state.position

It holds a tensordict of any kind (`from_tensordict`), does everything with it, and gives results that still have the
declared entries back in its own class.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch

from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict.base import TensorDictBase

_OPTIONS = frozenset({"frozen", "shadow"})


class TypedTensorDict(TensorDictBase):
    """A tensordict whose subclasses declare their entries.

    `class State(TypedTensorDict["frozen"])` forbids setting attributes, `["shadow"]` allows entries with the names of
    methods.

    Args:
        source: entries, in place of keywords.
        batch_size: the leading dimensions that all entries share.
        device: where they live.
        names: of the batch dimensions.
        fields: the declared entries, by name.

    Raises:
        TypeError: an entry is missing, or is none that was declared.
    """

    _required: ClassVar[frozenset[str]] = frozenset()
    _declared: ClassVar[dict[str, Any]] = {}
    _frozen: ClassVar[bool] = False
    _shadow: ClassVar[bool] = False
    _source: Any

    def __init__(
        self,
        source: Mapping[str, Any] | None = None,
        *,
        batch_size: Any = None,
        device: Any = None,
        names: Any = None,
        **fields: Any,
    ) -> None:
        entries = fields if source is None else {**source, **fields}
        unknown = sorted(entries.keys() - self._declared.keys())
        if unknown:
            raise TypeError(f"{type(self).__name__} declares no {unknown}; it declares {list(self._declared)}.")
        self._check(entries)
        td = TensorDict(entries, batch_size=batch_size, device=device, names=names)
        object.__setattr__(self, "_source", td)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._declared = dict(cls._declared)
        required = set(cls._required)
        for name, hint in inspect.get_annotations(cls).items():
            if name.startswith("_") or "ClassVar" in str(hint):
                continue
            if hasattr(TensorDictBase, name) and not cls._shadow:
                raise AttributeError(
                    f"{cls.__name__}.{name} is a method of tensordicts; choose another name, or declare the class with "
                    'TypedTensorDict["shadow"].'
                )
            cls._declared[name] = hint
            required.discard(name) if _optional(hint) else required.add(name)
            setattr(cls, name, _Field(name))
        cls._required = frozenset(required)

    def __class_getitem__(cls, options: str | tuple[str, ...]) -> type:
        """The class with options: "frozen", "shadow"."""
        wanted = (options,) if isinstance(options, str) else options
        if unknown := sorted(set(wanted) - _OPTIONS):
            raise ValueError(f"no options {unknown}; there are {sorted(_OPTIONS)}.")
        return type(f"TypedTensorDict_{'_'.join(wanted)}", (cls,), {f"_{option}": True for option in wanted})

    @classmethod
    def _check(cls, entries: Any) -> None:
        missing = sorted(name for name in cls._required if name not in entries)
        if missing:
            raise TypeError(f"{cls.__name__} needs {missing}, too.")

    @classmethod
    def from_tensordict(cls, td: Any, *, check: bool = True) -> Self:
        """Around a tensordict of any kind, without a copy.

        Args:
            td: the tensordict.
            check: raise TypeError where a declared entry is missing.
        """
        if check:
            cls._check(td.keys())
        made = cls.__new__(cls)
        object.__setattr__(made, "_source", td)
        return made

    @classmethod
    def _wrapped(cls, result: Any) -> Any:
        """A result in this class, if it has the declared entries."""
        if type(result) is tuple:
            return tuple(cls._wrapped(one) for one in result)
        plain = isinstance(result, TensorDictBase) and not isinstance(result, TypedTensorDict)
        if plain and all(name in result._key_names() for name in cls._required):
            return cls.from_tensordict(result, check=False)
        return result

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._declared:
            if self._frozen:
                raise AttributeError(f"{type(self).__name__} is frozen; {name!r} cannot be set.")
            self._source.set(name, value)
        else:
            super().__setattr__(name, value)

    # --- primitives

    def _items(self) -> Any:
        return self._source._items()

    def _key_names(self) -> Any:
        return self._source._key_names()

    def _get_str(self, key: str, default: Any = None, **kwargs: Any) -> Any:
        return self._source._get_str(key, default, **kwargs)

    def _set_str(self, key: str, value: Any, **options: Any) -> None:
        self._source._set_str(key, value, **options)

    def _del_str(self, key: str) -> None:
        self._source._del_str(key)

    def _index(self, index: Any) -> Any:
        return self._wrapped(self._source._index(index))

    def _rebuild(self, leaves: Any, device: torch.device | None = None) -> Any:
        return self._wrapped(self._source._rebuild(leaves))

    @classmethod
    def _stack_of(cls, tds: list[Any], dim: int, out: Any) -> Any:
        return cls._wrapped(torch.stack([_plain(td) for td in tds], dim, out=out))

    @classmethod
    def _cat_of(cls, tds: list[Any], dim: int, out: Any) -> Any:
        return cls._wrapped(torch.cat([_plain(td) for td in tds], dim, out=out))

    @property
    def batch_size(self) -> torch.Size:
        """The batch size of the tensordict."""
        return self._source.batch_size

    @batch_size.setter
    def batch_size(self, size: Any) -> None:
        self._source.batch_size = size

    @property
    def device(self) -> torch.device | None:
        """The device of the tensordict."""
        return self._source.device

    def _set_device(self, device: torch.device | None) -> None:
        self._source._set_device(device)

    def _names_or_none(self) -> Any:
        return self._source._names_or_none()

    def _set_names(self, names: Any) -> None:
        self._source._set_names(names)

    @property
    def is_locked(self) -> bool:
        """Whether the tensordict is locked."""
        return self._source.is_locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        self._source.is_locked = value

    def _lock_below(self, parent: Any) -> None:
        self._source._lock_below(parent)

    def _check_unlock(self, parent: Any) -> None:
        self._source._check_unlock(parent)

    def _unlock_below(self, parent: Any) -> None:
        self._source._unlock_below(parent)

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """A TensorDict with copies of all tensors."""
        return self._source.to_tensordict(retain_none=retain_none)


class _Field:
    """A declared entry as an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = instance._source._get_str(self.name)
        if value is None:
            raise AttributeError(f"{owner.__name__}.{self.name} is declared, but not set.")
        return value if isinstance(value, torch.Tensor) else value._unwrap()


def _optional(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.NotRequired or "NotRequired[" in str(hint)


def _plain(td: Any) -> Any:
    return td._source if isinstance(td, TypedTensorDict) else td


# Methods that give another tensordict: they run on the tensordict inside, and their result is wrapped.
_GIVING = (
    "apply named_apply view reshape flatten unflatten squeeze unsqueeze permute transpose movedim expand repeat tile "
    "repeat_interleave roll flip narrow gather masked_select masked_fill where unbind split clone empty select exclude "
    "to copy contiguous replace"
)


def _define(name: str) -> None:
    original = getattr(TensorDictBase, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = getattr(self._source, name)(*[_plain(arg) for arg in args], **kwargs)
        return self if result is self._source else self._wrapped(result)

    method.__name__, method.__qualname__, method.__doc__ = name, f"TypedTensorDict.{name}", original.__doc__
    setattr(TypedTensorDict, name, method)


for _name in _GIVING.split():
    _define(_name)
