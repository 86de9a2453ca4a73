"""Weights for collectors that methods are called of over torch.distributed.rpc."""

from __future__ import annotations

from typing import Any, Literal

from flambeau.rl.weight_update._inbox import CallTransport, Inbox
from flambeau.rl.weight_update._mp import sync_timeout_s
from flambeau.rl.weight_update.weight_sync_schemes import TransportBackend, WeightSyncScheme


class RPCTransport(CallTransport):
    """Carries weights by a remote call.

    Args:
        collector_info: the worker, as torch.distributed.rpc knows it.
        collector_rref: a remote reference to what has a method `deliver(model_id, weights)`.
        collector_class: kept for upstream's signature.
        worker_rank: the worker's rank.
        model_id: which model they are for.
        inbox: at the receiver.
    """

    def __init__(
        self,
        collector_info: Any = None,
        collector_rref: Any = None,
        collector_class: Any = None,
        worker_rank: int | None = None,
        model_id: str = "policy",
        inbox: Inbox | None = None,
    ) -> None:
        super().__init__(inbox)
        self.collector_info, self.collector_rref = collector_info, collector_rref
        self.collector_class, self.worker_rank, self.model_id = collector_class, worker_rank, model_id

    def _call(self, weights: Any) -> Any:
        if self.collector_rref is None:
            return super()._call(weights)
        return self.collector_rref.rpc_async(timeout=sync_timeout_s()).deliver(self.model_id, weights)

    def _finish(self, pending: Any) -> None:
        pending.wait()


class RPCWeightSyncScheme(WeightSyncScheme):
    """Brings weights to collectors over torch.distributed.rpc; these take them between two steps.

    Args:
        strategy: how weights travel: "tensordict" or "state_dict".
    """

    def __init__(self, strategy: Literal["state_dict", "tensordict"] = "tensordict") -> None:
        super().__init__(strategy)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_transports": {}}

    def create_transport(
        self,
        *,
        collector_info: Any = None,
        collector_rref: Any = None,
        collector_class: Any = None,
        worker_rank: int | None = None,
        **kwargs: Any,
    ) -> TransportBackend:
        """A transport to one collector; without one, the end of it that is there.

        Args:
            collector_info: the worker.
            collector_rref: a remote reference to the collector's host.
            collector_class: kept for upstream's signature.
            worker_rank: the worker's rank.
            kwargs: `inbox`, at the receiver; `collector_rrefs`, of all, at the sender.
        """
        references = kwargs.get("collector_rrefs")
        if collector_rref is None and references is not None:
            collector_rref = references[kwargs["worker_idx"]]
        return RPCTransport(
            collector_info,
            collector_rref,
            collector_class,
            worker_rank,
            self.model_id or "policy",
            kwargs.get("inbox"),
        )
