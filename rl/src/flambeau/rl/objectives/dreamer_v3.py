"""DreamerV3's losses: of its world model, its actor and its critic, and all in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.objectives._dreamer_v3_behaviour import DreamerV3ActorLoss as DreamerV3ActorLoss
from flambeau.rl.objectives._dreamer_v3_behaviour import DreamerV3ValueLoss as DreamerV3ValueLoss
from flambeau.rl.objectives._dreamer_v3_model import DreamerV3ModelLoss as DreamerV3ModelLoss
from flambeau.rl.objectives._dreamer_v3_model import categorical_kl_balanced as categorical_kl_balanced
from flambeau.rl.objectives._dreamer_v3_model import categorical_kl_terms as categorical_kl_terms
from flambeau.rl.objectives._keys import after, each_once
from flambeau.rl.objectives.common import LossModule

__all__ = [
    "DreamerV3ActorLoss",
    "DreamerV3Loss",
    "DreamerV3ModelLoss",
    "DreamerV3ValueLoss",
    "categorical_kl_balanced",
    "categorical_kl_terms",
]


class DreamerV3Loss(LossModule):
    """DreamerV3's losses in one (Hafner et al., 2023, arXiv:2301.04104).

    The world model is trained on a batch; from the states that it infers the actor imagines on, without gradients to
    them; the critic is trained on what was imagined, and on the batch, where its gradients reach the world model.

    Args:
        model_loss: of the world model, with `detach_output=False` if `replay_value_loss_weight` is not 0.
        actor_loss: of the actor.
        value_loss: of the critic.
        replay_value_loss_weight: how much the critic's loss on the batch counts; 0 leaves it out.
        continuation_horizon: of the discount there, 1 - 1 / horizon.
        lmbda: how much later steps count there, in [0, 1].

    Returns of `forward`:
        What the three losses return, one number each, and "loss_replay_value"; without gradients "replay_value", which
        is not weighted, and "replay_context", the states that were inferred, (*batch, time).

    Raises:
        ValueError: the world model's predictions are detached, but wanted with gradients.
    """

    @dataclass
    class _AcceptedKeys:
        state: Any = "state"
        belief: Any = "belief"
        is_init: Any = "is_init"
        replay_context: Any = "replay_context"

    default_keys = _AcceptedKeys

    def __init__(
        self, model_loss: DreamerV3ModelLoss, actor_loss: DreamerV3ActorLoss, value_loss: DreamerV3ValueLoss, *,
        replay_value_loss_weight: float = 0.3, continuation_horizon: float = 333.0, lmbda: float = 0.95,
    ) -> None:  # fmt: skip
        super().__init__()
        if replay_value_loss_weight and model_loss.detach_output:
            raise ValueError(
                f"replay_value_loss_weight is {replay_value_loss_weight}, which trains the world model: make "
                "`model_loss` with detach_output=False, or use the weight 0."
            )
        self.model_loss, self.actor_loss, self.value_loss = model_loss, actor_loss, value_loss
        self.replay_value_loss_weight = replay_value_loss_weight
        self.continuation_horizon, self.lmbda = continuation_horizon, lmbda

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        keys, ends = self._tensor_keys, self.value_loss.tensor_keys
        read = (keys.state, keys.belief, keys.is_init, after(ends.done), after(ends.terminated))
        return each_once(self.model_loss.in_keys, *read)

    def forward(self, sample: TensorDictBase) -> TensorDictBase:
        """The losses of a batch of trajectories, (*batch, time); see the class."""
        losses, predicted = self.model_loss(sample)
        states = predicted.get("next").select(self._tensor_keys.state, self._tensor_keys.belief)
        of_actor, imagined = self.actor_loss(states.detach().reshape(-1))
        of_value, _ = self.value_loss(imagined)
        found = {name: loss.mean() for name, loss in (*losses.items(), *of_actor.items(), *of_value.items())}
        replay = torch.zeros_like(found["loss_actor"])
        if self.replay_value_loss_weight:
            replay = self._replay_value(predicted, states, imagined)
        found["loss_replay_value"] = self.replay_value_loss_weight * replay
        found["replay_value"] = replay.detach()
        found[self._tensor_keys.replay_context] = states.detach()
        return TensorDict(self._selected(found))

    def _replay_value(self, predicted: TensorDictBase, states: TensorDictBase, imagined: TensorDictBase) -> Any:
        """The critic's loss on the batch, with what was imagined from each state for what comes after the batch."""
        keys = self.value_loss.tensor_keys
        truth = after(self.model_loss.tensor_keys.true_reward)
        following = {keys.reward: predicted.get(truth)}
        following |= {key: predicted.get(after(key)) for key in (keys.done, keys.terminated)}
        data = states.copy().set("next", TensorDict(following, states.shape))
        data.set(keys.bootstrap, imagined.get("lambda_target")[..., 0, 0].reshape(states.shape))
        options = {"horizon": self.continuation_horizon, "lmbda": self.lmbda}
        return self.value_loss.replay_value_loss(data, **options).get("loss_replay_value").mean()
