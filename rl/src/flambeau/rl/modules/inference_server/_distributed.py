"""Requests that go through torch.distributed."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._comm.distributed import _DistributedClient, _DistributedFuture, _DistributedTransport
from flambeau.rl._comm.request_reply import MessageMetadata
from flambeau.rl.modules.inference_server._stamps import STAMP, stamped
from flambeau.rl.modules.inference_server._transport import InferenceTransport


class _DistributedInferenceTransport(_DistributedTransport, InferenceTransport):
    """Carries requests between machines; see `TorchDistributedTransport`.

    Args:
        request_spec: what a request is like.
        response_spec: what an answer is like.
        options: others of `TorchDistributedTransport`.
    """

    kind = "distributed"

    def __init__(self, request_spec: TensorDictBase, response_spec: TensorDictBase, **options: Any) -> None:
        super().__init__(stamped(request_spec, None), response_spec, **options)

    def _client_of(self, number: int) -> _DistributedInferenceClient:
        made = super()._client_of(number)
        client = _DistributedInferenceClient.__new__(_DistributedInferenceClient)
        client.__setstate__(made.__getstate__())
        return client


class _DistributedInferenceClient(_DistributedClient):
    """Asks an inference server on another machine."""

    def submit(self, td: TensorDictBase, *, metadata: MessageMetadata | None = None) -> _DistributedFuture:
        """Ask, and do not wait, see `_DistributedClient.submit`."""
        return super().submit(stamped(td, None) if td.get(STAMP, None) is None else td, metadata=metadata)
