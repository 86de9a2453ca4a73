"""Advantage actor-critic."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._entropies import entropy_of, total
from flambeau.rl.objectives._policy_gradient import PolicyGradientLoss

__all__ = ["A2CLoss"]


class A2CLoss(PolicyGradientLoss):
    """Advantage actor-critic (Mnih et al., 2016, arXiv:1602.01783, section 4 and algorithm S3).

    The actor is trained to make likelier what had an advantage and to stay random, the critic to meet the returns.

    Args:
        actor_network: has `get_dist`, such as `ProbabilisticActor`.
        critic_network: writes "state_value", `(*batch, 1)`.
        entropy_bonus: reward the actor's entropy.
        samples_mc_entropy: how many actions estimate it where the distribution has no formula for it.
        entropy_coeff: how much it counts; 0.01 by default.
        critic_coeff: how much the critic's loss counts; None for no such loss.
        loss_critic_type: "l1", "l2" or "smooth_l1".
        advantage_norm: divide advantages by this norm's scale. It learns from the targets that this loss estimates
            in training, not from those that come with the batch.
        gamma: use `make_value_estimator(gamma=...)`.
        separate_losses: what both networks share is trained by the actor's loss alone.
        advantage_key: use `set_keys(advantage=...)`.
        value_target_key: use `set_keys(value_target=...)`.
        functional: take the parameters out of the networks; otherwise these are submodules, as DDP and FSDP need them.
        actor: the former name of `actor_network`.
        critic: the former name of `critic_network`.
        reduction: "mean", "sum" or "none".
        clip_value: how far the critic's values may move from "state_value" in the batch.
        **kwargs: none.

    Returns of `forward`:
        "loss_objective"; "loss_critic" unless there is no `critic_coeff`; with `entropy_bonus` "loss_entropy" and,
        without gradients, "entropy" (its mean), and of several heads "composite_entropy"; with `clip_value`
        "value_clip_fraction". The advantage is estimated where the batch has none.

    Raises:
        TypeError: a network is missing, or an argument is none of these.
        RuntimeError: a key is given.
        ValueError: a coefficient is no number.

    Example:
        >>> from torch import nn
        >>> from flambeau.data.tensordict.nn import NormalParamExtractor, TensorDictModule
        >>> from flambeau.rl.modules import IndependentNormal, ProbabilisticActor, ValueOperator
        >>> layers = nn.Sequential(nn.Linear(4, 2), NormalParamExtractor())
        >>> normal = TensorDictModule(layers, ["observation"], ["loc", "scale"])
        >>> actor = ProbabilisticActor(normal, ["loc", "scale"], distribution_class=IndependentNormal)
        >>> A2CLoss(actor, ValueOperator(nn.Linear(4, 1), ["observation"])).out_keys
        ['loss_objective', 'loss_critic', 'entropy', 'loss_entropy']
    """

    _schedulable_buffers: ClassVar[frozenset[str]] = frozenset({"entropy_coeff", "critic_coeff", "clip_value"})
    entropy_coeff: Tensor

    def __init__(
        self, actor_network: Any = None, critic_network: Any = None, *, entropy_bonus: bool = True,
        samples_mc_entropy: int = 1, entropy_coeff: float | None = None, critic_coeff: float | None = 1.0,
        loss_critic_type: str = "smooth_l1", advantage_norm: Any = None, gamma: float | None = None,
        separate_losses: bool = False, advantage_key: str | None = None, value_target_key: str | None = None,
        functional: bool = True, actor: Any = None, critic: Any = None, reduction: str | None = None,
        clip_value: float | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self._refuse_former_names(kwargs)
        actor_network = actor if actor_network is None else actor_network
        critic_network = critic if critic_network is None else critic_network
        self._given_networks(actor_network, critic_network, needs_critic=True)
        self._refuse_discount(gamma)
        self._set_deprecated_ctor_keys(advantage=advantage_key, value_target=value_target_key)
        self._set_reduction(reduction)
        self.samples_mc_entropy = samples_mc_entropy
        self.loss_critic_type, self.advantage_norm = loss_critic_type, advantage_norm
        self._set_networks(actor_network, critic_network, functional=functional, separate_losses=separate_losses)
        self._set_keys_of_actor()
        entropy_coeff = 0.01 if entropy_coeff is None else entropy_coeff
        if not isinstance(entropy_coeff, float | int | Tensor):
            raise ValueError(f"entropy_coeff is {entropy_coeff!r}, expected one number.")
        self.entropy_bonus = entropy_bonus and bool(entropy_coeff)
        self.register_coeff_buffer("entropy_coeff", entropy_coeff)
        self.register_coeff_buffer("critic_coeff", critic_coeff)
        self._set_clip_value(clip_value)
        critic_keys = [] if critic_coeff is None else ["loss_critic"]
        self.out_keys = ["loss_objective", *critic_keys, *(("entropy", "loss_entropy") if self.entropy_bonus else ())]

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        return self._results(tensordict)

    def _terms(self, tensordict: TensorDictBase) -> dict[str, Any]:
        tensordict = tensordict.copy()
        advantage = self._advantage(tensordict)
        dist, masks = self._policy(tensordict), self._loss_masks(tensordict)
        log_prob = self._log_prob(dist, tensordict).unsqueeze(-1)
        self._check_advantage(advantage, log_prob)
        found = {"loss_objective": self._loss_of(-log_prob * advantage, tensordict, masks)}
        if self.entropy_bonus:
            entropy = self.get_entropy_bonus(dist)
            if not isinstance(entropy, Tensor):
                found["composite_entropy"] = entropy.detach()
            found["entropy"] = total(entropy).detach().mean()
            found["loss_entropy"] = self._loss_of(total(entropy) * -self.entropy_coeff, tensordict, masks)
        if self.critic_coeff is not None:
            loss, clipped = self.loss_critic(tensordict)
            found["loss_critic"] = self._loss_of(loss, tensordict, masks)
            if clipped is not None:
                found["value_clip_fraction"] = clipped
        return found

    def loss_critic(self, tensordict: TensorDictBase) -> tuple[Any, Tensor | None]:
        """How far the critic's values are from their targets, not reduced, and how many of them were clipped."""
        loss, clipped, _ = self._critic_loss(tensordict)
        return loss, clipped

    def get_entropy_bonus(self, dist: Any) -> Any:
        """The entropy of each element, (*batch, 1), of several heads a tensordict of them."""
        return entropy_of(dist, self.samples_mc_entropy)
