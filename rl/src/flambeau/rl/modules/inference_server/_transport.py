"""What carries observations to an inference server, and actions back."""

from __future__ import annotations

from typing import Any

from flambeau.rl._comm.request_reply import RequestReplyTransport

__all__ = ["InferenceTransport"]


class InferenceTransport(RequestReplyTransport):
    """Carries requests of policies' clients to an inference server; see `RequestReplyTransport` for what it defines."""

    kind = "custom"
    """What `InferenceServer.transport_kind` says."""

    def client(self) -> Any:
        """What asks for actions, and can do nothing else."""
        from flambeau.rl.modules.inference_server._client import InferenceClient

        return InferenceClient(self)

    def gone_clients(self) -> list[int]:
        """Numbers of clients whose processes ended without a word, since the last time."""
        return []

    def close(self) -> None:
        """Let go of what carries requests."""
