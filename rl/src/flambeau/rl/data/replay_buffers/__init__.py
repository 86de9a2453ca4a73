"""Replay buffers and what they are made of: storages, writers, samplers."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "checkpointers": (
            "CompressedListStorageCheckpointer",
            "FlatStorageCheckpointer",
            "H5StorageCheckpointer",
            "ListStorageCheckpointer",
            "StorageCheckpointerBase",
            "StorageEnsembleCheckpointer",
            "TensorStorageCheckpointer",
        ),
        "her": ("HERReplayBuffer", "HindsightStrategy"),
        "offline_to_online": ("OfflineToOnlineReplayBuffer", "prefill_replay_buffer"),
        "query": ("Trajectory", "TrajectoryPredicate", "filter_trajectories", "iter_trajectories", "traj"),
        "replay_buffers": (
            "PrioritizedReplayBuffer",
            "ReplayBuffer",
            "ReplayBufferEnsemble",
            "TensorDictPrioritizedReplayBuffer",
            "TensorDictReplayBuffer",
        ),
        "samplers": (
            "ConsumingSampler",
            "PrioritizedSampler",
            "PrioritizedSliceSampler",
            "PromptGroupSampler",
            "RandomSampler",
            "Sampler",
            "SamplerEnsemble",
            "SamplerWithoutReplacement",
            "SliceSampler",
            "SliceSamplerWithoutReplacement",
            "StalenessAwareSampler",
            "StreamingSliceSampler",
        ),
        "storages": (
            "CompressedListStorage",
            "LazyMemmapStorage",
            "LazyStackStorage",
            "LazyTensorStorage",
            "ListStorage",
            "Storage",
            "StorageEnsemble",
            "TensorStorage",
        ),
        "utils": ("Flat2TED", "TED2Flat", "find_start_stop_traj"),
        "writers": (
            "ImmutableDatasetWriter",
            "RoundRobinWriter",
            "TensorDictMaxValueWriter",
            "TensorDictRoundRobinWriter",
            "Writer",
            "WriterEnsemble",
        ),
    },
)
