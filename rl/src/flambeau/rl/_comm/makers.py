"""Functions on their way to other processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any


class Maker:
    """A function with arguments, which is pickled where it can be, and by cloudpickle where it is a lambda or the like.

    Args:
        function: what makes an environment.
        kwargs: its arguments.
    """

    def __init__(self, function: Callable[..., Any], kwargs: dict[str, Any] | None = None) -> None:
        self.function = function
        self.kwargs = dict(kwargs or {})

    def __call__(self) -> Any:
        """What the function returns."""
        return self.function(**self.kwargs)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        return _unpacked, (dumps((self.function, self.kwargs)),)


def _unpacked(data: bytes) -> Maker:
    return Maker(*pickle.loads(data))


def dumps(value: Any) -> bytes:
    """A pickle of anything, of lambdas and local classes with cloudpickle.

    Raises:
        TypeError: it cannot be pickled.
    """
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle
        except ModuleNotFoundError:
            raise TypeError(
                f"what makes environments in other processes must be picklable ({error}): define it at the top of a "
                "module, or run: pip install cloudpickle"
            ) from error
        return bytes(cloudpickle.dumps(value))


class Beside:
    """A function with an object that only multiprocessing can send, such as a semaphore or memory that is shared.

    Args:
        maker: the function.
        beside: the object, which what the function makes gets as the attribute `beside`.
    """

    def __init__(self, maker: Maker, beside: Any) -> None:
        self.maker, self.beside = maker, beside

    def __call__(self) -> Any:
        """What the function returns."""
        made = self.maker()
        made.__dict__["beside"] = self.beside
        return made
