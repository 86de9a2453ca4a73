"""Counts of steps and of trajectories, and marks of first steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch

from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, TensorSpec
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey, as_tuple, with_last
from flambeau.rl.envs.transforms._base.specs import set_like
from flambeau.rl.envs.transforms._base.transform import Transform
from flambeau.rl.envs.transforms._reset_keys import outer_reset_keys

__all__ = ["InitTracker", "StepCounter", "TrajCounter"]

_MOST = torch.iinfo(torch.int64).max


class StepCounter(Transform):
    """The number of steps since the episode began, and an end to episodes that have had enough of them.

    Args:
        max_steps: truncate episodes after so many steps, > 0; default: never.
        truncated_key: last part of the key where that is marked; None for no mark.
        step_count_key: last part of the key of the count.
        update_done: mark "done" as well.

    Raises:
        ValueError: `max_steps` is below 1, or a key is nested.
    """

    def __init__(
        self,
        max_steps: int | None = None,
        truncated_key: str | None = "truncated",
        step_count_key: str | None = "step_count",
        update_done: bool = True,
    ) -> None:
        if max_steps is not None and max_steps < 1:
            raise ValueError(f"max_steps is the number of steps of an episode, at least 1; got {max_steps}.")
        for name, key in (("step_count_key", step_count_key), ("truncated_key", truncated_key)):
            if not isinstance(key, str) and (key is not None or name == "step_count_key"):  # type: ignore[redundant-expr]
                raise ValueError(
                    f"{name} is one string, which is put beside each of the environment's ends; got {key!r}."
                )
        super().__init__()
        self.max_steps = max_steps
        self.truncated_key = truncated_key
        self.step_count_key = step_count_key
        self.update_done = update_done

    # Keys

    def _places(self) -> list[tuple[NestedKey, NestedKey, NestedKey, NestedKey]]:
        """Keys of count, mark, end and mask for each of the environment's groups of ends."""
        cache = self.__dict__.get("_known_places")
        if cache is None:
            reset_keys = self.reset_keys
            cache = [
                (
                    with_last(key, str(self.step_count_key)),
                    with_last(key, str(self.truncated_key)),
                    with_last(key, "done"),
                    key,
                )
                for key in reset_keys
            ]
            self.__dict__["_known_places"] = cache
        return cache

    @property
    def reset_keys(self) -> list[NestedKey]:
        """Keys of the masks that say where counts begin anew."""
        parent = self.parent
        return ["_reset"] if parent is None else outer_reset_keys(parent)

    @property
    def step_count_keys(self) -> list[NestedKey]:
        """Keys of the counts."""
        return [with_last(key, str(self.step_count_key)) for key in self.reset_keys]

    @property
    def truncated_keys(self) -> list[NestedKey]:
        """Keys of the marks of episodes that were cut short."""
        return [] if self.truncated_key is None else [with_last(key, self.truncated_key) for key in self.reset_keys]

    @property
    def done_keys(self) -> list[NestedKey]:
        """Keys of the ends."""
        return [with_last(key, "done") for key in self.reset_keys]

    @property
    def terminated_keys(self) -> list[NestedKey]:
        """Keys of the ends that are no cuts."""
        return [with_last(key, "terminated") for key in self.reset_keys]

    @property
    def all_done_keys(self) -> list[NestedKey]:
        """Keys of the ends, those of inner places as well."""
        return [key for key in self.full_done_spec.keys(True, True) if as_tuple(key)[-1] == "done"]

    @property
    def all_truncated_keys(self) -> list[NestedKey]:
        """Keys of the marks, those of inner places as well."""
        return [with_last(key, str(self.truncated_key)) for key in self.all_done_keys]

    @property
    def full_done_spec(self) -> Any:
        """The specs of the ends of the environment as this transform sees it."""
        return Composite() if self.parent is None else self.parent.output_spec["full_done_spec"]

    def empty_cache(self) -> None:
        """Forget what was found out about the environment."""
        super().empty_cache()
        self.__dict__.pop("_known_places", None)
        self.__dict__.pop("_inner_dones", None)

    def reset_parent(self) -> None:
        """Take the transform out of what it is part of."""
        super().reset_parent()
        self.__dict__.pop("_known_places", None)
        self.__dict__.pop("_inner_dones", None)

    def clone(self) -> Self:
        """The same transform, as part of nothing."""
        twin = super().clone()
        twin.__dict__.pop("_known_places", None)
        twin.__dict__.pop("_inner_dones", None)
        return twin

    # Data

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        for count_key, truncated_key, done_key, reset_key in self._places():
            done = tensordict_reset.get(done_key)
            count = torch.zeros_like(done, dtype=torch.int64)
            mask = tensordict.get(reset_key, None)
            old = None if mask is None else tensordict.get(count_key, None)
            if old is not None and not mask.all():
                count = torch.where(spread(mask, old), count, old)
            tensordict_reset.set(count_key, count)
            if self.max_steps is not None and self.truncated_key is not None:
                truncated = tensordict_reset.get(truncated_key, None)
                tensordict_reset.set(truncated_key, torch.zeros_like(done) if truncated is None else truncated)
        return tensordict_reset

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        for count_key, truncated_key, done_key, _ in self._places():
            before = tensordict.get(count_key, None)
            if before is None:
                raise self._missing(count_key, tensordict)
            count = before + 1
            next_tensordict.set(count_key, count)
            if self.max_steps is None:
                continue
            enough = count >= self.max_steps
            if self.truncated_key is not None:
                truncated = next_tensordict.get(truncated_key, None)
                next_tensordict.set(truncated_key, enough if truncated is None else truncated | enough)
            if self.update_done:
                done = next_tensordict.get(done_key, None)
                if done is not None:
                    self._end(next_tensordict, done_key, enough, done)
        return next_tensordict

    def _end(self, next_tensordict: Any, done_key: NestedKey, enough: Any, done: Any) -> None:
        """Mark an end, and those below it."""
        next_tensordict.set(done_key, done | enough)
        for inner in self._inner(done_key):
            below = next_tensordict.get(inner, None)
            if below is not None:
                next_tensordict.set(inner, below | spread(enough, below))

    def _inner(self, done_key: NestedKey) -> list[NestedKey]:
        """The keys of ends at places below one's."""
        cache = self.__dict__.setdefault("_inner_dones", {})
        if done_key not in cache:
            place = as_tuple(done_key)[:-1]
            cache[done_key] = [
                key
                for key in self.all_done_keys
                if len(as_tuple(key)) > len(place) + 1 and as_tuple(key)[: len(place)] == place
            ]
        found: list[NestedKey] = cache[done_key]
        return found

    def forward(self, tensordict: Any) -> Any:
        """Refused: counts need resets and steps.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "StepCounter works in environments only, where there are resets and steps; data of a buffer have no order."
        )

    # Specs

    def _with_counts(self, spec: Any) -> Any:
        done = self.full_done_spec
        for count_key, _, done_key, _ in self._places():
            like = done[done_key]
            set_like(spec, count_key, Bounded(0, _MOST, like.shape, device=like.device, dtype=torch.int64), done)
        return spec

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:  # type: ignore[override]
        """The counts are observations.

        Args:
            observation_spec: a composite.

        Raises:
            ValueError: it is no composite.
        """
        if not isinstance(observation_spec, Composite):
            raise ValueError(f"StepCounter needs a composite of observations; got {type(observation_spec).__name__}.")
        return self._with_counts(observation_spec)  # type: ignore[no-any-return]

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The counts are observations, and the marks are ends.

        Args:
            output_spec: a composite.
        """
        if self.max_steps is not None and self.truncated_key is not None:
            done = output_spec["full_done_spec"]
            for _, truncated_key, done_key, _ in self._places():
                if truncated_key not in done.keys(True):
                    done[truncated_key] = done[done_key].clone()
            output_spec["full_done_spec"] = done
        return super().transform_output_spec(output_spec)

    def transform_input_spec(self, input_spec: Composite) -> Composite:  # type: ignore[override]
        """The counts are part of the state.

        Args:
            input_spec: a composite.
        """
        input_spec["full_state_spec"] = self._with_counts(input_spec["full_state_spec"])
        return input_spec


class InitTracker(Transform):
    """A mark of the first step of an episode, which recurrent modules read.

    Args:
        init_key: last part of the key of the mark.

    Raises:
        ValueError: it is nested.
    """

    def __init__(self, init_key: str = "is_init") -> None:
        if not isinstance(init_key, str):
            raise ValueError(
                f"init_key is one string, which is put beside each of the environment's ends; got {init_key!r}."
            )
        super().__init__()
        self.init_key = init_key

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of.

        Args:
            container: a `Compose` or a `TransformedEnv`.
        """
        super().set_container(container)
        self.empty_cache()

    @property
    def out_keys(self) -> list[NestedKey]:
        """Keys of the marks."""
        return self.init_keys

    @out_keys.setter
    def out_keys(self, value: Any) -> None:
        if value:
            raise ValueError("The keys of an InitTracker are its init_key beside the environment's ends.")

    @property
    def init_keys(self) -> list[NestedKey]:
        """Keys of the marks.

        Raises:
            NotImplementedError: the transform is part of no environment.
        """
        return [with_last(key, self.init_key) for key in self.reset_keys]

    @property
    def reset_keys(self) -> list[NestedKey]:
        """Keys of the masks that say where an episode begins.

        Raises:
            NotImplementedError: the transform is part of no environment.
        """
        known = self.__dict__.get("_known_reset_keys")
        if known is None:
            parent = self.parent
            if parent is None:
                raise NotImplementedError("InitTracker works in environments only; append it to one.")
            known = self.__dict__["_known_reset_keys"] = outer_reset_keys(parent)
        return known

    def empty_cache(self) -> None:
        """Forget what was found out about the environment."""
        super().empty_cache()
        self.__dict__.pop("_known_reset_keys", None)

    def clone(self) -> Self:
        """The same transform, as part of nothing."""
        twin = super().clone()
        twin.__dict__.pop("_known_reset_keys", None)
        return twin

    def _call(self, next_tensordict: Any) -> Any:
        for reset_key in self.reset_keys:
            done = next_tensordict.get(with_last(reset_key, "done"))
            next_tensordict.set(with_last(reset_key, self.init_key), torch.zeros_like(done))
        return next_tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        for reset_key in self.reset_keys:
            done = tensordict_reset.get(with_last(reset_key, "done"))
            mask = tensordict.get(reset_key, None)
            first = torch.ones_like(done) if mask is None else spread(mask, done).clone()
            tensordict_reset.set(with_last(reset_key, self.init_key), first)
        return tensordict_reset

    def forward(self, tensordict: Any) -> Any:
        """Refused: marks need resets and steps.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("InitTracker works in environments only, where there are resets and steps.")

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """The marks are observations.

        Args:
            observation_spec: a composite.
        """
        done = self.parent.full_done_spec
        for reset_key in self.reset_keys:
            like = done[with_last(reset_key, "done")]
            observation_spec[with_last(reset_key, self.init_key)] = Categorical(  # type: ignore[index]
                2, like.shape, dtype=torch.bool, device=like.device
            )
        return observation_spec


class TrajCounter(Transform):
    """The number of the trajectory that a step belongs to: they are counted from 0 in the order in which they begin.

    Args:
        out_key: of the number.
        repeats: begin at 0 again after so many trajectories; default: never.
    """

    def __init__(self, out_key: NestedKey = "traj_count", *, repeats: int | None = None) -> None:
        super().__init__(out_keys=[out_key])
        self.repeats = repeats
        self._count = [0]

    def clone(self) -> Self:
        """A transform that goes on counting from here, as part of nothing, by itself."""
        twin = super().clone()
        twin._count = list(self._count)
        return twin

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        reset_key = outer_reset_keys(self.parent)[0]
        done = tensordict_reset.get(with_last(reset_key, "done"))
        mask = tensordict.get(reset_key, None)
        mask = torch.ones_like(done) if mask is None else spread(mask, done)
        begun = int(mask.sum())
        first = self._count[0]
        numbers = torch.arange(first, first + begun, device=done.device)
        self._count[0] = first + begun
        if self.repeats:
            numbers = numbers % self.repeats
        old = tensordict.get(self.out_keys[0], None)
        count = torch.zeros_like(done, dtype=torch.int64) if old is None else old.clone()
        tensordict_reset.set(self.out_keys[0], count.masked_scatter(mask, numbers))
        return tensordict_reset

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return next_tensordict.set(self.out_keys[0], tensordict.get(self.out_keys[0]))

    def forward(self, tensordict: Any) -> Any:
        """Refused: trajectories are counted at resets.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("TrajCounter works in environments only, where there are resets and steps.")

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """How many trajectories there were.

        Args:
            args: as for a module.
            destination: as for a module.
            prefix: as for a module.
            keep_vars: as for a module.
        """
        state = super().state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)
        state[f"{prefix}traj_count"] = self._count[0]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Go on counting where another did.

        Args:
            state_dict: as `state_dict` gave it.
            strict: as for a module.
            assign: as for a module.
        """
        rest = dict(state_dict)
        self._count[0] = int(rest.pop("traj_count"))
        return super().load_state_dict(rest, strict=strict, assign=assign)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:  # type: ignore[override]
        """The number is an observation.

        Args:
            observation_spec: a composite.

        Raises:
            ValueError: it is no composite, or has the key already.
        """
        if not isinstance(observation_spec, Composite):
            raise ValueError(f"TrajCounter needs a composite of observations; got {type(observation_spec).__name__}.")
        if self.out_keys[0] in observation_spec.keys(True):
            raise ValueError(
                f"The environment has an observation {self.out_keys[0]!r} already; choose another out_key."
            )
        done = self.parent.full_done_spec
        like = done[with_last(outer_reset_keys(self.parent)[0], "done")]
        observation_spec[self.out_keys[0]] = Bounded(0, _MOST, like.shape, device=like.device, dtype=torch.int64)
        return observation_spec
