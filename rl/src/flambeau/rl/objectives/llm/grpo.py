"""Policy gradients for language models, by advantages within groups of answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.data.tensordict import LazyStackedTensorDict, TensorClass, TensorDictBase
from flambeau.rl.objectives._entropies import entropy_of
from flambeau.rl.objectives._keys import each_once
from flambeau.rl.objectives._reductions import _validate_clip_epsilon
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.llm._ray_mc_advantage import RayMCAdvantage
from flambeau.rl.objectives.llm._token_rows import rows_of
from flambeau.rl.objectives.llm.distillation import k3_kl_token_estimate
from flambeau.rl.objectives.llm.mc_advantage import MCAdvantage
from flambeau.rl.objectives.llm.mc_selection import MCAdvantageSelector
from flambeau.rl.objectives.utils import _maybe_get_or_select

__all__ = [
    "DAPO",
    "CISPOLoss",
    "CISPOLossOutput",
    "DAPOLossOutput",
    "GRPOLoss",
    "GRPOLossOutput",
    "LLMLossOutput",
    "LLMOutputType",
    "MCAdvantage",
    "MCAdvantageSelector",
    "RayMCAdvantage",
]

_STRATEGIES = ("sft", "rlhf", "generic")
_AGGREGATIONS = ("token_mean", "prompt_mean", "none", None)


class LLMLossOutput(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """What losses of language models return.

    Attributes:
        loss_objective: how little the answers that had an advantage are likely.
        clip_fraction: the share of tokens whose ratio is out of bounds.
        kl_approx: the mean of what log-probabilities fell by since the tokens were drawn.
        ESS: the effective share of tokens: 1 if all ratios are alike.
        entropy: the mean entropy, or None.
        loss_entropy: how little the model is random, or None.
        loss_kl_to_ref: `kl_to_ref` by its coefficient, or None.
        kl_to_ref: the divergence from the reference, or None.
        loss_kl_to_inference: `kl_to_inference` by its coefficient, or None.
        kl_to_inference: the divergence from the model that drew the tokens, or None.
    """

    loss_objective: Tensor
    clip_fraction: Tensor
    kl_approx: Tensor
    ESS: Tensor
    entropy: Tensor | None = None
    loss_entropy: Tensor | None = None
    loss_kl_to_ref: Tensor | None = None
    kl_to_ref: Tensor | None = None
    loss_kl_to_inference: Tensor | None = None
    kl_to_inference: Tensor | None = None


class GRPOLossOutput(LLMLossOutput):
    """What `GRPOLoss` returns; see `LLMLossOutput`."""


class CISPOLossOutput(LLMLossOutput):
    """What `CISPOLoss` returns; see `LLMLossOutput`."""


class DAPOLossOutput(LLMLossOutput):
    """What `DAPO` returns; see `LLMLossOutput`."""


LLMOutputType = TypeVar("LLMOutputType", bound=LLMLossOutput)


class GRPOLoss(LossModule):
    """Group relative policy optimization (Shao et al., 2024, arXiv:2402.03300, section 4.1).

    The clipped objective of `ClipPPOLoss`, token by token, with advantages that compare the answers to one prompt.

    Args:
        actor_network: a language model that gives the distributions of tokens, (*batch, tokens), by the methods
            `_get_sft_dist`, `_get_rlhf_dist` and `_get_generic_dist`, each with the mask of the strategy of that name.
        clip_epsilon: by how much ratios may fall and rise; or two numbers.
        kl_mask_threshold: leave out tokens where half the squared logarithm of the ratio is larger.
        aggregation: "token_mean" over all tokens; "prompt_mean" of each sequence's mean; "none" for each token.
        entropy_bonus: reward the entropy.
        samples_mc_entropy: how many tokens estimate it where the distribution has no formula for it.
        entropy_coeff: how much it counts.
        gamma: kept from upstream; it does nothing.
        reduction: "none" for each token; otherwise `aggregation` decides.
        clip_value: kept from upstream; it does nothing, as there is no critic.
        kl_to_ref_coeff: how much the divergence from a reference model counts, by log-probabilities in the batch.
        kl_to_inference_coeff: how much that from the model that drew the tokens counts.
        device: of the coefficients.
        masking_strategy: which tokens count: "sft" those of responses, "rlhf" those of the assistant, "generic" all
            but padding.
        ref_log_prob_padding_side: where the reference's log-probabilities are padded, if they are ragged.
        ref_log_prob_padding_value: with what.
        **kwargs: none.

    Returns of `forward`:
        A `GRPOLossOutput`.

    Raises:
        TypeError: an argument is none of these, or the network is missing.
        ValueError: an argument has a value that it does not take.
    """

    @dataclass
    class _AcceptedKeys:
        advantage: Any = "advantage"
        action: Any = ("tokens", "full")
        sample_log_prob: Any = ("log_probs", "full")
        ref_log_probs: Any = ("next", "ref_log_probs", "full")

    default_keys = _AcceptedKeys
    output_type: type = GRPOLossOutput
    clip_epsilon_low: Tensor
    clip_epsilon_high: Tensor

    def __init__(
        self, actor_network: Any = None, *, clip_epsilon: float | tuple[float, float] = 0.2,
        kl_mask_threshold: float | None = None, aggregation: str | None = "token_mean", entropy_bonus: bool = True,
        samples_mc_entropy: int = 1, entropy_coeff: float = 0.01, gamma: float | None = None,
        reduction: str | None = None, clip_value: bool | float | None = None, kl_to_ref_coeff: float | None = None,
        kl_to_inference_coeff: float | None = None, device: Any = None,
        masking_strategy: Literal["sft", "rlhf", "generic"] = "sft",
        ref_log_prob_padding_side: Literal["left", "right"] = "left", ref_log_prob_padding_value: float = 0.0,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if kwargs:
            raise TypeError(f"{type(self).__name__} takes no argument {sorted(kwargs)[0]!r}.")
        if actor_network is None:
            raise TypeError(f"{type(self).__name__} needs an argument 'actor_network', which is missing.")
        for name, value, known in (
            ("masking_strategy", masking_strategy, _STRATEGIES),
            ("aggregation", aggregation, _AGGREGATIONS),
            ("reduction", reduction, (None, "mean", "sum", "none")),
        ):
            if value not in known:
                raise ValueError(f"{name} is {value!r}, expected one of {known}.")
        self.actor_network = actor_network
        self.masking_strategy, self.kl_mask_threshold = masking_strategy, kl_mask_threshold
        self.aggregation, self.reduction = aggregation or "token_mean", reduction or "mean"
        self.entropy_bonus, self.samples_mc_entropy = entropy_bonus, samples_mc_entropy
        self.entropy_coeff, self.clip_value = entropy_coeff, clip_value
        self.kl_to_ref_coeff, self.kl_to_inference_coeff = kl_to_ref_coeff, kl_to_inference_coeff
        self.ref_log_prob_padding_side = ref_log_prob_padding_side
        self.ref_log_prob_padding_value = ref_log_prob_padding_value
        for name, epsilon in zip(("low", "high"), _validate_clip_epsilon(clip_epsilon), strict=True):
            self.register_coeff_buffer(f"clip_epsilon_{name}", epsilon, device=device)
        self._set_in_keys()
        entropies = ["entropy", "loss_entropy"] if entropy_bonus else []
        divergences = ["loss_kl_to_ref", "kl_to_ref", "loss_kl_to_inference", "kl_to_inference"]
        self.out_keys = ["loss_objective", "clip_fraction", "ESS", "kl_approx", *entropies, *divergences]

    @property
    def functional(self) -> bool:
        """Whether parameters were taken out of the network: never."""
        return False

    def _set_in_keys(self) -> None:
        keys = self.tensor_keys
        self.in_keys = each_once(self.actor_network.in_keys, keys.sample_log_prob, keys.advantage, keys.ref_log_probs)

    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch of sequences.

        Args:
            tensordict: of tokens and of the log-probabilities by which they were drawn, (*batch, tokens), and of
                advantages, (*batch, tokens or 1, 1).

        Returns:
            See the class.

        Raises:
            KeyError: log-probabilities are missing.
            ValueError: the advantage is missing, or shapes differ.
        """
        dist = getattr(self.actor_network, f"_get_{self.masking_strategy}_dist")(tensordict)
        log_prob = dist.log_prob(_at_length(tensordict, self.tensor_keys.action, dist.mask.shape))
        former = self._log_probs(tensordict, self.tensor_keys.sample_log_prob, log_prob)
        mask = dist.mask
        fallen = torch.where(mask, former - log_prob, 0)
        found = {"kl_approx": fallen.detach().mean()}
        if self.kl_mask_threshold is not None:
            mask = mask & (0.5 * fallen.detach().square() <= self.kl_mask_threshold)
        log_weight = -fallen.unsqueeze(-1)
        advantage = self._advantage(tensordict, log_weight)
        gain, clipped = self._gain(log_weight.exp(), advantage)
        found |= {"loss_objective": self._aggregated(-gain, mask), "clip_fraction": clipped.to(gain.dtype).mean()}
        found["ESS"] = _effective_share(log_weight.detach().squeeze(-1), mask)
        found |= self._entropy_terms(dist, mask) | self._divergences(
            tensordict, log_prob, former, mask, dist.mask.sum()
        )
        return self.output_type(**found, batch_size=[])

    def _log_probs(self, tensordict: TensorDictBase, key: Any, like: Tensor) -> Tensor:
        """The log-probabilities that are in the batch, of the shape of the model's."""
        side, value = self.ref_log_prob_padding_side, self.ref_log_prob_padding_value
        found = _at_length(tensordict, key, like.shape, side, value)
        if found is None:
            present = sorted(map(str, tensordict.keys(True, True)))
            raise KeyError(
                f"{type(self).__name__} reads {key!r}, which is missing; set_keys renames it. There are {present}."
            )
        if found.dim() == like.dim() + 1 and found.shape[-1] == 1:
            found = found.squeeze(-1)
        if found.shape != like.shape:
            raise ValueError(
                f"The entry {key!r} has shape {tuple(found.shape)}, the model's log-probabilities {tuple(like.shape)}; "
                "score the same tokens, with the same padding."
            )
        return found.detach()

    def _advantage(self, tensordict: TensorDictBase, log_weight: Tensor) -> Tensor:
        key = self.tensor_keys.advantage
        advantage = _at_length(tensordict, key)
        if advantage is None:
            raise ValueError(f"{type(self).__name__} reads the advantage {key!r}, which is missing; see MCAdvantage.")
        if advantage.dim() != log_weight.dim():
            raise ValueError(
                f"The advantage has shape {tuple(advantage.shape)}, expected {tuple(log_weight.shape)}, or sizes of 1 "
                "in their places."
            )
        return advantage

    def _bounded(self, ratio: Tensor) -> Tensor:
        return ratio.clamp(1 - self.clip_epsilon_low, 1 + self.clip_epsilon_high)

    def _gain(self, ratio: Tensor, advantage: Tensor) -> tuple[Tensor, Tensor]:
        """What each token brings, and whether its ratio is out of bounds."""
        bounded = self._bounded(ratio)
        return torch.minimum(ratio * advantage, bounded * advantage), bounded != ratio

    def _aggregated(self, loss: Tensor, mask: Tensor) -> Tensor:
        """The loss of the tokens that count, (*batch, tokens, 1) or one number."""
        mask = mask.unsqueeze(-1).expand(loss.shape)
        loss = torch.where(mask, loss, 0)
        if self.reduction == "none" or self.aggregation == "none":
            return loss
        if self.aggregation == "prompt_mean":
            each = loss.sum(-2) / mask.sum(-2).clamp_min(1)
            return each.flatten(0, -2).mean(0)  # Upstream: of shape (1,)
        return loss.sum() / mask.sum().clamp_min(1)

    def _entropy_terms(self, dist: Any, mask: Tensor) -> dict[str, Tensor]:
        if not self.entropy_bonus:
            return {}
        entropy = entropy_of(dist, self.samples_mc_entropy)
        loss = self._aggregated(-self.entropy_coeff * entropy, mask)
        return {"entropy": entropy.detach().mean(), "loss_entropy": loss}

    def _divergences(
        self, tensordict: TensorDictBase, log_prob: Tensor, former: Tensor, mask: Tensor, count: Tensor
    ) -> dict[str, Tensor]:
        """How far the model is from the reference and from the one that drew the tokens, where that counts."""
        found: dict[str, Tensor] = {}
        if self.kl_to_ref_coeff is not None:
            reference = self._log_probs(tensordict, self.tensor_keys.ref_log_probs, log_prob)
            found |= self._penalty("ref", reference, log_prob, mask, count, self.kl_to_ref_coeff)
        if self.kl_to_inference_coeff is not None:
            found |= self._penalty("inference", former, log_prob, mask, count, self.kl_to_inference_coeff)
        return found

    def _penalty(
        self, name: str, other: Tensor, log_prob: Tensor, mask: Tensor, count: Tensor, coefficient: float
    ) -> dict[str, Tensor]:
        # Upstream: tokens that `kl_mask_threshold` leaves out count as 0.
        estimate = torch.where(mask, k3_kl_token_estimate(other, log_prob), 0).sum() / count.clamp_min(1)
        return {f"loss_kl_to_{name}": coefficient * estimate, f"kl_to_{name}": estimate.detach()}


def _at_length(
    tensordict: TensorDictBase, key: Any, shape: Any = None, side: str = "left", value: float = 0.0
) -> Tensor | None:
    """An entry, with sequences of different lengths padded to one; None where there is none."""
    if isinstance(tensordict, LazyStackedTensorDict) and isinstance(key, str | tuple):
        rows = rows_of(tensordict, key)
        if rows is None:
            return None
        if any(row.shape != rows[0].shape for row in rows) or (shape is not None and rows[0].shape != shape[1:]):
            length = max(len(row) for row in rows) if shape is None else shape[1]
            sides = [(length - len(row), 0) if side == "left" else (0, length - len(row)) for row in rows]
            padded = [F.pad(row.movedim(0, -1), at, value=value) for row, at in zip(rows, sides, strict=True)]
            return torch.stack([row.movedim(-1, 0) for row in padded])
        return torch.stack(rows)
    return _maybe_get_or_select(tensordict, key, shape, side, value)  # type: ignore[no-any-return, arg-type]


def _effective_share(log_weight: Tensor, mask: Tensor) -> Tensor:
    """The effective number of tokens that count (Kish, 1965), as a share of them."""
    log_weight = log_weight.masked_fill(~mask, -torch.inf)
    effective = (2 * log_weight.flatten().logsumexp(0) - (2 * log_weight).flatten().logsumexp(0)).exp()
    return effective / mask.sum().clamp_min(1)


class CISPOLoss(GRPOLoss):
    """Clipped importance sampling policy optimization (MiniMax, 2025, arXiv:2506.13585, equation 4).

    As `GRPOLoss`, with the bounded ratio times the advantage in place of the lesser of two gains.

    Args:
        actor_network, clip_epsilon, kl_mask_threshold, aggregation, entropy_bonus, samples_mc_entropy, entropy_coeff,
            gamma, reduction, clip_value, kl_to_ref_coeff, kl_to_inference_coeff, device, masking_strategy,
            ref_log_prob_padding_side, ref_log_prob_padding_value: see `GRPOLoss`.
    """

    output_type = CISPOLossOutput

    def _gain(self, ratio: Tensor, advantage: Tensor) -> tuple[Tensor, Tensor]:
        bounded = self._bounded(ratio)
        return bounded * advantage, bounded != ratio


class DAPO(GRPOLoss):
    """Decoupled clipping (Yu et al., 2025, arXiv:2503.14476, equation 10): `GRPOLoss` with two bounds, (0.2, 0.28).

    Args:
        actor_network, clip_epsilon, kl_mask_threshold, aggregation, entropy_bonus, samples_mc_entropy, entropy_coeff,
            gamma, reduction, clip_value, kl_to_ref_coeff, kl_to_inference_coeff, device, masking_strategy,
            ref_log_prob_padding_side, ref_log_prob_padding_value: see `GRPOLoss`.
    """

    output_type = DAPOLossOutput
