"""Options of schedulers by the schedulers' names."""

from __future__ import annotations

from flambeau.launch.errors import UnknownSchedulerException
from flambeau.launch.schedulers import get_scheduler_factories
from flambeau.launch.specs.options import runopts

__all__ = ["scheduler_options"]


class UnknownOptions(UnknownSchedulerException, ValueError):
    """Options of a scheduler that does not exist."""


def scheduler_options(name: str) -> runopts:
    """The options of a scheduler.

    Raises:
        UnknownSchedulerException: there is none of this name.
        MissingBackend: its client is not installed.
    """
    factories = get_scheduler_factories()
    if name not in factories:
        raise UnknownOptions(name, ", ".join(factories))
    return factories[name]("").run_opts()
