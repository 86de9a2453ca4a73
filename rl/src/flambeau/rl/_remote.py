"""Functions and classes that are used from other processes: by references of torch.distributed.rpc, or on Ray."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau.core.errors import FlambeauError

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_DEFAULT_ACTOR = {"num_cpus": 1, "num_gpus": 0, "memory": 2 * 1024**3}
"""What an actor takes where nothing is said, as upstream: one core, and 2 GB of memory."""


class MissingRay(FlambeauError, ImportError):
    """Ray is not installed."""


def imported_ray() -> Any:
    """The module ray.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingRay("this runs on Ray, which is not installed. Run: pip install 'flambeau-rl[ray]'") from error
    return ray


def accept_remote_rref_invocation(func: F) -> F:
    """Decorate a method so that its object may be a reference of torch.distributed.rpc, where it is.

    Args:
        func: the method.
    """

    @functools.wraps(func)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        local = getattr(self, "local_value", None)
        return func(self if local is None else local(), *args, **kwargs)

    return called  # type: ignore[return-value]


def accept_remote_rref_udf_invocation(decorated_class: C) -> C:
    """Decorate a class so that all of its public methods take such references, see `accept_remote_rref_invocation`.

    Args:
        decorated_class: the class.
    """
    for name in dir(decorated_class):
        if name.startswith("_"):
            continue
        found = getattr(decorated_class, name)
        if callable(found) and not isinstance(_defined(decorated_class, name), (classmethod, staticmethod, type)):
            setattr(decorated_class, name, accept_remote_rref_invocation(found))
    return decorated_class


def _defined(kind: type, name: str) -> Any:
    return next(vars(each)[name] for each in kind.__mro__ if name in vars(each))


def as_remote(cls: Any, remote_config: dict[str, Any] | None = None) -> Any:
    """A class of Ray's actors of this class: `as_remote(cls).remote(...)` makes one.

    Args:
        cls: the class.
        remote_config: what an actor takes: `num_cpus`, `num_gpus`, `memory`, ...; default: one core and 2 GB.

    Raises:
        ImportError: Ray is not installed.
    """
    ray = imported_ray()
    remote = ray.remote(**(_DEFAULT_ACTOR if remote_config is None else remote_config))(cls)
    remote.is_remote = True
    return remote


def get_ray_default_runtime_env() -> dict[str, Any]:
    """What Ray's processes get to run in where nothing is said: this folder is not sent to them."""
    return {"excludes": [".git/", "*.pt", "*.pth", "*.h5", "*.memmap", "*.mp4", "**/__pycache__/"]}


def merge_ray_runtime_env(ray_init_config: dict[str, Any] | None) -> dict[str, Any]:
    """Arguments of `ray.init`, in whose `runtime_env` the defaults stand that were not given.

    Args:
        ray_init_config: the arguments; None for none.
    """
    config = dict(ray_init_config or {})
    given = dict(config.get("runtime_env") or {})
    default = get_ray_default_runtime_env()
    excludes = [*default["excludes"], *(each for each in given.get("excludes", []) if each not in default["excludes"])]
    config["runtime_env"] = default | given | {"excludes": excludes}
    return config
