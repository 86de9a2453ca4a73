"""Collectors from configurations, and over several environments each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flambeau.rl.collectors import Collector, MultiAsyncCollector, MultiSyncCollector
from flambeau.rl.data.postprocs import MultiStep
from flambeau.rl.envs import ParallelEnv
from flambeau.rl.envs.utils import ExplorationType

__all__ = [
    "OffPolicyCollectorConfig",
    "OnPolicyCollectorConfig",
    "make_collector_offpolicy",
    "make_collector_onpolicy",
    "sync_async_collector",
    "sync_sync_collector",
]


@dataclass
class OnPolicyCollectorConfig:
    """How steps are collected.

    Attributes:
        collector_device: of the collectors, one or all.
        pin_memory: unused; batches are pinned by replay buffers.
        frames_per_batch: steps of a batch.
        total_frames: steps in all.
        num_workers: environments in all.
        env_per_collector: environments of a collector.
        seed: of the environments.
        exploration_type: how policies draw: "random", "mode", "mean" or "deterministic".
        async_collection: collectors do not wait for one another; for replay buffers only.
    """

    collector_device: Any = field(default_factory=lambda: ["cpu"])
    pin_memory: bool = False
    frames_per_batch: int = 1000
    total_frames: int = 50000000
    num_workers: int = 32
    env_per_collector: int = 8
    seed: int = 42
    exploration_type: str = "random"
    async_collection: bool = False


@dataclass
class OffPolicyCollectorConfig(OnPolicyCollectorConfig):
    """How steps are collected for a replay buffer.

    Attributes:
        multi_step: rewards are those of several steps.
        n_steps_return: of so many.
        init_random_frames: steps with random actions at first.
    """

    multi_step: bool = False
    n_steps_return: int = 3
    init_random_frames: int = 50000


def sync_async_collector(
    env_fns: Callable[..., Any] | Sequence[Callable[..., Any]],
    env_kwargs: Any,
    num_env_per_collector: int | None = None,
    num_collectors: int | None = None,
    **kwargs: Any,
) -> MultiAsyncCollector:
    """Collectors that do not wait for one another, each over environments that step together.

    Args:
        env_fns: makes an environment; or a list, one for each.
        env_kwargs: of `env_fns`; or a list, one for each.
        num_env_per_collector: environments of a collector.
        num_collectors: collectors; with a list one of both numbers is enough.
        kwargs: of `MultiAsyncCollector`.

    Raises:
        ValueError: numbers are missing, or too small for the list.
    """
    makers, options = _grouped(env_fns, env_kwargs, num_env_per_collector, num_collectors)
    return MultiAsyncCollector(create_env_fn=makers, create_env_kwargs=options, **kwargs)


def sync_sync_collector(
    env_fns: Callable[..., Any] | Sequence[Callable[..., Any]],
    env_kwargs: Any,
    num_env_per_collector: int | None = None,
    num_collectors: int | None = None,
    **kwargs: Any,
) -> Collector | MultiSyncCollector:
    """Collectors that wait for one another, each over environments that step together; one is in this process.

    Args:
        env_fns: as for `sync_async_collector`, like the next three.
        env_kwargs: of `env_fns`.
        num_env_per_collector: environments of a collector.
        num_collectors: collectors.
        kwargs: of the collector.

    Raises:
        ValueError: numbers are missing, or too small for the list.
    """
    makers, options = _grouped(env_fns, env_kwargs, num_env_per_collector, num_collectors)
    if len(makers) > 1:
        return MultiSyncCollector(create_env_fn=makers, create_env_kwargs=options, **kwargs)
    single = None if options is None else options[0]
    return Collector(create_env_fn=makers[0], create_env_kwargs=single, **kwargs)


def _grouped(
    env_fns: Any, env_kwargs: Any, per_collector: int | None, collectors: int | None
) -> tuple[list[Any], list[Any] | None]:
    """What makes the environment of each collector, and its arguments."""
    if callable(env_fns):
        if per_collector is None or collectors is None:
            raise ValueError(
                f"num_env_per_collector is {per_collector} and num_collectors {collectors}; give both with one env_fns."
            )
        env_fns = [env_fns] * (per_collector * collectors)
    count = len(env_fns)
    if per_collector is None and collectors is None:
        raise ValueError("num_env_per_collector and num_collectors are None; give one of them with a list of env_fns.")
    if per_collector is None:
        assert collectors is not None
        per_collector = -(-count // collectors)
    collectors = -(-count // per_collector) if collectors is None else collectors
    if per_collector * collectors < count:
        raise ValueError(
            f"num_env_per_collector * num_collectors is {per_collector * collectors}, expected at least the {count} "
            "environments of env_fns."
        )
    given = list(env_kwargs) if isinstance(env_kwargs, (list, tuple)) else [env_kwargs or {}] * count
    if per_collector == 1:
        return list(env_fns), given
    makers = []
    for at in range(0, count, per_collector):
        fns, options = env_fns[at : at + per_collector], given[at : at + per_collector]
        makers.append(functools.partial(ParallelEnv, len(fns), list(fns), create_env_kwargs=options))
    return makers, None


def _common(cfg: Any) -> dict[str, Any]:
    device = cfg.collector_device
    if isinstance(device, (list, tuple)) and len(device) == 1:
        device = device[0]
    return {
        "total_frames": cfg.total_frames,
        "frames_per_batch": cfg.frames_per_batch,
        "max_frames_per_traj": cfg.max_frames_per_traj,
        "device": device,
        "storing_device": device,
        "split_trajs": True,
        "exploration_type": ExplorationType.from_str(cfg.exploration_type),
        # `make_env` makes the `env_per_collector` environments of a collector.
        "num_env_per_collector": 1,
        "num_collectors": -(-cfg.num_workers // cfg.env_per_collector),
    }


def _made(make: Any, make_env: Any, policy: Any, cfg: Any, make_env_kwargs: Any, **options: Any) -> Any:
    collector = make(make_env, make_env_kwargs, policy=policy, **_common(cfg), **options)
    collector.set_seed(cfg.seed)
    return collector


def make_collector_onpolicy(
    make_env: Callable[..., Any], actor_model_explore: Any, cfg: Any, make_env_kwargs: dict[str, Any] | None = None
) -> Any:
    """A collector of whole trajectories, split and padded.

    Args:
        make_env: makes an environment of `env_per_collector` ones.
        actor_model_explore: the policy.
        cfg: as `OnPolicyCollectorConfig`, and `max_frames_per_traj`.
        make_env_kwargs: of `make_env`.
    """
    return _made(sync_sync_collector, make_env, actor_model_explore, cfg, make_env_kwargs)


def make_collector_offpolicy(
    make_env: Callable[..., Any], actor_model_explore: Any, cfg: Any, make_env_kwargs: dict[str, Any] | None = None
) -> Any:
    """A collector of trajectories for a replay buffer, split and padded.

    Args:
        make_env: makes an environment of `env_per_collector` ones.
        actor_model_explore: the policy, with its exploration.
        cfg: as `OffPolicyCollectorConfig`, and `max_frames_per_traj`; `gamma` with `multi_step`.
        make_env_kwargs: of `make_env`.
    """
    postproc = MultiStep(gamma=cfg.gamma, n_steps=cfg.n_steps_return) if cfg.multi_step else None
    make = sync_async_collector if cfg.async_collection else sync_sync_collector
    options = {"init_random_frames": cfg.init_random_frames, "postproc": postproc}
    return _made(make, make_env, actor_model_explore, cfg, make_env_kwargs, **options)
