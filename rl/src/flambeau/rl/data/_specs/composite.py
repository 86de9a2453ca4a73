"""`Composite`: specs by name, for what comes in a TensorDict."""

from __future__ import annotations

import enum
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import torch
from torch import Size

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data._specs import shapes
from flambeau.rl.data._specs.base import TensorSpec
from flambeau.rl.data._specs.shapes import Change, as_size
from flambeau.rl.data._specs.text import indented
from flambeau.rl.data._specs.views import _CompositeSpecItemsView, _CompositeSpecKeysView, _CompositeSpecValuesView

T = TypeVar("T")
NestedKey = str | tuple[str, ...]


class _NoDefault(enum.IntEnum):
    ZERO = 0


NO_DEFAULT_RL = _NoDefault.ZERO


class Composite(TensorSpec):
    """Specs by name: the spec of a TensorDict.

    Args:
        args: one mapping from names, or nested keys, to specs, mappings of such, or None.
        shape: the batch size, with which the shape of every spec in it begins.
        device: of everything in it; None where each has its own.
        data_cls: class of what it describes; default: TensorDict.
        step_mdp_static: what it describes passes from one step to the next by `step_mdp`, if the env does not give it.
        names: of the dimensions of the batch.
        kwargs: further specs by name.

    Raises:
        ValueError: the shape of a spec does not begin with `shape`.
        RuntimeError: a spec is on another device.
        TypeError: a name is no string.

    Example:
        >>> from flambeau.rl.data import Categorical, Composite, Unbounded
        >>> spec = Composite(pixels=Unbounded((3, 8, 8)), agent=Composite(action=Categorical(4)))
        >>> list(spec.keys(include_nested=True, leaves_only=True))
        ['pixels', ('agent', 'action')]
        >>> spec.rand((2,)).batch_size
        torch.Size([2])
    """

    domain = "composite"

    def __init__(
        self,
        *args: Any,
        shape: Any = None,
        device: Any = None,
        data_cls: type | None = None,
        step_mdp_static: bool = False,
        names: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> None:
        self._shape = Size([]) if shape is None else Size(shape)
        self._specs: dict[str, Any] = {}
        self._device = None if device is None else torch.device(device)
        self._locked = False
        self._recursive = False
        self._parents: list[weakref.ref[Composite]] = []
        self._names: list[str | None] | None = None
        self._encode_memo_dict = {}
        self._memoizes = False
        self.data_cls = data_cls
        self.step_mdp_static = step_mdp_static
        if len(args) > 1:
            raise TypeError(
                f"Composite takes one mapping of specs, and specs by name; got {len(args)} positional arguments."
            )
        for key, spec in [*(dict(args[0].items()).items() if args else ()), *kwargs.items()]:
            self[key] = spec
        if names is not None:
            self.names = names

    # Facts

    @property
    def shape(self) -> Size:
        """The batch size."""
        return self._shape

    @shape.setter
    def shape(self, value: Any) -> None:
        self._check_lock()
        size = Size(value)
        for key, spec in self._entries():
            if isinstance(spec, Composite):
                if spec.shape[: len(size)] != size:
                    spec.shape = size
            elif spec is not None and spec.shape[: len(size)] != size:
                raise ValueError(
                    f"The shape of Composite cannot be set to {tuple(size)}: that of {key!r} is {tuple(spec.shape)}, "
                    "which does not begin with it."
                )
        self._shape = size

    @property
    def batch_size(self) -> Size:
        """The batch size, as `shape`."""
        return self._shape

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        self.shape = value

    @property
    def dtype(self) -> Any:
        """Torch's default dtype, for the sake of code that asks every spec."""
        return torch.get_default_dtype()

    @property
    def space(self) -> Any:
        raise AttributeError("Composite has no space; the specs in it have.")

    @property
    def device(self) -> Any:
        """The device of everything in it; None where each has its own."""
        return self._device

    @device.setter
    def device(self, value: Any) -> None:
        device = None if value is None else torch.device(value)
        for spec in self._specs.values():
            if spec is not None and device is not None and spec.device != device:
                raise RuntimeError(
                    f"The device of Composite cannot be set to {device}: a spec in it is on {spec.device}; use `to`."
                )
        self._device = device

    def clear_device_(self) -> Self:
        """Forget the device; the specs in it keep theirs."""
        self._device = None
        for spec in self._specs.values():
            if spec is not None:
                spec.clear_device_()
        return self

    @property
    def names(self) -> list[str | None]:
        """Names of the dimensions of the batch; None for those without."""
        return [None] * self.ndim if self._names is None else list(self._names)

    @names.setter
    def names(self, value: Sequence[str | None] | None) -> None:
        if value is not None and len(value) != self.ndim:
            raise ValueError(f"Composite has {self.ndim} batch dimensions; got {len(value)} names: {list(value)}.")
        self._names = None if value is None else list(value)
        for spec in self._specs.values():
            if isinstance(spec, Composite):
                spec.names = [*self.names, *spec.names[self.ndim :]] if value is not None else None

    def refine_names(self, *names: Any) -> Self:
        """Name dimensions that have none, in place.

        Args:
            names: one name a dimension, None to leave it; `...` for the dimensions between.

        Raises:
            RuntimeError: a dimension has another name already.
        """
        if Ellipsis in names:
            at = names.index(Ellipsis)
            rest = len(names) - 1
            if rest > self.ndim:
                raise IndexError(f"Composite has {self.ndim} batch dimensions; got {rest} names.")
            behind = at + self.ndim - rest
            names = (*names[:at], *self.names[at:behind], *names[at + 1 :])
        refined = []
        for old, new in zip(self.names, names, strict=True):
            if old is not None and new is not None and new != old:
                raise RuntimeError(
                    f"Names cannot be refined from {self.names} to {list(names)}: {old!r} is {new!r} there."
                )
            refined.append(old if new is None else new)
        self.names = refined
        return self

    # Entries

    def _entries(self) -> Iterator[tuple[str, Any]]:
        return iter(self._specs.items())

    def keys(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> _CompositeSpecKeysView:
        """Keys, in the order they were set.

        Args:
            include_nested: also those of composites in it, as tuples.
            leaves_only: only those of specs that are no composites.
            is_leaf: which classes count as such.
            step_mdp_static_only: of composites that are not static, look into them.
        """
        return _CompositeSpecKeysView(self, include_nested, leaves_only, is_leaf, step_mdp_static_only)

    def values(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> _CompositeSpecValuesView:
        """Specs, in the order of `keys` with the same arguments."""
        return _CompositeSpecValuesView(self, include_nested, leaves_only, is_leaf, step_mdp_static_only)

    def items(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> _CompositeSpecItemsView:
        """Pairs of key and spec, in the order of `keys` with the same arguments."""
        return _CompositeSpecItemsView(self, include_nested, leaves_only, is_leaf, step_mdp_static_only)

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __contains__(self, item: object) -> bool:
        return any(key == item for key in self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether there is nothing in it.

        Args:
            recurse: composites with nothing in them count as nothing.
        """
        if not recurse:
            return not self._specs
        return all(isinstance(spec, Composite) and spec.is_empty(recurse=True) for spec in self._specs.values())

    def empty(self) -> Self:
        """A composite of the same shape, device and class of data, with nothing in it."""
        return self._rebuilt({}, self.shape)

    def _rebuilt(self, specs: Mapping[str, Any], shape: Size, device: Any = NO_DEFAULT_RL) -> Self:
        return type(self)(
            specs,
            shape=shape,
            device=self._device if device is NO_DEFAULT_RL else device,
            data_cls=self.data_cls,
            step_mdp_static=self.step_mdp_static,
            names=self._names if self._names is not None and len(self._names) == len(shape) else None,
        )

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, str):
            return self._specs[idx]
        if isinstance(idx, tuple) and idx and all(isinstance(part, str) for part in idx):
            return self[idx[0]] if len(idx) == 1 else self[idx[0]][idx[1:]]
        if isinstance(idx, tuple) and idx and isinstance(idx[0], str):
            return self[idx[0]][idx[1:]]
        shape, _ = shapes.indexed(self.shape, idx)
        resolved = shapes.without_ellipsis(idx, self.ndim)
        return self._rebuilt({key: None if spec is None else spec[resolved] for key, spec in self._entries()}, shape)

    def get(self, item: NestedKey, default: Any = NO_DEFAULT_RL) -> Any:
        """The spec at a key, or the default.

        Args:
            item: a name, or a nested key.
            default: what to return where there is none; without it, a marker.
        """
        try:
            return self[item]
        except KeyError:
            return default

    def set(self, name: NestedKey, spec: TensorSpec | None) -> Self:
        """Set a spec, and return this composite.

        Raises:
            RuntimeError: it is locked.
            ValueError: the spec's shape does not begin with this one's.
        """
        self[name] = spec
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, tuple) and len(key) == 1:
            key = key[0]
        if isinstance(key, tuple) and key and isinstance(key[0], str):
            if key[0] not in self._specs:
                self[key[0]] = Composite(shape=self.shape, device=self.device)
            self._specs[key[0]][key[1:]] = value
            return
        if not isinstance(key, str):
            raise TypeError(f"Specs in a Composite are called by strings or tuples of strings; got {key!r}.")
        self._check_lock()
        if key in {"shape", "device", "dtype", "space"}:
            raise AttributeError(f"Composite[{key!r}] cannot be set: it would hide an attribute of that name.")
        if isinstance(value, Mapping):
            value = Composite(value, shape=self.shape, device=self.device)
        self._specs[key] = self._checked(key, value)

    def _checked(self, key: str, spec: Any) -> Any:
        if spec is None:
            return None
        if spec.shape[: self.ndim] != self.shape:
            raise ValueError(
                f"The spec {key!r} of shape {tuple(spec.shape)} does not fit into a Composite of shape "
                f"{tuple(self.shape)}: the first {self.ndim} sizes must be the same."
            )
        if self._device is not None and spec.device != self._device:
            if isinstance(spec, Composite) or spec.device is None:
                return spec.to(self._device)
            raise RuntimeError(
                f"The spec {key!r} is on {spec.device}, but everything in this Composite on {self._device}; use `to`."
            )
        return spec

    def __delitem__(self, key: NestedKey) -> None:
        if isinstance(key, tuple) and len(key) > 1:
            del self[key[:-1]][key[-1]]
            return
        self._check_lock()
        del self._specs[key[0] if isinstance(key, tuple) else key]

    def pop(self, key: NestedKey, default: Any = NO_DEFAULT_RL) -> Any:
        """Take a spec out and return it.

        Args:
            key: a name, or a nested key.
            default: what to return where there is none.

        Raises:
            KeyError: there is none, and no default is given.
            RuntimeError: it is locked.
        """
        try:
            spec = self[key]
        except KeyError:
            if default is not NO_DEFAULT_RL:
                return default
            raise KeyError(f"{key!r} is not in the Composite, which has {list(self.keys(True))}.") from None
        del self[key]
        return spec

    def separates(self, *keys: NestedKey, default: Any = None) -> Any:
        """Take specs out into a composite of their own.

        Args:
            keys: names, or nested keys; those that are not there are skipped.
            default: what to return where none is there.
        """
        out = None
        for key in keys:
            spec = self.pop(key, NO_DEFAULT_RL if key in self.keys(True) else None)
            if spec is not None:
                out = self.empty() if out is None else out
                out[key] = spec
        return default if out is None else out

    def update(self, dict_or_spec: Any) -> Self:
        """Set all specs of another composite or mapping; composites in it are updated, not replaced.

        Raises:
            RuntimeError: it is locked.
        """
        for key, spec in dict_or_spec.items():
            old = self.get(key, None)
            if isinstance(old, Composite) and isinstance(spec, (Composite, Mapping)):
                old.update(spec)
            else:
                self[key] = spec
        return self

    # Locks

    @property
    def is_locked(self) -> bool:
        """Whether specs can neither be set nor taken out."""
        return self._locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    @property
    def locked(self) -> bool:
        """Whether it is locked, as `is_locked`."""
        return self._locked

    def lock_(self, recurse: bool | None = None) -> Self:
        """Refuse to set specs or to take them out, from now on.

        Args:
            recurse: composites in it are locked as well, and only this one unlocks them; default: True.
        """
        self._locked = True
        if recurse is None or recurse:
            self._recursive = True
            for spec in self._specs.values():
                if isinstance(spec, Composite):
                    spec._parents.append(weakref.ref(self))
                    spec.lock_(recurse=True)
        return self

    def unlock_(self, recurse: bool | None = None) -> Self:
        """Allow changes again.

        Args:
            recurse: also of composites in it; default: if they were locked along with it.

        Raises:
            RuntimeError: it was locked along with a composite that holds it.
        """
        self._parents = [parent for parent in self._parents if (found := parent()) is not None and found._locked]
        if self._parents:
            raise RuntimeError("This Composite was locked along with the one that holds it; unlock that one first.")
        self._locked = False
        if self._recursive if recurse is None else recurse:
            for spec in self._specs.values():
                if isinstance(spec, Composite):
                    spec._parents = [parent for parent in spec._parents if parent() is not self]
                    spec.unlock_(recurse=True)
        self._recursive = False
        return self

    def _check_lock(self) -> None:
        if self._locked:
            raise RuntimeError("Cannot modify a locked Composite; call unlock_() first, or change a clone.")

    # Shapes

    def _changed(self, shape: Size, change: Change) -> Self:
        raise NotImplementedError  # every operation goes to the entries

    def _each(self, shape: Size, function: Callable[[Any], Any], device: Any = NO_DEFAULT_RL) -> Self:
        specs = {key: None if spec is None else function(spec) for key, spec in self._entries()}
        return self._rebuilt(specs, shape, device)

    def expand(self, *shape: Any) -> Self:
        """To a larger batch size, which ends with this one."""
        size = as_size(shape)
        size, _ = shapes.expanded(self.shape, size)
        return self._each(size, lambda spec: spec.expand((*size, *spec.shape[self.ndim :])))

    def unsqueeze(self, dim: int) -> Self:
        """With a batch dimension of size 1 before `dim`."""
        dim = shapes.dimension(dim, self.ndim + 1)
        shape, _ = shapes.unsqueezed(self.shape, dim)
        return self._each(shape, lambda spec: spec.unsqueeze(dim))

    def squeeze(self, dim: int | None = None) -> Self:
        """Without the batch dimension `dim`, if its size is 1; without all of those where it is None."""
        if dim is None:
            spec = self
            for at in reversed(range(self.ndim)):
                if spec.shape[at] == 1:
                    spec = spec.squeeze(at)
            return spec
        shape, _ = shapes.squeezed(self.shape, dim)
        return self if shape == self.shape else self._each(shape, lambda spec: spec.squeeze(dim % self.ndim))

    def _reshape(self, shape: Size) -> Self:
        size, _ = shapes.reshaped(self.shape, shape)
        return self._each(size, lambda spec: spec.reshape((*size, *spec.shape[self.ndim :])))

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """One composite for each position along a batch dimension."""
        if dim < -self.ndim and dim < 0:
            raise ValueError(f"A Composite of shape {tuple(self.shape)} has no dimension {dim} to unbind.")
        parts = shapes.unbound(self.shape, dim)
        unbound = {key: None if spec is None else spec.unbind(dim % self.ndim) for key, spec in self._entries()}
        return tuple(
            self._rebuilt({key: None if each is None else each[at] for key, each in unbound.items()}, shape)
            for at, (shape, _) in enumerate(parts)
        )

    def make_neg_dim(self, dim: int) -> None:
        """Write -1 for the size of a batch dimension that is not fixed, in place and in everything in it."""
        if not -self.ndim <= dim < self.ndim:
            raise ValueError(f"dim={dim} is out of bounds for a Composite of {self.ndim} dimensions.")
        dim %= self.ndim
        for spec in self._specs.values():
            if spec is not None:
                spec.make_neg_dim(dim)
        sizes = list(self.shape)
        sizes[dim] = -1
        self._shape = Size(sizes)

    def clone(self) -> Self:
        """A composite of clones, not locked."""
        return self._each(self.shape, lambda spec: spec.clone())

    def to(self, dest: torch.dtype | torch.device | str | int) -> Self:
        """With everything in it of another dtype, or on another device."""
        if isinstance(dest, torch.dtype):
            return self._each(self.shape, lambda spec: spec.to(dest))
        device = torch.device(dest)
        if self._device == device:
            return self
        return self._each(self.shape, lambda spec: spec.to(device), device)

    # Values

    def _collection(self, values: Mapping[str, Any], batch: Size) -> Any:
        size = Size([*batch, *self.shape])
        data = TensorDict(values, size, device=self._device)
        if any(name is not None for name in self.names):
            data.names = [*[None] * len(batch), *self.names]
        return data if self.data_cls is None else self.data_cls.from_tensordict(data)  # type: ignore[attr-defined]

    def _drawn(self, name: str, shape: Any) -> Any:
        batch = self._batch(shape)
        values = {key: getattr(spec, name)(batch) for key, spec in self._entries() if spec is not None}
        return self._collection(values, batch)

    def rand(self, shape: Any = None) -> Any:
        """A TensorDict of random values."""
        return self._drawn("rand", shape)

    def zero(self, shape: Any = None) -> Any:
        """A TensorDict of zeros."""
        return self._drawn("zero", shape)

    def one(self, shape: Any = None) -> Any:
        """A TensorDict of ones."""
        return self._drawn("one", shape)

    def _updated(self, name: str, val: Any) -> Any:
        for key, spec in self._entries():
            if isinstance(spec, Composite):
                old = val.get(key, None)
                val.set(key, spec._updated(name, spec.empty().zero() if old is None else old))
            elif spec is not None:
                leading = val.batch_size[: len(val.batch_size) - self.ndim]
                val.set(key, getattr(spec, name)(leading))
        return val

    def rand_update(self, val: Any) -> Any:
        """Set random values in a TensorDict, which keeps what else is in it."""
        return self._updated("rand", val)

    def zeros_update(self, val: Any) -> Any:
        """Set zeros in a TensorDict, which keeps what else is in it."""
        return self._updated("zero", val)

    def ones_update(self, val: Any) -> Any:
        """Set ones in a TensorDict, which keeps what else is in it."""
        return self._updated("one", val)

    def is_in(self, val: Any) -> bool:
        """Whether everything the composite names is in a TensorDict, and in its spec.

        Raises:
            KeyError: it is not there.
        """
        return all(bool(spec.is_in(_entry(val, key))) for key, spec in self._entries() if spec is not None)

    def project(self, val: Any) -> Any:
        """A TensorDict with what is not in its spec replaced by what is, in place."""
        for key, spec in self._entries():
            if spec is not None:
                val.set(key, spec.project(val.get(key)))
        return val

    def _project(self, val: Any) -> Any:
        return self.project(val)

    def type_check(self, value: Any, selected_keys: Any = None) -> None:
        """Raise unless everything in a TensorDict has the dtype of its spec.

        Args:
            value: a TensorDict.
            selected_keys: check only these.

        Raises:
            TypeError: something has another one.
        """
        if isinstance(selected_keys, str):
            selected_keys = [selected_keys]
        for key, spec in self._entries():
            if spec is not None and (selected_keys is None or key in selected_keys) and key in value.keys():  # noqa: SIM118
                if isinstance(spec, Composite):
                    spec.type_check(value.get(key))
                else:
                    spec.type_check(value.get(key), key)

    def to_numpy(self, val: Any, safe: bool | None = None) -> dict[str, Any]:
        """A TensorDict as a dictionary of arrays.

        Args:
            val: a value of the spec, or a part of one.
            safe: check that it is in the spec; default: only where the environment sets CHECK_SPEC_ENCODE=1.
        """
        return {key: self[key].to_numpy(each, safe) for key, each in val.items()}

    def encode(self, vals: Any, *, ignore_device: bool = False) -> Any:
        """A TensorDict from a dictionary, or a part of one.

        Raises:
            KeyError: the composite has no spec of that name.
        """
        if isinstance(vals, TensorDict):
            return vals
        out = {}
        for key, item in vals.items():
            if key not in self._specs:
                raise KeyError(f"The Composite has no spec {key!r}; it has {list(self._specs)}.")
            spec = self._specs[key]
            if item is None:
                raise RuntimeError(f"The value of {key!r} is None; give it, or leave the key out.")
            out[key] = spec.encode(item, ignore_device=ignore_device)
        return self._collection(out, Size([]))

    def memoize_encode(self, mode: bool = True) -> None:
        """Keep what `encode` of the specs in it returns."""
        for spec in self._specs.values():
            if spec is not None:
                spec.memoize_encode(mode)

    def erase_memoize_cache(self) -> None:
        """Forget what `encode` of the specs in it kept."""
        for spec in self._specs.values():
            if spec is not None:
                spec.erase_memoize_cache()

    def cardinality(self) -> Any:
        """The product of those of the specs in it; 0 where there are none."""
        return (
            0 if self.is_empty() else math.prod(spec.cardinality() for spec in self._specs.values() if spec is not None)
        )

    def enumerate(self, use_mask: bool = False) -> Any:
        """All combinations of values of the specs in it, along a new first dimension, the last spec changing fastest.

        Raises:
            NotImplementedError: there is no end of them.
        """
        values = [(key, spec.enumerate(use_mask)) for key, spec in self._entries() if spec is not None]
        if not values:
            return self._collection({}, Size([]))
        counts = torch.cartesian_prod(*(torch.arange(len(value)) for _, value in values)).reshape(-1, len(values))
        rows = {key: value[counts[:, at]] for at, (key, value) in enumerate(values)}
        return self._collection(rows, Size([len(counts)]))

    def index(self, index: Any, tensor_to_index: Any) -> Any:
        """Impossible.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Values of a Composite are no indices; index by those of the specs in it.")

    def __eq__(self, other: object) -> Any:
        return (
            type(other) is type(self)
            and self.shape == other.shape
            and self._device == other._device
            and self._specs.keys() == other._specs.keys()
            and all(
                mine is its if mine is None or its is None else bool(mine == its)
                for mine, its in ((spec, other._specs[key]) for key, spec in self._entries())
            )
        )

    def __repr__(self) -> str:
        fields = [f"{key}: {spec}" for key, spec in self._entries()]
        facts = [f"{name}={getattr(self, name)}" for name in ("device", "shape", "data_cls")]
        if not fields:
            return f"{type(self).__name__}({', '.join(facts)})"
        fields += facts
        return f"{type(self).__name__}(\n{indented((',' + chr(10)).join(fields))})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_parents": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._locked and self._recursive:
            self.lock_(recurse=True)


def _entry(val: Any, key: str) -> Any:
    found = val.get(key, None)
    if found is None:
        raise KeyError(f"{key!r} is not in the TensorDict, which has {sorted(map(str, val.keys()))}.")
    return found
