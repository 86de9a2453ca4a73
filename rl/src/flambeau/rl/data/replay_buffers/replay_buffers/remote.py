"""A buffer whose methods others call from elsewhere."""

from __future__ import annotations

from flambeau.rl._remote import accept_remote_rref_udf_invocation
from flambeau.rl.data.replay_buffers.replay_buffers.tensordict import TensorDictReplayBuffer

__all__ = ["RemoteTensorDictReplayBuffer"]


@accept_remote_rref_udf_invocation
class RemoteTensorDictReplayBuffer(TensorDictReplayBuffer):
    """A `TensorDictReplayBuffer` whose methods take a reference of torch.distributed.rpc in the place of the buffer.

    So `rpc.rpc_sync(owner, RemoteTensorDictReplayBuffer.sample, args=(reference, 32))` samples where the buffer is.

    Args:
        kwargs: see `TensorDictReplayBuffer`.
    """
