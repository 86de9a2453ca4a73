"""`TensorDictSequential`: modules that pass one tensordict on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import nn

from flambeau.data.tensordict._layout.keys import unravel_key
from flambeau.data.tensordict._lazy import LazyStackedTensorDict
from flambeau.data.tensordict.nn._dispatch import dispatch
from flambeau.data.tensordict.nn._module import WrapModule, output_for
from flambeau.data.tensordict.nn._module_base import TensorDictModuleBase
from flambeau.data.tensordict.nn.common import TensorDictModule
from flambeau.data.tensordict.nn.utils import set_skip_existing

__all__ = ["TensorDictSequential"]


class TensorDictSequential(TensorDictModule):
    """Run modules one after the other on the same tensordict.

    `in_keys` are the entries that some module reads and none before it writes; `out_keys` all that are written.

    Args:
        modules: modules with `in_keys` and `out_keys`, and functions of a tensordict; or one list, or dict, of such.
        partial_tolerant: pass over modules whose entries are absent; each element of a lazy stack by itself.
        selected_out_keys: see `select_out_keys`.
        inplace: True or None leave it to the modules where results go, which is the input as a rule; False gives a new
            TensorDict with the outputs alone, "empty" the same with the input's batch size.

    Example:
        >>> model = TensorDictSequential(
        ...     TensorDictModule(nn.Linear(3, 4), in_keys=["x"], out_keys=["hidden"]),
        ...     TensorDictModule(nn.Tanh(), in_keys=["hidden"], out_keys=["y"]),
        ... )
        >>> model.in_keys, model.out_keys
        (['x'], ['hidden', 'y'])
    """

    def __init__(
        self,
        *modules: Callable[[Any], Any],
        partial_tolerant: bool = False,
        selected_out_keys: list[Any] | None = None,
        inplace: bool | str | None = None,
    ) -> None:
        if inplace not in (None, True, False, "empty"):
            raise ValueError(f"inplace is {inplace!r}, expected None, True, False or 'empty'.")
        if len(modules) == 1 and isinstance(modules[0], (list, tuple)):
            modules = tuple(modules[0])
        if len(modules) == 1 and isinstance(modules[0], dict):
            named = {name: _as_td_module(module) for name, module in modules[0].items()}
            container: Any = nn.ModuleDict(named)
            members = list(named.values())
        else:
            members = [_as_td_module(module) for module in modules]
            container = nn.ModuleList(members)
        reads, writes = keys_of(members)
        super().__init__(container, reads, writes)
        self.module: Any  # the container
        self.partial_tolerant = partial_tolerant
        self.inplace = inplace  # type: ignore[assignment]
        if selected_out_keys is not None:
            self.select_out_keys(*selected_out_keys)

    def _members(self) -> list[Any]:
        return list(self.module.values() if isinstance(self.module, nn.ModuleDict) else self.module)

    def _like(self, modules: Any) -> Any:
        return type(self)(*modules, partial_tolerant=self.partial_tolerant, inplace=self.inplace)

    def _update_keys(self) -> None:
        self.in_keys, self.out_keys = keys_of(self._members())

    def select_subsequence(
        self, in_keys: Iterable[Any] | None = None, out_keys: Iterable[Any] | None = None
    ) -> TensorDictSequential:
        """The modules that some entries are enough for, and that others need; the modules are shared.

        Args:
            in_keys: keep the modules that read nothing but these and what kept modules write; default all.
            out_keys: keep the modules that these results depend on; default all.

        Raises:
            ValueError: no module is left.
        """
        available = self._key_set(self.in_keys if in_keys is None else in_keys)
        wanted = self._key_set(self.out_keys if out_keys is None else out_keys)
        kept = []
        for module in self._members():
            if isinstance(module, TensorDictSequential) and not available.issuperset(module.in_keys):
                module = module._usable_part(available)
            if module is not None and available.issuperset(module.in_keys):
                kept.append(module)
                available |= self._key_set(module.out_keys)
        needed = []
        for module in reversed(kept):
            if any(key in wanted for key in module.out_keys):
                if isinstance(module, TensorDictSequential) and out_keys is not None:
                    module = module.select_subsequence(out_keys=[key for key in module.out_keys if key in wanted])
                needed.append(module)
                wanted |= self._key_set(module.in_keys)
        if not needed:
            raise ValueError(
                "The selection is empty: no module reads only "
                f"{sorted(map(str, available))} and helps to write {sorted(map(str, wanted))}."
            )
        return type(self)(*reversed(needed), partial_tolerant=self.partial_tolerant, inplace=self.inplace)

    def _usable_part(self, available: set[Any]) -> TensorDictSequential | None:
        try:
            return self.select_subsequence(in_keys=available)
        except ValueError:  # of a sequence inside another, no part may be usable
            return None

    @staticmethod
    def _key_set(keys: Iterable[Any]) -> set[Any]:
        return {unravel_key(key) for key in keys}

    @dispatch(auto_batch_size=False)
    @set_skip_existing(None)
    def forward(self, tensordict: Any = None, *, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Run all modules.

        Args:
            tensordict: holds `in_keys`; or tensors, by position or by name.
            tensordict_out: receives the outputs.
            kwargs: for every module.
        """
        result = tensordict
        if self.inplace in (False, "empty") or tensordict_out is not None:
            result = tensordict.copy()  # intermediate entries must not reach the input
        for module in self._members():
            result = self._run(module, result, kwargs)
        if tensordict_out is None and self.inplace in (False, "empty"):
            tensordict_out = output_for(tensordict, self.inplace)
        if tensordict_out is None:
            return result
        outputs = [key for key in self.out_keys if key != "_"]
        return tensordict_out.update(result.select(*outputs, strict=not self.partial_tolerant))

    def _run(self, module: Any, tensordict: Any, kwargs: dict[str, Any]) -> Any:
        if not self.partial_tolerant:
            return module(tensordict, **kwargs)
        if all(key in tensordict.keys(True) for key in module.in_keys):
            return module(tensordict, **kwargs)
        if isinstance(tensordict, LazyStackedTensorDict):
            for element in tensordict.tensordicts:
                if all(key in element.keys(True) for key in module.in_keys):
                    module(element, **kwargs)
        return tensordict

    def __len__(self) -> int:
        return len(self.module)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members())

    def __getitem__(self, index: int | slice | str) -> Any:
        """A module by position or name, or a sequence of a slice of them."""
        if isinstance(index, slice):
            return self._like(self._members()[index])
        if isinstance(self.module, nn.ModuleDict) and isinstance(index, int):
            return self._members()[index]
        return self.module[index]

    def __setitem__(self, index: int | str, tensordict_module: Any) -> None:
        """Put another module in the place of one."""
        self.module[index] = _as_td_module(tensordict_module)
        self._update_keys()

    def __delitem__(self, index: int | slice | str) -> None:
        """Take a module out."""
        del self.module[index]
        self._update_keys()


def keys_of(modules: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """What modules in a row read from outside, in order of first use, and what they write, in order of last writing."""
    reads: dict[Any, None] = {}
    writes: dict[Any, None] = {}
    for module in modules:
        for key in module.in_keys:
            if key not in writes:
                reads[key] = None
        for key in module.out_keys:
            if key != "_":
                writes.pop(key, None)
                writes[key] = None
    return list(reads), list(writes)


def _as_td_module(module: Any) -> Any:
    if TensorDictModuleBase.is_tdmodule_compatible(module) and isinstance(module, nn.Module):
        return module
    if not callable(module):
        raise TypeError(f"a sequence holds modules and functions of a tensordict, got a {type(module).__name__}.")
    return WrapModule(module)
