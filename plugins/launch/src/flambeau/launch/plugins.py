"""How schedulers, trackers and components are added, by this package itself and by others.

A distribution names a plugin as an entry point of the group `flambeau.launch`; the plugin is a module, or any object,
with one or more of the hooks below. One object is enough for a scheduler::

    # pyproject.toml:  [project.entry-points."flambeau.launch"]
    #                  mycloud = "my_package.launching:MYCLOUD"
    from flambeau.launch.plugins import SchedulerPlugin

    MYCLOUD = SchedulerPlugin("mycloud", "my_package.scheduler:create_scheduler", needs=("mycloud_sdk",))

Nothing of a plugin but this object is imported before its scheduler is asked for. A plugin that fails is left out,
and said to be where its name is asked for and by `flambeau launch doctor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pluggy

from flambeau.core.errors import describe
from flambeau.launch.errors import MissingBackend, SchedulerError

if TYPE_CHECKING:
    from flambeau.launch.schedulers.api import Scheduler

__all__ = [
    "GROUP",
    "SchedulerPlugin",
    "broken_plugins",
    "component_modules",
    "hookimpl",
    "launch_components",
    "launch_schedulers",
    "launch_trackers",
    "scheduler_plugins",
    "tracker_factories",
]

GROUP = "flambeau.launch"
hookspec = pluggy.HookspecMarker("flambeau_launch")
hookimpl = pluggy.HookimplMarker("flambeau_launch")


@hookspec
def launch_schedulers() -> Sequence[SchedulerPlugin]:  # type: ignore[empty-body]
    """The schedulers that the plugin brings."""


@hookspec
def launch_components() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Modules of components by what stands before their names; names with an underscore stand before none."""


@hookspec
def launch_trackers() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Addresses `module:function` of what makes a tracker of its configuration, by the tracker's name."""


@dataclass(frozen=True)
class SchedulerPlugin:
    """One scheduler, which is itself a plugin.

    Attributes:
        name: as handles and command lines have it.
        target: address `module:function` of what makes it, given `session_name` and keywords.
        summary: one line for listings.
        needs: modules that must be installed for it.
        programs: programs that must be on the path for it.
        extra: the extra of this distribution that brings what is missing; empty where another brings it.
    """

    name: str
    target: str
    summary: str = ""
    needs: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    extra: str = ""

    @hookimpl
    def launch_schedulers(self) -> Sequence[SchedulerPlugin]:
        """This one."""
        return (self,)

    def missing(self) -> list[str]:
        """What is not installed of what it needs."""
        from importlib.util import find_spec
        from shutil import which

        modules = [f"module {name}" for name in self.needs if _absent(find_spec, name)]
        return modules + [f"program {name}" for name in self.programs if which(name) is None]

    def create(self, session_name: str, **options: object) -> Scheduler[Any]:
        """Make the scheduler.

        Raises:
            MissingBackend: (an ImportError) something that it needs is not installed.
        """
        from flambeau.core.naming import import_target

        try:
            factory = import_target(self.target)
            scheduler: Scheduler[Any] = factory(session_name, **options)
        except ImportError as error:
            if not (missing := self.missing()):
                raise
            raise MissingBackend(self.remedy(missing)) from error
        return scheduler

    def remedy(self, missing: Sequence[str]) -> str:
        """A sentence about what is missing, and how it comes."""
        from flambeau.core.plugins.plugin import install_command

        how = f" Run: {install_command(f'flambeau-launch[{self.extra}]')}" if self.extra else ""
        return f"scheduler {self.name!r} needs {', '.join(missing)}.{how}"


def _absent(find_spec: Callable[[str], object], name: str) -> bool:
    try:
        return find_spec(name) is None
    except ModuleNotFoundError:  # of a package that is absent itself
        return True


@dataclass(frozen=True)
class _Plugins:
    manager: pluggy.PluginManager
    broken: dict[str, str]


@cache
def _plugins() -> _Plugins:
    """Every plugin, each loaded by itself: one that fails does not hurt the others."""
    from importlib.metadata import entry_points

    manager = pluggy.PluginManager("flambeau_launch")
    manager.add_hookspecs(_Specs)
    broken: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (not _ours(point.value), point.name)):
        try:
            plugin = point.load()
            manager.register(plugin, name=f"{point.name} ({point.value})")
            manager.check_pending()
        except Exception as error:  # foreign code: whatever it raises is kept and shown
            broken[point.name] = f"{point.value} cannot be loaded: {describe(error)}"
    return _Plugins(manager, broken)


class _Specs:
    launch_schedulers = staticmethod(launch_schedulers)
    launch_components = staticmethod(launch_components)
    launch_trackers = staticmethod(launch_trackers)


def _ours(target: str) -> bool:
    return target.startswith("flambeau.launch.")


def broken_plugins() -> Mapping[str, str]:
    """Plugins that cannot be used, and why."""
    return _plugins().broken


def _collect(hook: str) -> list[Any]:
    results = []
    for implementation in getattr(_plugins().manager.hook, hook).get_hookimpls():
        try:
            results.append(implementation.function())
        except Exception as error:  # foreign code, as above
            _plugins().broken[implementation.plugin_name] = f"{hook}: {describe(error)}"
    return results


@cache
def scheduler_plugins() -> Mapping[str, SchedulerPlugin]:
    """Every scheduler by its name, ours first.

    Raises:
        SchedulerError: two plugins bring a scheduler of the same name.
    """
    found: dict[str, SchedulerPlugin] = {}
    for plugins in _collect("launch_schedulers"):
        for plugin in plugins:
            if found.setdefault(plugin.name, plugin) != plugin:
                both = f"{found[plugin.name].target} and {plugin.target}"
                raise SchedulerError(f"scheduler {plugin.name!r} is brought by {both}; uninstall one of them.")
    return found


def component_modules() -> dict[str, str]:
    """Modules of components by what stands before their names."""
    return {name: module for modules in _collect("launch_components") for name, module in modules.items()}


def tracker_factories() -> dict[str, str]:
    """Addresses of what makes trackers, by the trackers' names."""
    return {name: target for trackers in _collect("launch_trackers") for name, target in trackers.items()}
