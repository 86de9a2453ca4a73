"""`RayEvalWorker`: evaluations in an actor of Ray, beside the training."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from flambeau.rl._comm.ray_runtime import _RayRuntimeLease
from flambeau.rl._remote import imported_ray

__all__ = ["RayEvalWorker"]

_REWARD = ("next", "reward")


class _EvalActor:
    """What runs in the actor. Nothing of torch is imported before `init_fn` was called.

    Args:
        init_fn: called first; None for nothing.
        env_maker: makes the environment.
        policy_maker: makes the policy for it.
    """

    def __init__(
        self, init_fn: Callable[[], None] | None, env_maker: Callable[[], Any], policy_maker: Callable[[Any], Any]
    ) -> None:
        if init_fn is not None:
            init_fn()
        from flambeau.rl.collectors.distributed._ray_eval_runtime import RayEvalRuntime

        env = env_maker()
        self._runtime = RayEvalRuntime(env, policy_maker(env))

    def eval(self, *args: Any) -> dict[str, Any]:
        """Follow an episode, see `RayEvalRuntime.eval`."""
        return self._runtime.eval(*args)

    def shutdown(self) -> None:
        """Close the environment."""
        self._runtime.shutdown()


class RayEvalWorker:
    """Follows episodes in an actor of Ray, while others train: `submit` begins, `poll` gives what came of it.

    Args:
        init_fn: called in the actor before anything else is imported there; None for nothing.
        env_maker: makes the environment, in the actor.
        policy_maker: makes the policy for it, in the actor.
        num_gpus: what the actor takes.
        reward_keys: the key of rewards.
        name: by which others find the actor, see `from_name`.
        remote_kwargs: what else the actor takes, such as `num_cpus` or `runtime_env`.

    Raises:
        ImportError: Ray is not installed.
    """

    def __init__(
        self,
        init_fn: Callable[[], None] | None,
        env_maker: Callable[[], Any],
        policy_maker: Callable[[Any], Any],
        *,
        num_gpus: int = 1,
        reward_keys: tuple[str, ...] = _REWARD,
        name: str | None = None,
        **remote_kwargs: Any,
    ) -> None:
        self._lease: _RayRuntimeLease | None = _RayRuntimeLease.acquire()
        ray = imported_ray()
        options = {"num_gpus": num_gpus} | remote_kwargs
        if name is not None:
            options["name"] = name
        self._actor: Any = ray.remote(_EvalActor).options(**options).remote(init_fn, env_maker, policy_maker)
        self._reward_keys = reward_keys
        self._pending: Any = None

    @classmethod
    def from_name(cls, name: str, *, reward_keys: tuple[str, ...] = _REWARD) -> RayEvalWorker:
        """A worker with the actor that another one started.

        Args:
            name: as it was given there.
            reward_keys: the key of rewards.

        Raises:
            ValueError: there is no such actor.
        """
        worker = cls.__new__(cls)
        worker._lease = _RayRuntimeLease.acquire()
        worker._actor = imported_ray().get_actor(name)
        worker._reward_keys, worker._pending = reward_keys, None
        return worker

    def submit(
        self, weights: Any, max_steps: int, *, deterministic: bool = True, break_when_any_done: bool = True
    ) -> None:
        """Begin an episode; what comes of one that is on its way is given up.

        Args:
            weights: of the policy, as `TensorDict.from_module(policy).data` gives them.
            max_steps: steps at most.
            deterministic: act without drawing.
            break_when_any_done: end with the first environment of a batch.

        Raises:
            RuntimeError: the worker was shut down.
        """
        if self._actor is None:
            raise RuntimeError("the evaluation's actor was shut down; make another worker.")
        weights = weights.detach().cpu() if hasattr(weights, "detach") else weights
        self._pending = self._actor.eval.remote(
            weights, max_steps, self._reward_keys, deterministic, break_when_any_done
        )

    def poll(self, timeout: float = 0) -> dict[str, Any] | None:
        """What came of the episode, see `RayEvalRuntime.eval`; None while it is on its way, or where there is none.

        Args:
            timeout: seconds to wait for it.
        """
        if self._pending is None:
            return None
        ray = imported_ray()
        done, _ = ray.wait([self._pending], timeout=timeout)
        if not done:
            return None
        pending, self._pending = self._pending, None
        found: dict[str, Any] = ray.get(pending)
        return found

    def shutdown(self) -> None:
        """Close the environment, and end the actor; further calls do nothing."""
        actor, self._actor = self._actor, None
        ray = imported_ray()
        if actor is not None and ray.is_initialized():
            with suppress(ray.exceptions.RayError, TimeoutError):  # it has ended by itself, or hangs
                ray.get(actor.shutdown.remote(), timeout=10)
            ray.kill(actor)
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()
