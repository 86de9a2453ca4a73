"""A class that behaves as the tensordict inside it: every method of `TensorDictBase`, forwarded.

What a method returns is wrapped again where it is a tensordict of the same entries; views of keys, single entries and
conversions are handed on as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict.base import TensorDictBase

# Methods whose result is an entry, or another structure, and stays what it is.
_BARE_NAMES = """
get get_at get_item_shape pop popitem setdefault items keys values sorted_keys entry_class to_tensordict to_dict tolist
numpy state_dict get_nestedtensor get_non_tensor non_tensor_items to_namedtuple to_struct_array to_module data_ptr
cat_from_tensordict stack_from_tensordict _items _key_names _get_str _get_path _leaves
_peek_str _peek_path _collections _names_or_none _dim
"""

# Attributes that a class has of its own, or better has not.
_OWN_NAMES = """
__class__ __delattr__ __dict__ __dir__ __doc__ __format__ __getattribute__ __getstate__ __setstate__ __hash__ __init__
__init_subclass__ __module__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ __sizeof__ __str__ __subclasshook__
__weakref__ __torch_function__ __slots__ __annotations__ __orig_bases__ __parameters__ __match_args__
__abstractmethods__ __class_getitem__ __getitem__ __deepcopy__ _is_non_tensor _is_tensorclass _unwrap _with_item
_stack_of _cat_of _combine_rank
"""

# Methods that treat a collection as a whole, its class included: they are taken over, not forwarded.
_WHOLE_NAMES = """
memmap memmap_ memmap_like save dumps load_memmap load load_memmap_ load_ memmap_refresh_ saved_path _saved
consolidate from_consolidated is_consolidated _consolidated
send recv isend irecv init_remote from_remote_init remote_init gather_and_stack all_gather reduce all_reduce
"""

_BARE, _OWN, _WHOLE = (frozenset(names.split()) for names in (_BARE_NAMES, _OWN_NAMES, _WHOLE_NAMES))

# What concrete tensordicts have, and other collections call.
_PRIMITIVES = ("_items", "_key_names", "_get_str", "_set_str", "_del_str", "_index", "_names_or_none")


def _primitive(name: str) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._tensordict, name)(*args, **kwargs)

    call.__name__ = name
    return call


def add_forwards(cls: type, *, bare: frozenset[str] = frozenset(), whole: frozenset[str] = _WHOLE) -> type:
    """Give a class, whose instances have `_tensordict` and `_wrapped`, what it lacks of a tensordict.

    Args:
        cls: the class.
        bare: further methods whose result stays what it is.
        whole: methods that are taken over, not forwarded.
    """
    for name in _PRIMITIVES:
        if name not in vars(cls):
            setattr(cls, name, _primitive(name))
    for name in dir(TensorDictBase):
        if name in _OWN or name in vars(cls):
            continue
        raw = _static(name)
        if name in whole:
            setattr(cls, name, raw)
        elif isinstance(raw, property):
            setattr(cls, name, _property(name, raw))
        elif isinstance(raw, (classmethod, staticmethod)):
            setattr(cls, name, _class_method(name, raw.__func__))
        elif callable(raw):
            setattr(cls, name, _method(name, raw, name in _BARE or name in bare))
    return cls


def _static(name: str) -> Any:
    for base in TensorDictBase.__mro__:
        if name in vars(base):
            return vars(base)[name]
    raise AttributeError(name)


def _property(name: str, original: property) -> property:
    def read(self: Any) -> Any:
        return self._wrapped(getattr(self._tensordict, name))

    def write(self: Any, value: Any) -> None:
        setattr(self._tensordict, name, value)

    read.__doc__ = original.__doc__
    # Some setters are the concrete classes'.
    can_write = original.fset is not None or getattr(TensorDict, name).fset is not None
    return property(read, write if can_write else None)


def _method(name: str, original: Callable[..., Any], is_bare: bool) -> Callable[..., Any]:
    if is_bare:

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(self._tensordict, name)(*args, **kwargs)

    else:

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            inner = self._tensordict
            result = getattr(inner, name)(*args, **kwargs)
            return self if result is inner else self._wrapped(result)

    return functools.wraps(original)(call)


def _class_method(name: str, original: Callable[..., Any]) -> Any:
    def call(cls: Any, *args: Any, **kwargs: Any) -> Any:
        result = getattr(TensorDict, name)(*args, **kwargs)
        return cls._from_class_method(result)

    return classmethod(functools.wraps(original)(call))
