"""What losses with critics share: values of actions by several networks, targets, priorities."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.data.tensordict import NonTensorData, TensorDict, TensorDictBase
from flambeau.rl.objectives._keys import after, each_once
from flambeau.rl.objectives._networks import _pseudo_vmap
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.utils import ValueEstimators, distance_loss

__all__ = ["CriticLoss", "action_spec_of"]


class CriticLoss(LossModule):
    """The base of losses that train networks to give the values of actions, one or several of them.

    Attributes:
        deactivate_vmap: call several networks one after the other.
    """

    default_value_estimator: Any = ValueEstimators.TD0
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[Any, ...]] = (
        ValueEstimators.TD0, ValueEstimators.TD1, ValueEstimators.TDLambda,
    )  # fmt: skip
    deactivate_vmap: bool
    loss_function: str
    _value_key = "value"

    # --- set up

    def _convert_critics(self, critics: Any, count: int, delay: bool, shared: Any) -> None:
        """Keep `count` critics as `qvalue_network`; `shared` are parameters that another network trains."""
        self.convert_to_functional(
            critics,
            "qvalue_network",
            count,
            create_target_params=delay,
            compare_against=None if shared is None else list(shared),
        )

    def _set_reduction(self, reduction: str | None) -> None:
        self.reduction = "mean" if reduction is None else reduction

    def _refuse_discount(self, gamma: float | None) -> None:
        if gamma is not None:
            raise TypeError(
                f"The discount is an argument of the value estimator: call make_value_estimator(gamma={gamma}) instead."
            )

    def _estimated_network(self) -> Any:
        return None

    def _estimator_keys(self) -> dict[str, Any]:
        keys = self._tensor_keys
        names = {name: getattr(keys, name) for name in ("reward", "done", "terminated")}
        return {"value": getattr(keys, self._value_key), **names}

    def _make_vmap(self) -> None:
        """Nothing is kept from call to call."""

    # --- keys

    def _read_of(self, *networks: Any) -> list[Any]:
        """The action, what the step brought, and what networks read before and after it."""
        keys = self._tensor_keys
        signals = map(after, (keys.reward, keys.done, keys.terminated))
        inputs = [network.in_keys for network in networks]
        return each_once(getattr(keys, "action", None), signals, inputs, map(after, inputs[0]))

    # --- values of actions

    def _fixed(self, name: str) -> Any:
        """Parameters of a network, without gradients to them."""
        params = getattr(self, f"{name}_params")
        if torch.compiler.is_compiling():
            return params.data
        cache = self._cache
        if name not in cache:
            cache[name] = params.data
        return cache[name]

    def _critic_values(
        self, inputs: TensorDictBase, params: Any, key: Any = None, dims: tuple[int | None, int] = (None, 0)
    ) -> Tensor:
        """What each critic says, a first dimension of as many as there are; inputs are one for all, or one for each."""
        network, wanted = self.qvalue_network, self._tensor_keys.state_action_value if key is None else key

        def values(data: TensorDictBase, own: Any) -> Tensor:
            with own.to_module(network):
                found: Tensor | None = network(data.copy()).get(wanted, None)
            if found is None:
                raise KeyError(
                    f"{type(self).__name__} asks its critic for {wanted!r}, which it does not write: its out_keys are "
                    f"{network.out_keys}. Rename one of them, or tell the loss by set_keys."
                )
            return found

        inputs = inputs.select(*network.in_keys, strict=False)
        if self.deactivate_vmap:
            return _pseudo_vmap(values, dims)(inputs, params)  # type: ignore[no-any-return]
        return torch.vmap(values, dims, randomness=self.vmap_randomness)(inputs, params)

    def _target_of(self, tensordict: TensorDictBase, next_value: Tensor) -> Tensor:
        """The values to train towards, given those of the states after the steps: the batch's shape."""
        data = tensordict.copy()
        data.set(after(self.value_estimator.tensor_keys.value), next_value)
        target: Tensor = self.value_estimator.value_estimate(data)
        return target.squeeze(-1)

    def _distances(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Each critic's distance from one target, (critics, *batch)."""
        return distance_loss(predicted, target.expand_as(predicted), loss_function=self.loss_function)  # type: ignore[no-any-return]

    def _distance(self, predicted: Tensor, target: Tensor) -> Tensor:
        """The sum of all critics' distances from one target, `batch`."""
        return self._distances(predicted, target).sum(0)

    def _following(self, tensordict: TensorDictBase, *networks: Any) -> TensorDictBase:
        """What networks read of the states after the steps; what a step does not change need not be there twice."""
        wanted = each_once([network.in_keys for network in networks])
        following: TensorDictBase = tensordict.get("next").select(*wanted, strict=False)
        if not any(following.get(name, None) is not None for name in wanted):
            present = sorted(map(str, tensordict.keys(True, True)))
            raise KeyError(
                f"Nothing is known of the states after the steps: none of {wanted} is in 'next', of {present}."
            )
        for name in wanted:
            if following.get(name, None) is None and tensordict.get(name, None) is not None:
                following.set(name, tensordict.get(name))
        return following

    # --- results

    def _rank(self, tensordict: TensorDictBase, td_error: Tensor) -> None:
        """Write the priority of each step into what the loss was called with."""
        tensordict.set(self._tensor_keys.priority, td_error.detach())

    def _weighted(self, loss: Tensor, tensordict: TensorDictBase) -> Tensor:
        """The loss of each step, by its priority's weight, reduced."""
        return self._reduce_loss(loss, tensordict, weights=self._maybe_get_priority_weight(tensordict))

    def _reduce_each(self, losses: Tensor, tensordict: TensorDictBase) -> Tensor:
        """Losses (networks, *batch) reduced over all, networks too."""
        reduced = self._reduce_loss(losses.movedim(0, -1), tensordict)  # masks are of the batch
        return reduced.movedim(-1, 0) if self.reduction == "none" else reduced

    def _results(self, found: dict[str, Any], tensordict: TensorDictBase) -> TensorDict:
        """The results as a tensordict."""
        return TensorDict(self._selected(found), [])


# What is one number, however many steps there are.
_SINGLE = ("alpha", "entropy")


class ScalarOutputs(CriticLoss):
    """The part of losses that return numbers beside losses of each step.

    With `reduction="none"` results have the batch's shape, to which single numbers such as the temperature do not
    belong: `scalar_output_mode` says what becomes of them.
    """

    scalar_output_mode: str | None = None

    def _set_scalar_output_mode(self, mode: str | None) -> None:
        if mode not in (None, "exclude", "non_tensor"):
            raise ValueError(f"scalar_output_mode is {mode!r}, expected None, 'exclude' or 'non_tensor'.")
        self.scalar_output_mode = mode

    def _results(self, found: dict[str, Any], tensordict: TensorDictBase) -> TensorDict:
        if self.reduction != "none":
            return super()._results(found, tensordict)
        results = {}
        for name, value in self._selected(found).items():
            if name not in _SINGLE:
                results[name] = value
            elif self.scalar_output_mode == "non_tensor":
                results[name] = NonTensorData(value)
        return TensorDict(results, self._shape_of_results(tensordict))

    def _shape_of_results(self, tensordict: TensorDictBase) -> Any:
        """What all results begin with where nothing is reduced."""
        return tensordict.shape


def action_spec_of(spec: Any, key: Any) -> Any:
    """The spec of the action: itself, or that of a composite."""
    return spec[key] if hasattr(spec, "keys") else spec
