"""Names of what runs a service and of what carries its data, and defaults for a part of a program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeAlias, get_args

__all__ = [
    "ServiceBackend",
    "ServiceBackendAlias",
    "TransportBackend",
    "normalize_service_backend",
    "service_backend",
    "transport_backend",
]

ServiceBackend: TypeAlias = Literal["direct", "thread", "process", "ray", "rpc", "submitit", "monarch", "distributed"]
ServiceBackendAlias: TypeAlias = Literal["threading", "multiprocessing"]
TransportBackend: TypeAlias = Literal[
    "auto", "direct", "thread", "queue", "process", "shared_memory", "ray", "monarch", "distributed"
]

_SERVICES: tuple[str, ...] = get_args(ServiceBackend)
_TRANSPORTS: tuple[str, ...] = get_args(TransportBackend)
_ALIASES = {"threading": "thread", "multiprocessing": "process"}

# With the process that set it: a forked worker begins without defaults.
_service: ContextVar[tuple[int, str] | None] = ContextVar("service_backend", default=None)
_transport: ContextVar[tuple[int, str] | None] = ContextVar("transport_backend", default=None)


def normalize_service_backend(backend: str) -> str:
    """The short name of what runs a service.

    Args:
        backend: such a name, or "threading" or "multiprocessing".

    Raises:
        ValueError: there is no such name.
    """
    found = _ALIASES.get(backend, backend)
    if found not in _SERVICES:
        raise ValueError(f"there is no service backend {backend!r}; there are {', '.join([*_SERVICES, *_ALIASES])}.")
    return found


def _checked_transport(backend: str) -> str:
    if backend not in _TRANSPORTS:
        raise ValueError(f"there is no transport {backend!r}; there are {', '.join(_TRANSPORTS)}.")
    return backend


@contextmanager
def service_backend(backend: str) -> Iterator[None]:
    """In this block, objects that can be services run by this backend, where they are not told otherwise.

    Args:
        backend: see `normalize_service_backend`.

    Raises:
        ValueError: there is no such name.

    Example:
        >>> from flambeau.rl.data import ReplayBuffer
        >>> with service_backend("direct"):
        ...     ReplayBuffer().service_backend
        'direct'
    """
    token = _service.set((os.getpid(), normalize_service_backend(backend)))
    try:
        yield
    finally:
        _service.reset(token)


@contextmanager
def transport_backend(backend: str) -> Iterator[None]:
    """In this block, data of services are carried by this transport, where they are not told otherwise.

    Args:
        backend: "auto", "direct", "thread", "queue", "process", "shared_memory", "ray", "monarch" or "distributed".

    Raises:
        ValueError: there is no such name.
    """
    token = _transport.set((os.getpid(), _checked_transport(backend)))
    try:
        yield
    finally:
        _transport.reset(token)


def chosen_service(given: str | None, default: str) -> str:
    """What runs a service: as given, else as `service_backend` says, else the default."""
    if given is not None:
        return normalize_service_backend(given)
    return _in_this_process(_service) or default


def chosen_transport(given: str | None, default: str = "auto") -> str:
    """What carries its data: as given, else as `transport_backend` says, else the default."""
    if given is not None:
        return _checked_transport(given)
    return _in_this_process(_transport) or default


def _in_this_process(variable: ContextVar[tuple[int, str] | None]) -> str | None:
    found = variable.get()
    return found[1] if found is not None and found[0] == os.getpid() else None
