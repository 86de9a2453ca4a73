"""References to preprocessing that is imported only when it is used.

A weights module states facts and imports no torch. Preprocessing needs torch, so the module names it::

    Weights(url, lazy("flambeau.vision.transforms._presets:ImageClassification", crop_size=224), meta)

and whoever reads `.transforms` gets `functools.partial(ImageClassification, crop_size=224)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flambeau.core.naming import import_target


class LazyTransforms:
    """A callable by name with keyword arguments, resolved to a `functools.partial` when it is needed.

    Attributes:
        target: `"package.module:Name"`; the name may be dotted.
        params: keyword arguments; plain JSON values, since manifests record them.
    """

    __slots__ = ("_resolved", "params", "target")

    def __init__(self, target: str, params: dict[str, Any]) -> None:
        module, colon, attribute = target.partition(":")
        if not (module and colon and attribute):
            raise ValueError(f"{target!r} is no reference to preprocessing; expected 'package.module:Name'.")
        self.target, self.params = target, dict(params)
        self._resolved: partial[Any] | None = None

    def resolve(self) -> partial[Any]:
        """Import the target and bind the arguments; the same object each time."""
        if self._resolved is None:
            self._resolved = partial(import_target(self.target), **self.params)
        return self._resolved

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the target with the bound arguments and these."""
        return self.resolve()(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazyTransforms):
            if self.params != other.params:
                return False
            return self.target == other.target or self.resolve().func is other.resolve().func
        if isinstance(other, partial):
            # Compare what can be compared without an import first.
            return not other.args and self.params == other.keywords and self.resolve().func == other.func
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.params)))

    def __repr__(self) -> str:
        return f"lazy({', '.join([repr(self.target), *(f'{k}={v!r}' for k, v in self.params.items())])})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (LazyTransforms, (self.target, self.params))


def lazy(target: str, /, **params: Any) -> LazyTransforms:
    """Name preprocessing without importing it.

    Args:
        target: `"package.module:Name"` of a class or function.
        params: its keyword arguments, plain JSON values.

    Returns:
        Something that is called like `functools.partial(Name, **params)`, and equal to it.

    Raises:
        ValueError: `target` is not of the form above.

    Example:
        >>> lazy("fractions:Fraction", numerator=3)()
        Fraction(3, 1)
    """
    return LazyTransforms(target, params)


def resolved(transforms: Callable[..., Any]) -> Callable[..., Any]:
    """The callable itself: a lazy reference is imported, anything else is returned as it is."""
    return transforms.resolve() if isinstance(transforms, LazyTransforms) else transforms


def same_transforms(a: Any, b: Any) -> bool:
    """Whether two weights preprocess alike; partials, which compare by identity, are compared by their parts."""
    if isinstance(a, partial) and isinstance(b, partial):
        return bool(a.func == b.func and a.args == b.args and a.keywords == b.keywords)
    return bool(a == b)
