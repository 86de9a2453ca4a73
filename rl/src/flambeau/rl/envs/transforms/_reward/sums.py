"""What rewards add up to: in an episode so far, to a target, or until its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Composite, TensorSpec, Unbounded
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey, as_tuple, with_last
from flambeau.rl.envs.transforms._base.specs import set_like
from flambeau.rl.envs.transforms._base.transform import Transform, key_list
from flambeau.rl.envs.transforms._reset_keys import mask_key_of, outer_reset_keys
from flambeau.rl.ops.recursion import discounted_sum

__all__ = ["Reward2GoTransform", "RewardSum", "TargetReturn"]


class RewardSum(Transform):
    """The sum of an episode's rewards so far.

    Args:
        in_keys: of rewards; default: all of the environment's.
        out_keys: of the sums; default: the keys with "episode_" before their last part.
        reset_keys: of the masks that say where a sum begins anew, one for each reward; default: those of the
            environment that are at the reward's place, or outside it.
        reward_spec: count the sums as rewards, which do not come with the next step's root; default: as observations.

    Example:
        >>> from flambeau.rl.envs import PendulumEnv
        >>> from flambeau.rl.envs.transforms import TransformedEnv
        >>> steps = TransformedEnv(PendulumEnv(), RewardSum()).rollout(3)["next"]
        >>> bool(torch.isclose(steps["episode_reward"][-1], steps["reward"].sum()))
        True
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        reset_keys: Sequence[NestedKey] | None = None,
        *,
        reward_spec: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if in_keys is not None and out_keys is not None and len(self.in_keys) != len(self.out_keys):
            raise ValueError(
                f"RewardSum needs as many out_keys as in_keys; got {len(self.out_keys)} for {len(self.in_keys)}."
            )
        self.__dict__["_reset_keys"] = key_list(reset_keys)
        self._reward_spec = reward_spec

    @property
    def in_keys(self) -> list[NestedKey]:
        """Keys of rewards."""
        keys: list[NestedKey] | None = self.__dict__["_in_keys"]
        if keys is None:
            parent = self.parent
            return ["reward"] if parent is None else parent.reward_keys
        return keys

    @in_keys.setter
    def in_keys(self, value: Any) -> None:
        self.__dict__["_in_keys"] = key_list(value)

    @property
    def out_keys(self) -> list[NestedKey]:
        """Keys of the sums."""
        keys: list[NestedKey] | None = self.__dict__["_out_keys"]
        if keys is None:
            return [with_last(key, f"episode_{as_tuple(key)[-1]}") for key in self.in_keys]
        return keys

    @out_keys.setter
    def out_keys(self, value: Any) -> None:
        self.__dict__["_out_keys"] = key_list(value)

    @property
    def reset_keys(self) -> list[NestedKey]:
        """Keys of the masks that say where each sum begins anew."""
        keys: list[NestedKey] | None = self.__dict__["_reset_keys"]
        if keys is None:
            parent = self.parent
            if parent is None:
                return ["_reset"] * len(self.in_keys)
            known = outer_reset_keys(parent)
            keys = [mask_key_of(key, known, type(self).__name__) for key in self.in_keys]
            self.__dict__["_reset_keys"] = keys
        elif len(keys) != len(self.in_keys):
            raise ValueError(
                f"RewardSum needs as many reset_keys as rewards; got {keys} for the rewards {self.in_keys}."
            )
        return keys

    def _triples(self) -> Any:
        return zip(self.in_keys, self.out_keys, self.reset_keys, strict=True)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        rewards = self.parent.full_reward_spec
        for in_key, out_key, reset_key in self._triples():
            zeros = rewards[in_key].zero(_extra(tensordict_reset, rewards))
            mask = tensordict.get(reset_key, None)
            old = None if mask is None else tensordict.get(out_key, None)
            if old is not None and not mask.all():
                zeros = torch.where(spread(mask, old), zeros, old)
            tensordict_reset.set(out_key, zeros)
        return tensordict_reset

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        for in_key, out_key in self._pairs():
            reward = next_tensordict.get(in_key, None)
            if reward is None:
                if self.missing_tolerance:
                    continue
                raise self._missing(in_key, next_tensordict)
            before = tensordict.get(out_key, None)
            next_tensordict.set(out_key, reward if before is None else before + reward)
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Add up the rewards of steps along the dimension named "time".

        Args:
            tensordict: of steps of one trajectory, or of several along other dimensions.

        Raises:
            ValueError: no dimension has the name "time".
        """
        names = tensordict.names or []
        if "time" not in names:
            raise ValueError(
                f"RewardSum adds up along the dimension named 'time'; the tensordict's names are {names}. "
                "tensordict.refine_names(..., 'time') gives one."
            )
        dim = names.index("time")
        for in_key, out_key in self._pairs():
            reward = tensordict.get(in_key, None)
            if reward is None:
                if self.missing_tolerance:
                    continue
                raise self._missing(in_key, tensordict)
            tensordict.set(out_key, reward.cumsum(dim))
        return tensordict

    def _with_sums(self, spec: Any, rewards: Any) -> Any:
        for in_key, out_key in self._pairs():
            reward = rewards[in_key]
            set_like(spec, out_key, Unbounded(reward.shape, dtype=reward.dtype, device=reward.device), rewards)
        return spec

    def transform_input_spec(self, input_spec: TensorSpec) -> TensorSpec:
        """The sums are part of the state.

        Args:
            input_spec: a composite.
        """
        input_spec["full_state_spec"] = self._with_sums(  # type: ignore[index]
            input_spec["full_state_spec"],
            self.parent.full_reward_spec,
        )
        return input_spec

    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """The sums are rewards, if they were asked for as such.

        Args:
            reward_spec: a composite.
        """
        return self._with_sums(reward_spec, reward_spec) if self._reward_spec else reward_spec

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """The sums are observations, unless they are rewards.

        Args:
            observation_spec: a composite.

        Raises:
            ValueError: it is no composite.
        """
        if self._reward_spec:
            return observation_spec
        if not isinstance(observation_spec, Composite):
            raise ValueError(f"RewardSum needs a composite of observations; got {type(observation_spec).__name__}.")
        return self._with_sums(observation_spec, self.parent.full_reward_spec)  # type: ignore[no-any-return]


def _extra(tensordict: Any, spec: Any) -> torch.Size:
    """The batch size of an environment that is not locked to one."""
    return tensordict.batch_size if not spec.shape and tensordict.batch_size else torch.Size(())


class TargetReturn(Transform):
    """The return that is still to be reached: a target minus the rewards so far.

    Args:
        target_return: what an episode's rewards are to add up to.
        mode: "reduce" subtracts rewards, "constant" does not.
        in_keys: of rewards; default: all of the environment's.
        out_keys: of the targets; default: the keys with "target_return" in the place of their last part.
        reset_key: of the mask that says where the target is set anew; default: the environment's, if it has one.

    Raises:
        ValueError: another mode.

    References:
        L. Chen et al., Decision Transformer, arXiv:2106.01345, section 3.
    """

    MODES = ("reduce", "constant")
    MODE_ERR = "The mode of a TargetReturn is 'reduce' or 'constant'."

    def __init__(
        self,
        target_return: float,
        mode: str = "reduce",
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        reset_key: NestedKey | None = None,
    ) -> None:
        if mode not in self.MODES:
            raise ValueError(f"{self.MODE_ERR} Got {mode!r}.")
        super().__init__(in_keys, out_keys)
        self.target_return = target_return
        self.mode = mode
        self.__dict__["_reset_key"] = reset_key

    @property
    def in_keys(self) -> list[NestedKey]:
        """Keys of rewards."""
        keys: list[NestedKey] | None = self.__dict__["_in_keys"]
        if keys is None:
            parent = self.parent
            return ["reward"] if parent is None else parent.reward_keys
        return keys

    @in_keys.setter
    def in_keys(self, value: Any) -> None:
        self.__dict__["_in_keys"] = key_list(value)

    @property
    def out_keys(self) -> list[NestedKey]:
        """Keys of the targets."""
        keys: list[NestedKey] | None = self.__dict__["_out_keys"]
        return [with_last(key, "target_return") for key in self.in_keys] if keys is None else keys

    @out_keys.setter
    def out_keys(self, value: Any) -> None:
        self.__dict__["_out_keys"] = key_list(value)

    @property
    def reset_key(self) -> NestedKey:
        """Key of the mask that says where the target is set anew.

        Raises:
            RuntimeError: the environment has several; one must be chosen.
        """
        key: NestedKey | None = self.__dict__["_reset_key"]
        if key is None:
            known = outer_reset_keys(self.parent) if self.parent is not None else ["_reset"]
            if len(known) > 1:
                raise RuntimeError(f"The environment has several reset keys, {known}; choose one by reset_key=.")
            return known[0]
        return key

    @reset_key.setter
    def reset_key(self, value: NestedKey | None) -> None:
        self.__dict__["_reset_key"] = value

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        rewards = self.parent.full_reward_spec
        mask = tensordict.get(self.reset_key, None)
        for in_key, out_key in self._pairs():
            target = rewards[in_key].zero(_extra(tensordict_reset, rewards)) + self.target_return
            old = None if mask is None else tensordict.get(out_key, None)
            if old is not None and not mask.all():
                target = torch.where(spread(mask, old), target, old)
            tensordict_reset.set(out_key, target)
        return tensordict_reset

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        for in_key, out_key in self._pairs():
            target = tensordict.get(out_key, None)
            if target is None:
                raise self._missing(out_key, tensordict)
            if self.mode == "reduce":
                target = target - next_tensordict.get(in_key)
            next_tensordict.set(out_key, target)
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Refused: a target needs resets and steps.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("TargetReturn works in environments only, where there are resets and steps.")

    def _with_targets(self, spec: Any) -> Any:
        for in_key, out_key in self._pairs():
            rewards = self.parent.full_reward_spec
            reward = rewards[in_key]
            set_like(spec, out_key, Unbounded(reward.shape, dtype=reward.dtype, device=reward.device), rewards)
        return spec

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """The targets are observations.

        Args:
            observation_spec: a composite.
        """
        return self._with_targets(observation_spec)  # type: ignore[no-any-return]

    def transform_input_spec(self, input_spec: TensorSpec) -> TensorSpec:
        """The targets are part of the state.

        Args:
            input_spec: a composite.
        """
        input_spec["full_state_spec"] = self._with_targets(input_spec["full_state_spec"])  # type: ignore[index]
        return input_spec


class Reward2GoTransform(Transform):
    """The discounted sum of the rewards from a step to the end of its trajectory, for data that go into a buffer.

    Args:
        gamma: the discount; a number, or a tensor of one.
        in_keys: of rewards; default: ("next", "reward").
        out_keys: of the sums; default: `in_keys`.
        done_key: of the ends, below "next" and elsewhere.

    Raises:
        ValueError: it is put into an environment.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> ends = torch.tensor([[False], [False], [True]])
        >>> steps = TensorDict({"next": {"reward": torch.ones(3, 1), "done": ends}}, [3])
        >>> Reward2GoTransform(gamma=0.5).inv(steps)["next", "reward"].flatten()
        tensor([1.7500, 1.5000, 1.0000])
    """

    ENV_ERR = "Reward2GoTransform needs whole trajectories: it is for data that go into a replay buffer."
    invertible = True

    def __init__(
        self,
        gamma: float | Tensor | None = 1.0,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        done_key: NestedKey | None = "done",
    ) -> None:
        in_keys = [("next", "reward")] if in_keys is None else in_keys
        out_keys = list(in_keys) if out_keys is None else out_keys
        # Rewards are read at the one and written at the other, both on their way in.
        super().__init__(in_keys, [], in_keys, out_keys)
        self.done_key = done_key
        self.gamma: Tensor
        self.register_buffer("gamma", torch.as_tensor(1.0 if gamma is None else gamma))

    def _inv_call(self, tensordict: Any) -> Any:
        done = self._done_of(tensordict)
        found = False
        for in_key, out_key in self._pairs_inv():
            reward = tensordict.get(in_key, None)
            if reward is None:
                continue
            found = True
            if not done.shape[-2:].numel() or done.shape != reward.shape:
                done = done.expand(reward.shape)
            tensordict.set(out_key, discounted_sum(reward, float(self.gamma) * ~done, -2))
        if not found:
            raise KeyError(
                f"Reward2GoTransform found none of {self.in_keys}; the tensordict's keys are "
                f"{list(tensordict.keys(True, True))}."
            )
        return tensordict

    def _done_of(self, tensordict: Any) -> Tensor:
        done = tensordict.get(("next", self.done_key), None)
        truncated = tensordict.get(("next", "truncated"), None)
        if done is None:
            raise KeyError(f"Reward2GoTransform reads the ends at {('next', self.done_key)!r}, which are not there.")
        out: Tensor = done if truncated is None else done | truncated
        return out

    def forward(self, tensordict: Any) -> Any:
        """The data as they are: they were transformed on their way in.

        Args:
            tensordict: any.
        """
        return tensordict

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of.

        Args:
            container: a `Compose` or a replay buffer.

        Raises:
            ValueError: an environment.
        """
        from flambeau.rl.envs.common import EnvBase

        owner = container.container if isinstance(container, Transform) else container
        if isinstance(owner, EnvBase):
            raise ValueError(self.ENV_ERR)
        super().set_container(container)
