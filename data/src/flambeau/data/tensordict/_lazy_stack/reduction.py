"""Reductions of a lazy stack: over all its tensors they are those of the dense stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.data.tensordict._lazy_stack.members import StackMethods
from flambeau.data.tensordict._methods.pointwise import PointwiseMethods
from flambeau.data.tensordict._methods.reduction import ReductionMethods


class LazyReducing(StackMethods):
    """sum, mean, max, norm and the like; they raise RuntimeError where entries have different shapes."""


def _define(name: str, doc: str | None) -> None:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._dense(), name)(*args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = name, f"LazyReducing.{name}", doc
    setattr(LazyReducing, name, method)


def _reductions() -> dict[str, Callable[..., Any]]:
    found = {name: value for name, value in vars(ReductionMethods).items() if not name.startswith("_")}
    return {**found, "norm": PointwiseMethods.norm}


for _name, _method in _reductions().items():
    _define(_name, _method.__doc__)
