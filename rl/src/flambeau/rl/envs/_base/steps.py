"""Steps and resets."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._base.specs import EnvSpecs
from flambeau.rl.envs._ends import complete_done, merged_reset, outer_ends, spread, terminated_or_truncated
from flambeau.rl.envs._keys import RESET, NestedKey, as_key, as_tuple, tree
from flambeau.rl.envs._step_mdp import moved_on


class EnvSteps(EnvSpecs):
    """How an environment moves on."""

    def __init__(
        self, device: Any, batch_size: Any, spec_locked: bool, run_type_checks: bool, allow_done_after_reset: bool
    ) -> None:
        super().__init__(device, batch_size, spec_locked)
        state = self.__dict__
        state["_run_type_checks"] = run_type_checks
        state["_allow_done_after_reset"] = allow_done_after_reset
        state["is_closed"] = True
        state["_auto_reset"] = False
        state["_first_observations"] = None

    @property
    def run_type_checks(self) -> bool:
        """Whether dtypes of what the env gives are checked in every step."""
        return bool(self.__dict__["_run_type_checks"])

    @run_type_checks.setter
    def run_type_checks(self, value: bool) -> None:
        self.__dict__["_run_type_checks"] = value

    # What an environment defines

    @abstractmethod
    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        """Begin new episodes; a mask at a reset key says where."""

    @abstractmethod
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What follows an action: observations, reward and ends, in a new tensordict."""

    def _set_seed(self, seed: int | None) -> None:
        """Set the seed of the environment's own random numbers."""
        raise NotImplementedError(f"{type(self).__name__} defines no `_set_seed`.")

    # Steps

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Take the action in a tensordict, and write what follows below its key "next".

        Args:
            tensordict: with actions, and with what else `input_spec` names; of the env's batch size.

        Returns:
            The same tensordict.

        Raises:
            RuntimeError: it has another batch size.
        """
        self._check_batch(tensordict)
        preset = tensordict.get("next", None)
        following = self._followed(tensordict)
        if preset is not None:
            following.update(preset.exclude(*following.keys(True, True)))
        tensordict.set("next", following)
        return tensordict

    def _followed(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What follows an action, complete."""
        following = self._completed(self._step(tensordict))
        if self._auto_reset:
            self._keep_first(following)
        return following

    def _keep_first(self, following: TensorDictBase) -> None:
        """Keep the first observations of new episodes until the reset, and blot them out here."""
        if not self._ended(following):
            return
        keys = self.observation_keys
        self.__dict__["_first_observations"] = following.select(*keys).clone()
        done = following.get(self._outer_ends()[0][0])
        for key in keys:
            value = following.get(key)
            if isinstance(value, torch.Tensor):
                following.set(
                    key, torch.where(spread(done, value), torch.full_like(value, _unknown(value.dtype)), value)
                )

    def _check_batch(self, tensordict: TensorDictBase) -> None:
        if tensordict.batch_size != self.batch_size and (self._batch_locked or self.batch_size):
            raise RuntimeError(
                f"{type(self).__name__} has the batch size {tuple(self.batch_size)}, the tensordict "
                f"{tuple(tensordict.batch_size)}; they must be the same."
            )

    def _completed(self, following: TensorDictBase) -> TensorDictBase:
        """Rewards in their shape, and all ends that the spec names."""
        # Specs of an env without a batch size say nothing of the batch that it is given.
        batch = torch.Size([]) if self.batch_size else following.batch_size
        for key, shape in self._reward_shapes():
            reward = following.get(key, None)
            if reward is not None:
                expected = torch.Size([*batch, *shape])
                if reward.shape != expected and -1 not in expected:
                    following.set(key, reward.reshape(expected))
        for key, shape in self._end_shapes():
            end = following.get(key, None)
            if end is None or end.shape != (*batch, *shape):
                complete_done(self.full_done_spec, following)
                break
        if self.run_type_checks:
            self._check_types(following)
        return following

    def _end_shapes(self) -> list[tuple[NestedKey, torch.Size]]:
        shapes: list[tuple[NestedKey, torch.Size]] = self._cached(
            "end_shapes", lambda: [(key, self.full_done_spec[key].shape) for key in self.done_keys]
        )
        return shapes

    def _outer_ends(self) -> list[list[NestedKey]]:
        """The groups of ends, "done" first, without those below others: an outer end decides for what is in it."""
        groups: list[list[NestedKey]] = self._cached("outer_ends", lambda: outer_ends(self.done_keys_groups))
        return groups

    def _ended(self, tensordict: TensorDictBase) -> bool:
        """Whether an episode ended anywhere."""
        return any(bool(tensordict.get(key).any()) for keys in self._outer_ends() for key in keys)

    def _reward_shapes(self) -> list[tuple[NestedKey, torch.Size]]:
        shapes: list[tuple[NestedKey, torch.Size]] = self._cached(
            "reward_shapes",
            lambda: [
                (key, self.full_reward_spec[key].shape)
                for key in self.reward_keys
                if type(self.full_reward_spec[key]).__name__ != "Stacked"
            ],
        )
        return shapes

    def _check_types(self, following: TensorDictBase) -> None:
        for name in ("full_observation_spec", "full_reward_spec", "full_done_spec"):
            for key, spec in self._full(name).items(True, True):
                value = following.get(key, None)
                if spec is not None and value is not None:
                    spec.type_check(value, key)

    def step_mdp(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        """The root of the next step, from what `step` returned: actions stay, rewards go.

        Args:
            next_tensordict: what `step` returned.
        """
        # Rewards that are part of the state stay: a next step reads them.
        excluded = self._cached(
            "step_mdp", lambda: tree(key for key in self.reward_keys if key not in set(self.state_keys))
        )
        return moved_on(next_tensordict, excluded)

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Take a step, and begin new episodes where it ended one.

        Args:
            tensordict: as in `step`.

        Returns:
            What `step` returned, and the root of the next step.
        """
        if self.device is not None and tensordict.device != self.device:
            tensordict = tensordict.to(self.device)
        tensordict = self.step(tensordict)
        return tensordict, self.maybe_reset(self.step_mdp(tensordict))

    def any_done(self, tensordict: TensorDictBase) -> Any:
        """Whether an episode ended anywhere; masks of where are written at the reset keys, if so.

        Args:
            tensordict: with ends at its root.
        """
        return terminated_or_truncated(tensordict, self.full_done_spec, RESET)

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Begin new episodes where a tensordict says that they ended.

        Args:
            tensordict: with ends at its root.
        """
        groups = self._outer_ends()
        if len(groups) == 1 and groups[0][0] == "done":
            # Upstream: where there is one end, it decides alone, even if a mark beside it says otherwise.
            done = tensordict.get("done")
            return self.reset(tensordict.set(RESET, done.clone())) if done.any() else tensordict
        if not self._ended(tensordict):
            return tensordict
        self.any_done(tensordict)
        return self.reset(tensordict)

    # Resets

    def reset(
        self, tensordict: TensorDictBase | None = None, *, set_state: bool | None = None, **kwargs: Any
    ) -> TensorDictBase:
        """Begin new episodes.

        Args:
            tensordict: state or parameters of the env; masks at the reset keys say where to begin anew, and what it
                holds of the rest stays as it is.
            set_state: begin in the state that the tensordict holds, for envs that can.
            kwargs: passed on to the env.

        Returns:
            A tensordict with observations and ends.

        Raises:
            RuntimeError: the env is done right after the reset, and was not told to allow this.
        """
        masks: dict[NestedKey, Any] = {}
        if tensordict is not None:
            self._check_batch(tensordict)
            masks = {key: mask for key in self.reset_keys if (mask := tensordict.get(key, None)) is not None}
            self._check_masks(masks)
            keys = self.observation_keys
            if (
                masks
                and not any(mask.any() for mask in masks.values())
                and set(keys) <= set(tensordict.keys(True, True))
            ):
                kept = tensordict.exclude(*self.reset_keys)
                complete_done(self.full_done_spec, kept)
                return kept
        if set_state is not None:
            kwargs["set_state"] = set_state
        fresh = self._begun(tensordict, **kwargs)
        if not self._allow_done_after_reset:
            self._check_not_done(fresh, masks)
        if tensordict is None:
            return fresh
        return merged_reset(fresh, tensordict, self.reset_keys)

    def _begun(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        """New episodes, complete; where not all begin anew, the others hold whatever the env wrote there."""
        masked = tensordict is not None and any(tensordict.get(key, None) is not None for key in self.reset_keys)
        if masked and (first := self.__dict__["_first_observations"]) is not None:
            fresh: TensorDictBase = first.copy()
        else:
            self.__dict__["_first_observations"] = None
            fresh = self._reset(tensordict, **kwargs)
        if fresh is tensordict:
            raise RuntimeError(f"{type(self).__name__}._reset must return a new tensordict, not the one it was given.")
        if not isinstance(fresh, TensorDictBase):
            raise RuntimeError(f"{type(self).__name__}._reset must return a tensordict, not {type(fresh).__name__}.")
        complete_done(self.full_done_spec, fresh)
        if self.run_type_checks:
            self._check_types(fresh)
        return fresh

    def _check_masks(self, masks: dict[NestedKey, Any]) -> None:
        for key, mask in masks.items():
            if mask.dtype is not torch.bool:
                raise ValueError(
                    f"The mask at {key!r} says what to reset, and must be of dtype bool; got {mask.dtype}."
                )

    def _check_not_done(self, fresh: TensorDictBase, masks: dict[NestedKey, Any]) -> None:
        for reset_key, keys in zip(self.reset_keys, self.done_keys_groups, strict=True):
            mask = masks.get(reset_key)
            if masks and mask is None:
                continue
            for key in keys:
                done = fresh.get(key, None)
                if done is None:
                    continue
                if mask is not None:
                    done = done & mask.reshape(done.shape) if mask.numel() == done.numel() else done[mask]
                if done.any():
                    raise RuntimeError(
                        f"{type(self).__name__} is done right after its reset, at {key!r}. If that is meant, give it "
                        "allow_done_after_reset=True."
                    )

    # Random actions

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write random actions into a tensordict.

        Args:
            tensordict: default: a new one.
        """
        size = self.batch_size
        if tensordict is None:
            tensordict = TensorDict({}, size, device=self.device)
        spec = self.full_action_spec
        if not self._batch_locked and not size:
            size = tensordict.batch_size
            return tensordict.update(spec.rand(size))
        return tensordict.update(spec.rand())

    def rand_step(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Take a random step.

        Args:
            tensordict: where the env is, for envs that need it.
        """
        return self.step(self.rand_action(tensordict))

    def all_actions(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """All actions, along a new first dimension.

        Args:
            tensordict: where the env is, for envs whose actions depend on it.
        """
        if tensordict is not None:
            self.reset(tensordict.clone())
        return self.full_action_spec.enumerate(use_mask=True)

    def cardinality(self, tensordict: TensorDictBase | None = None) -> int:
        """Number of actions.

        Args:
            tensordict: where the env is, for envs whose actions depend on it.
        """
        if tensordict is not None:
            self.reset(tensordict.clone())
        count: int = self.full_action_spec.cardinality()
        return count

    # Zeros

    def fake_tensordict(self) -> TensorDictBase:
        """A tensordict of zeros with all that a step has, by the specs."""
        state, action = self.full_state_spec, self.full_action_spec
        observation, reward, done = self.full_observation_spec, self.full_reward_spec, self.full_done_spec
        root = state.zero()
        for spec in (action, observation, done):
            root.update(spec.zero())
        following = self._following_state(state, observation).zero()
        for spec in (observation, reward, done):
            following.update(spec.zero())
        root.set("next", following)
        root.batch_size = self.batch_size
        return root if self.device is None else root.to(self.device)

    def _following_state(self, state: Composite, observation: Composite) -> Composite:
        """The part of the state that the env gives anew: what is among its observations, and what is static."""
        following = state.empty()
        for key in state.keys(True, True):
            if key in observation.keys(True, True) or _static(state, key):
                following[key] = state[key]
        return following


def _static(spec: Composite, key: NestedKey) -> bool:
    parts = as_tuple(key)
    return any(spec[as_key(parts[:at])].step_mdp_static for at in range(1, len(parts)))


def _unknown(dtype: torch.dtype) -> Any:
    """What stands for a value that is not known."""
    if dtype.is_floating_point:
        return float("nan")
    return -1 if dtype.is_signed else 0
