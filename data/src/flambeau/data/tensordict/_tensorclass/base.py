"""Tensorclasses: dataclasses whose fields are the entries of a tensordict."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict._layout.keys import key_path
from flambeau.data.tensordict._layout.printing import entry_text
from flambeau.data.tensordict._layout.pytree import register_tensorclass
from flambeau.data.tensordict._layout.sizes import refuse_device
from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict._td_functions import lazy_stack
from flambeau.data.tensordict._tensorclass.casting import cast_to_annotation, keep_number
from flambeau.data.tensordict._tensorclass.fields import TENSORCLASS_NAMES, Options, make_fields
from flambeau.data.tensordict._tensorclass.forwarding import add_forwards
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._torch_func import call_torch_function
from flambeau.data.tensordict.base import TensorDictBase

T = TypeVar("T")

_JOIN = ",\n"

_UPDATE_OPTIONS = {"non_blocking", "keys_to_update", "is_leaf", "update_batch_size", "ignore_lock"}


class TensorClassMeta(type):
    """Lets options stand in brackets behind a base class."""

    def __getitem__(cls, item: Any) -> Any:
        """`TensorClass["autocast", "frozen"]`: a base class that sets options; `MetaData[str]`: what a value is.

        Raises:
            TypeError: an unknown option, or options that exclude each other.
        """
        return cls._subscripted(item)  # type: ignore[attr-defined]


class TensorClass(TensorCollection, metaclass=TensorClassMeta):
    """Base of tensorclasses: fields by annotation, entries of a tensordict inside, and all of its methods.

    Args:
        args: values of the fields, in order.
        batch_size: of the whole; by default none.
        device: of the whole.
        names: of the batch dimensions.
        kwargs: values of the fields by name.

    Raises:
        TypeError: a field without default is missing.
        AttributeError: there is no field of this name.

    Example:
        >>> class Sample(TensorClass):
        ...     image: torch.Tensor
        ...     label: str = "?"
        >>> Sample(torch.zeros(2, 3, 8, 8), batch_size=[2])[0].label
        '?'
    """

    _is_tensorclass: ClassVar[bool] = True
    _is_template: ClassVar[bool] = True
    _options: ClassVar[Options] = Options()
    _field_names: ClassVar[tuple[str, ...]] = ()
    _field_defaults: ClassVar[tuple[tuple[str, Any, Any], ...]] = ()
    _shadowed_arguments: ClassVar[tuple[str, ...]] = ()  # of the constructor, which fields of the same name hide
    _resolved: ClassVar[dict[str, Any]]  # the types of the fields, once they were asked for
    _tensordict: Any

    @classmethod
    def _subscripted(cls, options: str | tuple[str, ...]) -> type:
        names = options if isinstance(options, tuple) else (options,)
        chosen = cls._options.with_changes(**{str(name): True for name in names})
        make: Any = type(cls)
        return make(cls.__name__, (cls,), {"_options": chosen, "_is_template": True, "__module__": cls.__module__})

    def __init_subclass__(
        cls,
        *,
        autocast: bool | None = None,
        frozen: bool | None = None,
        nocast: bool | None = None,
        shadow: bool | None = None,
        tensor_only: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls._options = cls._options.with_changes(
            autocast=autocast, frozen=frozen, nocast=nocast, shadow=shadow, tensor_only=tensor_only
        )
        if "_is_template" in vars(cls) and vars(cls)["_is_template"]:
            return
        cls._is_template = False
        make_fields(cls, TensorClass)
        register_tensorclass(cls)

    def __init__(
        self,
        *args: Any,
        batch_size: Sequence[int] | torch.Size | int | None = None,
        device: Any = None,
        names: Sequence[str | None] | None = None,
        non_blocking: bool | None = None,
        lock: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if self._shadowed_arguments:
            given = {
                "batch_size": batch_size, "device": device, "names": names, "non_blocking": non_blocking,
                "lock": lock,
            }  # fmt: skip
            fields = {name: given.pop(name) for name in self._shadowed_arguments}
            kwargs |= {name: value for name, value in fields.items() if value is not None}
            kwargs = {name: kwargs.pop(name) for name in self._field_names if name in kwargs} | kwargs
            batch_size, device, names = given.get("batch_size"), given.get("device"), given.get("names")
            lock = given.get("lock")
        values = self._bind(args, kwargs)
        inner = TensorDict({}, batch_size=batch_size, device=device, names=names)
        object.__setattr__(self, "_tensordict", inner)
        for name, value in values.items():
            if value is not None:
                self._set_field(name, value)
        post = getattr(type(self), "__post_init__", None)
        if post is not None:
            post(self)
        if self._options.frozen if lock is None else lock:
            inner.lock_()

    @classmethod
    def _bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The value of each field."""
        if len(kwargs) == len(cls._field_names) and not args and kwargs.keys() == set(cls._field_names):
            return kwargs
        names = cls._field_names
        if len(args) > len(names):
            raise TypeError(f"{cls.__name__} has {len(names)} fields, but {len(args)} positional values were given.")
        values = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in cls._field_names:
                raise cls._no_field(name)
            if name in values:
                raise ValueError(f"{cls.__name__} got two values for {name!r}.")
            values[name] = value
        missing = []
        for name, default, factory in cls._field_defaults:
            if name in values:
                continue
            if default is not dataclasses.MISSING:
                values[name] = default
            elif factory is not dataclasses.MISSING:
                values[name] = factory()
            else:
                missing.append(name)
        if missing:
            raise TypeError(f"{cls.__name__} is missing a value for {', '.join(map(repr, missing))}.")
        return values

    @classmethod
    def _no_field(cls, name: str) -> AttributeError:
        return AttributeError(
            f"{name!r} is no field of {cls.__name__}; its fields are "
            f"{', '.join(map(repr, cls._field_names)) or 'none'}."
        )

    # --- fields

    def _get_field(self, name: str) -> Any:
        value = self._tensordict._get_str(name)
        return value if value is None or isinstance(value, Tensor) else value._unwrap()

    def _set_field(self, name: str, value: Any) -> None:
        inner = self._tensordict
        if value is None:
            if inner._get_str(name) is not None:
                inner.del_(name)
            return
        options = self._options
        if options.autocast:
            value = cast_to_annotation(value, self._annotations().get(name, Any), inner.batch_size, inner.device)
        elif isinstance(value, (dict, tuple, np.generic)) or (
            options.nocast and not isinstance(value, (Tensor, TensorCollection))
        ):
            value = keep_number(value, inner.batch_size, inner.device)
        inner._set_path((name,), value)

    @classmethod
    def _annotations(cls) -> dict[str, Any]:
        """The fields' types, forward references resolved where their names can be found."""
        known = vars(cls).get("_resolved")
        if known is None:
            try:
                # A name means what it means where the class is written; only else a tensorclass of that name elsewhere.
                there = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
                elsewhere = {name: kind for name, kind in TENSORCLASS_NAMES.items() if name not in there}
                known = typing.get_type_hints(cls, localns=elsewhere)
            except (NameError, TypeError):
                known = {field.name: field.type for field in dataclasses.fields(cls)}  # type: ignore[arg-type]  # as below
            cls._resolved = known
        return known

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or inspect.getattr_static(type(self), name, None) is not None:
            object.__setattr__(self, name, value)
            return
        raise self._no_field(name)

    @classmethod
    def fields(cls) -> tuple[dataclasses.Field[Any], ...]:
        """The fields, as `dataclasses.fields` gives them."""
        return dataclasses.fields(cls)  # type: ignore[arg-type]  # `make_fields` makes it a dataclass

    # --- around a tensordict

    @classmethod
    def from_tensordict(cls, tensordict: Any, non_tensordict: dict[str, Any] | None = None, safe: bool = True) -> Self:
        """An instance around a tensordict, which is not copied.

        Args:
            tensordict: whose keys are fields.
            non_tensordict: values of further fields.
            safe: check the keys.

        Raises:
            ValueError: keys that are no fields.
            RuntimeError: `tensordict` is none.
        """
        if not isinstance(tensordict, TensorDictBase):
            raise RuntimeError(f"expected a tensordict, got a {type(tensordict).__name__}; from_dict takes a dict.")
        if safe:
            cls._check_keys(tensordict.keys())
        made = cls.__new__(cls)
        object.__setattr__(made, "_tensordict", tensordict)
        for name, value in (non_tensordict or {}).items():
            made._set_field(name, value)
        return made

    @classmethod
    def _check_keys(cls, keys: Iterable[str]) -> None:
        if unknown := [key for key in keys if key not in cls._field_names]:
            raise ValueError(
                f"keys {', '.join(map(repr, unknown))} are no fields of {cls.__name__}; its fields are "
                f"{', '.join(map(repr, cls._field_names))}."
            )

    _from_tensordict = from_tensordict  # of upstream's private names the one that other libraries call

    @classmethod
    def _from_saved(cls, tensordict: Any, absent: dict[str, Any]) -> Self:
        return cls.from_tensordict(tensordict, {key: value for key, value in absent.items() if value is not None})

    @classmethod
    def _from_class_method(cls, result: Any) -> Any:
        if not isinstance(result, TensorDictBase) or cls._is_template:
            return result
        return cls.from_tensordict(result)

    def to_dict(self, *, retain_none: bool = True, **kwargs: Any) -> Any:
        """The fields as a dict, see `TensorDictBase.to_dict`; those without a value only with `retain_none`."""
        made: dict[str, Any] = self._tensordict.to_dict(retain_none=retain_none, **kwargs)
        return made | self._absent_fields() if retain_none else made

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """A TensorDict with copies of the fields; those without a value are None in it only with `retain_none`."""
        td = self._tensordict.to_tensordict(retain_none=retain_none)
        return td.update(self._absent_fields()) if retain_none else td

    def state_dict(
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
    ) -> Any:
        """The tensors as a dict, as `TensorDictBase.state_dict` does; fields of other values stand in its metadata."""
        out = self._tensordict.state_dict(destination, prefix, keep_vars, flatten)
        values = {}
        for name in self._field_names:
            value = self._tensordict._get_str(name)
            if value is None or getattr(value, "_is_non_tensor", False):
                values[name] = None if value is None else value._unwrap()
                out.pop(prefix + name, None)
                getattr(out, "_metadata", {}).pop(prefix + name, None)
        if hasattr(out, "_metadata"):
            out._metadata[prefix[:-1]] |= {"_type": type(self).__name__, "_non_tensor": values}
        return out

    def _load_non_tensors(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if name in self._field_names and value is not None:
                self._set_field(name, value)

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, assign: bool = False, from_flatten: bool | None = None
    ) -> Self:
        """Take the entries of a state dict; see `TensorDictBase.load_state_dict`."""
        self._tensordict.load_state_dict(state_dict, strict=strict, assign=assign, from_flatten=from_flatten)
        self._load_non_tensors(getattr(state_dict, "_metadata", {}).get("", {}).get("_non_tensor", {}))
        return self

    def _absent_fields(self) -> dict[str, None]:
        """Fields without a value, as `meta.json` notes them."""
        present = set(self._tensordict._key_names())
        return {name: None for name in self._field_names if name not in present}

    def _wrap(self, inner: Any) -> Self:
        made = type(self).__new__(type(self))
        object.__setattr__(made, "_tensordict", inner)
        return made

    def _wrapped(self, result: Any) -> Any:
        """Give results that are tensordicts of this class's fields its class."""
        if isinstance(result, TensorDictBase):
            return self._wrap(result) if self._holds_fields(result) else result
        if type(result) is tuple and result and isinstance(result[0], TensorDictBase):
            return tuple(map(self._wrapped, result))
        if type(result) is list and result and isinstance(result[0], TensorDictBase):
            return list(map(self._wrapped, result))
        return result

    def _holds_fields(self, inner: Any) -> bool:
        names = self._field_names
        return all(key in names for key in inner._key_names())

    @property
    def batch_size(self) -> torch.Size:
        """The dimensions that all fields share; assigning another checks every field."""
        return self._tensordict.batch_size

    @batch_size.setter
    def batch_size(self, size: Sequence[int] | torch.Size | int) -> None:
        self._tensordict.batch_size = size

    @property
    def device(self) -> torch.device | None:
        """Where all tensors live; None where each may live anywhere. It is changed by `to`.

        Raises:
            RuntimeError: on assignment.
        """
        return self._tensordict.device

    @device.setter
    def device(self, device: Any) -> None:
        refuse_device(device)

    @property
    def names(self) -> list[str | None]:
        """Of the batch dimensions, None for one without."""
        return self._tensordict.names

    @names.setter
    def names(self, names: Sequence[str | None] | None) -> None:
        self._tensordict.names = names

    def __iter__(self) -> Any:
        return map(self._wrapped, iter(self._tensordict))

    def get(self, key: Any, *args: Any, **kwargs: Any) -> Any:
        """The value of a field, or of an entry below one; see `TensorDictBase.get`."""
        value = self._tensordict.get(key, *args, **kwargs)
        return value._unwrap() if isinstance(value, TensorCollection) else value

    def set(self, key: Any, value: Any, inplace: bool = False, non_blocking: bool = False) -> Self:
        """Set a field, or an entry below one.

        Raises:
            AttributeError: there is no such field.
            RuntimeError: the instance is locked.
        """
        name = key_path(key)[0]
        if name not in self._field_names:
            raise self._no_field(name)
        if isinstance(key, str) and not inplace and not isinstance(value, Tensor):
            self._set_field(key, value)
        else:
            self._tensordict.set(key, value, inplace=inplace, non_blocking=non_blocking)
        return self

    def update(self, input_dict_or_td: Any = None, clone: bool = False, inplace: bool = False, **kwargs: Any) -> Self:
        """Set fields from a mapping or another instance; see `TensorDictBase.update`.

        Raises:
            ValueError: keys that are no fields.
        """
        if isinstance(input_dict_or_td, (Mapping, TensorCollection)):
            names = {key_path(key)[0] for key in input_dict_or_td.keys()}  # noqa: SIM118  a tensordict iterates its batch
            self._check_keys(names)
        self._check_keys(kwargs.keys() - _UPDATE_OPTIONS)
        self._tensordict.update(_inner(input_dict_or_td), clone, inplace, **kwargs)
        return self

    def select(self, *keys: Any, inplace: bool = False, strict: bool = True, as_tensordict: bool = False) -> Any:
        """Some of the fields, see `TensorDictBase.select`; the others are None, or absent from a TensorDict.

        Args:
            keys: of the fields, or of entries below them.
            inplace: remove the others from this instance.
            strict: raise for a key that is not there.
            as_tensordict: give a TensorDict.
        """
        chosen = self._tensordict.select(*keys, inplace=inplace, strict=strict)
        return chosen if as_tensordict else self if chosen is self._tensordict else self._wrap(chosen)

    def __getitem__(self, index: Any) -> Any:
        result = self._tensordict[index]
        return self._wrapped(result) if isinstance(result, TensorDictBase) else result

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, TensorClass) and type(value) is not type(self) and not value._is_non_tensor:
            raise ValueError(f"a {type(value).__name__} cannot be written into a {type(self).__name__}.")
        self._tensordict[index] = value

    def __contains__(self, key: Any) -> bool:
        return key in self._tensordict.keys(isinstance(key, tuple))

    def extend(self, *args: Any, **kwargs: Any) -> None:
        """Append tensordicts to a tensorclass over a lazy stack; see `LazyStackedTensorDict.extend`."""
        self._tensordict.extend(*args, **kwargs)

    def __eq__(self, other: object) -> Any:
        return self._wrapped(self._tensordict == _inner(other))

    def __ne__(self, other: object) -> Any:
        return self._wrapped(self._tensordict != _inner(other))

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(
        cls, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return call_torch_function(func, types, args, kwargs or {})

    _combine_rank: ClassVar[int] = 10

    @classmethod
    def _stack_of(cls, tensors: list[Any], dim: int, out: Any) -> Any:
        return cls._combined(torch.stack, tensors, dim, out)

    @classmethod
    def _cat_of(cls, tensors: list[Any], dim: int, out: Any) -> Any:
        return cls._combined(torch.cat, tensors, dim, out)

    @classmethod
    def _lazy_stack_of(cls, tensors: list[Any], dim: int) -> Any:
        return cls._combined(lazy_stack, tensors, dim, None)

    @classmethod
    def _combined(cls, combine: Callable[..., Any], tensors: list[Any], dim: int, out: Any) -> Any:
        inner = combine([_inner(item) for item in tensors], dim, out=None if out is None else _inner(out))
        if out is not None:
            return out
        if any(isinstance(item, TensorClass) and type(item) is not cls for item in tensors):
            return inner
        return cls.from_tensordict(inner, safe=False)

    def close(self) -> None:
        """Close the file that the fields are read from, see `to_h5`.

        Raises:
            AttributeError: they lie in memory.
        """
        self._tensordict.close()

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self._tensordict)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        return self._wrap(copy.deepcopy(self._tensordict, memo))

    def __repr__(self) -> str:
        inner = self._tensordict
        lines = [
            f"{name}={'None' if (value := inner._get_str(name)) is None else entry_text(value)}"
            for name in self._field_names
        ]
        lines += [f"batch_size={inner.batch_size}", f"device={inner.device}", f"is_shared={inner.is_shared()}"]
        return f"{type(self).__name__}(\n{textwrap.indent(_JOIN.join(lines), '    ')})"


def _inner(value: Any) -> Any:
    return value._tensordict if isinstance(value, TensorClass) and not value._is_non_tensor else value


def _rebuild(cls: type[TensorClass], inner: Any) -> TensorClass:
    return cls.from_tensordict(inner, safe=False)


add_forwards(TensorClass)
