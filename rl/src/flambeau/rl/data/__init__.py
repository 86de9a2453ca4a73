"""Data: specs of tensors, replay buffers, and what comes before and after them."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.data.tensor_specs import DEVICE_TYPING as DEVICE_TYPING
    from flambeau.rl.data.tensor_specs import Binary as Binary
    from flambeau.rl.data.tensor_specs import Bounded as Bounded
    from flambeau.rl.data.tensor_specs import BoundedContinuous as BoundedContinuous
    from flambeau.rl.data.tensor_specs import Categorical as Categorical
    from flambeau.rl.data.tensor_specs import Choice as Choice
    from flambeau.rl.data.tensor_specs import Composite as Composite
    from flambeau.rl.data.tensor_specs import MultiCategorical as MultiCategorical
    from flambeau.rl.data.tensor_specs import MultiOneHot as MultiOneHot
    from flambeau.rl.data.tensor_specs import NonTensor as NonTensor
    from flambeau.rl.data.tensor_specs import OneHot as OneHot
    from flambeau.rl.data.tensor_specs import Stacked as Stacked
    from flambeau.rl.data.tensor_specs import StackedComposite as StackedComposite
    from flambeau.rl.data.tensor_specs import TensorSpec as TensorSpec
    from flambeau.rl.data.tensor_specs import Unbounded as Unbounded
    from flambeau.rl.data.tensor_specs import UnboundedContinuous as UnboundedContinuous
    from flambeau.rl.data.tensor_specs import UnboundedDiscrete as UnboundedDiscrete

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "map": (
            "BinaryToDecimal",
            "HashToInt",
            "MCTSForest",
            "QueryModule",
            "RandomProjectionHash",
            "SipHash",
            "TensorDictMap",
            "TensorMap",
            "Tree",
        ),
        "postprocs": ("DensifyReward", "MultiStep"),
        "replay_buffers": (
            "CompressedListStorage",
            "CompressedListStorageCheckpointer",
            "ConditionalUpdateResult",
            "ConsumingSampler",
            "DEFAULT_DONE_KEYS",
            "Flat2TED",
            "FlatStorageCheckpointer",
            "H5Combine",
            "H5Split",
            "H5StorageCheckpointer",
            "HERReplayBuffer",
            "HindsightStrategy",
            "ImmutableDatasetWriter",
            "LazyMemmapStorage",
            "LazyStackStorage",
            "LazyTensorStorage",
            "ListStorage",
            "ListStorageCheckpointer",
            "Nested2TED",
            "NestedStorageCheckpointer",
            "OfflineToOnlineReplayBuffer",
            "PrioritizedReplayBuffer",
            "PrioritizedSampler",
            "PrioritizedSliceSampler",
            "PromptGroupSampler",
            "RandomSampler",
            "RayReplayBuffer",
            "RemoteTensorDictReplayBuffer",
            "ReplayBuffer",
            "ReplayBufferEnsemble",
            "RoundRobinWriter",
            "SampleUnit",
            "SamplerEnsemble",
            "SamplerWithoutReplacement",
            "Sequence",
            "SliceSampler",
            "SliceSamplerWithoutReplacement",
            "StalenessAwareSampler",
            "Storage",
            "StorageCheckpointerBase",
            "StorageEnsemble",
            "StorageEnsembleCheckpointer",
            "StoreStorage",
            "StreamingSliceSampler",
            "TED2Flat",
            "TED2Nested",
            "TensorDictMaxValueWriter",
            "TensorDictPrioritizedReplayBuffer",
            "TensorDictReplayBuffer",
            "TensorDictRoundRobinWriter",
            "TensorStorage",
            "TensorStorageCheckpointer",
            "Trajectory",
            "TrajectoryPredicate",
            "Transition",
            "Writer",
            "WriterEnsemble",
            "filter_trajectories",
            "find_start_stop_traj",
            "iter_trajectories",
            "prefill_replay_buffer",
            "traj",
        ),
        "tensor_specs": (
            "DEVICE_TYPING",
            "Binary",
            "Bounded",
            "BoundedContinuous",
            "Categorical",
            "Choice",
            "Composite",
            "MultiCategorical",
            "MultiOneHot",
            "NonTensor",
            "OneHot",
            "Stacked",
            "StackedComposite",
            "TensorSpec",
            "Unbounded",
            "UnboundedContinuous",
            "UnboundedDiscrete",
        ),
        "utils": ("check_no_exclusive_keys", "consolidate_spec", "contains_lazy_spec"),
        "video": ("VideoClipRef", "clear_video_decoder_cache", "set_video_decoder_cache_size"),
    },
    submodules=("datasets", "tensor_specs", "video"),
)
