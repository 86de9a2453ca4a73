"""`TensorDictModuleBase`: a module that reads and writes entries of a tensordict, and says which."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from flambeau.data.tensordict._layout.keys import unravel_key
from flambeau.data.tensordict._tensorcollection import is_tensor_collection


class TensorDictModuleBase(nn.Module):
    """The root of modules whose `forward` takes a tensordict and gives one.

    A subclass sets `in_keys` and `out_keys` and reads and writes these keys in `forward(tensordict)`. Decorated with
    `dispatch`, `forward` takes tensors as well.

    Example:
        >>> class Sum(TensorDictModuleBase):
        ...     in_keys, out_keys = ["a", "b"], ["c"]
        ...     def forward(self, tensordict):
        ...         return tensordict.set("c", tensordict["a"] + tensordict["b"])
        >>> Sum()(TensorDict(a=torch.ones(1), b=torch.ones(1)))["c"]
        tensor([2.])
    """

    _has_distribution = False  # whether there is a `get_dist`, in a sequence too

    def __new__(cls, *args: Any, **kwargs: Any) -> TensorDictModuleBase:
        """The keys may be set before `Module.__init__` runs, and as attributes of the class."""
        self = super().__new__(cls)
        self.__dict__["_selection"] = None
        return self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Keys given as attributes of a class would hide the properties below, and with them `select_out_keys`.
        for name, store in (("in_keys", "_class_in_keys"), ("out_keys", "_class_out_keys")):
            if isinstance(cls.__dict__.get(name), (list, tuple)):
                setattr(cls, store, list(cls.__dict__[name]))
                delattr(cls, name)

    @property
    def in_keys(self) -> list[Any]:
        """The keys that are read."""
        return self._own_keys("in_keys")

    @in_keys.setter
    def in_keys(self, keys: Sequence[Any]) -> None:
        self.__dict__["_own_in_keys"] = _as_keys(keys)

    @property
    def out_keys(self) -> list[Any]:
        """The keys that are written, of which `select_out_keys` may have chosen some."""
        selection = self.__dict__.get("_selection")
        return self.out_keys_source if selection is None else list(selection)

    @out_keys.setter
    def out_keys(self, keys: Sequence[Any]) -> None:
        self.__dict__["_own_out_keys"] = _as_keys(keys)

    @property
    def out_keys_source(self) -> list[Any]:
        """The keys that are written, whatever was selected."""
        return self._own_keys("out_keys")

    def _own_keys(self, name: str) -> list[Any]:
        own = self.__dict__.get(f"_own_{name}")
        if own is None:
            own = getattr(type(self), f"_class_{name}", None)
        if own is None:
            raise AttributeError(f"{type(self).__name__} has no {name}; set it in __init__ or in the class.")
        return own

    def select_out_keys(self, *out_keys: Any) -> TensorDictModuleBase:
        """Keep only some outputs; the others are taken out of the result.

        Args:
            out_keys: some of `out_keys`.

        Returns:
            This module.

        Raises:
            ValueError: one of them is not written.

        Example:
            >>> from flambeau.data.tensordict.nn import TensorDictModule
            >>> module = TensorDictModule(lambda x: (x, x + 1), in_keys=["x"], out_keys=["a", "b"])
            >>> sorted(module.select_out_keys("b")(TensorDict(x=torch.zeros(1))).keys())
            ['b', 'x']
        """
        if len(out_keys) == 1 and isinstance(out_keys[0], list):
            (out_keys,) = out_keys
        selected = [unravel_key(key) for key in out_keys]
        for key in selected:
            if key not in self.out_keys_source:
                raise ValueError(f"Can't select {key!r}: {type(self).__name__} writes {self.out_keys_source}.")
        self.__dict__["_selection"] = selected
        return self

    def reset_out_keys(self) -> TensorDictModuleBase:
        """Give all outputs again."""
        self.__dict__["_selection"] = None
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` with its hooks, then take out what is not selected."""
        out = super().__call__(*args, **kwargs)
        selection = self.__dict__.get("_selection")
        if selection is None or not is_tensor_collection(out):
            return out
        inputs = args[0] if args else kwargs.get("tensordict")
        surplus = [key for key in self.out_keys_source if key not in selection and key != "_"]
        return out.exclude(*surplus, inplace=out is inputs)

    @staticmethod
    def is_tdmodule_compatible(module: Any) -> bool:
        """Whether a module says what it reads and writes."""
        return hasattr(module, "in_keys") and hasattr(module, "out_keys")

    def reset_parameters_recursive(self, parameters: Any = None) -> Any:
        """Draw new values for all parameters of this module and those below, where they know how.

        Args:
            parameters: a tensordict as `TensorDict.from_module(self)` gives; new values are written into it, and the
                module keeps its own.

        Returns:
            The parameters given, or None.
        """
        if parameters is None:
            reset_below(self)
            return None
        with torch.no_grad(), parameters.data.to_module(self):
            reset_below(self)
        return parameters

    def _shown(self) -> list[tuple[str, Any]]:
        """What is printed before the keys."""
        return list(self._modules.items())

    def __repr__(self) -> str:
        shown = [*self._shown(), ("in_keys", self.in_keys), ("out_keys", self.out_keys)]
        lines = textwrap.indent(",\n".join(f"{name}={value!r}" for name, value in shown), "    ")
        return f"{type(self).__name__}(\n{lines})"


def reset_below(module: nn.Module) -> None:
    """Call `reset_parameters`, or `reset_parameters_recursive`, of all modules below.

    Upstream: a layer is reset again through the module that wraps it, whose `reset_parameters` is the layer's. So the
    same seed gives the same values.
    """
    for child in module.children():
        if isinstance(child, TensorDictModuleBase):
            child.reset_parameters_recursive()
        else:
            reset_below(child)
        if callable(reset := getattr(child, "reset_parameters", None)):
            reset()


def _as_keys(keys: Any) -> list[Any]:
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise TypeError(f"keys must be a list of keys, got {keys!r}; write [{keys!r}].")
    return [unravel_key(key) for key in keys]
