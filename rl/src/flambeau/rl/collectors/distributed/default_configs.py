"""Parameters of Slurm where the user says nothing."""

from __future__ import annotations

from typing import Any

__all__ = ["DEFAULT_SLURM_CONF", "DEFAULT_SLURM_CONF_MAIN"]

DEFAULT_SLURM_CONF: dict[str, Any] = {
    "timeout_min": 10, "slurm_partition": "train", "slurm_cpus_per_task": 32, "slurm_gpus_per_node": 0
}  # fmt: skip
"""Of jobs that collect."""
DEFAULT_SLURM_CONF_MAIN: dict[str, Any] = DEFAULT_SLURM_CONF | {"slurm_gpus_per_node": 1}
"""Of jobs that learn."""
