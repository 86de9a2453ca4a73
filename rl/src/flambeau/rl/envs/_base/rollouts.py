"""Rollouts: many steps, one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDictBase
from flambeau.rl.envs._base.steps import EnvSteps
from flambeau.rl.envs._keys import NestedKey, as_tuple, with_last

Policy = Callable[[TensorDictBase], TensorDictBase]


class EnvRollouts(EnvSteps):
    """How an environment is followed for some time."""

    def rollout(
        self,
        max_steps: int,
        policy: Policy | None = None,
        callback: Callable[..., Any] | None = None,
        *,
        actions: Iterable[Any] | None = None,
        auto_reset: bool = True,
        auto_cast_to_device: bool = False,
        break_when_any_done: bool | None = None,
        break_when_all_done: bool | None = None,
        return_contiguous: bool | None = False,
        tensordict: TensorDictBase | None = None,
        set_truncated: bool = False,
        out: TensorDictBase | None = None,
        trust_policy: bool = False,
        storing_device: Any = None,
        set_state: bool | None = None,
    ) -> TensorDictBase:
        """Take steps until an episode ends, or until there are enough.

        Args:
            max_steps: at most so many, > 0.
            policy: writes actions into a tensordict; default: random actions.
            callback: called as callback(env, tensordict) after each step but the last, with the root of the next step;
                in a rollout that goes on after ends, with the step itself.
            actions: take these actions, one a step, instead of a policy's.
            auto_reset: begin with a reset; otherwise `tensordict` says where the env is.
            auto_cast_to_device: move tensordicts to the policy's device and back.
            break_when_any_done: stop when any episode ends (default); False begins new ones where they end.
            break_when_all_done: stop when all episodes have ended; those that have are not begun anew.
            return_contiguous: stack the steps in memory; otherwise they are stacked lazily only where they differ.
            tensordict: what to reset with, or where to begin.
            set_truncated: mark the last step as truncated.
            out: a tensordict with a last dimension for the steps, to write into.
            trust_policy: the policy writes actions alone; kept for upstream's signature.
            storing_device: where the steps go.
            set_state: passed on to `reset`.

        Returns:
            A tensordict whose last dimension, "time", holds the steps.

        Raises:
            RuntimeError: there is nothing to begin with, no step to take, or no key to mark the truncation at.
        """
        if max_steps < 1:
            raise RuntimeError(f"A rollout needs at least one step; got max_steps={max_steps}.")
        if break_when_any_done is None:
            break_when_any_done = not break_when_all_done
        elif break_when_any_done and break_when_all_done:
            raise TypeError("break_when_any_done and break_when_all_done cannot both be True.")
        if actions is not None:
            if policy is not None:
                raise TypeError("Give either a policy or actions, not both.")
            policy = _Sequence(self.action_keys, actions)
        if (
            policy is None
            and callback is None
            and actions is None
            and auto_reset
            and tensordict is None
            and out is None
        ):
            fast = self._fast_rollout(max_steps, break_when_any_done, bool(break_when_all_done), set_state)
            if fast is not None:
                return self._finished(fast, set_truncated, storing_device)
        if auto_reset:
            tensordict = self.reset(tensordict, **({} if set_state is None else {"set_state": set_state}))
        elif tensordict is None:
            raise RuntimeError("With auto_reset=False a rollout needs a tensordict that says where the env is.")
        steps = self._steps(
            tensordict,
            max_steps,
            self.rand_action if policy is None else policy,
            callback,
            bool(break_when_any_done),
            bool(break_when_all_done),
            _device_of(policy) if auto_cast_to_device else None,
            None if storing_device is None else torch.device(storing_device),
        )
        dim = len(self.batch_size) if self._batch_locked else len(tensordict.batch_size)
        stacked: Any
        if out is not None:
            stacked = torch.stack(steps, dim, out=out)
        elif return_contiguous:
            stacked = torch.stack(steps, dim)
        else:
            stacked = LazyStackedTensorDict.maybe_dense_stack(steps, dim)
        stacked.refine_names(..., "time")
        return self._finished(stacked, set_truncated, None)

    def _fast_rollout(
        self, max_steps: int, break_when_any_done: bool, break_when_all_done: bool, set_state: bool | None
    ) -> TensorDictBase | None:
        """A rollout with random actions by other means; None where there are none."""
        return None

    def _steps(
        self,
        tensordict: Any,
        max_steps: int,
        policy: Policy,
        callback: Callable[..., Any] | None,
        break_when_any_done: bool,
        break_when_all_done: bool,
        policy_device: Any,
        storing_device: Any,
    ) -> list[Any]:
        """The steps; they share no tensordict with one another, only tensors."""
        device = self.device
        steps: list[Any] = []
        goes_on = not break_when_any_done and not break_when_all_done
        over: Any = None
        for at in range(max_steps):
            if policy_device is not None:
                tensordict = tensordict.to(policy_device)
            tensordict = policy(tensordict)
            if policy_device is not None:
                tensordict = tensordict.to(device) if device is not None else tensordict.clear_device_()
            last = at == max_steps - 1
            if goes_on and not last:
                tensordict, following = self.step_and_maybe_reset(tensordict)
            else:
                tensordict = self.step(tensordict)
            if over is not None:
                tensordict = torch.where(over, steps[-1], tensordict)
            kept = self._stored(tensordict.copy())
            if storing_device is not None and kept.device != storing_device:
                kept = kept.to(storing_device)
            steps.append(kept)
            if last:
                break
            if goes_on:
                if callback is not None:
                    callback(self, tensordict)
                tensordict = following
                continue
            following = self.step_mdp(tensordict)
            if break_when_any_done:
                if self._ended(following):
                    break
            else:
                if self._all_done(following):
                    break
                over = self._over(following)
                if over is not None:
                    # Entries that are over stay as they are, in the root of their last step.
                    following = torch.where(over, tensordict.select(*following.keys(True, True)), following)
            tensordict = following
            if callback is not None:
                callback(self, tensordict)
        return steps

    def _stored(self, tensordict: Any) -> Any:
        """What is stored of a step; may change the tensordict."""
        return tensordict

    def _over(self, tensordict: Any) -> Any:
        """Which entries of the batch have ended; None where none has, or there is no batch."""
        keys = self._outer_ends()[0]
        end = tensordict.get(keys[0])
        if not tensordict.batch_size or not end.any():
            return None
        return end.reshape(*tensordict.batch_size, -1).all(-1)

    def _all_done(self, tensordict: Any) -> bool:
        return all(bool(tensordict.get(keys[0]).all()) for keys in self._outer_ends())

    def _finished(self, steps: Any, set_truncated: bool, storing_device: Any) -> Any:
        if set_truncated:
            found = False
            for key in self.done_keys:
                if as_tuple(key)[-1] == "truncated":
                    found = True
                    self._set_last(steps, key)
            if not found:
                raise RuntimeError(
                    "set_truncated=True needs a key 'truncated' among the env's ends; env.add_truncated_keys() adds it."
                )
        if storing_device is not None and steps.device != torch.device(storing_device):
            return steps.to(storing_device)
        return steps

    def _set_last(self, steps: Any, key: NestedKey) -> None:
        time = len(steps.batch_size) - 1
        for name in ("truncated", "done"):
            where = ("next", *as_tuple(with_last(key, name)))
            value = steps.get(where)
            value = value.clone()
            value.narrow(time, value.shape[time] - 1, 1).fill_(True)
            steps.set(where, value)


class _Sequence:
    """A policy that takes given actions, one a step."""

    def __init__(self, keys: list[NestedKey], actions: Iterable[Any]) -> None:
        self.keys = keys
        self.actions = iter(actions.unbind(0) if hasattr(actions, "unbind") else actions)

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        try:
            action = next(self.actions)
        except StopIteration:
            raise RuntimeError(
                "There are fewer actions than steps; give more, or set max_steps to their number."
            ) from None
        if isinstance(action, TensorDictBase):
            return tensordict.update(action)
        if len(self.keys) != 1:
            raise TypeError(f"The env has several actions, {self.keys}; give tensordicts with all of them.")
        return tensordict.set(self.keys[0], action)


def _device_of(policy: Any) -> torch.device | None:
    """The device of a module's parameters."""
    parameters = getattr(policy, "parameters", None)
    if parameters is None:
        return None
    first = next(iter(parameters()), None)
    return None if first is None else first.device
