"""`DistributedCollector`: collectors that torch.distributed connects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._constants import DEFAULT_EXPLORATION_TYPE
from flambeau.rl.collectors._single import Collector
from flambeau.rl.collectors.distributed._launchers import launcher_of
from flambeau.rl.collectors.distributed._line import Nodes, this_host
from flambeau.rl.collectors.distributed._remote import RemoteCollector
from flambeau.rl.collectors.distributed.default_configs import DEFAULT_SLURM_CONF
from flambeau.rl.collectors.weight_update import WeightUpdaterBase
from flambeau.rl.envs.utils import ExplorationType
from flambeau.rl.weight_update._distributed import DistributedWeightSyncScheme
from flambeau.rl.weight_update._weights import weights_of
from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncScheme

__all__ = ["DEFAULT_SLURM_CONF", "DistributedCollector", "DistributedWeightUpdater"]


class DistributedCollector(RemoteCollector):
    """Collectors in processes of this machine or of others, whose batches and weights travel over torch.distributed.

    They have a process group of their own, and leave the program's as it is. A worker that raises or dies is reported
    at once, with its traceback, and all end.

    Args:
        create_env_fn: functions that make environments, one a worker.
        policy: as in `Collector`.
        policy_factory: makes the policy at each worker; or one function a worker.
        frames_per_batch: number of steps of a batch: of all workers together where they are synchronous, of one else.
        total_frames: number of steps in all; -1 or None for no end.
        device: as in `Collector`; or one a worker, as the three that follow.
        storing_device: of batches.
        env_device: of environments.
        policy_device: of policies.
        max_frames_per_traj: as in `Collector`.
        init_random_frames: as in `Collector`.
        reset_at_each_iter: as in `Collector`.
        postproc: what is called with each batch, here.
        split_trajs: as in `Collector`.
        exploration_type: as in `Collector`.
        collector_class: of the collectors.
        collector_kwargs: further arguments of theirs: for all, or in a list.
        num_workers_per_collector: number of processes of each worker.
        sync: workers wait for one another.
        slurm_kwargs: parameters of Slurm, as submitit names them.
        backend: "gloo" or "nccl".
        update_after_each_batch: update the policy's weights after each batch.
        max_weight_update_interval: update them after so many batches; -1 for only when told to.
        update_interval: the same, by another name.
        launcher: "mp" for processes of this machine; "submitit" for jobs of Slurm.
        tcp_port: where the store of torch.distributed listens; default: a free port.
        weight_updater: brings weights to the workers, instead of schemes.
        weight_sync_schemes: bring weights to the workers; default: `DistributedWeightSyncScheme`.
        weight_recv_schemes: bring weights to this collector.

    Raises:
        CollectorWorkerError: a collector could not be made; in the loop, a worker raised, died or does not answer.
    """

    def __init__(
        self,
        create_env_fn: Any,
        policy: Callable[[TensorDictBase], TensorDictBase] | None = None,
        *,
        policy_factory: Callable[[], Callable[..., Any]] | list[Callable[[], Callable[..., Any]]] | None = None,
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
        collector_class: type = Collector,
        collector_kwargs: dict[str, Any] | None = None,
        num_workers_per_collector: int = 1,
        sync: bool = False,
        slurm_kwargs: dict[str, Any] | None = None,
        backend: str = "gloo",
        update_after_each_batch: bool = False,
        max_weight_update_interval: int = -1,
        update_interval: int | None = None,
        launcher: str = "submitit",
        tcp_port: int | None = None,
        weight_updater: Any = None,
        weight_sync_schemes: dict[str, WeightSyncScheme] | None = None,
        weight_recv_schemes: dict[str, WeightSyncScheme] | None = None,
    ) -> None:
        self.backend, self.launcher, self.slurm_kwargs = backend, launcher, slurm_kwargs
        self.tcp_port = tcp_port
        self._launch = launcher_of(launcher, slurm_kwargs)
        super().__init__(
            create_env_fn,
            policy,
            sync=sync,
            collector_class=collector_class,
            collector_kwargs=collector_kwargs,
            num_workers_per_collector=num_workers_per_collector,
            update_after_each_batch=update_after_each_batch,
            max_weight_update_interval=max_weight_update_interval if update_interval is None else update_interval,
            policy_factory=policy_factory,
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
            weight_updater=weight_updater,
            weight_sync_schemes=weight_sync_schemes,
            weight_recv_schemes=weight_recv_schemes,
        )

    def _made_crew(self) -> Any:
        host, port = this_host(self.launcher), 0 if self.tcp_port is None else int(self.tcp_port)
        return Nodes(self, self._launch, host, port, self.backend, self._schemes)

    def _scheme(self) -> WeightSyncScheme:
        return DistributedWeightSyncScheme(self.backend, sync=self._sync)

    def _connect_schemes(self) -> None:
        for model_id, scheme in self._schemes.items():
            scheme.init_on_sender(
                model_id=model_id,
                context=self,
                num_workers=self.num_workers,
                store=self._crew.store,
                group=self._crew.group,
            )
            scheme._synchronized_on_sender = True  # workers were sent the policy, with its weights


class DistributedWeightUpdater(WeightUpdaterBase):
    """Brings weights to the workers of a `DistributedCollector`.

    Args:
        store: kept for upstream's signature: the collector's is used.
        policy_weights: the weights.
        num_workers: number of workers.
        sync: wait until they are taken.
    """

    def __init__(self, store: Any, policy_weights: TensorDictBase, num_workers: int, sync: bool) -> None:
        super().__init__()
        self._scheme = DistributedWeightSyncScheme(sync=sync)
        self.policy_weights, self.num_workers = policy_weights, num_workers

    def _get_server_weights(self) -> TensorDictBase:
        return self.policy_weights

    def _sync_weights_with_worker(self, *, worker_id: Any, server_weights: Any) -> None:
        self.collector._one(worker_id, "call", "update_policy_weights_", (weights_of(server_weights).cpu(),), {})

    def all_worker_ids(self) -> list[int]:
        """The numbers of all workers."""
        return list(range(self.num_workers))
