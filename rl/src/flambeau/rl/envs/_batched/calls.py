"""What is asked of an environment where it is: in this process, or in a worker, which gets these functions by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def seeded(env: Any, seed: int | None, static_seed: bool) -> Any:
    """What `set_seed` returns."""
    return env.set_seed(seed, static_seed)


def state_of(env: Any) -> Any:
    """What `state_dict` returns."""
    return env.state_dict()


def load_state(env: Any, state: Any, kwargs: dict[str, Any]) -> None:
    """Load a state."""
    env.load_state_dict(state, **kwargs)


def looked_up(env: Any, name: str) -> tuple[Any, Any]:
    """An attribute: (AttributeError, None) where there is none, (callable, None) for a method, or (None, its value)."""
    try:
        value = getattr(env, name)
    except AttributeError:
        return AttributeError, None
    return (callable, None) if callable(value) else (None, value)


def called(env: Any, name: str, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
    """What a method returns."""
    return getattr(env, name)(*args, **kwargs)
