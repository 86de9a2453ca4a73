"""Replay buffers: storage, sampler and writer put together."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_updates": ("ConditionalUpdateResult", "InPlaceSampler", "stack_tensors"),
        "base": ("ReplayBuffer",),
        "ensemble": ("ReplayBufferEnsemble",),
        "prioritized": ("PrioritizedReplayBuffer",),
        "prioritized_tensordict": ("TensorDictPrioritizedReplayBuffer",),
        "remote": ("RemoteTensorDictReplayBuffer",),
        "tensordict": ("TensorDictReplayBuffer",),
    },
)
