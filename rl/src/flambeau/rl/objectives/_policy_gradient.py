"""What losses on a policy's own steps share: an actor, a critic, and advantages that are there or are estimated."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import CompositeDistribution, composite_lp_aggregate
from flambeau.rl.objectives._keys import after, each_once
from flambeau.rl.objectives._reductions import (
    _clip_value_loss,
    _sum_td_features,
    _valid_value_target_rows,
    distance_loss,
)
from flambeau.rl.objectives._sharding import forwarded, is_sharded, policy_parameters, written_by
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.utils import ValueEstimators

__all__ = ["PolicyGradientLoss"]


class PolicyGradientLoss(LossModule):
    """The base of losses that weigh what was done by its advantage, and train a critic beside the actor.

    Attributes:
        actor_network: the policy, which has `get_dist`.
        critic_network: writes the values of states; None where there is none.
        separate_losses: what both networks share is trained by the actor's loss alone.
        loss_critic_type: "l1", "l2" or "smooth_l1".
        clip_value: how far the critic's values may move from those in the batch; None for as far as they like.
        advantage_norm: by whose scale advantages are divided, or None.
    """

    @dataclass
    class _AcceptedKeys:
        advantage: Any = "advantage"
        value_target: Any = "value_target"
        value: Any = "state_value"
        sample_log_prob: Any = None
        action: Any = "action"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"

        def __post_init__(self) -> None:
            if self.sample_log_prob is None:
                self.sample_log_prob = "sample_log_prob" if composite_lp_aggregate(nowarn=True) else "action_log_prob"

    default_keys = _AcceptedKeys
    default_value_estimator = ValueEstimators.GAE
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[Any, ...]] = tuple(ValueEstimators)
    use_prioritized_weights = False
    _value_estimator_default_keys = (
        "advantage", "value_target", "value", "reward", "done", "terminated", "sample_log_prob",
    )  # fmt: skip

    actor_network: Any
    critic_network: Any
    target_actor_network_params: Any
    critic_coeff: Any
    clip_value: Any
    advantage_norm: Any
    separate_losses: bool
    loss_critic_type: str

    # --- set up

    def _set_networks(
        self, actor: Any, critic: Any, *, functional: bool, separate_losses: bool, delay_actor: bool = False,
        delay_value: bool = False,
    ) -> None:  # fmt: skip
        """Keep the networks: apart from their parameters, or, if not `functional`, as submodules."""
        self._functional, self.separate_losses = functional, separate_losses
        if functional:
            self.convert_to_functional(actor, "actor_network", create_target_params=delay_actor)
        else:
            self.actor_network = actor
            self.actor_network_params = self.target_actor_network_params = None
        if functional and critic is not None:
            shared = list(actor.parameters()) if separate_losses else None
            self.convert_to_functional(
                critic, "critic_network", create_target_params=delay_value, compare_against=shared
            )
        else:
            self.critic_network = critic
            self.critic_network_params = self.target_critic_network_params = None

    def _given_networks(self, actor: Any, critic: Any, needs_critic: bool) -> None:
        missing = "actor_network" if actor is None else "critic_network" if critic is None and needs_critic else None
        if missing is not None:
            raise TypeError(f"{type(self).__name__} needs an argument {missing!r}, which is missing.")

    def _refuse_former_names(self, given: dict[str, Any]) -> None:
        for name in ("entropy_coef", "critic_coef"):
            if name in given:
                raise TypeError(f"{type(self).__name__} takes no {name!r}; it is called {name + 'f'!r}.")
        if given:
            raise TypeError(f"{type(self).__name__} takes no argument {sorted(given)[0]!r}.")

    def _refuse_discount(self, gamma: float | None) -> None:
        if gamma is not None:
            raise TypeError(
                f"The discount is an argument of the value estimator: call make_value_estimator(gamma={gamma}) instead."
            )

    def _set_reduction(self, reduction: str | None) -> None:
        self.reduction = "mean" if reduction is None else reduction

    def _set_clip_value(self, clip_value: Any, device: Any = None) -> None:
        """Keep how far values may move, a number."""
        number = isinstance(clip_value, Tensor) and clip_value.numel() == 1
        if not (clip_value is None or number or (isinstance(clip_value, float | int) and clip_value is not True)):
            raise ValueError(
                f"clip_value is {clip_value!r}, expected a number: how far values may move from the former."
            )
        self.register_coeff_buffer("clip_value", None if clip_value is None else clip_value, device=device)

    def _set_keys_of_actor(self) -> None:
        """Look for actions and their log-probabilities where the actor writes them."""
        actor = self.actor_network
        if not hasattr(actor, "log_prob_keys"):
            self._refuse_actor(actor)
        names, scores = list(actor.dist_sample_keys), list(actor.log_prob_keys)
        one = len(scores) == 1
        self.set_keys(action=names[0] if one else names, sample_log_prob=scores[0] if one else scores)

    def _refuse_actor(self, actor: Any) -> None:
        raise NotImplementedError(
            f"{type(self).__name__} asks its actor for distributions of actions, of which {type(actor).__name__} has "
            "none: use a ProbabilisticActor or another ProbabilisticTensorDictSequential."
        )

    @property
    def functional(self) -> bool:
        """Whether parameters were taken out of the networks."""
        return self._functional

    # --- keys

    def _set_in_keys(self) -> None:
        """Say what is read: what is done, what the step brought, what the networks read before and after it."""
        keys, critic = self._tensor_keys, self.critic_network
        inputs = self.actor_network.in_keys
        signals = map(after, each_once(keys.reward, keys.done, keys.terminated))
        values = critic.in_keys if critic is not None else []
        self.in_keys = each_once(keys.action, signals, inputs, map(after, inputs), values, self._further_keys())

    def _further_keys(self) -> list[Any]:
        """What is read besides."""
        return []

    def _estimator_keys(self) -> dict[str, Any]:
        return {name: key for name, key in super()._estimator_keys().items() if not isinstance(key, list)}

    # --- networks

    def _holding(self, name: str) -> AbstractContextManager[Any]:
        """A context in which a network has the parameters of this loss."""
        if not self._functional:
            return nullcontext()
        network, params = getattr(self, name), getattr(self, f"{name}_params")
        return params.to_module(network)  # type: ignore[no-any-return]

    def _policy(self, tensordict: TensorDictBase) -> Any:
        """The distribution of actions in the batch's states; what the actor works out on the way is written."""
        actor = self.actor_network
        if not hasattr(actor, "get_dist"):
            self._refuse_actor(actor)
        if is_sharded(actor):
            tensordict.update(forwarded(actor, policy_parameters)(tensordict))
            return actor.build_dist_from_params(tensordict)
        with self._holding("actor_network"):
            return actor.get_dist(tensordict)

    def _log_prob(self, dist: Any, tensordict: TensorDictBase) -> Tensor:
        """The log-probability of what was done, `batch`; of several heads all together."""
        key = self._tensor_keys.action
        action = None if isinstance(key, list) else tensordict.get(key, None)
        several = isinstance(dist, CompositeDistribution)
        if isinstance(action, Tensor) and not several:
            if action.requires_grad:
                raise RuntimeError(f"The entry {key!r} requires gradients; actions are data: detach them.")
            found = dist.log_prob(action)
        else:
            if not isinstance(key, list) and not several:
                self._entry(tensordict, key)
            found = dist.log_prob(tensordict)
        return found if isinstance(found, Tensor) else _sum_td_features(found)

    def _entry(self, tensordict: TensorDictBase, key: Any) -> Any:
        found = tensordict.get(key, None)
        if found is None:
            present = sorted(map(str, tensordict.keys(True, True)))
            raise KeyError(
                f"{type(self).__name__} reads {key!r}, which is missing; set_keys renames it. There are {present}."
            )
        return found

    # --- advantages

    def _estimated_network(self) -> Any:
        return self.critic_network

    def _make_known_estimator(self, value_type: Any, hyperparams: dict[str, Any]) -> None:
        from flambeau.rl.objectives.value.advantages import VTrace

        if value_type in (ValueEstimators.VTrace, "vtrace"):
            hyperparams = {"actor_network": VTrace.actor_of(self), **hyperparams}
        super()._make_known_estimator(value_type, hyperparams)

    def _advantage(self, tensordict: TensorDictBase) -> Tensor:
        """The advantage, estimated and written where the batch has none."""
        key = self._tensor_keys.advantage
        advantage = tensordict.get(key, None)
        if advantage is None:
            self._estimate(tensordict)
            advantage = self._entry(tensordict, key)
        if self.advantage_norm is not None:
            advantage = advantage / self.advantage_norm.scale()
        return advantage  # type: ignore[no-any-return]

    def _estimate(self, tensordict: TensorDictBase) -> None:
        if self.critic_network is None:
            raise KeyError(
                f"{type(self).__name__} has no critic to estimate advantages with, and the batch has no entry "
                f"{self._tensor_keys.advantage!r}; write one, or pass a critic_network."
            )
        if self._functional:
            now, later = self._fixed("critic_network"), self.target_critic_network_params
            self.value_estimator(tensordict, params=now, target_params=later)
        else:
            self.value_estimator(tensordict)
        if self.advantage_norm is not None and self.training:
            self.advantage_norm.update(self._rows_that_count(tensordict))

    def _rows_that_count(self, tensordict: TensorDictBase) -> Tensor:
        """The targets of values of those steps that no mask leaves out."""
        target = self._entry(tensordict, self._tensor_keys.value_target)
        return _valid_value_target_rows(target, tensordict, self._loss_mask_keys())

    # --- the critic

    def _critic_loss(self, tensordict: TensorDictBase) -> tuple[Any, Tensor | None, tuple[Any, Any]]:
        """How far values are from their targets, not reduced; how often they were clipped; and both, values first."""
        keys, critic = self._tensor_keys, self.critic_network
        target = self._entry(tensordict, keys.value_target)
        former = None if self.clip_value is None else self._entry(tensordict, keys.value)
        inputs = tensordict.detach() if self.separate_losses else tensordict.copy()
        before = inputs.get(keys.value, None)
        with self._holding("critic_network"):
            if is_sharded(critic):
                value = forwarded(critic, written_by)(inputs).get(keys.value)
            else:
                value = critic(inputs).get(keys.value, None)
        if value is None or value is before:
            raise KeyError(
                f"{type(self).__name__} asks its critic for {keys.value!r}, which it does not write: its out_keys are "
                f"{critic.out_keys}. Rename one of them, or tell the loss by set_keys."
            )
        value, target, former = self._scaled(tensordict, value, target, former)
        loss, clipped = distance_loss(target, value, loss_function=self.loss_critic_type), None
        if former is not None:
            loss, clipped = _clip_value_loss(former, value, self.clip_value, target, loss, self.loss_critic_type)
        if self.critic_coeff is not None:
            loss = loss * self.critic_coeff
        return loss, clipped, (value, target)

    def _scaled(self, tensordict: TensorDictBase, value: Any, target: Any, former: Any) -> tuple[Any, Any, Any]:
        """Values, targets and former values on the scale on which they are compared."""
        return value, target, former

    # --- losses

    def _check_advantage(self, advantage: Tensor, weight: Tensor) -> None:
        """Refuse to multiply every step's advantage with every other's weight."""
        if advantage.dim() != weight.dim() or advantage.shape[:-1] != weight.shape[:-1]:
            raise ValueError(
                f"The advantage has shape {tuple(advantage.shape)}, the log-probabilities of the steps have "
                f"{tuple(weight.shape[:-1])}: together they would make a table of all steps by all others. Give the "
                "advantage the shape (*batch, 1)."
            )

    def _terms(self, tensordict: TensorDictBase) -> dict[str, Any]:
        """The losses and what is told beside them, by name."""
        raise NotImplementedError(f"{type(self).__name__} has no losses.")

    def _results(self, tensordict: TensorDictBase) -> TensorDict:
        """What is returned: all terms, or what `select_out_keys` left of them."""
        found = self._terms(tensordict)
        names = self.out_keys
        if names is not self.out_keys_source:
            found = {name: found[name] for name in names if name in found}
        return TensorDict(found, [])

    def _loss_of(self, errors: Any, tensordict: TensorDictBase, masks: list[Tensor]) -> Tensor:
        """Errors of steps, with or without a last dimension of 1, as a loss."""
        errors = errors if isinstance(errors, Tensor) else _sum_td_features(errors)
        if errors.dim() > tensordict.ndim and (masks or self.reduction == "none"):
            errors = errors.squeeze(-1)
        return self._reduce_masked(errors, masks)
