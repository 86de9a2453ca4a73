"""A data loader for pipelines: seeds, shards and processes are the business of its reading service.

`DataLoader2(pipeline, reading_service=MultiProcessingReadingService(num_workers=4))` reads it in four processes, in
the order of one. `state_dict()` at any sample, and the loader goes on with the next one; with another number of
workers, too.
"""

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "dataloader2": ("DataLoader2", "DataLoader2Iterator"),
        "error": ("PauseIteration",),
        "reading_service": (
            "CheckpointableReadingServiceInterface",
            "DistributedReadingService",
            "InProcessReadingService",
            "MultiProcessingReadingService",
            "PrototypeMultiProcessingReadingService",
            "ReadingServiceInterface",
            "SequentialReadingService",
        ),
        "resharding": ("reshard",),
    },
    submodules=("adapter", "communication", "graph", "linter", "random"),
)
