"""`RayLLMCollector`: an `LLMCollector` as an actor of Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors.distributed.ray import DEFAULT_RAY_INIT_CONFIG
from flambeau.rl.collectors.llm.base import LLMCollector
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.llm.transforms.policy_version import PolicyVersion
from flambeau.rl.weight_update._weights import weights_of

__all__ = ["RayLLMCollector"]


class _Worker(LLMCollector):
    """The collector in the actor."""

    def next(self) -> Any:
        """The next batch; None at the end, or where it went to the replay buffer."""
        if self.__dict__.get("_iterating") is None:
            self.__dict__["_iterating"] = iter(self)
        try:
            return True, next(self.__dict__["_iterating"])
        except StopIteration:
            return False, None

    def read(self, name: str) -> Any:
        """An attribute."""
        return getattr(self, name)


class RayLLMCollector(LLMCollector):
    """An `LLMCollector` in an actor of Ray, which may have a graphics card of its own.

    Args:
        env: as for `LLMCollector`; functions are called in the actor.
        policy: likewise; is sent there.
        policy_factory: likewise.
        dialog_turns_per_batch: likewise.
        total_dialog_turns: likewise.
        yield_only_last_steps: likewise.
        yield_completed_trajectories: likewise.
        postproc: likewise.
        async_envs: likewise.
        replay_buffer: likewise; one that lives in an actor itself, or in shared memory.
        reset_at_each_iter: likewise.
        flatten_data: likewise.
        weight_updater: likewise.
        ray_init_config: arguments of `ray.init`, where Ray does not run yet.
        remote_config: what the actor takes.
        track_policy_version: as for `LLMCollector`.
        sync_iter: the actor waits until a batch was used; else it collects the next one meanwhile.
        verbose: as for `LLMCollector`.
        num_cpus: of the actor.
        num_gpus: of the actor.

    Raises:
        ImportError: Ray is not installed.
    """

    def __init__(
        self,
        env: EnvBase | Callable[[], EnvBase],
        *,
        policy: Callable[[TensorDictBase], TensorDictBase] | None = None,
        policy_factory: Callable[[], Callable[[TensorDictBase], TensorDictBase]] | None = None,
        dialog_turns_per_batch: int,
        total_dialog_turns: int = -1,
        yield_only_last_steps: bool | None = None,
        yield_completed_trajectories: bool | None = None,
        postproc: Callable[[TensorDictBase], TensorDictBase] | None = None,
        async_envs: bool | None = None,
        replay_buffer: Any = None,
        reset_at_each_iter: bool = False,
        flatten_data: bool | None = None,
        weight_updater: Any = None,
        ray_init_config: dict[str, Any] | None = None,
        remote_config: dict[str, Any] | None = None,
        track_policy_version: bool | PolicyVersion = False,
        sync_iter: bool = True,
        verbose: bool = False,
        num_cpus: int | None = None,
        num_gpus: int | None = None,
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise ImportError("RayLLMCollector needs Ray; pip install flambeau-rl[ray].") from error
        if not ray.is_initialized():
            ray.init(**(DEFAULT_RAY_INIT_CONFIG if ray_init_config is None else ray_init_config))
        self._ray = ray
        self.sync_iter = sync_iter
        self.verbose = verbose
        options = dict(remote_config or {})
        options |= {
            name: value for name, value in (("num_cpus", num_cpus), ("num_gpus", num_gpus)) if value is not None
        }
        # Weights come while it collects.
        options.setdefault("max_concurrency", 2)
        self._actor: Any = _Worker.as_remote(options).remote(
            env, policy=policy, policy_factory=policy_factory, dialog_turns_per_batch=dialog_turns_per_batch,
            total_dialog_turns=total_dialog_turns, yield_only_last_steps=yield_only_last_steps,
            yield_completed_trajectories=yield_completed_trajectories, postproc=postproc, async_envs=async_envs,
            replay_buffer=replay_buffer, reset_at_each_iter=reset_at_each_iter, flatten_data=flatten_data,
            weight_updater=weight_updater, track_policy_version=track_policy_version,
        )  # fmt: skip
        self._running: Any = None
        self.closed = False

    def _ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if self.closed:
            raise RuntimeError("The collector is shut down, and its actor ended; make another one.")
        return self._ray.get(getattr(self._actor, method).remote(*args, **kwargs))

    def is_initialized(self) -> bool:
        """Whether it may collect."""
        return not self.closed and bool(self._ask("is_initialized"))

    def __iter__(self) -> Iterator[Any]:
        return self.iterator()

    def iterator(self) -> Iterator[Any]:
        """Batches, until there were `total_dialog_turns` turns."""
        coming = None if self.sync_iter else self._actor.next.remote()
        while True:
            more, batch = self._ask("next") if coming is None else self._ray.get(coming)
            if not more:
                return
            if coming is not None:
                coming = self._actor.next.remote()
            yield batch

    def next(self) -> Any:
        """The next batch; None where it goes to the replay buffer."""
        return self._ask("next")[1]

    def start(self) -> None:
        """Collect into the replay buffer in the background."""
        self._ask("start")
        self._running = True

    def is_running(self) -> bool:
        """Whether it collects in the background."""
        return bool(self._running) and bool(self._ask("is_running"))

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """Stop collecting, and end the actor.

        Args:
            timeout: seconds to wait for what runs in the background.
            close_env: close the environment.
            raise_on_error: raise what went wrong there.
        """
        if self.closed:
            return
        try:
            self._ask("shutdown", timeout, close_env, raise_on_error)
        finally:
            self.closed, self._running = True, False
            self._ray.kill(self._actor)

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """Stop collecting in the background, and end the actor.

        Args:
            timeout: seconds to wait for what runs in the background.
            close_env: close the environment.
        """
        if self.closed:
            return
        if self._running:
            self._ask("async_shutdown", timeout, close_env)
        self.shutdown(timeout, close_env)

    def init_updater(self, *args: Any, **kwargs: Any) -> None:
        """Let the weight updater get ready.

        Args:
            args: of its `init`.
            kwargs: likewise.
        """
        self._ask("init_updater", *args, **kwargs)

    def update_policy_weights_(self, policy_or_weights: Any = None, *, worker_ids: Any = None, **kwargs: Any) -> None:
        """Give new weights to the policy in the actor.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict; default: the updater's.
            worker_ids: of the updater there.
            kwargs: likewise.
        """
        given = None if policy_or_weights is None else weights_of(policy_or_weights)
        self._ask("update_policy_weights_", given, worker_ids=worker_ids, **kwargs)

    def increment_version(self) -> None:
        """Count one update of the policy's weights."""
        self._ask("increment_version")

    def set_postproc(self, postproc: Callable[[TensorDictBase], TensorDictBase]) -> None:
        """Call a function with each batch from now on.

        Args:
            postproc: returns what is given.
        """
        self._ask("set_postproc", postproc)

    @property
    def policy_version(self) -> int | str | None:
        """The version of the policy; None where it is not tracked."""
        return self._ask("get_policy_version")  # type: ignore[no-any-return]

    @property
    def weight_updater(self) -> Any:
        """A copy of the weight updater."""
        return self._ask("read", "weight_updater")

    @weight_updater.setter
    def weight_updater(self, value: Any) -> None:
        self._ask("set_weight_updater", value)

    @property
    def init_random_frames(self) -> int:  # type: ignore[override]
        """Models never begin at random."""
        return 0

    @property
    def dialog_turns_per_batch(self) -> int:
        """Turns of a batch."""
        return self._ask("read", "dialog_turns_per_batch")  # type: ignore[no-any-return]

    @property
    def total_dialog_turns(self) -> int | float:
        """Turns in all."""
        return self._ask("read", "total_dialog_turns")  # type: ignore[no-any-return]

    @property
    def rollout(self) -> Any:
        """What gives the next batch."""
        return self.next

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
