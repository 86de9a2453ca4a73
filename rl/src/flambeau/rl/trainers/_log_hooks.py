"""Hooks that log: numbers of batches, times, counts of frames, rewards of an evaluation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._utils import timeit
from flambeau.rl.envs.utils import ExplorationType, set_exploration_type
from flambeau.rl.trainers._hook_base import MASK_KEY, REWARD_KEY, Stateless, TrainerHookBase, masked

__all__ = ["CountFramesLog", "LogScalar", "LogTiming", "LogValidationReward", "UTDRHook"]

_REDUCTIONS = ("mean", "sum", "min", "max")


class LogScalar(Stateless):
    """Logs the mean, or another reduction, of a value of each batch, and its standard deviation.

    Args:
        key: of the value.
        logname: what it is logged as; default: the key, and the standard deviation with "_std" behind it.
        log_pbar: show it in the progress bar.
        include_std: log the standard deviation, too.
        reduction: "mean", "sum", "min" or "max".

    Raises:
        ValueError: the reduction is another one.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> LogScalar("a", "a", include_std=False)(TensorDict({"a": torch.arange(3.0)}, [3]))
        {'a': 1.0, 'log_pbar': False}
    """

    def __init__(
        self,
        key: Any = REWARD_KEY,
        logname: str | None = None,
        log_pbar: bool = False,
        include_std: bool = True,
        reduction: str = "mean",
    ) -> None:
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction must be one of {', '.join(_REDUCTIONS)}; got {reduction!r}.")
        self.key = key
        self.logname = str(key) if logname is None else logname
        self.log_pbar = log_pbar
        self.include_std = include_std
        self.reduction = reduction

    def __call__(self, batch: TensorDictBase) -> dict[str, Any]:
        """The number of a batch.

        Raises:
            KeyError: it has no such value.
        """
        value = batch.get(self.key, None)
        if value is None:
            raise KeyError(
                f"LogScalar reads {self.key!r}, which the batch has not; its keys are {list(batch.keys(True, True))}."
            )
        value = masked(value, batch).float()
        found: dict[str, Any] = {self.logname: getattr(value, self.reduction)().item(), "log_pbar": self.log_pbar}
        if self.include_std:
            found[f"{self.logname}_std"] = value.std().item() if value.numel() > 1 else 0.0
        return found

    def register(self, trainer: Any, name: str | None = None) -> None:
        """Log each batch before it is trained with."""
        trainer.register_op("pre_steps_log", self)
        trainer.register_module(f"log_{self.logname}" if name is None else name, self)


class LogTiming(TrainerHookBase):
    """Logs what `timeit` measured.

    Args:
        prefix: of the names.
        percall: seconds a call, else seconds in all.
        erase: begin anew after each time.
    """

    def __init__(self, prefix: str = "time", percall: bool = True, erase: bool = False) -> None:
        self.prefix = prefix
        self.percall = percall
        self.erase = erase

    def __call__(self, batch: TensorDictBase | None = None) -> dict[str, Any]:
        """The times."""
        times = timeit.todict(percall=self.percall, prefix=self.prefix)
        if self.erase:
            timeit.erase()
        return dict(times)

    def state_dict(self) -> dict[str, Any]:
        """Its arguments."""
        return {"prefix": self.prefix, "percall": self.percall, "erase": self.erase}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take arguments."""
        self.prefix, self.percall, self.erase = (state_dict[name] for name in ("prefix", "percall", "erase"))

    def register(self, trainer: Any, name: str | None = None) -> None:
        """Log after each batch was trained with."""
        trainer.register_op("post_steps_log", self)
        trainer.register_module("log_timing" if name is None else name, self)


class CountFramesLog(TrainerHookBase):
    """Logs the number of frames so far, as "n_frames".

    Args:
        frame_skip: frames that the environment takes in one step, >= 1.
        log_pbar: show it in the progress bar.

    Raises:
        ValueError: `frame_skip` is below 1.
    """

    def __init__(self, frame_skip: int, log_pbar: bool = False) -> None:
        if frame_skip < 1:
            raise ValueError(f"frame_skip must be 1 or more; got {frame_skip}.")
        self.frame_count = 0
        self.frame_skip = frame_skip
        self.log_pbar = log_pbar

    def __call__(self, batch: TensorDictBase) -> dict[str, Any]:
        """The number, with those of a batch."""
        mask = batch.get(MASK_KEY, None)
        count = batch.numel() if mask is None else int(mask.sum())
        self.frame_count += count * self.frame_skip
        return {"n_frames": self.frame_count, "log_pbar": self.log_pbar}

    def state_dict(self) -> dict[str, Any]:
        """The number."""
        return {"frame_count": self.frame_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a number."""
        self.frame_count = state_dict["frame_count"]

    def register(self, trainer: Any, name: str = "count_frames_log") -> None:
        """Count each batch before it is trained with."""
        trainer.register_op("pre_steps_log", self)
        trainer.register_module(name, self)


class LogValidationReward(TrainerHookBase):
    """Lets the policy act in an environment now and then, and logs the rewards that it gets.

    Logged are the mean reward of a step, as "r_evaluation", divided by `frame_skip`, and the mean sum of an episode, as
    "total_r_evaluation".

    Args:
        record_interval: batches from one evaluation to the next.
        record_frames: steps of an evaluation, at most.
        frame_skip: frames that the environment takes in one step.
        policy_exploration: the policy; default: random actions.
        environment: where it acts; its transforms are dumped, which writes videos.
        exploration_type: how it acts.
        log_keys: keys that are logged; default: ("next", "reward").
        out_keys: what they are logged as.
        suffix: of videos.
        log_pbar: show it in the progress bar.
        recorder: the environment, by its older name.

    Raises:
        ValueError: there is no environment, or there are two.
    """

    ENV_DEPREC = "the environment is given as `environment`; `recorder` is its older name."

    def __init__(
        self,
        *,
        record_interval: int,
        record_frames: int,
        frame_skip: int = 1,
        policy_exploration: Any,
        environment: Any = None,
        exploration_type: ExplorationType = ExplorationType.RANDOM,
        log_keys: list[Any] | None = None,
        out_keys: dict[Any, str] | None = None,
        suffix: str | None = None,
        log_pbar: bool = False,
        recorder: Any = None,
    ) -> None:
        if (environment is None) == (recorder is None):
            raise ValueError("give the environment once, as environment=.")
        self.environment = recorder if environment is None else environment
        self.policy_exploration = policy_exploration
        self.record_frames = record_frames
        self.frame_skip = frame_skip
        self._count = 0
        self.record_interval = record_interval
        self.exploration_type = exploration_type
        self.log_keys = [REWARD_KEY] if log_keys is None else log_keys
        self.out_keys = {REWARD_KEY: "r_evaluation"} if out_keys is None else out_keys
        self.suffix = suffix
        self.log_pbar = log_pbar

    @torch.inference_mode()
    def __call__(self, batch: TensorDictBase) -> dict[str, Any] | None:
        """Evaluate, where it is time; the batch is not looked at."""
        found: dict[str, Any] | None = None
        if self._count % self.record_interval == 0:
            found = self._evaluated()
        self._count += 1
        return found

    def _evaluated(self) -> dict[str, Any]:
        was_training = getattr(self.policy_exploration, "training", False)
        if isinstance(self.policy_exploration, torch.nn.Module):
            self.policy_exploration.eval()
        try:
            with set_exploration_type(self.exploration_type):
                steps = self.environment.rollout(
                    policy=self.policy_exploration,
                    max_steps=self.record_frames,
                    auto_reset=True,
                    auto_cast_to_device=True,
                    break_when_any_done=False,
                ).clone()
        finally:
            if isinstance(self.policy_exploration, torch.nn.Module):
                self.policy_exploration.train(was_training)
        if hasattr(self.environment, "transform"):
            self.environment.transform.dump(suffix=self.suffix)
        found: dict[str, Any] = {}
        for key in self.log_keys:
            value = steps.get(key).float()
            name = self.out_keys.get(key, str(key))
            found[name] = value.mean() / self.frame_skip if key == REWARD_KEY else value
            if key == REWARD_KEY:
                found[f"total_{name}"] = _mean_return(value, steps.get(("next", "done")))
        found["log_pbar"] = self.log_pbar
        return found

    def state_dict(self) -> dict[str, Any]:
        """How often it was called, and the environment's state."""
        return {"_count": self._count, "recorder_state_dict": self.environment.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting."""
        self._count = state_dict["_count"]
        self.environment.load_state_dict(state_dict["recorder_state_dict"])

    def register(self, trainer: Any, name: str = "recorder") -> None:
        """Evaluate after batches were trained with."""
        trainer.register_module(name, self)
        trainer.register_op("post_steps_log", self)


def _mean_return(rewards: Tensor, done: Tensor) -> Tensor:
    """The mean sum of rewards of episodes, those that were cut at the end included; (*, time, 1)."""
    # Upstream: the last episode counts, however short it is.
    ends = done.reshape(-1, done.shape[-2])
    count = ends[:, :-1].sum() + len(ends)
    return rewards.sum() / count


class UTDRHook(Stateless):
    """Logs how often each collected step was trained with, as "utd_ratio", where collectors run in the background.

    Args:
        trainer: has a replay buffer, by its collector.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def __call__(self, batch: TensorDictBase | None = None) -> dict[str, Any]:
        """The ratio."""
        buffer = getattr(self.trainer.collector, "replay_buffer", None)
        if buffer is None:
            return {}
        count, size = buffer.write_count, buffer.batch_size or 1
        return {"utd_ratio": size * self.trainer._optim_count / count if count else 0.0}

    def register(self, trainer: Any, name: str = "utdr_hook") -> None:
        """Log with each batch."""
        trainer.register_op("pre_steps_log", self)
        trainer.register_module(name, self)
