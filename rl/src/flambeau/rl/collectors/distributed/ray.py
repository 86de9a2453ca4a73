"""`RayCollector`: collectors as actors of Ray."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._constants import DEFAULT_EXPLORATION_TYPE
from flambeau.rl.collectors._single import Collector
from flambeau.rl.collectors.distributed._hosts import Driver, Host, Hosts
from flambeau.rl.collectors.distributed._remote import RemoteCollector
from flambeau.rl.envs.utils import ExplorationType
from flambeau.rl.weight_update._ray import RayWeightSyncScheme
from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncScheme

__all__ = ["DEFAULT_RAY_INIT_CONFIG", "DEFAULT_REMOTE_CLASS_CONFIG", "RayCollector", "print_remote_collector_info"]

DEFAULT_RAY_INIT_CONFIG: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False}
"""Arguments of `ray.init`, where Ray does not run yet."""
DEFAULT_REMOTE_CLASS_CONFIG: dict[str, Any] = {"num_cpus": 1, "num_gpus": 0}
"""Options of an actor: what it needs of the cluster."""


class RayDriver(Driver):
    """Hosts as actors.

    Args:
        configs: options of each actor.
    """

    def __init__(self, configs: list[dict[str, Any]]) -> None:
        self.configs = configs

    def start(self, number: int, data: bytes) -> Any:
        """Start an actor, which takes weights while it collects."""
        import ray

        # One thread collects, another one takes weights meanwhile.
        return ray.remote(Host).options(**({"max_concurrency": 3} | self.configs[number])).remote(data)

    def call(self, handle: Any, method: str, *args: Any) -> Any:
        """Begin a call of an actor's method."""
        return getattr(handle, method).remote(*args)

    def wait(self, futures: list[Any], timeout: float) -> list[Any]:
        """Those of several futures that are done."""
        import ray

        done, _ = ray.wait(futures, num_returns=1, timeout=timeout)
        return [each for each in futures if each in done]

    def result(self, future: Any) -> Any:
        """What a call returned."""
        import ray

        return ray.get(future)

    def kill(self, handle: Any) -> None:
        """End an actor at once."""
        import ray

        if ray.is_initialized():
            ray.kill(handle)


class RayCollector(RemoteCollector):
    """Collectors as actors of a Ray cluster, or of one that is started on this machine.

    A worker that raises, or whose machine is lost, is reported at once, and all end.

    Args:
        create_env_fn: functions that make environments, or environments, one an actor; or one for all, with
            `num_collectors`.
        policy: as in `Collector`.
        policy_factory: makes the policy in each actor; or one function an actor.
        trust_policy: as in `Collector`.
        frames_per_batch: number of steps of a batch: of all actors together where they are synchronous, of one else.
        total_frames: number of steps in all; -1 or None for no end.
        device: as in `Collector`; or one an actor, as the three that follow.
        storing_device: of batches.
        env_device: of environments.
        policy_device: of policies.
        max_frames_per_traj: as in `Collector`.
        init_random_frames: as in `Collector`.
        reset_at_each_iter: as in `Collector`.
        postproc: what is called with each batch, here; where there is a replay buffer, in the actors.
        split_trajs: as in `Collector`.
        exploration_type: as in `Collector`.
        collector_class: of the collectors.
        collector_kwargs: further arguments of theirs: for all, or in a list.
        num_workers_per_collector: number of processes of each actor.
        sync: actors wait for one another.
        ray_init_config: arguments of `ray.init`, if Ray does not run yet.
        remote_configs: options of the actors, such as {"num_cpus": 2}: for all, or in a list.
        num_collectors: number of actors.
        update_after_each_batch: update the policy's weights after each batch.
        max_weight_update_interval: update them after so many batches; -1 for only when told to.
        replay_buffer: where actors put their steps: one that they can reach, such as a `RayReplayBuffer`.
        weight_updater: brings weights to the actors, instead of schemes.
        weight_sync_schemes: bring weights to the actors; default: `RayWeightSyncScheme`.
        weight_recv_schemes: bring weights to this collector.
        use_env_creator: kept for upstream's signature: functions are sent as they are.
        no_cuda_sync: as in `Collector`.
        trajs_per_batch: as in `Collector`.
        pre_collect_hook: called in each actor before it collects a batch.
        post_collect_hook: called in each actor with its batch.

    Raises:
        CollectorWorkerError: a collector could not be made; in the loop, an actor raised, died or does not answer.
        ModuleNotFoundError: Ray is not installed.
    """

    def __init__(
        self,
        create_env_fn: Any,
        policy: Callable[[TensorDictBase], TensorDictBase] | None = None,
        *,
        policy_factory: Callable[[], Callable[..., Any]] | list[Callable[[], Callable[..., Any]]] | None = None,
        trust_policy: bool | None = None,
        frames_per_batch: int,
        total_frames: int = -1,
        device: Any = None,
        storing_device: Any = None,
        env_device: Any = None,
        policy_device: Any = None,
        max_frames_per_traj: int = -1,
        init_random_frames: int = -1,
        reset_at_each_iter: bool = False,
        postproc: Callable[..., Any] | None = None,
        split_trajs: bool = False,
        exploration_type: ExplorationType = DEFAULT_EXPLORATION_TYPE,
        collector_class: Any = Collector,
        collector_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        num_workers_per_collector: int = 1,
        sync: bool = False,
        ray_init_config: dict[str, Any] | None = None,
        remote_configs: dict[str, Any] | list[dict[str, Any]] | None = None,
        num_collectors: int | None = None,
        update_after_each_batch: bool = False,
        max_weight_update_interval: int = -1,
        replay_buffer: Any = None,
        weight_updater: Any = None,
        weight_sync_schemes: dict[str, WeightSyncScheme] | None = None,
        weight_recv_schemes: dict[str, WeightSyncScheme] | None = None,
        use_env_creator: bool = False,
        no_cuda_sync: bool | None = None,
        trajs_per_batch: int | None = None,
        pre_collect_hook: Callable[[], None] | None = None,
        post_collect_hook: Callable[[TensorDictBase], None] | None = None,
    ) -> None:
        ray = _ray()
        if not ray.is_initialized():
            ray.init(**(DEFAULT_RAY_INIT_CONFIG if ray_init_config is None else ray_init_config))
        self._remote_configs = remote_configs
        makers = create_env_fn if isinstance(create_env_fn, list) else [create_env_fn] * (num_collectors or 1)
        super().__init__(
            makers,
            policy,
            sync=sync,
            num_workers=num_collectors,
            collector_class=collector_class,
            collector_kwargs=collector_kwargs,
            num_workers_per_collector=num_workers_per_collector,
            update_after_each_batch=update_after_each_batch,
            max_weight_update_interval=max_weight_update_interval,
            policy_factory=policy_factory,
            trust_policy=trust_policy,
            frames_per_batch=frames_per_batch,
            total_frames=total_frames,
            device=device,
            storing_device=storing_device,
            env_device=env_device,
            policy_device=policy_device,
            max_frames_per_traj=max_frames_per_traj,
            init_random_frames=init_random_frames,
            reset_at_each_iter=reset_at_each_iter,
            postproc=postproc,
            split_trajs=split_trajs,
            exploration_type=exploration_type,
            replay_buffer=replay_buffer,
            weight_updater=weight_updater,
            weight_sync_schemes=weight_sync_schemes,
            weight_recv_schemes=weight_recv_schemes,
            no_cuda_sync=bool(no_cuda_sync),
            trajs_per_batch=trajs_per_batch,
            traj_format=None if trajs_per_batch is None else "padded",
            pre_collect_hook=pre_collect_hook,
            post_collect_hook=post_collect_hook,
        )

    def _made_crew(self) -> Any:
        configs = self._remote_configs
        several = configs if isinstance(configs, list) else [configs] * self.num_workers
        if len(several) != self.num_workers:
            raise ValueError(f"remote_configs has {len(several)} entries, for {self.num_workers} actors.")
        return Hosts(
            self, RayDriver([DEFAULT_REMOTE_CLASS_CONFIG | dict(each or {}) for each in several]), self._schemes
        )

    def _scheme(self) -> WeightSyncScheme:
        return RayWeightSyncScheme()

    def _connect_schemes(self) -> None:
        for model_id, scheme in self._schemes.items():
            actors = [worker.handle for worker in self._workers]
            scheme.init_on_sender(model_id=model_id, context=self, num_workers=self.num_workers, remote_actors=actors)
            scheme._synchronized_on_sender = True  # actors were sent the policy, with its weights

    @property
    def remote_collectors(self) -> list[Any]:
        """The actors."""
        return [worker.handle for worker in self._workers]

    def local_policy(self) -> Any:
        """The policy that weights come from."""
        return self.policy

    def set_seed(self, seed: int, static_seed: bool = False) -> list[int]:  # type: ignore[override]
        """Set the seeds of all actors: each gets the one that the one before it returned.

        Args:
            seed: of the first.
            static_seed: all get the same.

        Returns:
            The seeds that they returned.
        """
        seeds = []
        for number in range(self.num_workers):
            following = self._one(number, "call", "set_seed", (seed,), {"static_seed": static_seed})
            seed = seed if static_seed else following
            seeds.append(following)
        return seeds

    def state_dict(self) -> list[OrderedDict[str, Any]]:  # type: ignore[override]
        """The states of all actors, and number of steps and batches in the first."""
        state = super().state_dict()
        states = [OrderedDict(state[f"worker{number}"]) for number in range(self.num_workers)]
        states[0]["collector"] = {"frames": state["frames"], "iter": state["iter"]}
        return states

    def load_state_dict(self, state_dict: OrderedDict[str, Any] | list[OrderedDict[str, Any]]) -> None:
        """Go on from what `state_dict` gave.

        Args:
            state_dict: what it gave; one state is loaded by all actors.
        """
        states = state_dict if isinstance(state_dict, list) else [state_dict] * self.num_workers
        whole = OrderedDict((f"worker{number}", dict(each)) for number, each in enumerate(states))
        own = whole["worker0"].pop("collector", {"frames": self._frames, "iter": self._iter})
        super().load_state_dict(OrderedDict(whole | own))

    @contextmanager
    def pause(self, timeout: float = 30.0, *, resume: bool = True) -> Iterator[None]:
        """A context in which nothing is collected in the background.

        Args:
            timeout: kept for upstream's signature: batches that are being collected are waited for.
            resume: go on at its end.
        """
        with super().pause():
            yield
        if not resume:
            self._stop_thread(timeout)

    def stats(
        self, workers: Literal["aggregate", "per_worker", "both"] = "aggregate", *, timeout: float | None = 10.0
    ) -> dict[str, int | float | bool]:
        """How many steps and batches there were.

        Args:
            workers: in all, of each actor, or both.
            timeout: kept for upstream's signature: the numbers are known here.
        """
        return super().stats(workers)

    def stop_remote_collectors(self) -> None:
        """End all actors."""
        self.shutdown()

    def async_shutdown(self, shutdown_ray: bool = False) -> None:  # type: ignore[override]
        """Stop collecting in the background, and end all actors.

        Args:
            shutdown_ray: end Ray as well.
        """
        self.shutdown(shutdown_ray=shutdown_ray)

    def shutdown(  # type: ignore[override]
        self,
        timeout: float | None = None,
        shutdown_ray: bool = False,
        *,
        close_env: bool = True,
        raise_on_error: bool = True,
    ) -> None:
        """End all actors.

        Args:
            timeout: seconds that they have.
            shutdown_ray: end Ray as well.
            close_env: kept for the signature that all collectors share.
            raise_on_error: raise what went wrong in the background.
        """
        super().shutdown(timeout, close_env, raise_on_error)
        if shutdown_ray:
            _ray().shutdown()


def print_remote_collector_info(self: Any) -> None:
    """Log the process and the accelerators of an actor that a collector works in."""
    import os

    from flambeau.rl._utils import logger

    logger.info("collector in process %s, accelerators %s", os.getpid(), _ray().get_gpu_ids())


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "RayCollector needs Ray, which is not installed. Run: pip install 'flambeau-rl[ray]'"
        ) from error
    return ray
