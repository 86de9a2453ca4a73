"""Whole episodes of a policy, and what they brought."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._runner import Job, Packed
from flambeau.rl.collectors._worker import Crew
from flambeau.rl.collectors.utils import _TrajectoryPool
from flambeau.rl.envs._batched.worker import default_method
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.utils import ExplorationType

_STEPS = 100
"""Steps that are collected at once: an evaluation ends within so many of its last episode's end."""


@dataclass
class Evaluation:
    """Follows episodes with a collector, which is made at the first run.

    Args: see `Evaluator`.
    """

    env: Any
    policy: Any
    policy_factory: Callable[..., Any] | None
    num_trajectories: int
    max_steps: int | None
    frames_per_batch: int | None
    collector_cls: type | str | None
    collector_kwargs: dict[str, Any]
    weight_sync_schemes: dict[str, Any] | None
    reward_key: NestedKey
    done_key: NestedKey
    device: Any
    exploration_type: ExplorationType
    metrics_fn: Callable[[TensorDictBase], dict[str, float]] | None
    dump_video: bool
    init_fn: Callable[[], None] | None

    def __post_init__(self) -> None:
        self._collector: Any = None
        if isinstance(self.policy, nn.Module):
            # Training goes on while the copy is evaluated.
            self.policy = copy.deepcopy(self.policy)

    def run(self, weights: dict[str, TensorDictBase]) -> dict[str, Any]:
        """Follow the episodes.

        Args:
            weights: new ones, by model.

        Returns:
            Means over the episodes, and how many steps they had in all.
        """
        collector = self._made()
        if weights:
            collector.update_policy_weights_(weights_dict=weights)
        collector.reset()
        if collector._assembly is not None:
            collector._assembly.clear()
        episodes = next(collector.iterator())
        return self._found(episodes)

    def _found(self, episodes: Any) -> dict[str, Any]:
        mask = episodes.get(("collector", "mask"))
        lengths = mask.sum(-1)
        rewards = episodes.get(self.reward_key).double()
        returns = rewards.reshape(*mask.shape, -1).mean(-1).mul(mask).sum(-1)
        found: dict[str, Any] = {
            "reward": float(returns.float().mean()),
            "reward_std": float(returns.float().std()) if len(returns) > 1 else 0.0,
            "num_episodes": len(returns),
            "episode_length": float(lengths.double().mean()),
            "frames": int(lengths.sum()),
        }
        if self.metrics_fn is not None:
            found |= self.metrics_fn(episodes)
        if self.dump_video:
            _dump_videos(self._collector.env)
        return found

    def _made(self) -> Any:
        if self._collector is not None:
            return self._collector
        if self.init_fn is not None:
            self.init_fn()
        env = self.env if isinstance(self.env, EnvBase) else self.env()
        policy = self.policy if self.policy_factory is None else _from_factory(self.policy_factory, env)
        count = env.batch_size.numel()
        frames = self.frames_per_batch or min(self.max_steps or _STEPS, _STEPS) * count
        arguments: dict[str, Any] = {
            "frames_per_batch": frames,
            "total_frames": -1,
            "trajs_per_batch": self.num_trajectories,
            "traj_format": "padded",
            "max_frames_per_traj": self.max_steps,
            "exploration_type": self.exploration_type,
            "device": self.device,
            "weight_sync_schemes": self.weight_sync_schemes,
        }
        self._collector = _collector_class(self.collector_cls)(env, policy, **(arguments | self.collector_kwargs))
        if self.done_key != ("next", "done"):
            self._collector._assembly.done_keys = [self.done_key]
        return self._collector

    def close(self) -> None:
        """Close the environment."""
        if self._collector is not None:
            self._collector.shutdown()


class EvaluationElsewhere:
    """An evaluation in another process.

    Args:
        evaluation: what it does.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self._crew: Crew | None = None
        self._evaluation = evaluation

    def run(self, weights: dict[str, TensorDictBase]) -> dict[str, Any]:
        """Follow the episodes, see `Evaluation.run`."""
        if self._crew is None:
            crew = Crew(self, default_method())
            crew.start([_job(self._evaluation)])
            self._crew = crew
        found: dict[str, Any] = self._crew.workers[0].ask("call", "run", (weights,), {})
        return found

    def close(self) -> None:
        """End the process."""
        if self._crew is not None:
            self._crew.end(2.0)


class _Host:
    """An evaluation in the place of a worker's collector.

    Args:
        evaluation: what it does.
        options: of collectors; they are not used.
    """

    n_env = 1
    _frames = 0

    def __init__(self, evaluation: Evaluation, **options: Any) -> None:
        self.evaluation = evaluation
        evaluation.__post_init__()

    def iterator(self) -> Any:
        """Nothing: it is asked to run."""
        return iter(())

    def cascade_execute(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the evaluation."""
        return getattr(self.evaluation, name)(*args, **kwargs)

    def shutdown(self, **_: Any) -> None:
        """Close the environment."""
        self.evaluation.close()


def _job(evaluation: Evaluation) -> Job:
    return Job(
        number=0,
        collector_class=Packed(_Host),
        arguments=Packed({"evaluation": replace(evaluation)}),
        replay_buffer=None,
        pool=_TrajectoryPool(),
        interruptor=None,
        schemes={},
        threads=torch.get_num_threads(),
        init_fn=Packed(None),
        notes="",
    )


def _from_factory(factory: Callable[..., Any], env: Any) -> Any:
    """A policy; its factory takes the environment, or nothing."""
    takes = [
        each for each in inspect.signature(factory).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL)
    ]  # fmt: skip
    return factory(env) if takes else factory()


def _collector_class(given: type | str | None) -> Any:
    if given is None or isinstance(given, str):
        from flambeau.rl import collectors

        return getattr(collectors, given or "Collector")
    return given


def _dump_videos(env: Any) -> None:
    """Let recorders among an environment's transforms write what they have."""
    transform = getattr(env, "transform", None)
    for each in [] if transform is None else transform.modules():
        if hasattr(each, "dump"):
            each.dump()
