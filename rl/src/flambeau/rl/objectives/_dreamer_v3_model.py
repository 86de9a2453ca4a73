"""The loss of DreamerV3's world model, and the divergences of its states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.modules.functional import symexp, symlog
from flambeau.rl.modules.models.model_based import two_hot_cross_entropy
from flambeau.rl.objectives._keys import after
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.utils import distance_loss

__all__ = ["DreamerV3ModelLoss", "categorical_kl_balanced", "categorical_kl_terms", "symexp_bins"]


def symexp_bins(count: int) -> Tensor:
    """The values that two-hot heads tell apart: `symexp` of numbers from -20 to 20."""
    return symexp(torch.linspace(-20, 20, count))


def _mixed(logits: Tensor, unimix: float) -> Tensor:
    """Log-probabilities, mixed with those of a uniform distribution."""
    if not unimix:
        return logits.log_softmax(-1)
    return ((1 - unimix) * logits.softmax(-1) + unimix / logits.shape[-1]).log()


def _kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def categorical_kl_balanced(
    posterior_logits: Tensor, prior_logits: Tensor, alpha: float = 0.8, free_bits: float = 1.0
) -> Tensor:
    """The divergence of categorical states, of which each side is trained by a part (Hafner et al., arXiv:2010.02193).

    alpha * KL(sg(posterior) || prior) + (1 - alpha) * KL(posterior || sg(prior))

    Args:
        posterior_logits: (*batch, categoricals, classes).
        prior_logits: the same.
        alpha: how much the prior is trained, in [0, 1].
        free_bits: divergences of a categorical below count as this, in nats.

    Returns:
        The mean over categoricals and batch, one number.
    """
    posterior, prior = posterior_logits.log_softmax(-1), prior_logits.log_softmax(-1)
    of_prior = _kl(posterior.detach(), prior).clamp_min(free_bits).mean()
    of_posterior = _kl(posterior, prior.detach()).clamp_min(free_bits).mean()
    return alpha * of_prior + (1 - alpha) * of_posterior


def categorical_kl_terms(
    posterior_logits: Tensor, prior_logits: Tensor, free_nats: float = 1.0, unimix: float = 0.01
) -> tuple[Tensor, Tensor]:
    """Both divergences of DreamerV3 (Hafner et al., 2023, arXiv:2301.04104, equation 5).

    Args:
        posterior_logits: (*batch, categoricals, classes).
        prior_logits: the same.
        free_nats: sums over categoricals below count as this.
        unimix: the share of a uniform distribution in each categorical, in [0, 1).

    Returns:
        KL(sg(posterior) || prior), which trains the dynamics, and KL(posterior || sg(prior)), which trains the
        representation; means over the batch, one number each.
    """
    posterior, prior = _mixed(posterior_logits, unimix), _mixed(prior_logits, unimix)
    dynamics = _kl(posterior.detach(), prior).sum(-1).clamp_min(free_nats).mean()
    representation = _kl(posterior, prior.detach()).sum(-1).clamp_min(free_nats).mean()
    return dynamics, representation


class DreamerV3ModelLoss(LossModule):
    """The loss of DreamerV3's world model (Hafner et al., 2023, arXiv:2301.04104, equations 4 and 5).

    Args:
        world_model: writes to "next" logits of both distributions, reconstructions, rewards and, for
            `lambda_continue > 0`, logits of going on.
        lambda_kl: how much divergences count.
        lambda_reco: how much reconstructions count.
        lambda_reward: how much rewards count.
        lambda_continue: how much going on counts; 0 for models that do not predict it.
        kl_mode: "balanced" (`categorical_kl_balanced`) or "separate" (`categorical_kl_terms`).
        lambda_dynamic: how much the dynamics' divergence counts with `kl_mode="separate"`.
        lambda_representation: how much the representation's counts.
        unimix: see `categorical_kl_terms`.
        continue_target_scale: the probability to go on where the episode does; 1 - 1 / horizon makes it a discount.
        kl_alpha: see `categorical_kl_balanced`.
        free_bits: divergences below count as this, in nats.
        reco_loss: "l1" or "l2".
        reco_symlog: compare `symlog` of both sides; for each of several observations, or for all. Where it is False,
            whole numbers are taken for pixels from 0 to 255.
        reward_two_hot: rewards are logits over `symexp` of numbers from -20 to 20; otherwise numbers, compared by
            `symlog`.
        num_reward_bins: how many logits there are.
        global_average: take means of reconstructions over features too, not sums.
        detach_output: give the predictions without gradients.

    Returns of `forward`:
        "loss_model_kl", or "loss_model_dynamic" and "loss_model_representation"; "loss_model_reco",
        "loss_model_reward", "loss_model_continue" where it counts, (1,) each; and the batch with the predictions.

    Raises:
        ValueError: a name, a number of logits, or a number of observations that does not fit.
    """

    @dataclass
    class _AcceptedKeys:
        reward: Any = "reward"
        reward_logits: Any = "reward_logits"
        true_reward: Any = "true_reward"
        prior_logits: Any = "prior_logits"
        posterior_logits: Any = "posterior_logits"
        pixels: Any = "pixels"
        reco_pixels: Any = "reco_pixels"
        continue_pred: Any = "continue_pred"
        done: Any = "done"
        terminated: Any = "terminated"

    default_keys = _AcceptedKeys

    def __init__(
        self, world_model: Any, *, lambda_kl: float = 1.0, lambda_reco: float = 1.0, lambda_reward: float = 1.0,
        lambda_continue: float = 0.0, kl_mode: str = "balanced", lambda_dynamic: float = 1.0,
        lambda_representation: float = 0.1, unimix: float = 0.0, continue_target_scale: float = 1.0,
        kl_alpha: float = 0.8, free_bits: float = 1.0, reco_loss: str = "l2", reco_symlog: bool | list[bool] = True,
        reward_two_hot: bool = True, num_reward_bins: int = 255, global_average: bool = False,
        detach_output: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, given, known in (
            ("kl_mode", kl_mode, ("balanced", "separate")),
            ("reco_loss", reco_loss, ("l1", "l2")),
        ):
            if given not in known:
                raise ValueError(f"{name} is {given!r}, expected one of {known}.")
        self.world_model = world_model
        self.lambda_kl, self.lambda_reco, self.lambda_reward = lambda_kl, lambda_reco, lambda_reward
        self.lambda_continue, self.continue_target_scale = lambda_continue, continue_target_scale
        self.kl_mode, self.lambda_dynamic, self.lambda_representation = kl_mode, lambda_dynamic, lambda_representation
        self.unimix, self.kl_alpha, self.free_bits = unimix, kl_alpha, free_bits
        self.reco_loss, self.reco_symlog = reco_loss, reco_symlog
        self.reward_two_hot, self.num_reward_bins = reward_two_hot, num_reward_bins
        self.global_average, self.detach_output = global_average, detach_output
        self.register_buffer("reward_bins", symexp_bins(num_reward_bins))

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        keys = self._tensor_keys
        truths = [keys.reward, *_several(keys.pixels), *([keys.terminated] if self.lambda_continue else [])]
        return [*self.world_model.in_keys, *map(after, truths)]

    @property
    def out_keys(self) -> list[Any]:
        """What is returned."""
        separate = ["loss_model_dynamic", "loss_model_representation"]
        found = [
            "loss_model_reco",
            "loss_model_reward",
            *(separate if self.kl_mode == "separate" else ["loss_model_kl"]),
        ]
        return [*found, *(["loss_model_continue"] if self.lambda_continue else [])]

    def forward(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """The losses of a batch of trajectories, (*batch, time), and the batch with predictions; see the class."""
        keys, data = self._tensor_keys, tensordict.copy()
        data.rename_key_(after(keys.reward), after(keys.true_reward))
        data = self.world_model(data)
        found = {"loss_model_reco": self.lambda_reco * self._reconstruction(data)}
        found["loss_model_reward"] = self.lambda_reward * self._reward(data)
        found |= self._divergence(data.get(after(keys.posterior_logits)), data.get(after(keys.prior_logits)))
        if self.lambda_continue:
            found["loss_model_continue"] = self.lambda_continue * self._going_on(data)
        losses = TensorDict({name: loss.unsqueeze(0) for name, loss in found.items()})
        return losses, data.detach() if self.detach_output else data

    def _divergence(self, posterior: Tensor, prior: Tensor) -> dict[str, Tensor]:
        if self.kl_mode == "balanced":
            kl = categorical_kl_balanced(posterior, prior, self.kl_alpha, self.free_bits)
            return {"loss_model_kl": self.lambda_kl * kl}
        dynamics, representation = categorical_kl_terms(posterior, prior, self.free_bits, self.unimix)
        return {
            "loss_model_dynamic": self.lambda_kl * self.lambda_dynamic * dynamics,
            "loss_model_representation": self.lambda_kl * self.lambda_representation * representation,
        }

    def _reconstruction(self, data: TensorDictBase) -> Tensor:
        truths, heads = _several(self._tensor_keys.pixels), _several(self._tensor_keys.reco_pixels)
        squashed = self.reco_symlog if isinstance(self.reco_symlog, list) else [self.reco_symlog] * len(truths)
        if not (len(truths) == len(heads) == len(squashed) > 0):
            raise ValueError(
                f"There are {len(truths)} observations, {len(heads)} reconstructions and {len(squashed)} answers "
                "whether to take symlog; set_keys(pixels=..., reco_pixels=...) and reco_symlog must agree."
            )
        parts = zip(truths, heads, squashed, strict=True)
        losses = [
            self._distance(data.get(after(truth)), data.get(after(head)), log, data) for truth, head, log in parts
        ]
        return torch.stack(losses).sum()

    def _distance(self, truth: Tensor, predicted: Tensor, squashed: bool, data: TensorDictBase) -> Tensor:
        if squashed:
            truth, predicted = symlog(truth.to(predicted.dtype)), symlog(predicted)
        elif not truth.is_floating_point():
            truth = truth.to(predicted.dtype) / 255
        distance = distance_loss(predicted, truth, self.reco_loss)
        if self.global_average:
            return distance.mean()  # type: ignore[no-any-return]
        return distance.flatten(data.ndim).sum(-1).mean()  # type: ignore[no-any-return]

    def _reward(self, data: TensorDictBase) -> Tensor:
        keys = self._tensor_keys
        truth = data.get(after(keys.true_reward))
        if not self.reward_two_hot:
            return distance_loss(symlog(data.get(after(keys.reward))), symlog(truth), "l2").mean()  # type: ignore[no-any-return]
        logits = data.get(after(keys.reward_logits))
        if logits.shape[-1] != self.num_reward_bins:
            raise ValueError(
                f"Rewards have {logits.shape[-1]} logits, expected num_reward_bins={self.num_reward_bins}; or use "
                "reward_two_hot=False for a model that predicts numbers."
            )
        return two_hot_cross_entropy(logits, truth, self.reward_bins).mean()

    def _going_on(self, data: TensorDictBase) -> Tensor:
        keys = self._tensor_keys
        over = data.get(after(keys.terminated), None)
        over = data.get(after(keys.done)) if over is None else over
        logits = data.get(after(keys.continue_pred))
        target = (~over).to(logits.dtype).reshape(logits.shape) * self.continue_target_scale
        return F.binary_cross_entropy_with_logits(logits, target)


def _several(keys: Any) -> list[Any]:
    return keys if isinstance(keys, list) else [keys]
