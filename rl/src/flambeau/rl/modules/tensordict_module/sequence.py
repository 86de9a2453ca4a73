"""Sequences of modules with specs."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict.nn.sequence import TensorDictSequential
from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.modules.tensordict_module.common import SafeModule

__all__ = ["SafeSequential"]


def joint_spec(modules: list[Any]) -> Composite:
    """The specs of what modules write, of the last that writes each key."""
    found = Composite()
    for module in modules:
        spec = module.spec if isinstance(getattr(type(module), "spec", None), property) else None
        known = {} if spec is None else dict(spec.items(True, True))
        for key in module.out_keys:
            if key != "_":
                found[key] = known.get(key) if key in known else _inside(spec, key)
    return found


def _inside(spec: Any, key: Any) -> Any:
    return spec.get(key) if spec is not None and key in spec.keys(True) else None


class SafeSequential(TensorDictSequential, SafeModule):
    """A `TensorDictSequential` whose spec is that of all its modules.

    Args:
        modules: read and write tensordicts.
        partial_tolerant, inplace, selected_out_keys: see `TensorDictSequential`.
    """

    def __init__(
        self,
        *modules: Any,
        partial_tolerant: bool = False,
        inplace: bool | str | None = None,
        selected_out_keys: list[Any] | None = None,
    ) -> None:
        super().__init__(*modules, partial_tolerant=partial_tolerant, inplace=inplace)
        self.__dict__["_spec"], self.safe = joint_spec(self._members()), False
        self._update_keys()
        if selected_out_keys is not None:
            self.select_out_keys(*selected_out_keys)
