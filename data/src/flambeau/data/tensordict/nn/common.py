"""Modules of one function, under upstream's path."""

from __future__ import annotations

from flambeau.data.tensordict.nn._dispatch import dispatch as dispatch
from flambeau.data.tensordict.nn._module import TensorDictModule as TensorDictModule
from flambeau.data.tensordict.nn._module import TensorDictModuleWrapper as TensorDictModuleWrapper
from flambeau.data.tensordict.nn._module import WrapModule as WrapModule
from flambeau.data.tensordict.nn._module import as_tensordict_module as as_tensordict_module
from flambeau.data.tensordict.nn._module_base import TensorDictModuleBase as TensorDictModuleBase

__all__ = [
    "TensorDictModule",
    "TensorDictModuleBase",
    "TensorDictModuleWrapper",
    "WrapModule",
    "as_tensordict_module",
    "dispatch",
]
