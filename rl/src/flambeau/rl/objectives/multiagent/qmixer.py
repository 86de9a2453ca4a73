"""Q-learning of a team, whose value is a mixture of its agents' values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import TensorDictSequential, dispatch
from flambeau.rl.modules.tensordict_module.actors import QValueActor
from flambeau.rl.modules.tensordict_module.common import is_tensordict_compatible
from flambeau.rl.objectives._discrete_sac import chosen_value
from flambeau.rl.objectives._keys import action_of, after, each_once
from flambeau.rl.objectives._spaces import action_space_of
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.utils import ValueEstimators, distance_loss

__all__ = ["QMixerLoss"]


class QMixerLoss(LossModule):
    """QMIX (Rashid et al., 2018, arXiv:1803.11485): the team's value moves towards the reward and its best value after.

    Each agent gives values of its actions; a mixer makes one value of the team of the values of what was done.

    Args:
        local_value_network: writes the values of each agent's actions, ("agents", "action_value"), (*batch, agents,
            actions), and that of the best, ("agents", "chosen_action_value"), (*batch, agents, 1): a `QValueActor`.
        mixer_network: reads the latter, and a state if it likes, and writes "chosen_action_value", `(*batch, 1)`, such
            as `TensorDictModule(QMixer(...))`.
        loss_function: "l2", "l1" or "smooth_l1".
        delay_value: let target parameters follow by `SoftUpdate` or `HardUpdate`.
        gamma: an argument of `make_value_estimator`.
        action_space: "one-hot", "mult-one-hot", "binary", "categorical", or the spec of actions; that of the network by
            default.
        priority_key: a key of `set_keys`.

    Returns of `forward`:
        "loss". The input gets "td_error", (*batch, 1).

    Raises:
        TypeError: `gamma` is given, or the mixer is a plain network.
        RuntimeError: `priority_key` is given.
        ValueError: no action space.
    """

    @dataclass
    class _AcceptedKeys:
        advantage: Any = "advantage"
        value_target: Any = "value_target"
        local_value: Any = ("agents", "chosen_action_value")
        global_value: Any = "chosen_action_value"
        action_value: Any = ("agents", "action_value")
        action: Any = ("agents", "action")
        priority: Any = "td_error"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"

    default_keys = _AcceptedKeys
    default_value_estimator = ValueEstimators.TD0
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[Any, ...]] = (
        ValueEstimators.TD0, ValueEstimators.TD1, ValueEstimators.TDLambda,
    )  # fmt: skip
    out_keys: Any = ["loss"]
    use_prioritized_weights = False
    local_value_network: Any
    mixer_network: Any
    global_value_network: Any

    def __init__(
        self, local_value_network: Any, mixer_network: Any, *, loss_function: str | None = "l2",
        delay_value: bool = True, gamma: float | None = None, action_space: Any = None,
        priority_key: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_deprecated_ctor_keys(priority=priority_key)
        if gamma is not None:
            raise TypeError(f"gamma belongs to the value estimator: call make_value_estimator(gamma={gamma}) instead.")
        if not is_tensordict_compatible(local_value_network):
            local_value_network = QValueActor(local_value_network, action_space=action_space)
        if not is_tensordict_compatible(mixer_network):
            raise TypeError(
                f"mixer_network is a {type(mixer_network).__name__}, which does not say what it reads and writes; wrap "
                "it in a TensorDictModule."
            )
        self.convert_to_functional(local_value_network, "local_value_network", create_target_params=delay_value)
        self.convert_to_functional(mixer_network, "mixer_network", create_target_params=delay_value)
        self.__dict__["global_value_network"] = TensorDictSequential(local_value_network, mixer_network)
        self.global_value_network_in_keys = self.global_value_network.in_keys
        self.loss_function = "l2" if loss_function is None else loss_function
        self.delay_value = delay_value
        self.action_space = action_space_of(action_space, local_value_network, type(self).__name__)

    @property
    def in_keys(self) -> list[Any]:
        """What is read: the networks' inputs before and after the step, what was done, reward and ends."""
        keys, inputs = self.tensor_keys, self.global_value_network.in_keys
        signals = map(after, (keys.reward, keys.done, keys.terminated))
        # Upstream: keys of inputs after the step are not flattened.
        return each_once(keys.action, signals, inputs, [("next", key) for key in inputs])

    def _estimated_network(self) -> Any:
        return self.global_value_network

    def _estimator_keys(self) -> dict[str, Any]:
        return {**super()._estimator_keys(), "value": self.tensor_keys.global_value}

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The loss of a batch of a team's steps; see the class."""
        value, target = self._value(tensordict).squeeze(-1), self._target(tensordict).squeeze(-1)
        tensordict.set(self.tensor_keys.priority, (value - target).square().detach().unsqueeze(-1))
        loss = distance_loss(value, target, loss_function=self.loss_function)
        return TensorDict({"loss": self._reduce_loss(loss, tensordict)})

    def _value(self, tensordict: TensorDictBase) -> Tensor:
        """What the mixer makes of the values of what was done, (*batch, 1)."""
        keys = self.tensor_keys
        data = tensordict.select(*self.global_value_network.in_keys, strict=False)
        with self.local_value_network_params.to_module(self.local_value_network):
            values = self.local_value_network(data).get(keys.action_value)
        chosen = chosen_value(values, action_of(tensordict, keys.action), self.action_space)
        data.set(keys.local_value, chosen.unsqueeze(-1))
        with self.mixer_network_params.to_module(self.mixer_network):
            mixed: Tensor = self.mixer_network(data).get(keys.global_value)
        return mixed

    def _target(self, tensordict: TensorDictBase) -> Tensor:
        both = (self.target_local_value_network_params, self.target_mixer_network_params)
        params = TensorDict({"module": TensorDict({str(at): each for at, each in enumerate(both)})})
        with torch.no_grad():
            return self.value_estimator.value_estimate(tensordict.copy(), target_params=params)  # type: ignore[no-any-return]
