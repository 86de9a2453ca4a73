"""Does an environment give what its specs say?"""

from __future__ import annotations

from typing import Any, Literal

import torch

from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._keys import as_tuple


def check_env_specs(
    env: Any,
    return_contiguous: bool | None = None,
    check_dtype: bool = True,
    seed: int | None = None,
    tensordict: Any = None,
    break_when_any_done: bool | Literal["both"] | None = None,
) -> None:
    """Compare short rollouts of an environment with its specs: keys, shapes, dtypes, devices and values.

    Args:
        env: the environment.
        return_contiguous: as in `rollout`; default: True unless a size in the specs is not fixed.
        check_dtype: compare dtypes as well.
        seed: set this seed before; default: a seed of its own.
        tensordict: what to reset with.
        break_when_any_done: as in `rollout`; "both" tries both ways, which is the default.

    Raises:
        AssertionError: what it gives is not what the specs say; the message names the keys.
        RuntimeError: the observation spec is no composite, or a step cannot be taken.
    """
    if return_contiguous is None:
        return_contiguous = not env._has_dynamic_specs()
    if break_when_any_done is None or break_when_any_done == "both":
        for way in (True, False):
            check_env_specs(env, return_contiguous, check_dtype, seed, tensordict, way)
        return
    with torch.random.fork_rng():
        torch.manual_seed(0 if seed is None else seed)
        env.set_seed(0 if seed is None else seed)
        zeros = env.fake_tensordict()
        real = env.rollout(
            3,
            return_contiguous=return_contiguous,
            tensordict=tensordict.copy() if tensordict is not None else None,
            auto_reset=True,
            break_when_any_done=break_when_any_done,
        )
    _compare_keys(zeros, real)
    time = real.ndim - 1
    steps = real.unbind(time)
    for step in steps:
        _compare_leaves(zeros, step, check_dtype)
    _check_values(env, steps)


def _compare_keys(zeros: Any, real: Any) -> None:
    expected = {as_tuple(key) for key in zeros.keys(True, True)}
    found = {as_tuple(key) for key in real.keys(True, True)}
    if expected == found:
        return
    lacking, beyond = sorted(expected - found), sorted(found - expected)
    raise AssertionError(
        "A rollout has other keys than the env's specs. "
        + (f"Keys of specs that the env did not give: {lacking}. " if lacking else "")
        + (f"Keys that no spec names: {beyond}." if beyond else "")
    )


def _compare_leaves(zeros: Any, step: Any, check_dtype: bool) -> None:
    for key, expected in zeros.items(True, True):
        found = step.get(key)
        if not isinstance(found, torch.Tensor) or not isinstance(expected, torch.Tensor) or found.is_nested:
            continue
        if len(found.shape) != len(expected.shape) or any(
            want not in (-1, got) for want, got in zip(expected.shape, found.shape, strict=True)
        ):
            raise AssertionError(
                f"{key!r} has shape {tuple(found.shape)} in a rollout, and {tuple(expected.shape)} in the specs."
            )
        if check_dtype and found.dtype != expected.dtype:
            raise AssertionError(f"{key!r} has dtype {found.dtype} in a rollout, and {expected.dtype} in the specs.")
        if found.device != expected.device:
            raise AssertionError(f"{key!r} is on {found.device} in a rollout, and on {expected.device} in the specs.")


def _check_values(env: Any, steps: Any) -> None:
    following = ("full_observation_spec", "full_reward_spec", "full_done_spec")
    for step in (steps[0], steps[-1]):
        _check_in(env.full_action_spec, step, "full_action_spec")
        _check_in(env.full_observation_spec, step, "full_observation_spec")
        for name in following:
            _check_in(getattr(env, name), step.get("next"), name)


def _check_in(spec: Composite, data: Any, name: str) -> None:
    for key, each in spec.items(True, True):
        if each is None:
            continue
        if getattr(each, "mask", None) is not None:
            # It says what may be done next, not what might be done then.
            each = each.clone()
            each.update_mask(None)
        value = data.get(key, None)
        if value is None:  # keys were compared before; what is not stored cannot be looked at
            continue
        if -1 in each.shape and isinstance(value, torch.Tensor) and value.ndim == each.ndim:
            each = each.clone()
            each.shape = value.shape
        if not each.is_in(value):
            raise AssertionError(f"{key!r} is not in its spec in {name}: the value is {value}, the spec {each}.")
