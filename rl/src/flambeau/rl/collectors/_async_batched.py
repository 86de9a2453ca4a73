"""`AsyncBatchedCollector`: environments that wait for nobody, and a server that answers them in batches."""

from __future__ import annotations

import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import torch
from torch import nn

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDictBase
from flambeau.rl._comm.backends import normalize_service_backend
from flambeau.rl._comm.makers import Beside, Maker
from flambeau.rl._utils import logger, rl_warnings
from flambeau.rl.collectors._background import InBackground
from flambeau.rl.collectors._constants import DEFAULT_EXPLORATION_TYPE
from flambeau.rl.collectors._coordination import Coordinator
from flambeau.rl.collectors._frames import frames_in_all
from flambeau.rl.envs.async_envs import AsyncEnvPool
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.utils import ExplorationType
from flambeau.rl.modules.inference_server import (
    InferenceDeviceConfig,
    InferenceServer,
    InferenceServerConfig,
    InferenceTransport,
    ProcessInferenceServer,
    ProcessSlotTransport,
)
from flambeau.rl.weight_update._weights import load_weights, weights_of

__all__ = ["AsyncBatchedCollector"]

INDEX = "env_index"
_LEAST_CHUNK = 64


class AsyncBatchedCollector(InBackground):
    """Lets one policy act in many environments, each of which goes on as soon as its action is there.

    An `AsyncEnvPool` steps the environments, an `InferenceServer` computes actions for those that wait, in batches. A
    batch of the collector is the steps that were done first, (frames_per_batch,), with the number of the environment at
    "env_index" and the version of the policy at `policy_version_key`.

    With environments in processes and a `policy_factory`, `transport="auto"` puts the policy into a process of its own,
    which the environments ask directly; this process gets whole pieces of trajectories alone.

    An environment or a policy that raises or dies ends the collector with an error that has the traceback.

    Args:
        create_env_fn: functions that make the environments.
        policy: takes a batch of observations, and writes actions.
        policy_factory: makes the policy, instead; where the server is.
        frames_per_batch: number of steps of a batch.
        total_frames: number of steps in all, rounded up to whole batches; -1 for no end.
        max_batch_size: requests that the server computes at a time; default: 64.
        min_batch_size: requests that it waits for after the first; default: 1.
        server_timeout: seconds for which it does; default: 0.01.
        transport: what carries observations and actions: an `InferenceTransport`; "driver", through this process; or
            "auto". A `ProcessSlotTransport` is for environments in processes that ask a server in another.
        device: the policy's.
        backend: of environments and policy where these have none: "threading", "multiprocessing", "ray" or "monarch".
        env_backend: of environments: "threading" or "multiprocessing"; default: "threading".
        env_exchange: how data of processes travel, see `AsyncEnvPool`.
        envs_per_worker: environments a process.
        transition_chunk_size: steps that an environment takes before it tells of them, where it asks the server itself;
            "auto": 64, or the environment's share of a batch where that is more.
        policy_backend: of the transport.
        reset_at_each_iter: begin new episodes with each batch.
        postproc: what is called with each batch, and returns what is given.
        exploration_type: how policies act that draw from distributions.
        replay_buffer: where batches go; None is given then.
        post_collect_hook: called with each batch.
        yield_completed_trajectories: give each trajectory when it ends, one behind the other until there are
            `frames_per_batch` steps or more.
        weight_sync: a weight scheme that brings weights to the server.
        weight_sync_model_id: the model's name there.
        verbose: log what is collected.
        create_env_kwargs: arguments of the functions: for all, or in a list.
        worker_affinity: the CPUs of each process, see `AsyncEnvPool`.
        driver_affinity: the CPUs of this process's threads that the collector starts.
        server_config: how the server gathers requests.
        device_config: devices of all parts.
        policy_version: of the first weights.
        policy_version_key: where batches say theirs; None for nowhere.

    Raises:
        ValueError: arguments do not go together.

    Example:
        >>> from flambeau.data.tensordict.nn import TensorDictModule
        >>> from flambeau.rl.envs import PendulumEnv
        >>> policy = TensorDictModule(lambda theta: torch.zeros_like(theta).unsqueeze(-1), ["th"], ["action"])
        >>> with AsyncBatchedCollector([PendulumEnv] * 2, policy=policy, frames_per_batch=8, env_backend="threading",
        ...                            total_frames=8) as collector:
        ...     [batch.shape for batch in collector]
        [torch.Size([8])]
    """

    def __init__(
        self,
        create_env_fn: list[Callable[[], EnvBase]],
        *,
        policy: Callable[..., Any] | None = None,
        policy_factory: Callable[[], Callable[..., Any]] | None = None,
        frames_per_batch: int,
        total_frames: int = -1,
        max_batch_size: int | None = None,
        min_batch_size: int | None = None,
        server_timeout: float | None = None,
        transport: InferenceTransport | Literal["auto", "driver"] | None = None,
        device: torch.device | str | None = None,
        backend: Literal["threading", "multiprocessing", "ray", "monarch"] | None = None,
        env_backend: Literal["threading", "multiprocessing"] | None = None,
        env_exchange: Literal["queue", "shm", "auto"] = "auto",
        envs_per_worker: int = 1,
        transition_chunk_size: int | Literal["auto"] = "auto",
        policy_backend: Literal["threading", "multiprocessing", "ray", "monarch"] | None = None,
        reset_at_each_iter: bool = False,
        postproc: Callable[[TensorDictBase], TensorDictBase] | None = None,
        exploration_type: ExplorationType = DEFAULT_EXPLORATION_TYPE,
        replay_buffer: Any = None,
        post_collect_hook: Callable[[TensorDictBase], None] | None = None,
        yield_completed_trajectories: bool = False,
        weight_sync: Any = None,
        weight_sync_model_id: str = "policy",
        verbose: bool = False,
        create_env_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        worker_affinity: Sequence[Sequence[int]] | Callable[[int], Sequence[int]] | None = None,
        driver_affinity: Sequence[int] | None = None,
        server_config: InferenceServerConfig | None = None,
        device_config: InferenceDeviceConfig | None = None,
        policy_version: int = 0,
        policy_version_key: Any = "policy_version",
    ) -> None:
        super().__init__(post_collect_hook=post_collect_hook)
        self.closed = True  # until there is something to close
        _check(create_env_fn, policy, policy_factory, frames_per_batch)
        self._makers = list(create_env_fn)
        self._policy, self._policy_factory = policy, policy_factory
        self.requested_frames_per_batch = self.frames_per_batch = frames_per_batch
        self.total_frames = frames_in_all(total_frames, frames_per_batch)
        self.reset_at_each_iter, self.postproc = reset_at_each_iter, postproc
        self.exploration_type = exploration_type or DEFAULT_EXPLORATION_TYPE
        self.replay_buffer, self.verbose = replay_buffer, verbose
        self.yield_completed_trajectories = yield_completed_trajectories
        self._devices = _devices(device_config, device)
        self._config = _config(server_config, max_batch_size, min_batch_size, server_timeout)
        self._env_backend, self._policy_backend = _backends(backend, env_backend, policy_backend, transport)
        self._transport = self._chosen_transport(transport, envs_per_worker, create_env_kwargs, policy_version_key)
        self._chunk = self._chosen_chunk(transition_chunk_size)
        self._pool_arguments: dict[str, Any] = {
            "exchange": env_exchange if self._env_backend == "multiprocessing" and not self._is_direct else None,
            "create_env_kwargs": create_env_kwargs,
        }
        if self._env_backend == "multiprocessing":
            self._pool_arguments |= {"worker_affinity": worker_affinity, "envs_per_worker": envs_per_worker}
        self._create_env_kwargs = create_env_kwargs
        self._server_arguments = {
            "weight_sync": weight_sync,
            "weight_sync_model_id": weight_sync_model_id,
            "server_config": self._config,
            "policy_device": self._devices.policy_device,
            "output_device": self._devices.server_output_device(),
            "policy_version": policy_version,
            "policy_version_key": policy_version_key,
        }
        self._driver_affinity = driver_affinity
        self._first_version = policy_version
        self._pending_weights: Any = None
        self._pending_seed: tuple[int, bool] | None = None
        self._pool: Any = None
        self._server: Any = None
        self._coordinator: Coordinator | None = None
        self._open: dict[int, list[Any]] = {}
        self._left: list[Any] = []
        self.closed = False

    # Setting up

    @property
    def _is_direct(self) -> bool:
        """Whether environments ask the server themselves."""
        return isinstance(self._transport, ProcessSlotTransport) and self._env_backend == "multiprocessing"

    def _chosen_transport(self, given: Any, per_worker: int, env_kwargs: Any, version_key: Any) -> Any:
        if given is not None and not isinstance(given, str):
            if isinstance(given, ProcessSlotTransport):
                if self._policy_factory is None:
                    raise ValueError("a ProcessSlotTransport is for a server in a process: give policy_factory=.")
                self._config.service_backend = "process"
            return given
        fits = self._env_backend == "multiprocessing" and per_worker == 1 and self._policy_factory is not None
        fits = fits and self._policy_backend in (None, "process") and self._config.service_backend != "ray"
        if given is None and fits and rl_warnings():
            warnings.warn(
                "AsyncBatchedCollector without transport= relays requests through this process, and with torchrl 0.15 "
                "will let environments ask the server; say transport='driver' or transport='auto'.",
                FutureWarning,
                stacklevel=4,
            )
        if given != "auto" or not fits:
            return None
        try:
            made = self._slots(env_kwargs, version_key)
        except (TypeError, ValueError, KeyError, RuntimeError) as error:
            logger.info("The policy is served from a thread, as layouts of requests are not known: %s", error)
            return None
        self._config.service_backend = "process"
        return made

    def _slots(self, env_kwargs: Any, version_key: Any) -> ProcessSlotTransport:
        """A transport with the layouts of one environment and one pass of the policy."""
        kwargs = env_kwargs[0] if isinstance(env_kwargs, list) else env_kwargs
        env = self._makers[0](**(kwargs or {}))
        try:
            root = env.fake_tensordict().exclude("next", *env.action_keys)
            policy = self._policy_factory()  # type: ignore[misc]
            device = self._devices.policy_device
            with torch.no_grad():
                batch = root.unsqueeze(0).clone()
                known = set(batch.keys(True, True))
                answer = policy(batch if device is None else batch.to(device))[0].to("cpu")
        finally:
            env.close(raise_if_closed=False)
        answer = answer.select(*(key for key in answer.keys(True, True) if key not in known))
        if version_key is not None:
            answer.set(version_key, torch.zeros(answer.batch_size, dtype=torch.int64))
        return ProcessSlotTransport(root.clear_device_(), answer.clear_device_(), num_slots=len(self._makers))

    def _chosen_chunk(self, given: int | str) -> int:
        if given == "auto":
            if not self._is_direct:
                return 1
            share = self.frames_per_batch // len(self._makers)
            return min(max(_LEAST_CHUNK, share), self.frames_per_batch)
        if not isinstance(given, int) or given < 1:
            raise ValueError(f"transition_chunk_size is {given!r}, expected 1 or more, or 'auto'.")
        if given > 1 and not self._is_direct:
            raise ValueError("transition_chunk_size is for environments that ask a ProcessSlotTransport themselves.")
        return given

    def _ensure_started(self) -> Coordinator:
        if self.closed:
            raise RuntimeError("The collector is shut down, and its environments closed; make another one.")
        if self._coordinator is None:
            with _on_cpus(self._driver_affinity):
                self._start_parts()
        assert self._coordinator is not None
        return self._coordinator

    def _start_parts(self) -> None:
        count = len(self._makers)
        server = self._made_server(count)
        clients = server.clients(count)
        self._server = server
        try:
            server.start()
            self._push_pending()
            pool = self._made_pool(clients)
            self._coordinator = Coordinator(
                pool,
                None if self._is_direct else clients,
                self.exploration_type,
                self._chunk,
                lambda: server.is_alive,
            )
        except BaseException:
            self.shutdown(raise_on_error=False)
            raise

    def _made_server(self, count: int) -> Any:
        backend = self.server_backend
        if backend == "process" and self._transport is not None:
            factory: Any = self._policy_factory
            return ProcessInferenceServer(policy_factory=factory, transport=self._transport, **self._server_arguments)
        transport: Any = self._transport
        if transport is None:
            transport = {"process": "process", "ray": "ray"}.get(self._policy_backend or "", "auto")
            transport = transport if backend != "thread" or transport == "auto" else _transport_of(transport)
        return InferenceServer(
            self._policy if backend == "thread" else None,
            transport,
            policy_factory=self._policy_factory if backend != "thread" or self._policy is None else None,
            num_clients=count,
            **self._server_arguments,
        )

    def _made_pool(self, clients: list[Any]) -> Any:
        if self._pool is not None:
            return self._pool
        makers: list[Any] = self._makers
        arguments = dict(self._pool_arguments)
        if self._is_direct:
            kwargs = arguments.pop("create_env_kwargs")
            each = kwargs if isinstance(kwargs, list) else [kwargs] * len(makers)
            makers = [
                Beside(Maker(maker, given), client) for maker, given, client in zip(makers, each, clients, strict=True)
            ]
        kind: Any = AsyncEnvPool
        self._pool = kind(makers, backend=self._env_backend, stack="lazy", **arguments)
        if self._pending_seed is not None:
            self._pool.set_seed(*self._pending_seed)
            self._pending_seed = None
        return self._pool

    # Facts

    @property
    def server_backend(self) -> str:
        """Where the policy is: "thread", "process" or "ray"."""
        return self._config.service_backend

    @property
    def env(self) -> AsyncEnvPool:
        """The environments."""
        if self._pool is None:
            if not self._is_direct:
                return self._made_pool([])  # type: ignore[no-any-return]
            self._ensure_started()
        return self._pool  # type: ignore[no-any-return]

    @property
    def policy(self) -> Callable[..., Any]:
        """The policy; what makes it, where it is elsewhere."""
        if self._policy is not None:
            return self._policy
        served = getattr(self._server, "model", None)
        found: Any = self._policy_factory if served is None else served
        return found  # type: ignore[no-any-return]

    def get_model(self, model_id: str) -> Any:
        """A model by name.

        Args:
            model_id: "policy", or a dotted path.
        """
        return self.policy if model_id == "policy" else self.get_distant_attr(model_id)

    @property
    def policy_version(self) -> int:
        """The version of the server's weights."""
        return self._first_version if self._server is None else int(self._server.policy_version)

    def server_stats(self, *, reset: bool = False) -> dict[str, float | int]:
        """What the server counts and measures; empty before it is started.

        Args:
            reset: begin anew afterwards.
        """
        return {} if self._server is None else self._server.stats(reset=reset)

    def stats(self) -> dict[str, int | float | bool]:
        """How many steps and batches there were, and the policy's version."""
        return super().stats() | {"policy_version": self.policy_version}

    # Batches

    @property
    def rollout(self) -> Callable[[], TensorDictBase]:
        """Collects one batch, without post-processing."""
        return self._trajectories if self.yield_completed_trajectories else self._steps

    def iterator(self) -> Iterator[TensorDictBase]:
        """Batches, until there were `total_frames` steps."""
        coordinator = self._ensure_started()
        while self._frames < self.total_frames:
            coordinator.check()
            self._iter += 1
            if self.reset_at_each_iter and self._iter:
                self._open, self._left = {}, []
                coordinator.begin_anew()
            batch = self.rollout()
            self._frames += batch.shape[0]
            if self.verbose:
                logger.info("AsyncBatchedCollector: %d steps of %s.", self._frames, self.total_frames)
            yield self._delivered(batch)

    def _delivered(self, batch: Any) -> Any:
        device = self._devices.storing_device
        if device is not None:
            batch = batch.to(device)
        if self.postproc is not None:
            batch = self.postproc(batch)
        if self._post_collect_hook is not None:
            self._post_collect_hook(batch)
        if self.replay_buffer is None:
            return batch
        self.replay_buffer.extend(batch)
        return None

    def _steps(self) -> Any:
        """The steps that are done first."""
        parts, count = self._left, sum(len(part) for part in self._left)
        while count < self.frames_per_batch:
            part = self._next_part()
            parts.append(part)
            count += len(part) if self._is_direct else 1
        self._left = []
        if not self._is_direct:
            return LazyStackedTensorDict.lazy_stack(parts, 0)
        whole = torch.cat(parts)
        if count > self.frames_per_batch:
            self._left = [whole[self.frames_per_batch :]]
        return whole[: self.frames_per_batch]

    def _next_part(self) -> Any:
        at, part = self._ensure_started().take()
        return part.set(INDEX, torch.full(part.batch_size, at))

    def _trajectories(self) -> Any:
        """Whole trajectories, one behind the other, with `frames_per_batch` steps or more."""
        whole: list[Any] = []
        while len(whole) < self.frames_per_batch:
            part = self._next_part()
            steps = part.unbind(0) if self._is_direct else (part,)
            for step in steps:
                at = int(step[INDEX].flatten()[0])
                piece = self._open.setdefault(at, [])
                piece.append(step)
                if bool(step["next", "done"].any()):
                    whole.extend(self._open.pop(at))
        return LazyStackedTensorDict.lazy_stack(whole, 0)

    def pause(self, timeout: float | None = 30.0) -> AbstractContextManager[None]:  # type: ignore[override]
        """A context in which environments, policy and the thread in the background do nothing.

        Args:
            timeout: seconds to wait for what they are at; None for no end.

        Raises:
            RuntimeError: it is paused already, or collecting failed.
            TimeoutError: it took longer.
        """
        return self._paused(timeout)

    @contextmanager
    def _paused(self, timeout: float | None) -> Iterator[None]:
        self._running.clear()
        try:
            self._raise_failure()
            with self._ensure_started().parked(timeout):
                yield
        finally:
            self._running.set()

    # Weights

    def update_policy_weights_(
        self,
        policy_or_weights: Any = None,
        *,
        weights: Any = None,
        policy: Any = None,
        worker_ids: Any = None,
        model_id: str | None = None,
        weights_dict: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Give the server's policy new weights, between two batches of its own.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict; default: those of `policy`, which
                counts them as new.
            weights: weights, by this name.
            policy: a module, by this name.
            worker_ids: kept for the signature that all collectors share.
            model_id: must be "policy" or None.
            weights_dict: weights by model.
            kwargs: kept for the signature that all collectors share.

        Raises:
            TypeError: these are no weights, or there are none.
        """
        given = next((each for each in (policy_or_weights, weights, policy) if each is not None), None)
        if weights_dict is not None:
            given = weights_dict.get(model_id or "policy")
        if given is None:
            given = self._policy
        if not isinstance(given, (nn.Module, TensorDictBase, dict)):
            raise TypeError(f"weights are a module, a tensordict or a state_dict; got {type(given).__name__}.")
        if self._server is None or not self._server.is_alive:
            self._pending_weights = weights_of(given).detach().clone()
            if self.server_backend == "thread" and self._policy is not None:
                self._push(given, self._policy)
                self._first_version += 1
                self._pending_weights = None
                self._server_arguments["policy_version"] = self._first_version
            return
        self._sent(given)

    def _sent(self, given: Any) -> None:
        if hasattr(self._server, "update_model"):
            self._server.update_model(lambda model: self._push(given, model))
        else:
            self._server.update_model_weights(weights_of(given))

    @staticmethod
    def _push(given: Any, model: Any) -> None:
        if given is not model:
            load_weights(model, given)

    def _push_pending(self) -> None:
        pending, self._pending_weights = self._pending_weights, None
        if pending is not None:
            self._sent(pending)

    # Life

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """End environments, policy and threads.

        Args:
            timeout: seconds that the thread in the background and the policy have.
            close_env: close the environments.
            raise_on_error: raise what went wrong in the background.
        """
        self._stop.set()
        if self._coordinator is not None:
            self._coordinator.end(5.0 if timeout is None else timeout)
        try:
            self._stop_thread(timeout)
        except TimeoutError:
            if raise_on_error:
                raise
        if self._server is not None and not self.closed:
            self._server.shutdown(5.0 if timeout is None else timeout)
        if close_env and self._pool is not None:
            self._pool.close(raise_if_closed=False)
        self.closed = True
        if raise_on_error and not self._was_stopped():
            self._raise_failure()

    def _was_stopped(self) -> bool:
        """Whether the thread in the background failed only because it was told to end."""
        failure = self._failure
        stopped = isinstance(failure, RuntimeError) and "shut down" in str(failure)
        if stopped:
            self._failure = None
        return stopped

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Set the seeds of environments that have not begun to act, each of which follows from the one before it.

        Args:
            seed: of the first.
            static_seed: all have the same.

        Returns:
            The seed itself, while nobody acts.

        Raises:
            RuntimeError: they have begun.
        """
        if self._coordinator is not None:
            raise RuntimeError("seeds are set before the first batch is collected.")
        if self._pool is None:
            self._pending_seed = (seed, static_seed)
        else:
            self._pool.set_seed(seed, static_seed)
        return seed

    def state_dict(self) -> OrderedDict[str, Any]:
        """How far it has come, and the policy's weights where they are in this process."""
        state: OrderedDict[str, Any] = OrderedDict(frames=self._frames, iter=self._iter)
        if isinstance(self._policy, nn.Module):
            state["policy_state_dict"] = self._policy.state_dict()
        return state

    def load_state_dict(self, state_dict: OrderedDict[str, Any]) -> None:
        """Go on from what `state_dict` gave; environments begin new episodes."""
        self._frames = int(state_dict.get("frames", self._frames))
        self._iter = int(state_dict.get("iter", self._iter))
        if "policy_state_dict" in state_dict and isinstance(self._policy, nn.Module):
            self._policy.load_state_dict(state_dict["policy_state_dict"])


def _check(makers: Any, policy: Any, factory: Any, frames: int) -> None:
    if not isinstance(makers, Sequence) or not makers:
        raise ValueError("create_env_fn is a list of functions that make environments, of at least one.")
    if policy is not None and factory is not None:
        raise TypeError("Give either policy or policy_factory, not both.")
    if policy is None and factory is None:
        raise TypeError("Give a policy, or a policy_factory that makes one.")
    if frames < 1:
        raise ValueError(f"frames_per_batch must be 1 or more; got {frames}.")


def _devices(config: InferenceDeviceConfig | None, device: Any) -> InferenceDeviceConfig:
    if config is not None and device is not None:
        raise ValueError("device_config says it already; leave out device.")
    return InferenceDeviceConfig(policy_device=device) if config is None else config


def _config(given: InferenceServerConfig | None, most: Any, least: Any, timeout: Any) -> InferenceServerConfig:
    named = {
        name: value
        for name, value in (("max_batch_size", most), ("min_batch_size", least), ("timeout", timeout))
        if value is not None
    }
    if given is None:
        return InferenceServerConfig(**named)
    if named:
        raise ValueError("server_config says it already; leave out max_batch_size, min_batch_size and server_timeout.")
    return InferenceServerConfig(**vars(given))


def _backends(backend: Any, env: Any, policy: Any, transport: Any) -> tuple[Any, str | None]:
    for name, value in (("backend", backend), ("policy_backend", policy)):
        if value not in (None, "threading", "multiprocessing", "ray", "monarch"):
            raise ValueError(f"{name} is {value!r}, expected 'threading', 'multiprocessing', 'ray' or 'monarch'.")
    if isinstance(transport, ProcessSlotTransport):
        env = env or "multiprocessing"
    if env is None and backend is None and rl_warnings():
        warnings.warn(
            "AsyncBatchedCollector without env_backend= steps environments in threads, and with torchrl 0.15 will do "
            "so in processes; say env_backend='threading' or env_backend='multiprocessing'.",
            FutureWarning,
            stacklevel=4,
        )
    env = env or (backend if backend in ("threading", "multiprocessing") else "threading")
    if env not in ("threading", "multiprocessing"):
        raise ValueError(f"env_backend is {env!r}, expected 'threading' or 'multiprocessing'.")
    chosen = policy or backend
    return env, None if chosen is None else normalize_service_backend(chosen)


def _transport_of(kind: str) -> InferenceTransport:
    """A transport between threads of this process, of a kind that also reaches further."""
    from flambeau.rl.modules.inference_server import MonarchTransport, MPTransport, RayTransport

    return {"process": MPTransport, "ray": RayTransport, "monarch": MonarchTransport}[kind]()  # type: ignore[no-any-return]


@contextmanager
def _on_cpus(cpus: Sequence[int] | None) -> Iterator[None]:
    """In this block, threads that are started run on these CPUs."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
