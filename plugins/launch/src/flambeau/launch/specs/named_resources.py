"""Resources by name: ours, and those that installed distributions add."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NoReturn

from flambeau.core.errors import close_names
from flambeau.launch.errors import ResourceError
from flambeau.launch.specs import named_resources_aws, named_resources_generic
from flambeau.launch.specs.resources import NULL_RESOURCE, Resource
from flambeau.launch.util.entrypoints import load_group

__all__ = [
    "AWS_NAMED_RESOURCES",
    "GENERIC_NAMED_RESOURCES",
    "get_named_resources",
    "load_group",
    "named_resources",
    "resource",
]

AWS_NAMED_RESOURCES = named_resources_aws.NAMED_RESOURCES
GENERIC_NAMED_RESOURCES = named_resources_generic.NAMED_RESOURCES
GROUPS = ("torchx.named_resources", "flambeau.launch.named_resources")
"""Groups of entry points whose values are functions that make a `Resource`; of equal names the last one's hold."""


@cache
def _factories() -> dict[str, Callable[[], Resource]]:
    factories: dict[str, Callable[[], Resource]] = {
        **named_resources_generic.NAMED_RESOURCES,
        **named_resources_aws.NAMED_RESOURCES,
    }
    for group in GROUPS:
        factories.update(load_group(group) or {})
    # Upstream: both words for nothing in particular.
    return {**factories, "NULL": lambda: NULL_RESOURCE, "MISSING": lambda: NULL_RESOURCE}


class _NamedResourcesLibrary:
    """`named_resources["gpu.small"]` makes that resource."""

    def __getitem__(self, key: str) -> Resource:
        if key not in _factories():
            near = close_names(key, _factories())
            known = ", ".join(sorted(_factories()))
            hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {known}."
            raise ResourceError(f"no named resource {key!r}. {hint}")
        return _factories()[key]()

    def __contains__(self, key: str) -> bool:
        return key in _factories()

    def __iter__(self) -> NoReturn:
        raise NotImplementedError("named resources are looked up by name; `names()` lists them.")

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(_factories())


named_resources: _NamedResourcesLibrary = _NamedResourcesLibrary()


def get_named_resources(res: str) -> Resource:
    """A resource by its name.

    Raises:
        ResourceError: (a KeyError) there is none of this name.
    """
    return named_resources[res]


def resource(
    cpu: int | None = None, gpu: int | None = None, memMB: int | None = None, h: str | None = None
) -> Resource:
    """A resource by its name, or by its parts.

    Args:
        cpu: cores; 2 where neither this nor `h` is given.
        gpu: GPUs; none where not given.
        memMB: mebibytes; 1024 where not given.
        h: name of the resource, which then alone counts.

    Raises:
        ResourceError: (a KeyError) there is none of this name.
    """
    if h:
        return get_named_resources(h)
    return Resource(cpu=cpu or 2, gpu=gpu or 0, memMB=memMB or 1024)
