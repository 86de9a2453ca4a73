"""New weights for the policy of a collector in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._background import InBackground
from flambeau.rl.weight_update._weights import load_weights, weights_of
from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncScheme


class ReceivesWeights(InBackground):
    """A collector whose models get new weights: from its user, from weight updaters, or from another process."""

    policy: Any
    _original: Any
    _version: int | str | None
    _schemes: dict[str, WeightSyncScheme]
    _receivers: Sequence[WeightSyncScheme]

    def _set_schemes(
        self, sent: dict[str, WeightSyncScheme] | None, received: dict[str, WeightSyncScheme] | None
    ) -> None:
        self._schemes, self._receivers = dict(sent or {}), ()
        for model_id, scheme in self._schemes.items():
            scheme.init_on_sender(model_id=model_id, context=self)
            scheme.connect()
        if received:
            self.register_scheme_receiver(received)

    def register_scheme_receiver(
        self, weight_recv_schemes: dict[str, WeightSyncScheme], *, synchronize_weights: bool = True
    ) -> None:
        """Take weights by schemes; they are looked for between steps.

        Args:
            weight_recv_schemes: schemes by model: "policy", or its dotted path from the collector.
            synchronize_weights: begin with the sender's.
        """
        for model_id, scheme in weight_recv_schemes.items():
            if not scheme.initialized_on_receiver:
                scheme.init_on_receiver(model_id=model_id, context=self)
            if synchronize_weights and not scheme.synchronized_on_receiver:
                scheme.connect(worker_idx=self.worker_idx)
        looked_at = [scheme for scheme in weight_recv_schemes.values() if scheme.is_looked_at]
        self._receivers = (*self._receivers, *looked_at)

    def take_weights(self) -> None:
        """Take weights that schemes have brought."""
        for scheme in self._receivers:
            if scheme.receive(timeout=0) is not None:
                self.increment_version()

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
        """Give the policy new weights; by default those of the module that the collector was made with.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict.
            weights: weights, by this name.
            policy: a module, by this name.
            worker_ids: kept for the signature that all collectors share.
            model_id: "policy", or the path of another module of the collector; default: "policy".
            weights_dict: weights by model.
            kwargs: passed on to the weight updater.

        Raises:
            RuntimeError: there is no module to take weights from, or to give them to.
        """
        given = next((each for each in (policy_or_weights, weights, policy) if each is not None), None)
        if self._weight_updater is not None:
            self._weight_updater(given, worker_ids=worker_ids, **kwargs)
        elif weights_dict is not None:
            for name, each in weights_dict.items():
                self._load(name, each)
        else:
            self._load(model_id or "policy", given)
        self.increment_version()

    def _load(self, model_id: str, given: Any) -> None:
        target = self.get_model(model_id)
        if given is None:
            given = self._original
            if given is None:
                raise RuntimeError("Give weights: the collector was not made with a module to take them from.")
        if not isinstance(target, nn.Module):
            raise RuntimeError(f"The policy, {type(target).__name__}, is no module, and has no weights to update.")
        if given is not target:
            load_weights(target, given)
        if model_id in self._schemes:
            self._schemes[model_id].send(given)

    def receive_weights(self, policy_or_weights: Any = None, *, weights: Any = None, policy: Any = None) -> None:
        """Take new weights, see `update_policy_weights_`.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict.
            weights: weights, by this name.
            policy: a module, by this name.
        """
        given = next((each for each in (policy_or_weights, weights, policy) if each is not None), None)
        if given is not None or self._original is not None:
            self._load("policy", given)

    @property
    def policy_weights(self) -> TensorDictBase:
        """The policy's weights; empty where it is no module."""
        return weights_of(self.policy)

    def get_model(self, model_id: str) -> Any:
        """A model by name.

        Args:
            model_id: "policy", or the dotted path of another.
        """
        return self.policy if model_id == "policy" else self.get_distant_attr(model_id)

    # Versions

    @property
    def policy_version(self) -> int | str | None:
        """How often the policy's weights were updated; None where that is not tracked."""
        return self._version

    def get_policy_version(self) -> int | str | None:
        """How often the policy's weights were updated; None where that is not tracked."""
        return self._version

    def increment_version(self) -> None:
        """Count one update of the policy's weights."""
        if isinstance(self._version, int):
            self._version += 1
