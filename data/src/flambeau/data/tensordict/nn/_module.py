"""`TensorDictModule`: any function or module, with its arguments taken from a tensordict and its results put there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from flambeau.data.tensordict._layout.keys import unravel_key
from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict._tensorcollection import is_tensor_collection
from flambeau.data.tensordict.nn._dispatch import dispatch
from flambeau.data.tensordict.nn._module_base import TensorDictModuleBase
from flambeau.data.tensordict.nn.functional_modules import is_functional
from flambeau.data.tensordict.nn.utils import set_skip_existing


class TensorDictModule(TensorDictModuleBase):
    """Read entries of a tensordict, call a module with them, write what it returns.

    Args:
        module: a module or function of tensors.
        in_keys: the entries that become positional arguments; a dict of keyword names and keys (see `out_to_in_map`)
            makes them keyword arguments. One key may stand without a list.
        out_keys: where results go, in order; "_" drops one.
        out_to_in_map: True, the default: a dict maps keyword names to keys. False: keys to keyword names.
        inplace: True writes into the input; False into a new TensorDict without batch size; "empty" into an empty one
            like the input.
        method: the module's method to call, in place of `forward`.
        method_kwargs: keyword arguments of every call.
        strict: raise KeyError for an absent entry, in place of passing None.
        get_kwargs: keyword arguments of `tensordict.get`.

    Raises:
        KeyError: from `forward`, when the call fails and entries were absent.
        RuntimeError: from `forward`, when there are more or fewer results than keys.

    Example:
        >>> module = TensorDictModule(nn.Linear(3, 2), in_keys=["obs"], out_keys=[("hidden", "mean")])
        >>> module(TensorDict(obs=torch.ones(4, 3), batch_size=[4]))["hidden", "mean"].shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        module: Callable[..., Any],
        in_keys: Any,
        out_keys: Any,
        *,
        out_to_in_map: bool | None = None,
        inplace: bool | str = True,
        method: str | None = None,
        method_kwargs: dict[str, Any] | None = None,
        strict: bool = False,
        get_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if inplace not in (True, False, "empty"):
            raise ValueError(f"inplace is {inplace!r}, expected True, False or 'empty'.")
        if not callable(module):
            raise ValueError(f"module is a {type(module).__name__}, expected a module or function.")
        self.module = module
        self._keywords: list[str] | None = None
        if isinstance(in_keys, dict):
            pairs = in_keys.items() if out_to_in_map is not False else ((name, key) for key, name in in_keys.items())
            names, in_keys = zip(*pairs, strict=True) if in_keys else ((), ())
            self._keywords = [_keyword(name) for name in names]
        elif out_to_in_map is not None:
            raise ValueError("out_to_in_map says how a dict of in_keys is read; in_keys is no dict: leave it out.")
        self.in_keys = one_or_more(in_keys)
        self.out_keys = one_or_more(out_keys)
        if "_" in self.in_keys:
            raise ValueError('in_keys holds "_", which stands for a result that is dropped; name the entry to read.')
        self.inplace, self.method, self.method_kwargs = inplace, method, method_kwargs or {}
        self.strict, self.get_kwargs = strict, get_kwargs or {}

    @property
    def device(self) -> torch.device:
        """Of the first parameter; the CPU where there is none."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @property
    def is_functional(self) -> bool:
        """Whether the module takes its parameters as an argument."""
        return isinstance(self.module, nn.Module) and is_functional(self.module)

    @dispatch(auto_batch_size=False)
    @set_skip_existing(None)
    def forward(self, tensordict: Any, *args: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Read, call, write.

        Args:
            tensordict: holds `in_keys`; or tensors, by position or by name, and the result is a tensor or a tuple.
            args: further positional arguments of the module.
            tensordict_out: where results go, in place of what `inplace` says.
            kwargs: further keyword arguments of the module.
        """
        values = [tensordict.get(key, None, **self.get_kwargs) for key in self.in_keys]
        if self.strict and (absent := [key for key, value in zip(self.in_keys, values, strict=True) if value is None]):
            raise KeyError(f"{self._described()} reads {absent}, which the tensordict lacks.")
        try:
            results = self._call(values, args, kwargs)
        except Exception as error:
            absent = [key for key, value in zip(self.in_keys, values, strict=True) if value is None]
            if absent:
                raise KeyError(
                    f"{self._described()} reads {absent}, which the tensordict lacks: it has "
                    f"{list(tensordict.keys(True, True))[:10]}. With None in their place: {error!r}"
                ) from error
            error.add_note(f"in {self._described()}, which reads {self.in_keys}")
            raise
        return self._write(tensordict, results, tensordict_out)

    def _call(self, values: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = self.module if self.method is None else getattr(self.module, self.method)
        options = {**self.method_kwargs, **kwargs}
        if self._keywords is None:
            return function(*values, *args, **options)
        # An absent entry is an argument that is not given, so that the function's default counts.
        named = {name: value for name, value in zip(self._keywords, values, strict=True) if value is not None}
        return function(*args, **named, **options)

    def _write(self, tensordict: Any, results: Any, tensordict_out: Any) -> Any:
        if isinstance(results, dict) or (is_tensor_collection(results) and not results._is_non_tensor):
            found = [value for key in self.out_keys_source if (value := results.get(key)) is not None]
            results = found or (results,)
        elif not isinstance(results, tuple):  # a list is one value
            results = () if results is None else (results,)
        keys = self.out_keys_source
        if len(results) != len(keys):
            word = "more" if len(results) > len(keys) else "fewer"
            raise RuntimeError(f"{self._described()} gave {len(results)} results, {word} than out_keys: {keys}.")
        if tensordict_out is None:
            tensordict_out = output_for(tensordict, self.inplace)
        for key, value in zip(keys, results, strict=True):
            if key != "_":
                tensordict_out.set(key, value)
        return tensordict_out

    def _shown(self) -> list[tuple[str, Any]]:
        inside = dict(self._modules)
        return [("module", inside.pop("module", self.__dict__.get("module"))), *inside.items()]

    def _described(self) -> str:
        name = getattr(self.module, "__qualname__", type(self.module).__name__)
        return f"{type(self).__name__}({name})"

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            module = self.__dict__.get("_modules", {}).get("module", self.__dict__.get("module"))
            if name.startswith("__") or name == "module" or module is None:
                raise
            try:
                return getattr(module, name)
            except AttributeError:
                raise AttributeError(
                    f"neither {type(self).__name__} nor its module, a {type(module).__name__}, has {name!r}."
                ) from None


class TensorDictModuleWrapper(TensorDictModuleBase):
    """A module around another, whose keys and other attributes are its own.

    Args:
        td_module: the module inside.
    """

    def __init__(self, td_module: TensorDictModuleBase) -> None:
        super().__init__()
        self.td_module = td_module
        self.in_keys = td_module.in_keys

    @property  # type: ignore[misc]
    def out_keys(self) -> list[Any]:
        """Those of the module inside, or what was selected here."""
        selection = self.__dict__.get("_selection")
        return self.td_module.out_keys if selection is None else list(selection)

    @property
    def out_keys_source(self) -> list[Any]:
        """Those of the module inside."""
        return self.td_module.out_keys

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module inside."""
        return self.td_module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            inner = self.__dict__.get("_modules", {}).get("td_module")
            if name.startswith("__") or inner is None:
                raise
            return getattr(inner, name)


class WrapModule(TensorDictModuleBase):
    """A function of a tensordict as a module, to stand in a sequence.

    Args:
        func: takes a tensordict, gives one.
        inplace: write what it gives into the input, and give that.
        in_keys: what it reads, if that is to be known; all of them otherwise.
        out_keys: what it writes.
    """

    def __init__(
        self,
        func: Callable[[Any], Any],
        *,
        inplace: bool = False,
        in_keys: Sequence[Any] | None = None,
        out_keys: Sequence[Any] | None = None,
    ) -> None:
        super().__init__()
        self.func, self.inplace = func, inplace
        self.in_keys, self.out_keys = in_keys or [], out_keys or []

    def forward(self, data: Any) -> Any:
        """Call the function."""
        result = self.func(data)
        return data.update(result) if self.inplace and result is not data else result


class as_tensordict_module:
    """Decorate a function of tensors so that it reads and writes a tensordict.

    Args:
        in_keys: as in `TensorDictModule`.
        out_keys: as there.

    Example:
        >>> @as_tensordict_module(in_keys=["x"], out_keys=["y"])
        ... def double(x):
        ...     return 2 * x
        >>> double(TensorDict(x=torch.ones(1)))["y"]
        tensor([2.])
    """

    def __init__(self, *, in_keys: Any, out_keys: Any) -> None:
        self.in_keys, self.out_keys = in_keys, out_keys

    def __call__(self, func: Callable[..., Any]) -> TensorDictModule:
        """Wrap a function."""
        return TensorDictModule(func, in_keys=self.in_keys, out_keys=self.out_keys)


def one_or_more(keys: Any) -> list[Any]:
    """A list of keys; a string by itself is a list of one, a tuple of strings is several keys, as upstream has it."""
    return [keys] if isinstance(keys, str) else [unravel_key(key) for key in keys]


def output_for(tensordict: Any, inplace: bool | str | None) -> Any:
    """Where a module writes its results: the input, an empty tensordict like it, or a new one."""
    if inplace is True:
        return tensordict
    return tensordict.empty() if inplace == "empty" else TensorDict()


def _keyword(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"in_keys maps {name!r}, expected the name of a keyword argument, a string.")
    return name
