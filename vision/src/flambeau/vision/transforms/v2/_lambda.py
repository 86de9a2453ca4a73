"""Nothing at all, and a function of your own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.vision.transforms.v2._transform import Transform
from flambeau.vision.transforms.v2._utils import check_type


class Identity(Transform):
    """Return the sample as it is."""

    _takes_encoded = True

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """The leaf itself."""
        return inpt


class Lambda(Transform):
    """Apply a function to leaves.

    Args:
        lambd: the function. For DataLoader's workers and `to_spec` it has to be one of a module, no lambda.
        *types: of the leaves; without any, all of them, whatever they are.

    Raises:
        TypeError: `lambd` is no function.
    """

    _transformed_types = (object,)

    def __init__(self, lambd: Callable[[Any], Any], *types: type) -> None:
        super().__init__()
        if not callable(lambd):
            raise TypeError(f"lambd is {lambd!r}, expected a function.")
        self.lambd = lambd
        self.types = types or self._transformed_types

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Apply the function to one leaf, if it is of the types."""
        return self.lambd(inpt) if check_type(inpt, self.types) else inpt

    def extra_repr(self) -> str:
        """The arguments, for `repr`."""
        name = getattr(self.lambd, "__name__", repr(self.lambd))
        return ", ".join([name, f"types={[kind.__name__ for kind in self.types]}"])
