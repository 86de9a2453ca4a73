"""What precision and recall within sessions have in common: the highest predictions of each session are positive."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, cast

import torch.distributed as dist
from torch import Tensor

from flambeau.rec.metrics._computation import SummedComputation
from flambeau.rec.metrics._errors import InputError, RecMetricException
from flambeau.rec.metrics._sessions import number_below
from flambeau.rec.metrics.metrics_config import RecComputeMode, RecTaskInfo, SessionMetricDef
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["SessionMetric", "SessionMetricComputation"]


class SessionMetricComputation(SummedComputation):
    """States of a metric within sessions.

    Args:
        args: see `RecMetricComputation`.
        session_metric_def: the input that says which session an example belongs to, and how many are predicted
            positive.
        kwargs: see `RecMetricComputation`.

    Raises:
        RecMetricException: `top_threshold` is not given.
    """

    def __init__(self, *args: Any, session_metric_def: SessionMetricDef, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.session_var_name = session_metric_def.session_var_name
        self.run_ranking_of_labels = session_metric_def.run_ranking_of_labels
        if session_metric_def.top_threshold is None:
            raise InputError(
                "session_metric_def.top_threshold is None; say how many examples of a session count as "
                "predicted positive."
            )
        self.top_threshold = session_metric_def.top_threshold

    @abc.abstractmethod
    def session_states(
        self, labels: Tensor, predictions: Tensor, weights: Tensor, session: Tensor
    ) -> dict[str, Tensor]:
        """A batch's part of the states.

        Args:
            labels: (1, examples), 0 or 1, or values that are ranked first.
            predictions: (1, examples).
            weights: (1, examples).
            session: (1, examples), the session of each.
        """

    def _top(self, values: Tensor, session: Tensor) -> Tensor:
        """Which examples are among the highest of their session."""
        above = number_below(session.reshape(-1), -values.reshape(-1)).reshape(values.shape)
        return above < self.top_threshold

    def contributions(
        self,
        predictions: Tensor,
        labels: Tensor,
        weights: Tensor,
        required_inputs: Mapping[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> dict[str, Tensor]:
        """See `SummedComputation`."""
        if required_inputs is None or self.session_var_name not in required_inputs:
            raise InputError(
                f"{type(self).__name__} needs required_inputs[{self.session_var_name!r}], the session of each example."
            )
        return self.session_states(labels, predictions, weights, required_inputs[self.session_var_name])


class SessionMetric(RecMetric):
    """A metric that looks at each session by itself.

    Args:
        world_size, my_rank, batch_size, tasks, compute_mode, window_size, fused_update_limit, process_group: see
            `RecMetric`. Each task has its `session_metric_def`.
        kwargs: see `RecMetric`.

    Raises:
        RecMetricException: tasks or updates are to be fused, or a task has no `session_metric_def`.
    """

    def __init__(
        self,
        world_size: int,
        my_rank: int,
        batch_size: int,
        tasks: list[RecTaskInfo],
        compute_mode: RecComputeMode = RecComputeMode.UNFUSED_TASKS_COMPUTATION,
        window_size: int = 100,
        fused_update_limit: int = 0,
        process_group: dist.ProcessGroup | None = None,
        **kwargs: Any,
    ) -> None:
        if compute_mode is not RecComputeMode.UNFUSED_TASKS_COMPUTATION:
            raise RecMetricException(
                f"compute_mode is {compute_mode.name}, but sessions differ from task to task; use "
                f"UNFUSED_TASKS_COMPUTATION."
            )
        if fused_update_limit > 0:
            raise RecMetricException(
                f"fused_update_limit is {fused_update_limit}, but joined batches could join sessions of one "
                f"number; set it to 0."
            )
        for task in tasks:
            if task.session_metric_def is None:
                raise RecMetricException(f"Task {task.name!r} has no session_metric_def; give one.")
        super().__init__(
            world_size,
            my_rank,
            batch_size,
            tasks,
            compute_mode,
            window_size,
            fused_update_limit,
            process_group=process_group,
            **kwargs,
        )

    def _get_task_kwargs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> dict[str, Any]:
        return {"session_metric_def": cast("RecTaskInfo", task_config).session_metric_def}

    def _get_task_required_inputs(self, task_config: RecTaskInfo | list[RecTaskInfo]) -> set[str]:
        definition = cast("RecTaskInfo", task_config).session_metric_def
        return set() if definition is None else {definition.session_var_name}
