"""`AsyncCollector`: one process that collects while the main one learns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._constants import DEFAULT_EXPLORATION_TYPE
from flambeau.rl.collectors._multi_async import MultiAsyncCollector
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.utils import ExplorationType

__all__ = ["AsyncCollector"]


class AsyncCollector(MultiAsyncCollector):
    """A collector in another process, which collects the next batch while the caller works with the last one.

    Args: see `MultiCollector`; `create_env_fn` and `policy_factory` are one function, `create_env_kwargs` is one
        dictionary.
    """

    def __init__(
        self,
        create_env_fn: Callable[[], EnvBase],
        policy: Callable[[TensorDictBase], TensorDictBase] | None = None,
        *,
        policy_factory: Callable[[], Callable[..., Any]] | None = None,
        frames_per_batch: int,
        total_frames: int | None = -1,
        device: Any = None,
        storing_device: Any = None,
        env_device: Any = None,
        policy_device: Any = None,
        create_env_kwargs: Sequence[dict[str, Any]] | None = None,
        max_frames_per_traj: int | None = None,
        init_random_frames: int | None = None,
        reset_at_each_iter: bool = False,
        postproc: Callable[[TensorDictBase], TensorDictBase] | None = None,
        split_trajs: bool | None = None,
        exploration_type: ExplorationType = DEFAULT_EXPLORATION_TYPE,
        reset_when_done: bool = True,
        update_at_each_batch: bool = False,
        preemptive_threshold: float | None = None,
        num_threads: int | None = None,
        num_sub_threads: int = 1,
        set_truncated: bool = False,
        track_policy_version: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            [create_env_fn],
            policy,
            policy_factory=policy_factory,
            frames_per_batch=frames_per_batch,
            total_frames=total_frames,
            device=device,
            storing_device=storing_device,
            env_device=env_device,
            policy_device=policy_device,
            create_env_kwargs=create_env_kwargs,
            max_frames_per_traj=max_frames_per_traj,
            init_random_frames=init_random_frames,
            reset_at_each_iter=reset_at_each_iter,
            postproc=postproc,
            split_trajs=split_trajs,
            exploration_type=exploration_type,
            reset_when_done=reset_when_done,
            update_at_each_batch=update_at_each_batch,
            preemptive_threshold=preemptive_threshold,
            num_threads=num_threads,
            num_sub_threads=num_sub_threads,
            set_truncated=set_truncated,
            track_policy_version=track_policy_version,
            **kwargs,
        )
