"""`TensorDictParams`: a tensordict whose tensors are the parameters and buffers of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from flambeau.data.tensordict._layout import pytree as _pytree
from flambeau.data.tensordict._layout.defaults import NO_DEFAULT
from flambeau.data.tensordict._layout.sizes import refuse_device
from flambeau.data.tensordict._lazy import LazyStackedTensorDict
from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._torch_func import call_torch_function
from flambeau.data.tensordict.base import TensorDictBase

_FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def implements_for_tdparam(torch_function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what a function of torch does with `TensorDictParams`, in place of what it does with tensordicts."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _FUNCTIONS[torch_function] = function
        return function

    return register


class TensorDictParams(TensorDictBase, nn.Module):  # type: ignore[misc]  # apply, cuda, type and zero_grad of the first
    """A tensordict that optimizers, `state_dict` and `module.to` see as a module.

    Floating point tensors become `nn.Parameter`s, others buffers; their names are the keys joined by dots. Results of
    operations are plain TensorDicts, but for `clone`, `copy` and `to`.

    Args:
        parameters: a tensordict or dict; it is copied, its tensors are not.
        no_convert: True makes every tensor a buffer that is no parameter yet, "skip" takes all as they are.
        lock: keep the keys fixed.
        kwargs: entries, in place of `parameters`.

    Raises:
        RuntimeError: there is a lazy stack inside.

    Example:
        >>> params = TensorDictParams(TensorDict(weight=torch.ones(2)))
        >>> [name for name, _ in params.named_parameters()]
        ['weight']
    """

    def __init__(
        self, parameters: Any = None, *, no_convert: bool | str = False, lock: bool = False, **kwargs: Any
    ) -> None:
        nn.Module.__init__(self)
        self._param_td: Any
        source = kwargs if parameters is None else parameters
        if isinstance(source, TensorDictParams):
            source = source._param_td
        self._param_td = source._copied() if isinstance(source, TensorCollection) else TensorDict(source)
        self.no_convert = no_convert
        self._get_post_hooks: list[Callable[..., Any]] = []
        self._convert_leaves(self._param_td)
        self._register()
        if lock:
            self._param_td.lock_()

    def _convert_leaves(self, td: Any) -> None:
        if isinstance(td, LazyStackedTensorDict):
            raise RuntimeError("TensorDictParams holds no lazy stacks, whose tensors are no parameters; densify them.")
        for key, value in list(td._items()):
            if not isinstance(value, TensorCollection):
                converted = self._converted(value)
                if converted is not value:
                    td._set_str(key, converted, validated=True, ignore_lock=True)
            elif not value._is_non_tensor:
                self._convert_leaves(value)

    def _converted(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or isinstance(leaf, (nn.Parameter, nn.Buffer)) or self.no_convert == "skip":
            return leaf
        if self.no_convert or not (leaf.is_floating_point() or leaf.is_complex()):
            return nn.Buffer(leaf)
        return nn.Parameter(leaf.detach())

    def _register(self) -> None:
        """Make what the module lists equal what the tensordict holds."""
        self._parameters.clear()
        self._buffers.clear()
        path: Any
        for path, leaf in self._param_td.items(True, True):
            name = path if isinstance(path, str) else ".".join(path)
            (self._parameters if isinstance(leaf, nn.Parameter) else self._buffers)[name] = leaf

    @classmethod
    def __torch_function__(
        cls, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """As for tensordicts, but for what `implements_for_tdparam` has registered."""
        if (function := _FUNCTIONS.get(func)) is not None:
            return function(*args, **kwargs or {})
        return call_torch_function(func, types, args, kwargs or {})

    # --- primitives

    def _items(self) -> Any:
        if not self._get_post_hooks:
            return self._param_td._items()
        return [(key, self._get_str(key)) for key in self._param_td._key_names()]

    def _key_names(self) -> Any:
        return self._param_td._key_names()

    def _get_str(self, key: str, default: Any = None, **kwargs: Any) -> Any:
        value = self._param_td._get_str(key, default, **kwargs)
        for hook in self._get_post_hooks:
            changed = hook(self, key, value)
            value = value if changed is None else changed
        return value

    def register_get_post_hook(self, hook: Callable[[Any, str, Any], Any]) -> None:
        """Add a function (params, key, value) -> value, or None for no change, of every entry that is read."""
        self._get_post_hooks.append(hook)

    def _set_str(self, key: str, value: Any, **options: Any) -> None:
        self._set_path((key,), value, **options)

    def _set_path(self, path: tuple[str, ...], value: Any, **options: Any) -> None:
        target = self._param_td._get_path(path)
        if options.get("inplace") and isinstance(target, Tensor):
            target.data.copy_(value, non_blocking=options.get("non_blocking", False))
            return
        if options.get("inplace") and isinstance(target, TensorCollection) and isinstance(value, TensorCollection):
            detached: Any = target
            detached.data.update_(value.detach(), non_blocking=options.get("non_blocking", False))
            return
        self._param_td._set_path(path, self._converted(value), **options)
        self._convert_leaves(self._param_td)
        self._register()

    def _set_at_str(self, key: str, value: Any, index: Any) -> None:
        target = self._param_td._get_str(key)
        if isinstance(target, Tensor):
            target.data[index] = value
        else:
            self._param_td._set_at_str(key, value, index)
            self._convert_leaves(self._param_td)
            self._register()

    def _del_str(self, key: str) -> None:
        self._param_td._del_str(key)
        self._register()

    def _index(self, index: Any) -> Any:
        result = self._param_td[index]
        return self if result is self._param_td else result

    @classmethod
    def _stack_of(cls, tds: list[Any], dim: int, out: Any) -> Any:
        return torch.stack([_plain(td) for td in tds], dim, out=out)

    @classmethod
    def _cat_of(cls, tds: list[Any], dim: int, out: Any) -> Any:
        return torch.cat([_plain(td) for td in tds], dim, out=out)

    def _changed(self, call: Callable[[], Any]) -> Self:
        """Run a change of the tensordict, then make parameters of what is new."""
        call()
        self._convert_leaves(self._param_td)
        self._register()
        return self

    @property
    def batch_size(self) -> torch.Size:
        """`batch_size` of what is held."""
        return self._param_td.batch_size

    @batch_size.setter
    def batch_size(self, size: Any) -> None:
        self._param_td.batch_size = size

    @property
    def device(self) -> torch.device | None:
        """`device` of what is held."""
        return self._param_td.device

    @device.setter
    def device(self, device: Any) -> None:
        refuse_device(device)

    def _set_device(self, device: torch.device | None) -> None:
        self._param_td._set_device(device)

    def _names_or_none(self) -> list[str | None] | None:
        return self._param_td._names_or_none()

    def _set_names(self, names: list[str | None] | None) -> None:
        self._param_td._set_names(names)

    # --- locking

    @property
    def is_locked(self) -> bool:
        """Whether the keys are fixed."""
        return self._param_td.is_locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        self._param_td.is_locked = value

    def lock_(self) -> Self:
        """Fix the keys; see `TensorDictBase.lock_`."""
        was_locked = self.is_locked
        self._param_td.lock_()
        return self._remember("lock_", argument=was_locked)

    def unlock_(self) -> Self:
        """Allow changes of keys; see `TensorDictBase.unlock_`."""
        was_locked = self.is_locked
        self._param_td.unlock_()
        return self._remember("unlock_", argument=was_locked)

    def _lock_below(self, parent: Any) -> None:
        self._param_td._lock_below(parent)

    def _check_unlock(self, parent: Any) -> None:
        self._param_td._check_unlock(parent)

    def _unlock_below(self, parent: Any) -> None:
        self._param_td._unlock_below(parent)

    # --- changes that make parameters

    def update(self, input_dict_or_td: Any = None, clone: bool = False, inplace: bool = False, **kwargs: Any) -> Self:
        """Set entries; new tensors become parameters or buffers. See `TensorDictBase.update`.

        What is written in place leaves no trace in the autograd graph.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not inplace):
            return self._changed(lambda: self._param_td.update(input_dict_or_td, clone, inplace, **kwargs))

    def update_(self, input_dict_or_td: Any = None, clone: bool = False, **kwargs: Any) -> Self:
        """Write values into the parameters, without a trace in the autograd graph."""
        self._param_td.data.update_(_detached(input_dict_or_td), clone, **kwargs)
        return self

    def update_at_(self, input_dict_or_td: Any, idx: Any, clone: bool = False, **kwargs: Any) -> Self:
        """Write a part of the parameters, without a trace in the autograd graph."""
        self._param_td.data.update_at_(_detached(input_dict_or_td), idx, clone, **kwargs)
        return self

    def set_at_(self, key: Any, value: Any, index: Any, *, non_blocking: bool = False) -> Self:
        """Write a part of an entry, without a trace in the autograd graph."""
        if isinstance(self._param_td.get(key), Tensor):
            self._param_td.data.set_at_(key, value, index, non_blocking=non_blocking)
            return self
        return super().set_at_(key, value, index, non_blocking=non_blocking)

    def clamp_max_(self, other: Any) -> Self:
        """Lower what is above a number, or above another tensordict's values."""
        self._param_td.data.clamp_max_(_detached(other))
        return self

    def clamp_min_(self, other: Any) -> Self:
        """Raise what is below a number, or below another tensordict's values."""
        self._param_td.data.clamp_min_(_detached(other))
        return self

    def rename_key_(self, old_key: Any, new_key: Any, safe: bool = False) -> Self:
        """Move an entry to another key; see `TensorDictBase.rename_key_`."""
        return self._changed(lambda: self._param_td.rename_key_(old_key, new_key, safe))

    def create_nested(self, key: Any) -> Self:
        """Put an empty tensordict under `key`."""
        return self._changed(lambda: self._param_td.create_nested(key))

    def del_(self, key: Any) -> Self:
        """Remove an entry; see `TensorDictBase.del_`."""
        return self._changed(lambda: self._param_td.del_(key))

    def apply_(self, fn: Callable[..., Any], *others: Any, **kwargs: Any) -> Self:
        """`apply` in place, without a trace in the autograd graph."""
        self._param_td.data.apply_(fn, *others, **kwargs)
        return self

    def fill_(self, key: Any, value: float | bool) -> Self:
        """Fill an entry with a number."""
        self._param_td.data.fill_(key, value)
        return self

    def zero_(self) -> Self:
        """Fill all tensors with zeros."""
        self._param_td.data.zero_()
        return self

    def copy_(self, tensordict: Any, non_blocking: bool = False) -> Self:
        """Write the values of another tensordict with the same keys."""
        return self.update_(tensordict, non_blocking=non_blocking)

    def masked_fill_(self, mask: Tensor, value: float | bool) -> Self:
        """Write a number where a mask over the batch dimensions holds."""
        self._param_td.data.masked_fill_(mask, value)
        return self

    @classmethod
    def _of_class(cls, td: Any) -> Any:
        return cls(td) if type(td) is TensorDict else td

    def from_dict_instance(self, input_dict: Mapping[Any, Any], *others: Any, **kwargs: Any) -> Any:
        """As `TensorDictBase.from_dict_instance`; what it makes are parameters."""
        return self._of_class(super().from_dict_instance(input_dict, *others, **kwargs))

    def split_keys(self, *key_sets: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Distribute the entries over several tensordicts, the last of which are parameters."""
        *parts, rest = super().split_keys(*key_sets, **kwargs)
        return (*parts, self._of_class(rest))

    def _copied(self) -> Any:
        return self._param_td.copy()

    # --- copies that stay parameters

    def clone(self, recurse: bool = True, **kwargs: Any) -> Self:
        """A copy, unlocked; its tensors are new parameters, or with `recurse=False` the same."""
        if not recurse:
            return type(self)(self._param_td, no_convert=self.no_convert)
        copies = self._param_td._fast_apply(_cloned, filter_empty=False)
        return type(self)(copies, no_convert="skip" if self.no_convert == "skip" else self.no_convert)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """As `TensorDictBase.to`; what moves becomes new parameters."""
        inplace = kwargs.pop("inplace", False)
        if inplace and self.is_locked:
            raise RuntimeError(LOCKED)
        moved = self._param_td.data.to(*args, **kwargs)
        pairs = list(zip(moved._leaves(), self._param_td._leaves(), strict=True))
        unchanged = moved.batch_size == self.batch_size and moved.device == self.device
        result = self
        if inplace:
            leaves = [old if _is_same(new, old) else _as_before(new, old) for new, old in pairs]
            self._param_td._with_leaves(iter(leaves), moved.device, True)
            self._param_td.batch_size = moved.batch_size
            self._register()
        elif not (unchanged and all(_is_same(new, old) for new, old in pairs)):
            made = moved._rebuild(iter([_as_before(new, old) for new, old in pairs]))
            result = type(self)(made, no_convert=self.no_convert)
        elif any(isinstance(arg, TensorCollection) for arg in args):
            result = self.copy()
        return result._remember("to", self)

    def _become(self, result: Any) -> Self:
        return self._changed(lambda: self._param_td._become(result))

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Switch recording of operations on the parameters on or off."""
        return nn.Module.requires_grad_(self, requires_grad)

    # --- as a module

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What `module.to`, `module.double` and the like do to the parameters of a tree."""
        nn.Module._apply(self, fn, recurse)
        for places in (self._parameters, self._buffers):
            for name, leaf in places.items():
                self._param_td._set_path(tuple(name.split(".")), leaf, validated=True, ignore_lock=True)
        if self._param_td.device is not None:
            self._param_td.auto_device_()
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        """As of any module; FSDP puts parts in the place of parameters by their names, and whole ones again."""
        if isinstance(value, nn.Parameter) and name in self.__dict__.get("_parameters", ()):
            self._parameters[name] = value
            self._param_td._set_path(tuple(name.split(".")), value, validated=True, ignore_lock=True)
        else:
            super().__setattr__(name, value)

    def state_dict(
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
    ) -> Any:
        """Parameters and buffers by their names; nested by key with `flatten=False`."""
        if not flatten:
            return self._param_td.state_dict(destination, prefix, keep_vars, flatten=False)
        return nn.Module.state_dict(self, destination=destination, prefix=prefix, keep_vars=keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False, from_flatten: bool | None = None
    ) -> Any:
        """Take what `state_dict` gave, flat or nested.

        Raises:
            RuntimeError: `strict`, and names are missing or unknown, or shapes differ.
        """
        nested = (
            any(isinstance(value, dict) for value in state_dict.values()) if from_flatten is None else not from_flatten
        )
        if nested:
            self.data.load_state_dict(state_dict, strict=strict, from_flatten=False)
            return self
        nn.Module.load_state_dict(self, state_dict, strict=strict, assign=assign)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        self._param_td.state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        assign = local_metadata.get("assign_to_params_buffers", False)
        mine: dict[str, Any] = {**self._parameters, **self._buffers}
        for name, leaf in mine.items():
            value = state_dict.get(prefix + name)
            if value is None:
                if strict:
                    missing_keys.append(prefix + name)
            elif value.shape != leaf.shape:
                error_msgs.append(f"{prefix + name} has shape {list(value.shape)}, expected {list(leaf.shape)}.")
            elif assign:
                if isinstance(leaf, nn.Parameter) and not isinstance(value, nn.Parameter):
                    value = nn.Parameter(value, requires_grad=leaf.requires_grad)
                self._param_td._set_path(tuple(name.split(".")), value, validated=True, ignore_lock=True)
            else:
                leaf.data.copy_(value)
        if assign:
            self._register()
        size = local_metadata.get("batch_size")
        if size is not None and not error_msgs and torch.Size(size) != self.batch_size:
            self.batch_size = size
        if strict:
            names = {prefix + name for name in mine}
            unexpected_keys += [key for key in state_dict if key.startswith(prefix) and key not in names]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(params={self._param_td!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_last_op", "_entered")}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._param_td)

    def to_module(self, module: nn.Module, **kwargs: Any) -> Any:
        """Put the parameters in the places of a module's; see `TensorDictBase.to_module`."""
        return self._param_td.to_module(module, **kwargs)

    def empty(
        self, recurse: bool = False, *, batch_size: Any = None, device: Any = NO_DEFAULT, names: Any = None
    ) -> Any:
        """A TensorDict of the same batch size and device without entries."""
        return self._param_td.empty(recurse, batch_size=batch_size, device=device, names=names)


def _plain(td: Any) -> Any:
    return td._param_td if isinstance(td, TensorDictParams) else td


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, (Tensor, TensorCollection)) else value


def _is_same(new: Tensor, old: Tensor) -> bool:
    return new.data_ptr() == old.data_ptr() and new.dtype == old.dtype and new.device == old.device


def _as_before(new: Tensor, old: Tensor) -> Tensor:
    """A parameter or a buffer, as the tensor in whose place it comes."""
    return nn.Parameter(new, requires_grad=old.requires_grad) if isinstance(old, nn.Parameter) else nn.Buffer(new)


def _cloned(leaf: Tensor) -> Tensor:
    copy = leaf.detach().clone()
    if isinstance(leaf, nn.Parameter):
        return nn.Parameter(copy, requires_grad=leaf.requires_grad)
    return nn.Buffer(copy) if isinstance(leaf, nn.Buffer) else copy


def _around(values: list[Any], no_convert: bool | str) -> Any:
    """Parameters again where the tensors are, otherwise (gradients, slices of `vmap`) the plain tensordict."""
    (td,) = values
    leaves = td._leaves() if isinstance(td, TensorCollection) else [None]
    if not all(isinstance(leaf, (nn.Parameter, nn.Buffer)) for leaf in leaves):
        return td
    made = TensorDictParams(td, no_convert="skip")
    made.no_convert = no_convert
    return made


_pytree.register_node(TensorDictParams, lambda params: ([params._param_td], params.no_convert), _around)
