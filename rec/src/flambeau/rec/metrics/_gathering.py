"""States of all ranks together, without replacing those of this rank."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

from flambeau.rec.metrics._states import distributed_available
from flambeau.rec.metrics.rec_metric import RecMetric

__all__ = ["gathered_states"]


def gathered_states(metric: RecMetric, group: dist.ProcessGroup | None) -> dict[str, dict[str, Tensor | list[Tensor]]]:
    """Task -> state -> tensor, or a list of tensors, of all ranks.

    Args:
        metric: the metric; every rank has to call it.
        group: the ranks; all by default.
    """
    found = {}
    for task, computation in zip(metric._tasks, metric._computations, strict=False):
        computation.pre_compute()
        with computation.sync_context(process_group=group, should_sync=distributed_available()):
            found[task.name] = {
                name: state.clone() if isinstance(state, Tensor) else [part.clone() for part in state]
                for name, state in computation.metric_state.items()
            }
    return found
