"""Arguments of components that hold two things in one word."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

from flambeau.launch.errors import ComponentArgumentError
from flambeau.launch.specs.named_resources import resource

__all__ = ["StructuredJArgument", "StructuredNameArgument"]


@dataclass
class StructuredNameArgument:
    """`--name EXPERIMENT/RUN`.

    Attributes:
        experiment_name: what trackers group runs by.
        run_name: of the application.
    """

    experiment_name: str
    run_name: str

    def __str__(self) -> str:
        return f"{self.experiment_name}/{self.run_name}"

    @staticmethod
    def parse_from(
        name: str, m: str | None = None, script: str | None = None, default_experiment_name: str = "default-experiment"
    ) -> StructuredNameArgument:
        """Take a name apart; a part that is missing follows from the program's name.

        Args:
            name: `EXPERIMENT/RUN`, `EXPERIMENT/`, `/RUN` or `RUN`.
            m: module that runs.
            script: script that runs.
            default_experiment_name: where none is given.

        Raises:
            ComponentArgumentError: (a ValueError) neither `m` nor `script` is given, or both are.

        Example:
            >>> print(StructuredNameArgument.parse_from("vision/", script="train/resnet.py"))
            vision/resnet
        """
        if bool(m) == bool(script):
            raise ComponentArgumentError("give either a module (-m) or a script (--script), which names the run.")
        program = m.rpartition(".")[2] if m else Path(str(script)).stem
        experiment, separator, run = name.partition("/")
        if not separator:
            experiment, run = "", name
        return StructuredNameArgument(experiment or default_experiment_name, run or program)


@dataclass
class StructuredJArgument:
    """`-j NODESxPROCESSES`.

    Attributes:
        nnodes: machines.
        nproc_per_node: processes on each.
    """

    nnodes: int
    nproc_per_node: int

    def __str__(self) -> str:
        return f"{self.nnodes}x{self.nproc_per_node}"

    @staticmethod
    def parse_from(h: str, j: str) -> StructuredJArgument:
        """Take `-j` apart; without processes it is one for each GPU of the named resource.

        Args:
            h: name of the resource of each node.
            j: `NODES` or `NODESxPROCESSES`.

        Raises:
            ComponentArgumentError: (a ValueError) it is neither, or the resource has no GPUs to count.
        """
        nodes, separator, processes = j.partition("x")
        if not nodes.isdigit() or (separator and not processes.isdigit()):
            raise ComponentArgumentError(f"-j is {j!r}; expected NODES, as in 2, or NODESxPROCESSES, as in 2x8.")
        gpus = resource(h=h).gpu
        if not separator:
            if gpus <= 0:
                raise ComponentArgumentError(
                    f"{h!r} has no GPUs that would tell how many processes run on each node; give both: -j {nodes}x1"
                )
            return StructuredJArgument(int(nodes), gpus)
        if gpus > 0 and int(processes) != gpus:
            warnings.warn(
                f"-j {j} starts {processes} processes on each node, which has {gpus} GPUs ({h}); -j {nodes} starts one "
                "for each.",
                stacklevel=2,
            )
        return StructuredJArgument(int(nodes), int(processes))
