"""How far a world model's predictions are from what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.objectives._keys import after
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.utils import distance_loss

__all__ = ["WorldModelLoss"]

_LOSSES = ("reward", "done", "reconstruction", "latent")


class WorldModelLoss(LossModule):
    """Distances of a world model's rewards, ends, reconstructions and latent states from those that there were.

    Args:
        world_model: such as `WorldModel`; it predicts `("next", "reward")`, `("next", "done")`,
            "reconstructed_observation", "predicted_latent" and "target_latent", as far as they are asked for.
        losses: some of "reward" (the default), "done", "reconstruction", "latent".
        reward_loss, done_loss, reconstruction_loss, latent_loss: "l1", "l2" or "smooth_l1".
        reward_weight, done_weight, reconstruction_weight, latent_weight: how much each counts.

    Returns of `forward`:
        "loss_reward", "loss_done", "loss_reconstruction", "loss_latent", those that were asked for. The batch stays as
        it is.

    Raises:
        ValueError: an unknown loss.
    """

    @dataclass
    class _AcceptedKeys:
        reward: Any = "reward"
        true_reward: Any = "true_reward"
        done: Any = "done"
        true_done: Any = "true_done"
        terminated: Any = "terminated"
        true_terminated: Any = "true_terminated"
        observation: Any = "observation"
        reconstructed_observation: Any = "reconstructed_observation"
        predicted_latent: Any = "predicted_latent"
        target_latent: Any = "target_latent"

    default_keys = _AcceptedKeys

    def __init__(
        self, world_model: Any, *, losses: list[str] | None = None, reward_loss: str = "l2", done_loss: str = "l2",
        reconstruction_loss: str = "l2", latent_loss: str = "l2", reward_weight: float = 1.0, done_weight: float = 1.0,
        reconstruction_weight: float = 1.0, latent_weight: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.losses = ["reward"] if losses is None else list(losses)
        unknown = sorted(set(self.losses) - set(_LOSSES))
        if unknown:
            raise ValueError(f"losses has {unknown}, expected some of {list(_LOSSES)}.")
        self.world_model = world_model
        self.reward_loss, self.done_loss = reward_loss, done_loss
        self.reconstruction_loss, self.latent_loss = reconstruction_loss, latent_loss
        self.reward_weight, self.done_weight = reward_weight, done_weight
        self.reconstruction_weight, self.latent_weight = reconstruction_weight, latent_weight

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        keys = self._tensor_keys
        truths = [after(getattr(keys, name)) for name in ("reward", "done") if name in self.losses]
        return [*self.world_model.in_keys, *truths]

    @property
    def out_keys(self) -> list[Any]:
        """What is returned."""
        return [f"loss_{name}" for name in self.losses]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The losses of a batch of steps; see the class."""
        keys, data = self._tensor_keys, tensordict.copy()
        for name in ("reward", "done"):
            if name in self.losses:  # the model's own take their place
                self._read(data, after(getattr(keys, name)), name)
                data.rename_key_(after(getattr(keys, name)), after(getattr(keys, f"true_{name}")))
        data = self.world_model(data)
        pairs = {
            "reward": (after(keys.reward), after(keys.true_reward)),
            "done": (after(keys.done), after(keys.true_done)),
            "reconstruction": (keys.reconstructed_observation, keys.observation),
            "latent": (keys.predicted_latent, keys.target_latent),
        }
        found = {}
        for name in self.losses:
            predicted, target = (self._read(data, key, name) for key in pairs[name])
            distance = distance_loss(predicted, target.to(predicted.dtype), getattr(self, f"{name}_loss"))
            found[f"loss_{name}"] = getattr(self, f"{name}_weight") * self._reduce_loss(distance, tensordict)
        return TensorDict(self._selected(found))

    def _read(self, data: TensorDictBase, key: Any, loss: str) -> Tensor:
        found: Tensor | None = data.get(key, None)
        if found is None:
            present = sorted(map(str, data.keys(True, True)))
            raise KeyError(f"{key!r} is missing, which the loss {loss!r} compares. There are {present}.")
        return found
