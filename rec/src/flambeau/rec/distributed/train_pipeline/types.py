"""What an argument of a module is made of, and the phases of a step."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

__all__ = ["ArgInfo", "BaseArgInfoStep", "CallArgs", "PipelinePhase", "PipelineState"]


class PipelinePhase(Enum):
    """Phases of a step, in order."""

    NULL = "null"
    COPY_BATCH_TO_DEVICE = "copy_batch_to_device"
    INPUT_POST_PROC = "input_post_proc"
    INPUT_SPLITS_DIST = "input_splits_dist"
    INPUT_DATA_DIST = "input_data_dist"
    EMBEDDING_LOOKUP = "embedding_lookup"
    EMBEDDING_OUTPUT_DIST = "embedding_output_dist"
    DENSE_FORWARD = "dense_forward"
    DENSE_BACKWARD = "dense_backward"
    EMBEDDING_GRAD_DIST = "embedding_grad_dist"
    EMBEDDING_BACKWARD = "embedding_backward"
    EMBEDDING_UPDATE = "embedding_update"
    DENSE_OPTIMIZER_STEP = "dense_optimizer_step"


class PipelineState(IntEnum):
    """What a pipeline is doing."""

    IDLE = 0
    CALL_FWD = 1
    CALL_BWD = 2
    UNKNOWN = 3


class BaseArgInfoStep(abc.ABC):
    """One step from a batch to an argument of a module."""

    @abc.abstractmethod
    def process(self, arg: Any) -> Any:
        """What the step makes of what the one before it made."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


@dataclass
class ArgInfo:
    """All steps from a batch to an argument.

    Args:
        steps: in the order in which they are made.
    """

    steps: list[BaseArgInfoStep]

    def add_step(self, step: BaseArgInfoStep) -> ArgInfo:
        """Make a step before all others; returns itself."""
        self.steps.insert(0, step)
        return self

    def append_step(self, step: BaseArgInfoStep) -> ArgInfo:
        """Make a step after all others; returns itself."""
        self.steps.append(step)
        return self

    def process_steps(self, arg: Any) -> Any:
        """The argument, of a batch."""
        for step in self.steps:
            arg = step.process(arg)
        return arg


@dataclass
class CallArgs:
    """The arguments of a module.

    Args:
        args: those without names.
        kwargs: those with names.
    """

    args: list[ArgInfo]
    kwargs: dict[str, ArgInfo]

    def build_args_kwargs(self, initial_input: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, of a batch."""
        args = [one.process_steps(initial_input) for one in self.args]
        return args, {name: one.process_steps(initial_input) for name, one in self.kwargs.items()}
