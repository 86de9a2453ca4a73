"""Proximal policy optimization: several updates on the same steps, which keep the policy near to where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._entropies import coefficients_of, entropy_of, total, weighted
from flambeau.rl.objectives._keys import each_once
from flambeau.rl.objectives._policy_gradient import PolicyGradientLoss
from flambeau.rl.objectives._reductions import _sum_td_features, _validate_clip_epsilon
from flambeau.rl.objectives._surrogates import Ratios, divergence, effective_share, explained_variance, standardized

__all__ = ["ClipPPOLoss", "KLPENPPOLoss", "PPOLoss"]


@dataclass
class _Steps:
    """A batch, the masks that say which steps count, and what policies say of what was done."""

    data: TensorDictBase
    advantage: Tensor
    masks: list[Tensor]
    former: Any
    policy: Any
    ratios: Ratios


class PPOLoss(PolicyGradientLoss):
    """The surrogate objective of proximal policy optimization, with nothing to keep it near (arXiv:1707.06347, eq. 6).

    Steps count by the ratio of the probabilities of what was done, under the actor and under the policy that did it.
    `ClipPPOLoss` and `KLPENPPOLoss` keep these near to each other.

    Args:
        actor_network: has `get_dist`, such as `ProbabilisticActor`.
        critic_network: writes "state_value", `(*batch, 1)`; None where advantages come with the batch and no critic is
            trained.
        entropy_bonus: reward the actor's entropy.
        samples_mc_entropy: how many actions estimate it where the distribution has no formula for it.
        entropy_coeff: how much it counts, 0.01 by default; or a coefficient for each head of the actor, by its key.
        log_explained_variance: tell how much of the targets' variance the critic explains.
        critic_coeff: how much the critic's loss counts, 1 by default; 0 for no such loss.
        loss_critic_type: "l1", "l2" or "smooth_l1".
        normalize_advantage: bring advantages to mean 0 and deviation 1.
        normalize_advantage_exclude_dims: dimensions along which each element is so brought apart from the others.
        advantage_norm: divide advantages by this norm's scale instead. It learns from the targets that this loss
            estimates in training, not from those that come with the batch.
        gamma: use `make_value_estimator(gamma=...)`.
        separate_losses: what both networks share is trained by the actor's loss alone.
        advantage_key: use `set_keys(advantage=...)`.
        value_target_key: use `set_keys(value_target=...)`.
        value_key: use `set_keys(value=...)`.
        functional: take the parameters out of the networks; otherwise these are submodules, as DDP and FSDP need them.
        actor: the former name of `actor_network`.
        critic: the former name of `critic_network`.
        reduction: "mean", "sum" or "none".
        clip_value: how far the critic's values may move from "state_value" in the batch.
        delay_actor: keep target parameters of the actor, to whose policy the actor is kept near instead of the one that
            acted. Moved by a `SoftUpdate` after each step they make this PPO-EWMA (Hilton et al., 2021,
            arXiv:2110.00641), whose batches may have any size.
        max_importance_ratio: the most that a step's ratio counts, > 0. Such steps keep a gradient.
        device: of the coefficients.
        **kwargs: none.

    Returns of `forward`:
        "loss_objective"; with `entropy_bonus` "loss_entropy" and, without gradients, "entropy" (its mean), and of
        several heads "composite_entropy"; with a critic "loss_critic", "value_clip_fraction" (with `clip_value`) and
        "explained_variance", along the batch's first dimension; "kl_approx", the mean difference of log-probabilities.
        The advantage is estimated where the batch has none; the batch is not written to.

    Raises:
        TypeError: a network is missing, or an argument is none of these.
        RuntimeError: a key is given.
        ValueError: a number is out of its range, or options exclude each other.

    Example:
        >>> from torch import nn
        >>> from flambeau.data.tensordict.nn import NormalParamExtractor, TensorDictModule
        >>> from flambeau.rl.modules import IndependentNormal, ProbabilisticActor, ValueOperator
        >>> layers = nn.Sequential(nn.Linear(4, 2), NormalParamExtractor())
        >>> normal = TensorDictModule(layers, ["observation"], ["loc", "scale"])
        >>> actor = ProbabilisticActor(normal, ["loc", "scale"], distribution_class=IndependentNormal)
        >>> PPOLoss(actor, ValueOperator(nn.Linear(4, 1), ["observation"])).out_keys
        ['loss_objective', 'entropy', 'loss_entropy', 'loss_critic']
    """

    _schedulable_buffers: ClassVar[frozenset[str]] = frozenset(
        {"entropy_coeff", "critic_coeff", "clip_value", "max_importance_ratio"}
    )
    entropy_coeff: Tensor
    max_importance_ratio: Tensor | None

    def __init__(
        self, actor_network: Any = None, critic_network: Any = None, *, entropy_bonus: bool = True,
        samples_mc_entropy: int = 1, entropy_coeff: float | Mapping[Any, float] | None = None,
        log_explained_variance: bool = True, critic_coeff: float | None = None, loss_critic_type: str = "smooth_l1",
        normalize_advantage: bool = False, normalize_advantage_exclude_dims: tuple[int, ...] = (),
        advantage_norm: Any = None, gamma: float | None = None, separate_losses: bool = False,
        advantage_key: str | None = None, value_target_key: str | None = None, value_key: str | None = None,
        functional: bool = True, actor: Any = None, critic: Any = None, reduction: str | None = None,
        clip_value: Any = None, delay_actor: bool = False, max_importance_ratio: float | None = None,
        device: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self._refuse_former_names(kwargs)
        actor_network = actor if actor_network is None else actor_network
        critic_network = critic if critic_network is None else critic_network
        self._given_networks(actor_network, critic_network, needs_critic=critic_coeff is not None)
        self._refuse_discount(gamma)
        self._set_deprecated_ctor_keys(advantage=advantage_key, value_target=value_target_key, value=value_key)
        if normalize_advantage and advantage_norm is not None:
            raise ValueError("normalize_advantage=True and advantage_norm both scale advantages; choose one of them.")
        if delay_actor and not functional:
            raise ValueError("delay_actor=True keeps parameters of a target, which functional=False does not do.")
        if max_importance_ratio is not None and max_importance_ratio <= 0:
            raise ValueError(f"max_importance_ratio is {max_importance_ratio}, expected a number > 0.")
        self._set_reduction(reduction)
        self.entropy_bonus, self.samples_mc_entropy = entropy_bonus, samples_mc_entropy
        self.log_explained_variance, self.loss_critic_type = log_explained_variance, loss_critic_type
        self.normalize_advantage, self.advantage_norm = normalize_advantage, advantage_norm
        self.normalize_advantage_exclude_dims = normalize_advantage_exclude_dims
        self.delay_actor = delay_actor
        self._set_networks(
            actor_network,
            critic_network,
            functional=functional,
            separate_losses=separate_losses,
            delay_actor=delay_actor,
        )
        self._set_keys_of_actor()
        self._set_entropy_coeff(entropy_coeff, device)
        critic_coeff = 1.0 if critic_coeff is None and critic_network is not None else critic_coeff
        self.register_coeff_buffer("critic_coeff", critic_coeff or None, device=device)
        self.register_coeff_buffer("max_importance_ratio", max_importance_ratio, device=device)
        self._set_clip_value(clip_value, device)
        self.out_keys = self._written()

    def _set_entropy_coeff(self, given: Any, device: Any) -> None:
        given = 0.01 if given is None else given
        self._entropy_coeff_map = None
        if isinstance(given, Mapping):
            self._entropy_coeff_map, given = coefficients_of(given), 0.0
        elif not isinstance(given, float | int | Tensor):
            raise TypeError(f"entropy_coeff is {given!r}, expected a number, or a mapping from heads to numbers.")
        self.register_coeff_buffer("entropy_coeff", given, device=device)

    def _further_keys(self) -> list[Any]:
        return each_once(self._tensor_keys.sample_log_prob)

    def _written(self) -> list[str]:
        """What `out_keys` are. Upstream: not all that is told, and the critic's loss even without a critic."""
        return ["loss_objective", *self._other_out_keys()]

    def _other_out_keys(self) -> list[str]:
        entropy = ["entropy", "loss_entropy"] if self.entropy_bonus else []
        return [*entropy, "loss_critic", *([] if self.clip_value is None else ["value_clip_fraction"])]

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        return self._results(tensordict)

    def _terms(self, tensordict: TensorDictBase) -> dict[str, Any]:
        tensordict = tensordict.copy()
        advantage, masks = self._scaled_advantage(tensordict), self._loss_masks(tensordict)
        steps = _Steps(tensordict, advantage, masks, *self._policies(tensordict))
        self._check_advantage(advantage, steps.ratios.log_weight)
        found = self._objective(steps)
        found["kl_approx"] = steps.ratios.divergence
        found |= self._entropy_terms(steps)
        if self.critic_network is not None and self.critic_coeff is not None:
            found |= self._critic_terms(steps)
        return {**found, **self._diagnostics(steps.ratios)}

    # --- what subclasses change

    def _policies(self, tensordict: TensorDictBase) -> tuple[Any, Any, Ratios]:
        """The policy to stay near to, if it is asked for; the actor's; and how they rate what was done."""
        dist = self._policy(tensordict)
        return None, dist, self._ratios(tensordict, dist)

    def _objective(self, steps: _Steps) -> dict[str, Any]:
        return {"loss_objective": self._loss_of(-steps.ratios.weight * steps.advantage, steps.data, steps.masks)}

    def _diagnostics(self, ratios: Ratios) -> dict[str, Tensor]:
        return {}

    # --- parts

    def _scaled_advantage(self, tensordict: TensorDictBase) -> Tensor:
        advantage = self._advantage(tensordict)
        if self.normalize_advantage and advantage.numel() > 1:
            valid = tensordict.get("shifted_valid", None)
            return standardized(advantage, self.normalize_advantage_exclude_dims, valid)
        return advantage

    def _ratios(self, tensordict: TensorDictBase, dist: Any) -> Ratios:
        """How much likelier what was done has become since it was, and since the target actor."""
        log_prob = self._log_prob(dist, tensordict)
        former = self._former_log_prob(tensordict, log_prob)
        near = former
        if self.delay_actor:
            with torch.no_grad():
                near = self._log_prob(self._target_policy(tensordict), tensordict)
        return Ratios.of(log_prob, former, near, self.max_importance_ratio)

    def _former_log_prob(self, tensordict: TensorDictBase, log_prob: Tensor) -> Tensor:
        """The log-probability of what was done when it was done."""
        key = self._tensor_keys.sample_log_prob
        if isinstance(key, list):
            for each in key:
                self._entry(tensordict, each)
            former = _sum_td_features(tensordict.select(*key))
        else:
            former = self._entry(tensordict, key)
            former = former if isinstance(former, Tensor) else _sum_td_features(former)
        if former.requires_grad:
            raise RuntimeError(f"The entry {key!r} requires gradients; the policy that acted is fixed: detach it.")
        if former.shape != log_prob.shape:
            raise ValueError(
                f"The entry {key!r} has shape {tuple(former.shape)}, log-probabilities of the actor have "
                f"{tuple(log_prob.shape)}; give it the latter, such as by squeeze(-1)."
            )
        return former

    def _target_policy(self, tensordict: TensorDictBase) -> Any:
        actor = self.actor_network
        with self.target_actor_network_params.to_module(actor):
            return actor.get_dist(tensordict.select(*actor.in_keys, strict=False).copy())

    def _entropy_terms(self, steps: _Steps) -> dict[str, Any]:
        if not self.entropy_bonus:
            return {}
        entropy = entropy_of(steps.policy, self.samples_mc_entropy)
        found: dict[str, Any] = {} if isinstance(entropy, Tensor) else {"composite_entropy": entropy.detach()}
        found["entropy"] = total(entropy).detach().mean()
        if self._entropy_coeff_map is None:
            loss = total(entropy) * -self.entropy_coeff
        else:
            loss = -weighted(entropy, self._entropy_coeff_map, self._tensor_keys.action)
        found["loss_entropy"] = self._loss_of(loss, steps.data, steps.masks)
        return found

    def _critic_terms(self, steps: _Steps) -> dict[str, Any]:
        loss, clipped, variance = self.loss_critic(steps.data)
        found = {"loss_critic": self._loss_of(loss, steps.data, steps.masks)}
        if clipped is not None:
            found["value_clip_fraction"] = clipped
        if variance is not None:
            found["explained_variance"] = variance
        return found

    def loss_critic(self, tensordict: TensorDictBase) -> tuple[Any, ...]:
        """The critic's loss of a batch that has targets of values.

        Returns:
            How far its values are from their targets, not reduced; how many of them were clipped, or None; how much of
            the targets' variance they explain, or None.
        """
        loss, clipped, both = self._critic_loss(tensordict)
        return loss, clipped, explained_variance(*both) if self.log_explained_variance else None


class ClipPPOLoss(PPOLoss):
    """Proximal policy optimization by clipped ratios (Schulman et al., 2017, arXiv:1707.06347, equation 7).

    A step earns nothing by a ratio of probabilities further from 1 than `clip_epsilon`.

    Args:
        actor_network: has `get_dist`, such as `ProbabilisticActor`.
        critic_network: writes "state_value", `(*batch, 1)`; None where advantages come with the batch and no critic is
            trained.
        clip_epsilon: by how much ratios may fall and rise; or two numbers, by how much they may fall (< 1) and by how
            much rise (Yu et al., 2025, arXiv:2503.14476, equation 10).
        entropy_bonus, samples_mc_entropy, entropy_coeff, critic_coeff, loss_critic_type, normalize_advantage,
            normalize_advantage_exclude_dims, advantage_norm, gamma, separate_losses, reduction, delay_actor,
            max_importance_ratio, device: see `PPOLoss`.
        clip_value: as in `PPOLoss`; True for `clip_epsilon`.
        **kwargs: of `PPOLoss`.

    Returns of `forward`:
        What `PPOLoss` returns, and, without gradients, "clip_fraction", "max_ratio", "mean_ratio", and "ESS", which is
        the effective share of steps along the batch's first dimension: 1 if all ratios are one.

    Raises:
        ValueError: `clip_epsilon` is out of range, or has two numbers when `clip_value=True`.
    """

    _schedulable_buffers: ClassVar[frozenset[str]] = frozenset(
        {"clip_epsilon", "clip_epsilon_low", "clip_epsilon_high"}
    )

    def __init__(
        self, actor_network: Any = None, critic_network: Any = None, *,
        clip_epsilon: float | tuple[float, float] = 0.2, entropy_bonus: bool = True, samples_mc_entropy: int = 1,
        entropy_coeff: float | Mapping[Any, float] | None = None, critic_coeff: float | None = None,
        loss_critic_type: str = "smooth_l1", normalize_advantage: bool = False,
        normalize_advantage_exclude_dims: tuple[int, ...] = (), advantage_norm: Any = None,
        gamma: float | None = None, separate_losses: bool = False, reduction: str | None = None,
        clip_value: bool | float | None = None, delay_actor: bool = False,
        max_importance_ratio: float | None = None, device: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        two = isinstance(clip_epsilon, tuple | list)
        low, high = _validate_clip_epsilon(clip_epsilon)
        if clip_value is True and two:
            raise ValueError("clip_value=True takes clip_epsilon, but there are two; say clip_value as a number.")
        if isinstance(clip_value, bool):
            clip_value = high if clip_value else None
        super().__init__(
            actor_network, critic_network, entropy_bonus=entropy_bonus, samples_mc_entropy=samples_mc_entropy,
            entropy_coeff=entropy_coeff, critic_coeff=critic_coeff, loss_critic_type=loss_critic_type,
            normalize_advantage=normalize_advantage,
            normalize_advantage_exclude_dims=normalize_advantage_exclude_dims, advantage_norm=advantage_norm,
            gamma=gamma, separate_losses=separate_losses, reduction=reduction, clip_value=clip_value,
            delay_actor=delay_actor, max_importance_ratio=max_importance_ratio, device=device, **kwargs,
        )  # fmt: skip
        self._clips_apart = two
        for name, epsilon in {"_low": low, "_high": high}.items() if two else {"": high}.items():
            self.register_coeff_buffer(f"clip_epsilon{name}", epsilon, device=device)

    def _written(self) -> list[str]:
        diagnostics = ["ESS", "kl_approx", "max_ratio", "mean_ratio"]
        return ["loss_objective", "clip_fraction", *self._other_out_keys(), *diagnostics]

    def _clip_bounds(self) -> tuple[Tensor, Tensor]:
        """The least and the largest ratio."""
        if self._clips_apart:
            return 1 - self.clip_epsilon_low, 1 + self.clip_epsilon_high
        return 1 - self.clip_epsilon, 1 + self.clip_epsilon

    def _objective(self, steps: _Steps) -> dict[str, Any]:
        gain, is_clipped = steps.ratios.clipped_gain(steps.advantage, *self._clip_bounds())
        fraction = is_clipped.to(gain.dtype).mean()
        return {"loss_objective": self._loss_of(-gain, steps.data, steps.masks), "clip_fraction": fraction}

    def _diagnostics(self, ratios: Ratios) -> dict[str, Tensor]:
        ratio = ratios.weight.detach()
        return {
            "ESS": effective_share(ratios.log_weight.detach()),
            "max_ratio": ratio.max(),
            "mean_ratio": ratio.mean(),
        }


class KLPENPPOLoss(PPOLoss):
    """Proximal policy optimization by a penalty (Schulman et al., 2017, arXiv:1707.06347, section 4).

    The divergence of the actor's policy from the one that acted, whose parameters (such as "loc" and "scale") are in
    the batch, counts by `beta`, which follows it from call to call: it grows where the mean divergence is over 1.5
    times the target, and falls where the target is over 1.5 times that.

    Args:
        actor_network: has `get_dist` and `build_dist_from_params`, such as `ProbabilisticActor`.
        critic_network: writes "state_value", `(*batch, 1)`; None where advantages come with the batch and no critic is
            trained.
        dtarg: target of the divergence, > 0.
        beta: how much it counts at first.
        increment: by what beta is multiplied, >= 1.
        decrement: by what it is multiplied, <= 1.
        samples_mc_kl: how many actions estimate it where there is no formula for it.
        entropy_bonus, samples_mc_entropy, entropy_coeff, critic_coeff, loss_critic_type, normalize_advantage,
            normalize_advantage_exclude_dims, advantage_norm, gamma, separate_losses, reduction, clip_value,
            delay_actor, max_importance_ratio, device: see `PPOLoss`.
        **kwargs: of `PPOLoss`.

    Returns of `forward`:
        What `PPOLoss` returns, and without gradients "kl", (*batch, 1).

    Raises:
        ValueError: `increment` or `decrement` is out of range.
    """

    _schedulable_buffers: ClassVar[frozenset[str]] = frozenset({"beta"})
    beta: Tensor

    def __init__(
        self, actor_network: Any = None, critic_network: Any = None, *, dtarg: float = 0.01, beta: float = 1.0,
        increment: float = 2, decrement: float = 0.5, samples_mc_kl: int = 1, entropy_bonus: bool = True,
        samples_mc_entropy: int = 1, entropy_coeff: float | Mapping[Any, float] | None = None,
        critic_coeff: float | None = None, loss_critic_type: str = "smooth_l1", normalize_advantage: bool = False,
        normalize_advantage_exclude_dims: tuple[int, ...] = (), advantage_norm: Any = None,
        gamma: float | None = None, separate_losses: bool = False, reduction: str | None = None,
        clip_value: float | None = None, delay_actor: bool = False, max_importance_ratio: float | None = None,
        device: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            actor_network, critic_network, entropy_bonus=entropy_bonus, samples_mc_entropy=samples_mc_entropy,
            entropy_coeff=entropy_coeff, critic_coeff=critic_coeff, loss_critic_type=loss_critic_type,
            normalize_advantage=normalize_advantage,
            normalize_advantage_exclude_dims=normalize_advantage_exclude_dims, advantage_norm=advantage_norm,
            gamma=gamma, separate_losses=separate_losses, reduction=reduction, clip_value=clip_value,
            delay_actor=delay_actor, max_importance_ratio=max_importance_ratio, device=device, **kwargs,
        )  # fmt: skip
        if increment < 1:
            raise ValueError(f"increment is {increment}, expected a number >= 1.")
        if decrement > 1:
            raise ValueError(f"decrement is {decrement}, expected a number <= 1.")
        self.dtarg, self.increment, self.decrement, self.samples_mc_kl = dtarg, increment, decrement, samples_mc_kl
        self._first_beta = beta
        self.register_coeff_buffer("beta", beta, device=device)

    def _further_keys(self) -> list[Any]:
        return each_once(super()._further_keys(), self._keys_of_policy())

    def _written(self) -> list[str]:
        return ["loss_objective", "kl", *self._other_out_keys()]

    def reset(self) -> None:
        """Let the penalty count as much as at first."""
        self.beta.fill_(self._first_beta)

    def _keys_of_policy(self) -> list[Any]:
        """Where the parameters of the policy that acted are."""
        keys: list[Any] = list(self.actor_network[-1].in_keys)
        return keys

    def _policies(self, tensordict: TensorDictBase) -> tuple[Any, Any, Ratios]:
        former = self._former_policy(tensordict)  # before the actor writes its own parameters in their place
        return former, *super()._policies(tensordict)[1:]

    def _objective(self, steps: _Steps) -> dict[str, Any]:
        kl = divergence(steps.former, steps.policy, self.samples_mc_kl).unsqueeze(-1)
        now, following = self.beta.clone(), self._following_beta(kl.detach().mean())
        # Upstream: the loss has the penalty of this call, its gradient that of the next.
        penalty = following * kl + (now - following) * kl.detach()
        self.beta.copy_(following)
        loss = self._loss_of(penalty - steps.ratios.weight * steps.advantage, steps.data, steps.masks)
        return {"loss_objective": loss, "kl": kl.detach()}

    def _former_policy(self, tensordict: TensorDictBase) -> Any:
        if self.delay_actor:
            with torch.no_grad():
                return self._target_policy(tensordict)
        for key in self._keys_of_policy():
            self._entry(tensordict, key)
        return self.actor_network.build_dist_from_params(tensordict)

    def _following_beta(self, kl: Tensor) -> Tensor:
        """The penalty after a divergence was measured; on the device, without waiting for it."""
        change = torch.where(kl > self.dtarg * 1.5, self.increment, 1.0)
        return self.beta * torch.where(kl < self.dtarg / 1.5, self.decrement, change)
