"""Requests that go through torch.distributed."""

from __future__ import annotations

from flambeau.rl._comm.distributed import _DistributedTransport
from flambeau.rl.modules.inference_server._transport import InferenceTransport


class _DistributedInferenceTransport(_DistributedTransport, InferenceTransport):
    """Carries requests between machines; see `TorchDistributedTransport`."""

    kind = "distributed"
