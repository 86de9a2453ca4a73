"""Weights on their way to the processes of a collector."""

from __future__ import annotations

from typing import Any

from torch import nn

from flambeau.rl.collectors._asking import AsksWorkers
from flambeau.rl.weight_update._mp import MultiProcessWeightSyncScheme
from flambeau.rl.weight_update._noupdate import NoWeightSyncScheme
from flambeau.rl.weight_update._shared import SharedMemWeightSyncScheme
from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncScheme


class SendsWeights(AsksWorkers):
    """A collector that gives the policies of its processes new weights."""

    policy_factory: Any
    _schemes: dict[str, WeightSyncScheme]
    _receivers: tuple[WeightSyncScheme, ...] = ()
    _version: int | None

    def _chosen_schemes(self, given: dict[str, WeightSyncScheme] | None) -> dict[str, WeightSyncScheme]:
        if given is not None:
            return dict(given)
        if isinstance(self.policy, nn.Module) and any(
            True for _ in [*self.policy.parameters(), *self.policy.buffers()]
        ):
            return {"policy": SharedMemWeightSyncScheme()}
        return {} if self.policy_factory is None else {"policy": MultiProcessWeightSyncScheme()}

    def register_scheme_receiver(
        self, weight_recv_schemes: dict[str, WeightSyncScheme], *, synchronize_weights: bool = True
    ) -> None:
        """Take weights by schemes, and hand them to the processes, see `receive_weights`.

        Args:
            weight_recv_schemes: schemes by model.
            synchronize_weights: begin with the sender's.
        """
        for model_id, scheme in weight_recv_schemes.items():
            if not scheme.initialized_on_receiver:
                scheme.init_on_receiver(model_id=model_id, context=self)
            if synchronize_weights and not scheme.synchronized_on_receiver:
                scheme.connect(worker_idx=self.worker_idx)
        self._receivers = (*self._receivers, *weight_recv_schemes.values())

    def take_weights(self) -> None:
        """Take weights that schemes have brought, and hand them on."""
        for scheme in self._receivers:
            found = scheme.receive(timeout=0)
            if found is not None:
                self.update_policy_weights_(found, model_id=scheme.model_id)

    def update_policy_weights_(
        self,
        policy_or_weights: Any = None,
        *,
        weights: Any = None,
        policy: Any = None,
        worker_ids: Any = None,
        model_id: str | None = None,
        weights_dict: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Give the policies of all processes new weights; by default those of the policy that this was made with.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict.
            weights: weights, by this name.
            policy: a module, by this name.
            worker_ids: numbers of processes; default: all.
            model_id: which model; default: "policy".
            weights_dict: weights by model.
            kwargs: passed on to the weight updater.

        Raises:
            RuntimeError: there is no model of that name that schemes bring weights to, or there are none to bring.
        """
        self._check_open()
        given = next((each for each in (policy_or_weights, weights, policy) if each is not None), None)
        if self._weight_updater is not None:
            self._weight_updater(given, worker_ids=worker_ids, **kwargs)
        else:
            for name, each in ({model_id or "policy": given} if weights_dict is None else weights_dict).items():
                self._send(name, each, worker_ids)
        self.increment_version()

    def _send(self, model_id: str, given: Any, worker_ids: Any) -> None:
        scheme = self._schemes.get(model_id)
        if scheme is None:
            if given is None and not self._schemes:
                return
            raise RuntimeError(
                f"Nothing brings weights to {model_id!r}; give weight_sync_schemes={{{model_id!r}: ...}} when making "
                "the collector."
            )
        scheme.send(given, worker_ids)

    def receive_weights(self, policy_or_weights: Any = None) -> None:
        """Give the policies of all processes weights that come from elsewhere.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict.
        """
        self.update_policy_weights_(policy_or_weights)

    def get_cached_weights(self, model_id: str) -> Any:
        """The weights that were sent last; None where nothing brings any.

        Args:
            model_id: which model.
        """
        scheme = self._schemes.get(model_id)
        return None if scheme is None or isinstance(scheme, NoWeightSyncScheme) else scheme.weights

    @property
    def policy_version(self) -> int | None:
        """How often the policy's weights were updated; None where that is not tracked."""
        return self._version

    def get_policy_version(self) -> int | None:
        """How often the policy's weights were updated; None where that is not tracked."""
        return self._version

    def increment_version(self) -> None:
        """Count one update of the policy's weights."""
        if self._version is not None:
            self._version += 1
