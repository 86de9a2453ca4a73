"""Schedulers: what submits applications somewhere and watches over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from flambeau.launch.plugins import scheduler_plugins
from flambeau.launch.schedulers.api import Scheduler
from flambeau.launch.util.entrypoints import load_group

__all__ = [
    "DEFAULT_SCHEDULER_MODULES",
    "Scheduler",
    "SchedulerFactory",
    "get_default_scheduler_name",
    "get_scheduler_factories",
]

DEFAULT_SCHEDULER_MODULES: Mapping[str, str] = {
    "local_docker": "flambeau.launch.schedulers.docker_scheduler",
    "local_cwd": "flambeau.launch.schedulers.local_scheduler",
    "slurm": "flambeau.launch.schedulers.slurm_scheduler",
    "kubernetes": "flambeau.launch.schedulers.kubernetes_scheduler",
    "kubernetes_mcad": "flambeau.launch.schedulers.kubernetes_mcad_scheduler",
    "aws_batch": "flambeau.launch.schedulers.aws_batch_scheduler",
    "aws_sagemaker": "flambeau.launch.schedulers.aws_sagemaker_scheduler",
    "gcp_batch": "flambeau.launch.schedulers.gcp_batch_scheduler",
    "ray": "flambeau.launch.schedulers.ray_scheduler",
    "lsf": "flambeau.launch.schedulers.lsf_scheduler",
}
"""The modules of upstream's schedulers; `plugins.scheduler_plugins` knows all there are."""


class SchedulerFactory(Protocol):
    """What makes a scheduler."""

    def __call__(self, session_name: str, **kwargs: object) -> Scheduler[Any]:
        """Make one for a session."""
        ...


def get_scheduler_factories() -> dict[str, SchedulerFactory]:
    """What makes each scheduler, by name: upstream's in its order, then ours, then those of other distributions.

    A distribution adds a scheduler by the hook `launch_schedulers` (see `flambeau.launch.plugins`), or, as upstream
    has it, by an entry point of the group `torchx.schedulers`.
    """
    plugins = scheduler_plugins()
    names = [*(name for name in DEFAULT_SCHEDULER_MODULES if name in plugins)]
    names += sorted(set(plugins) - set(names))
    factories: dict[str, SchedulerFactory] = {name: plugins[name].create for name in names}
    factories.update(load_group("torchx.schedulers") or {})
    return factories


def get_default_scheduler_name() -> str:
    """The scheduler of command lines that name none: the first of upstream's and ours, `local_docker`."""
    return next(iter(get_scheduler_factories()))
