"""`LLMCollector`: dialogs of a language model with its environments."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDictBase
from flambeau.rl.collectors._recording import IDS
from flambeau.rl.collectors._single import Collector
from flambeau.rl.envs.async_envs import AsyncEnvPool
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.llm.transforms.policy_version import PolicyVersion
from flambeau.rl.envs.transforms import TransformedEnv

__all__ = ["LLMCollector"]


class LLMCollector(Collector):
    """Lets a language model talk in an environment, and gives what was said in batches, or dialog by dialog.

    Args:
        env: the environment, or a function that makes it.
        policy: the model, as a module of tensordicts; see `LLMWrapperBase`.
        policy_factory: makes it, instead.
        dialog_turns_per_batch: turns of a batch, of all environments together, rounded up to a multiple of their
            number; needed unless whole dialogs are given.
        yield_only_last_steps: give the last turn of each dialog alone.
        yield_completed_trajectories: give whole dialogs, each as it ends; default: as `yield_only_last_steps`.
        postproc: what is called with each batch, and returns what is given.
        total_dialog_turns: turns in all, those that are not given included; -1 for no end.
        async_envs: environments go on one by one, while the model answers others; default: where `env` is an
            `AsyncEnvPool`.
        replay_buffer: where turns go, instead of being given: batches are None then.
        reset_at_each_iter: begin new dialogs with each batch.
        flatten_data: batches have one dimension; default: with a replay buffer.
        weight_updater: brings new weights to the policy, or makes what does.
        queue: where batches go, instead of being given: what has a method `put`.
        track_policy_version: write the version of the policy at "policy_version"; True, or the `PolicyVersion` to use.
            It counts on with each update of the weights.
        verbose: has no effect: what was collected is in the batches.

    Raises:
        ValueError: arguments do not go together.
    """

    started = False

    def __init__(
        self,
        env: EnvBase | Callable[[], EnvBase],
        *,
        policy: Callable[[TensorDictBase], TensorDictBase] | None = None,
        policy_factory: Callable[[], Callable[[TensorDictBase], TensorDictBase]] | None = None,
        dialog_turns_per_batch: int | None = None,
        yield_only_last_steps: bool | None = None,
        yield_completed_trajectories: bool | None = None,
        postproc: Callable[[TensorDictBase], TensorDictBase] | None = None,
        total_dialog_turns: int = -1,
        async_envs: bool | None = None,
        replay_buffer: Any = None,
        reset_at_each_iter: bool = False,
        flatten_data: bool | None = None,
        weight_updater: Any = None,
        queue: Any = None,
        track_policy_version: bool | PolicyVersion = False,
        verbose: bool = False,
    ) -> None:
        self.yield_only_last_steps = bool(yield_only_last_steps)
        if yield_completed_trajectories is None:
            yield_completed_trajectories = self.yield_only_last_steps
        if self.yield_only_last_steps and not yield_completed_trajectories:
            raise ValueError("Last turns are those of whole dialogs; leave yield_completed_trajectories out.")
        if dialog_turns_per_batch is None and not yield_completed_trajectories:
            raise ValueError("Give dialog_turns_per_batch, or yield_completed_trajectories=True.")
        if replay_buffer is not None and queue is not None:
            raise ValueError("Batches go to a replay buffer or to a queue, not to both.")
        if not isinstance(env, EnvBase):
            env = env()
        self.async_envs = isinstance(env, AsyncEnvPool) if async_envs is None else async_envs
        if self.async_envs and not isinstance(env, AsyncEnvPool):
            raise ValueError(f"async_envs=True needs an AsyncEnvPool; got {type(env).__name__}.")
        if self.async_envs and not yield_completed_trajectories:
            raise ValueError("async_envs=True gives whole dialogs; give yield_completed_trajectories=True.")
        env, self.policy_version_tracker = _versioned(env, track_policy_version)
        self.yield_completed_trajectories = yield_completed_trajectories
        self.flatten_data = replay_buffer is not None if flatten_data is None else flatten_data
        self._queue = queue
        self.verbose = verbose
        self._dialogs: dict[int, list[Any]] = {}
        self._completed: deque[Any] = deque()
        super().__init__(
            env,
            policy,
            policy_factory=policy_factory,
            frames_per_batch=env.batch_size.numel() if dialog_turns_per_batch is None else dialog_turns_per_batch,
            total_frames=total_dialog_turns,
            reset_at_each_iter=reset_at_each_iter,
            postproc=postproc,
            use_buffers=False,
            replay_buffer=replay_buffer,
            trust_policy=True,
            weight_updater=weight_updater,
        )
        self.started = True

    def _policy_extras(self) -> Any:
        """Nothing: a model is not asked before the first turn."""
        return None

    # What it was made with

    @property
    def dialog_turns_per_batch(self) -> int:
        """Turns of a batch."""
        return self.requested_frames_per_batch

    @property
    def total_dialog_turns(self) -> int | float:
        """Turns in all."""
        return self.total_frames

    def is_initialized(self) -> bool:
        """Whether it may collect."""
        return self.started and not self.closed

    def get_policy_model(self) -> Any:
        """The model of the policy, for those that bring it weights."""
        return getattr(self.policy, "model", self.policy)

    def set_postproc(self, postproc: Callable[[TensorDictBase], TensorDictBase]) -> None:
        """Call a function with each batch from now on.

        Args:
            postproc: returns what is given.

        Raises:
            RuntimeError: there is one already.
        """
        if self.postproc is not None:
            raise RuntimeError("There is a postproc already; put both into one function.")
        self.postproc = postproc

    def set_weight_updater(self, weight_updater: Any) -> None:
        """Bring weights by another updater from now on.

        Args:
            weight_updater: it.
        """
        self.weight_updater = weight_updater

    # Versions

    @property
    def policy_version(self) -> int | str | None:
        """How often the policy's weights were updated, or an identifier; None where it is not tracked."""
        return None if self.policy_version_tracker is None else self.policy_version_tracker.version

    def get_policy_version(self) -> int | str | None:
        """`policy_version`, for calls from other processes."""
        return self.policy_version

    def increment_version(self) -> None:
        """Count one update of the policy's weights."""
        if self.policy_version_tracker is not None:
            self.policy_version_tracker.increment_version()

    # Collecting

    @property
    def rollout(self) -> Any:
        """What takes the turns of one batch, or of one dialog."""
        if not self.yield_completed_trajectories:
            return self._turns
        return self._dialog_async if self.async_envs else self._dialog

    def _turns(self) -> Any:
        return Collector.rollout(self)

    def _batches(self) -> Iterator[Any]:
        while self._frames < self.total_frames or self._completed:
            self._check_open()
            self._iter += 1
            batch = self.rollout()
            if not self.yield_completed_trajectories:
                self._frames += batch.numel()
            yield self._delivered(batch)

    def _delivered(self, batch: Any) -> Any:
        if self.flatten_data and batch.batch_dims > 1:
            batch = batch.reshape(-1)
        if self._queue is None:
            return super()._delivered(batch)
        self._queue.put(batch if self.postproc is None else self.postproc(batch))
        return None

    @torch.no_grad()
    def _dialog(self) -> Any:
        """The next dialog that ends."""
        if self.reset_at_each_iter and not self._completed:
            self._root, self._dialogs = self.env.reset(), {}
        while not self._completed:
            self.take_weights()
            step, self._root = self.env.step_and_maybe_reset(self._acted(self._act, self._root))
            self._frames += step.numel()
            rows = step.reshape(-1).unbind(0) if step.batch_dims else [step]
            for number, row in enumerate(rows):
                self._heard(number, row)
        return self._completed.popleft()

    @torch.no_grad()
    def _dialog_async(self) -> Any:
        """The next dialog that ends, of environments that go on one by one."""
        pool = self.env
        if not self._dialogs and not self._completed and not getattr(self, "_talking", False):
            self._talking = True
            pool.async_step_and_maybe_reset_send(self._acted(self._act, self._root))
        while not self._completed:
            self.take_weights()
            steps, roots = pool.async_step_and_maybe_reset_recv()
            for step in steps.unbind(0):
                self._frames += step.numel()
                self._heard(int(step.get(pool._env_idx_key)), step)
            pool.async_step_and_maybe_reset_send(self._acted(self._act, roots))
        return self._completed.popleft()

    def _heard(self, number: int, turn: Any) -> None:
        """Put a turn of an environment to its dialog."""
        turn = turn.copy()
        for key in [key for key in list(turn.keys()) if isinstance(key, str) and key.startswith("_")]:
            del turn[key]
        dialog = self._dialogs.setdefault(number, [])
        dialog.append(turn)
        if not any(turn.get(("next", *_path(key))).any() for key in self.env.done_keys):
            return
        del self._dialogs[number]
        identifier = self._traj_pool.get_traj_and_increment(1).squeeze(0)
        kept = dialog[-1:] if self.yield_only_last_steps else dialog
        for each in kept:
            each.set(IDS, identifier.clone())
        self._completed.append(LazyStackedTensorDict.maybe_dense_stack(kept, 0))

    @classmethod
    def as_remote(cls, remote_config: dict[str, Any] | None = None) -> Any:
        """The class as an actor of Ray.

        Args:
            remote_config: what the actor takes: "num_cpus", "num_gpus" and others of `ray.remote`.

        Returns:
            What makes the actor, with a method `remote`.

        Raises:
            ImportError: Ray is not installed.
        """
        try:
            import ray
        except ImportError as error:
            raise ImportError("Actors need Ray, which is not installed; pip install flambeau-rl[ray].") from error
        return ray.remote(_host_of(cls)).options(**(remote_config or {}))


def _host_of(kind: type) -> type:
    """A plain class with the methods of a collector, which Ray can make an actor of."""

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        self._collector = kind(*args, **kwargs)

    def forward(name: str) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            found = getattr(self._collector, name)(*args, **kwargs)
            return None if found is self._collector else found

        return call

    public = [name for name in dir(kind) if not name.startswith("_")]
    methods = {name: forward(name) for name in public if inspect.isfunction(inspect.getattr_static(kind, name))}
    return type(kind.__name__.lstrip("_"), (), {"__init__": begin, **methods})


def _path(key: Any) -> tuple[str, ...]:
    return key if isinstance(key, tuple) else (key,)


def _versioned(env: EnvBase, track: bool | PolicyVersion) -> tuple[EnvBase, PolicyVersion | None]:
    """An environment that writes the policy's version, and what counts it."""
    if track is False:
        return env, None
    tracker = track if isinstance(track, PolicyVersion) else PolicyVersion()
    if tracker.parent is not None:
        return env, tracker
    return TransformedEnv(env, tracker), tracker
