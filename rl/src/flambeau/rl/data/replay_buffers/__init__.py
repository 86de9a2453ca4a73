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
            "NestedStorageCheckpointer",
            "StorageCheckpointerBase",
            "StorageEnsembleCheckpointer",
            "TensorStorageCheckpointer",
        ),
        "her": ("HERReplayBuffer", "HindsightStrategy"),
        "offline_to_online": ("OfflineToOnlineReplayBuffer", "prefill_replay_buffer"),
        "query": ("Trajectory", "TrajectoryPredicate", "filter_trajectories", "iter_trajectories", "traj"),
        "ray_buffer": ("RayReplayBuffer",),
        "replay_buffers": (
            "ConditionalUpdateResult",
            "PrioritizedReplayBuffer",
            "RemoteTensorDictReplayBuffer",
            "ReplayBuffer",
            "ReplayBufferEnsemble",
            "TensorDictPrioritizedReplayBuffer",
            "TensorDictReplayBuffer",
        ),
        "sample_units": ("SampleUnit", "Sequence", "Transition"),
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
            "StoreStorage",
            "TensorStorage",
        ),
        "utils": (
            "DEFAULT_DONE_KEYS",
            "Flat2TED",
            "H5Combine",
            "H5Split",
            "Nested2TED",
            "TED2Flat",
            "TED2Nested",
            "find_start_stop_traj",
        ),
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
