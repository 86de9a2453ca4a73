"""Reductions of a lazy stack: over all its tensors they are those of the dense stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._lazy_stack.members import StackMethods
from flambeau.data.tensordict._methods.pointwise import PointwiseMethods
from flambeau.data.tensordict._methods.reduction import ReductionMethods

_TO_ONE_TENSOR = frozenset(["sum", "mean", "nansum", "nanmean", "prod", "std", "var", "amax", "amin", "max", "min"])


class LazyReducing(StackMethods):
    """sum, mean, max, norm and the like; they raise RuntimeError where entries have different shapes.

    To a single tensor they reduce all that the stacked tensordicts hold, whatever its shape and key.
    """

    def softmax(self, dim: int, dtype: torch.dtype | None = None) -> Any:
        """`torch.softmax` of every entry along a batch dimension; along another than the stack's, of any shapes."""
        where = self._dim(dim)
        if where == self.stack_dim:
            return self._dense().softmax(where, dtype)
        return self._like([td.softmax(self._below(where), dtype) for td in self.tensordicts])


def _define(name: str, doc: str | None) -> None:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name in _TO_ONE_TENSOR and not args and kwargs.get("reduce") and "dim" not in kwargs:
            flat = torch.cat([leaf.flatten() for td in self.tensordicts for leaf in td._leaves()])
            return getattr(classes.make_td({name: flat}, torch.Size(())), name)(**kwargs)
        return getattr(self._dense(), name)(*args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = name, f"LazyReducing.{name}", doc
    setattr(LazyReducing, name, method)


def _reductions() -> dict[str, Callable[..., Any]]:
    found = {name: value for name, value in vars(ReductionMethods).items() if not name.startswith("_")}
    found.pop("softmax")
    return {**found, "norm": PointwiseMethods.norm}


for _name, _method in _reductions().items():
    _define(_name, _method.__doc__)
