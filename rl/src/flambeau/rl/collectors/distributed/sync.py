"""`DistributedSyncCollector`: collectors that torch.distributed connects, and that wait for one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._constants import DEFAULT_EXPLORATION_TYPE
from flambeau.rl.collectors._single import Collector
from flambeau.rl.collectors.distributed.generic import DistributedCollector
from flambeau.rl.envs.utils import ExplorationType

__all__ = ["DistributedSyncCollector"]


class DistributedSyncCollector(DistributedCollector):
    """A `DistributedCollector` whose workers wait for one another: a batch has the steps of all.

    Args: see `DistributedCollector`; weights are updated after `update_interval` batches.
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
        collector_class: type | Callable[..., Any] = Collector,
        collector_kwargs: dict[str, Any] | None = None,
        num_workers_per_collector: int = 1,
        slurm_kwargs: dict[str, Any] | None = None,
        backend: Literal["gloo", "nccl"] = "gloo",
        max_weight_update_interval: int = -1,
        update_interval: int = 1,
        launcher: str = "submitit",
        tcp_port: str | None = None,
    ) -> None:
        super().__init__(
            create_env_fn,
            policy,
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
            collector_class=collector_class,  # type: ignore[arg-type]
            collector_kwargs=collector_kwargs,
            num_workers_per_collector=num_workers_per_collector,
            sync=True,
            slurm_kwargs=slurm_kwargs,
            backend=backend,
            max_weight_update_interval=max_weight_update_interval,
            update_interval=update_interval if isinstance(policy, nn.Module) else -1,
            launcher=launcher,
            tcp_port=None if tcp_port is None else int(tcp_port),
        )
