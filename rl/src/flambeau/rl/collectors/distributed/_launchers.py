"""How workers on this machine, or on those of a Slurm cluster, are started."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from flambeau.rl.collectors.distributed._line import launch_process, run_node
from flambeau.rl.collectors.distributed.default_configs import DEFAULT_SLURM_CONF

Launch = Callable[[int, str, int, bytes], Any]
LAUNCHERS = ("mp", "submitit")


def launcher_of(name: str, slurm_kwargs: dict[str, Any] | None) -> Launch:
    """What starts a worker.

    Args:
        name: "mp" or "submitit".
        slurm_kwargs: parameters of Slurm.

    Raises:
        ValueError: there is no such launcher.
        ModuleNotFoundError: submitit is not installed.
    """
    if name == "mp":
        return launch_process
    if name not in LAUNCHERS:
        raise ValueError(f"launcher must be one of {', '.join(LAUNCHERS)}; got {name!r}.")
    executor = slurm_executor(slurm_kwargs or DEFAULT_SLURM_CONF)

    def launch(number: int, host: str, port: int, key: bytes) -> SlurmProcess:
        return SlurmProcess(executor.submit(run_node, host, port, key, number))

    return launch


def slurm_executor(parameters: dict[str, Any]) -> Any:
    """What submits jobs to Slurm.

    Args:
        parameters: of jobs, as submitit names them; "folder" and "cluster" are those of its executor.
    """
    try:
        submitit: Any = import_module("submitit")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "launcher='submitit' starts jobs of Slurm with submitit, which is not installed. Run: pip install "
            "submitit; or give launcher='mp' for processes of this machine."
        ) from error
    given = dict(parameters)
    folder = given.pop("folder", tempfile.mkdtemp(prefix="flambeau-slurm-"))
    executor = submitit.AutoExecutor(folder=folder, cluster=given.pop("cluster", None))
    executor.update_parameters(**given)
    return executor


class SlurmProcess:
    """A job, with the methods of a process.

    Args:
        job: of submitit.
    """

    sentinel = None
    exitcode = None
    pid = 0

    def __init__(self, job: Any) -> None:
        self.job = job

    def is_alive(self) -> bool:
        """Whether it waits or runs."""
        return not self.job.done()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end.

        Args:
            timeout: in seconds; None for no end.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.is_alive() and (deadline is None or time.monotonic() < deadline):
            time.sleep(0.1)

    def terminate(self) -> None:
        """Cancel it."""
        self.job.cancel()

    kill = terminate
