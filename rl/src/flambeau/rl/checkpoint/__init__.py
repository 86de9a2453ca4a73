"""Checkpoints: what makes up an experiment, written as a whole and restored in whole or part."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.checkpoint._adapters import CheckpointAdapter as CheckpointAdapter
    from flambeau.rl.checkpoint._adapters import DumpLoadCheckpointAdapter as DumpLoadCheckpointAdapter
    from flambeau.rl.checkpoint._adapters import JSONCheckpointAdapter as JSONCheckpointAdapter
    from flambeau.rl.checkpoint._adapters import StateDictCheckpointAdapter as StateDictCheckpointAdapter
    from flambeau.rl.checkpoint._adapters import StateDictFormat as StateDictFormat
    from flambeau.rl.checkpoint._checkpoint import Checkpoint as Checkpoint
    from flambeau.rl.checkpoint._checkpoint import CheckpointFormat as CheckpointFormat
    from flambeau.rl.checkpoint._checkpoint import CheckpointStrictness as CheckpointStrictness
    from flambeau.rl.checkpoint._random import GlobalRNGState as GlobalRNGState
    from flambeau.rl.checkpoint._results import CheckpointError as CheckpointError
    from flambeau.rl.checkpoint._results import CheckpointLoadResult as CheckpointLoadResult
    from flambeau.rl.checkpoint._results import CheckpointOptions as CheckpointOptions
    from flambeau.rl.checkpoint._rotation import CheckpointBest as CheckpointBest
    from flambeau.rl.checkpoint._rotation import CheckpointMetricMode as CheckpointMetricMode
    from flambeau.rl.checkpoint._rotation import CheckpointRotation as CheckpointRotation

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_adapters": (
            "CheckpointAdapter",
            "DumpLoadCheckpointAdapter",
            "JSONCheckpointAdapter",
            "StateDictCheckpointAdapter",
            "StateDictFormat",
        ),
        "_checkpoint": (
            "Checkpoint",
            "CheckpointFormat",
            "CheckpointStrictness",
        ),
        "_random": ("GlobalRNGState",),
        "_results": ("CheckpointError", "CheckpointLoadResult", "CheckpointOptions"),
        "_rotation": ("CheckpointBest", "CheckpointMetricMode", "CheckpointRotation"),
    },
)
