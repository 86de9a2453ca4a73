"""What losses that imitate recorded actions share."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.objectives._keys import each_once
from flambeau.rl.objectives.common import LossModule

__all__ = ["ImitationLoss"]


class ImitationLoss(LossModule):
    """The base of losses that train an actor to do what was done, whatever it brought."""

    _recorded = "action"

    def __init__(self, actor_network: Any, reduction: str | None) -> None:
        super().__init__()
        self.reduction = "mean" if reduction is None else reduction
        self.convert_to_functional(actor_network, "actor_network")

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return each_once(self.actor_network.in_keys, getattr(self._tensor_keys, self._recorded))

    def _read(self, tensordict: TensorDictBase, name: str) -> Tensor:
        """What is under the key of a name."""
        key = getattr(self._tensor_keys, name)
        found: Tensor | None = tensordict.get(key, None)
        if found is None:
            present = sorted(map(str, tensordict.keys(True, True)))
            raise KeyError(f"{key!r} is missing; set_keys({name}=...) renames it. There are {present}.")
        return found

    def _target_action(self, tensordict: TensorDictBase) -> Tensor:
        return self._read(tensordict, self._recorded).detach()

    def _acted(self, tensordict: TensorDictBase, key: Any) -> Tensor:
        """What the actor writes for the inputs of a batch."""
        data = tensordict.select(*self.actor_network.in_keys, strict=False)
        with self.actor_network_params.to_module(self.actor_network):
            found: Tensor | None = self.actor_network(data).get(key, None)
        if found is None:
            raise KeyError(f"The actor does not write {key!r}: its out_keys are {self.actor_network.out_keys}.")
        return found

    def _policy(self, tensordict: TensorDictBase) -> Any:
        """The actor's distribution of actions."""
        data = tensordict.select(*self.actor_network.in_keys, strict=False)
        with self.actor_network_params.to_module(self.actor_network):
            return self.actor_network.get_dist(data)

    def _results(self, found: dict[str, Any]) -> TensorDict:
        return TensorDict(self._selected(found))
