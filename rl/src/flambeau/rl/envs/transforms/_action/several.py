"""Several actions at once."""

from __future__ import annotations

from typing import Any, Self

import torch

from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["MultiAction"]


class MultiAction(Transform):
    """Several actions at once, which are taken one after another until they are used up or the episode ends.

    Args:
        dim: of the actions, counted from the first dimension behind the batch, which is 1: (*batch, actions, ...).
        stack_rewards: give the rewards of all steps, along the same dimension; else that of the last step.
        stack_observations: give the observations of all steps; else those of the last one.
        action_key: of the action, where the environment has several.
        chunk_key: where the actions stand outside; default: at the action's own key.
    """

    def __init__(
        self,
        *,
        dim: int = 1,
        stack_rewards: bool = True,
        stack_observations: bool = False,
        action_key: NestedKey | None = None,
        chunk_key: NestedKey | None = None,
    ) -> None:
        inner = [] if chunk_key is None else ["action" if action_key is None else action_key]
        super().__init__(in_keys_inv=inner, out_keys_inv=[] if chunk_key is None else [chunk_key])
        self.dim = dim
        self.stack_rewards = stack_rewards
        self.stack_observations = stack_observations
        self.action_key = action_key
        self.chunk_key = chunk_key

    @classmethod
    def from_vla(cls, *, action_key: NestedKey = "action", **kwargs: Any) -> Self:
        """For policies of vision, language and action, which write chunks of actions at ("vla_action", "chunk").

        Args:
            action_key: of the environment's action.
            kwargs: as for the class.
        """
        return cls(action_key=action_key, chunk_key=("vla_action", "chunk"), **kwargs)

    def _keys_of(self, parent: Any) -> list[NestedKey]:
        return [self.action_key] if self.action_key is not None else list(parent.action_keys)

    def _outer(self, key: NestedKey) -> NestedKey:
        return key if self.chunk_key is None else self.chunk_key

    # Data

    def _inv_call(self, tensordict: Any) -> Any:
        """Take all actions but the last, and leave that to the environment's own step."""
        parent = self.parent
        if parent is None:
            raise RuntimeError("MultiAction takes several steps of an environment; append it to one.")
        base_env, before = parent.base_env, self._transforms_before()
        batch = len(parent.batch_size)
        at = batch + self.dim - 1
        keys = self._keys_of(parent)
        chunks = {key: tensordict.get(self._outer(key)) for key in keys}
        count = {chunk.shape[at] for chunk in chunks.values()}
        if len(count) != 1:
            raise RuntimeError(f"All actions must come as often; got {sorted(count)} along dimension {at}.")
        (steps,) = count
        if self.chunk_key is not None:
            tensordict.del_(self.chunk_key)
        taken: list[Any] = []
        for step in range(steps):
            for key, chunk in chunks.items():
                tensordict.set(key, chunk.select(at, step))
            if step == steps - 1:
                break
            inner = tensordict
            for each in reversed(before):
                inner = each._inv_call(inner.copy())
            following = base_env._followed(inner)
            for each in before:
                following = each._step(inner, following)
            over = [following.get(ends[0]) for ends in parent._outer_ends()]
            if taken and taken[-1][1] is not None:
                following = _frozen(taken[-1][1], taken[-1][0], following, parent.reward_keys)
                over = [following.get(ends[0]) for ends in parent._outer_ends()]
            mask = over[0].clone() if bool(over[0].any()) else None
            taken.append((following, mask))
            if all(bool(end.all()) for end in over):
                # Nothing is left to do: the environment takes no further step.
                tensordict.set("_step", torch.zeros(parent.batch_size, dtype=torch.bool, device=parent.device))
                break
            tensordict = parent.step_mdp(tensordict.exclude("next").set("next", following))
        self.__dict__["_taken"] = taken
        return tensordict

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        taken = self.__dict__.pop("_taken", [])
        parent = self.parent
        steps = [each for each, _ in taken]
        if taken and taken[-1][1] is not None:
            # Upstream: the action at which everything is over counts as one more, without reward.
            next_tensordict = _frozen(taken[-1][1], taken[-1][0], next_tensordict, parent.reward_keys)
        steps.append(next_tensordict)
        at = len(parent.batch_size) + self.dim - 1
        keys: list[NestedKey] = []
        if self.stack_rewards:
            keys += parent.reward_keys
        if self.stack_observations:
            keys += parent.observation_keys
        out = next_tensordict.copy()
        for key in keys:
            out.set(key, torch.stack([step.get(key) for step in steps], at))
        return out

    # Specs

    def transform_input_spec(self, input_spec: Any) -> Any:
        """Any number of actions.

        Args:
            input_spec: a composite.
        """
        parent = self.parent
        actions = input_spec["full_action_spec"]
        for key in self._keys_of(parent):
            spec = _unsized(actions[key], len(parent.batch_size) + self.dim - 1)
            if self.chunk_key is not None:
                del actions[key]
            actions[self._outer(key)] = spec
        input_spec["full_action_spec"] = actions
        return input_spec

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """As many rewards and observations as actions, if all are given.

        Args:
            output_spec: a composite.
        """
        at = len(self.parent.batch_size) + self.dim - 1
        groups = {"full_reward_spec": self.stack_rewards, "full_observation_spec": self.stack_observations}
        for name, stacked in groups.items():
            if stacked:
                group = output_spec[name]
                for key in list(group.keys(True, True)):
                    group[key] = _unsized(group[key], at)
                output_spec[name] = group
        return output_spec


def _unsized(spec: Any, at: int) -> Any:
    """A spec with one more dimension, of any size."""
    out = spec.unsqueeze(at)
    out.make_neg_dim(at)
    return out


def _frozen(over: Any, before: Any, following: Any, reward_keys: list[NestedKey]) -> Any:
    """What was before where episodes are over, without reward, and what followed elsewhere."""
    out = following.copy()
    for key, value in following.items(True, True):
        old = before.get(key, None)
        if isinstance(value, torch.Tensor) and old is not None:
            kept = torch.zeros_like(value) if key in reward_keys else old
            out.set(key, torch.where(spread(over, value), kept, value))
    return out
