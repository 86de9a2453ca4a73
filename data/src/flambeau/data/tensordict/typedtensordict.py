"""`TypedTensorDict`: tensordicts with declared entries.

A subclass declares its entries as annotations; they are attributes then, and the constructor wants them::

    class State(TypedTensorDict):
        position: Tensor
        label: NotRequired[Tensor]

    state = State(position=torch.zeros(5, 3), batch_size=[5])
    state.position

It holds a tensordict of any kind (`from_tensordict`), does everything with it, and gives the tensordicts that come of
it in its own class.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch

from flambeau.data.tensordict._layout.pytree import register_transparent
from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict._tensorclass.forwarding import add_forwards
from flambeau.data.tensordict.base import TensorDictBase

_OPTIONS = ("shadow", "frozen", "autocast", "nocast", "tensor_only")


@typing.dataclass_transform(kw_only_default=True)
class TypedTensorDict(TensorDictBase):
    """A tensordict whose subclasses declare their entries.

    Options stand in brackets behind the base class, or are arguments of the class, and are inherited:
    `class State(TypedTensorDict["frozen"])`, `class State(TypedTensorDict, frozen=True)`. With `frozen` an instance is
    locked when it is made; with `shadow` entries may have the names of methods. `autocast`, `nocast` and `tensor_only`
    are taken as those of tensorclasses, but values always become what they become in a `TensorDict`.

    Args:
        source: entries, in place of keywords; taken as they are, declared or not.
        batch_size: the leading dimensions that all entries share.
        device: where they live.
        names: of the batch dimensions.
        non_blocking: as in `TensorDict`.
        lock: lock the instance, see `lock_`.
        fields: the declared entries, by name.

    Raises:
        TypeError: an entry is missing, or is none that was declared; or the class declares nothing.
    """

    __expected_keys__: ClassVar[frozenset[str]] = frozenset()
    __required_keys__: ClassVar[frozenset[str]] = frozenset()
    __optional_keys__: ClassVar[frozenset[str]] = frozenset()
    _shadow: ClassVar[bool] = False
    _frozen: ClassVar[bool] = False
    _autocast: ClassVar[bool] = False
    _nocast: ClassVar[bool] = False
    _tensor_only: ClassVar[bool] = False
    _tensordict: Any

    def __init__(
        self,
        source: Mapping[str, Any] | None = None,
        *,
        batch_size: Any = None,
        device: Any = None,
        names: Any = None,
        non_blocking: bool | None = None,
        lock: bool = False,
        **fields: Any,
    ) -> None:
        if type(self) is TypedTensorDict:
            raise TypeError("TypedTensorDict declares no entries; derive a class from it that does.")
        if source is None:
            self._check(fields)
            if unknown := sorted(fields.keys() - self.__expected_keys__):
                raise TypeError(
                    f"{type(self).__name__} declares no {unknown}; it declares {sorted(self.__expected_keys__)}."
                )
            source = fields
        td = TensorDict(
            source,
            batch_size=batch_size,
            device=device,
            names=names,
            non_blocking=non_blocking,
            lock=lock or self._frozen,
        )
        object.__setattr__(self, "_tensordict", td)

    def __init_subclass__(
        cls,
        *,
        shadow: bool | None = None,
        frozen: bool | None = None,
        autocast: bool | None = None,
        nocast: bool | None = None,
        tensor_only: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        for option, value in zip(_OPTIONS, (shadow, frozen, autocast, nocast, tensor_only), strict=True):
            if value is not None:
                setattr(cls, f"_{option}", bool(value))
        required, optional = set(cls.__required_keys__), set(cls.__optional_keys__)
        for name, hint in inspect.get_annotations(cls).items():
            if name.startswith("_") or "ClassVar" in str(hint):
                continue
            if hasattr(TensorDictBase, name) and not cls._shadow:
                raise AttributeError(
                    f"{cls.__name__}.{name} is a method of tensordicts; choose another name, or declare the class with "
                    'TypedTensorDict["shadow"].'
                )
            for names, belongs in ((required, not _optional(hint)), (optional, _optional(hint))):
                names.add(name) if belongs else names.discard(name)
            setattr(cls, name, _Field(name))
        cls.__required_keys__, cls.__optional_keys__ = frozenset(required), frozenset(optional)
        cls.__expected_keys__ = frozenset(required | optional)
        register_transparent(cls, cls._around)

    def __class_getitem__(cls, options: str | tuple[str, ...]) -> type:
        """The class with options: "shadow", "frozen", "autocast", "nocast", "tensor_only".

        Raises:
            ValueError: another option.
        """
        wanted = (options,) if isinstance(options, str) else options
        if unknown := [option for option in wanted if option not in _OPTIONS]:
            raise ValueError(f"no options {unknown}; there are {list(_OPTIONS)}.")
        return type(f"TypedTensorDict_{'_'.join(wanted)}", (cls,), {f"_{option}": True for option in wanted})

    @classmethod
    def _check(cls, entries: Any) -> None:
        missing = sorted(name for name in cls.__required_keys__ if name not in entries)
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
        return cls._around(td)

    @classmethod
    def _around(cls, td: Any) -> Self:
        made = cls.__new__(cls)
        object.__setattr__(made, "_tensordict", td)
        return made

    @classmethod
    def _wrapped(cls, result: Any) -> Any:
        """Give results that are tensordicts this class."""
        if type(result) in (tuple, list):
            return type(result)(map(cls._wrapped, result))
        if isinstance(result, TensorDictBase) and not isinstance(result, TypedTensorDict):
            return cls._around(result)
        return result

    _from_class_method = _wrapped

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__expected_keys__:
            self._tensordict.set(name, value)
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        """What only some kinds of tensordicts have, such as `stack_dim`."""
        if name == "_tensordict":  # not there before it is set, as in an object that is being unpickled
            raise AttributeError(name)
        if name in self.__expected_keys__:
            raise AttributeError(f"{type(self).__name__}.{name} is declared, but not set.")
        try:
            return getattr(self._tensordict, name)
        except AttributeError:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}") from None

    def __getitem__(self, index: Any) -> Any:
        result = self._tensordict[index]
        is_key = isinstance(index, str) or (isinstance(index, tuple) and bool(index) and isinstance(index[0], str))
        if is_key:
            return result
        return self if result is self._tensordict else self._wrapped(result)

    def to_lazystack(self, dim: int = 0) -> Any:
        """A lazy stack of the elements along a batch dimension, which are of this class."""
        return TensorDictBase.to_lazystack(self, dim)

    def tolist(self, **kwargs: Any) -> Any:
        """A list over the batch dimensions, see `TensorDictBase.tolist`; tensordicts in it are of this class."""
        return TensorDictBase.tolist(self, **kwargs)

    def split_keys(self, *key_sets: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Distribute the entries over several tensordicts of this class; see `TensorDictBase.split_keys`."""
        return TensorDictBase.split_keys(self, *key_sets, **kwargs)

    def __iter__(self) -> Any:
        return map(self._wrapped, iter(self._tensordict))

    def _rebuild(self, leaves: Any, device: torch.device | None = None) -> Any:
        return self._wrapped(self._tensordict._rebuild(leaves, device))

    @classmethod
    def _stack_of(cls, tds: Sequence[Any], dim: int, out: Any) -> Any:
        result = torch.stack([_plain(td) for td in tds], dim, out=_plain(out))
        return cls._wrapped(result) if out is None else out

    @classmethod
    def _cat_of(cls, tds: Sequence[Any], dim: int, out: Any) -> Any:
        result = torch.cat([_plain(td) for td in tds], dim, out=_plain(out))
        return cls._wrapped(result) if out is None else out


class _Field:
    """A declared entry as an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = instance._tensordict._get_str(self.name)
        if value is None:
            raise AttributeError(f"{owner.__name__}.{self.name} is declared, but not set.")
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance._tensordict.set(self.name, value)


def _optional(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.NotRequired or "NotRequired[" in str(hint)


def _plain(td: Any) -> Any:
    return td._tensordict if isinstance(td, TypedTensorDict) else td


# What holds no values of the declared entries stays a plain tensordict.
_PLAIN = """
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __and__ __or__ __xor__ all any sum nansum mean nanmean prod std var amax
    amin max min cummax cummin quantile _make_child
"""

add_forwards(TypedTensorDict, bare=frozenset(_PLAIN.split()), whole=frozenset())
