"""Profiles of the batches that a collector collects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ProfileConfig"]

_ACTIVITIES = ("cpu", "cuda", "xpu", "mtia")


@dataclass
class ProfileConfig:
    """What is profiled, and where traces go.

    Args:
        workers: numbers of the workers that are; a collector of one process is worker 0.
        num_rollouts: batches in all, those at first that are not recorded among them.
        warmup_rollouts: batches that are not recorded.
        save_path: file of the trace, in which "{worker_idx}" is the worker's number; default:
            "./collector_profile_{worker_idx}.json".
        activities: "cpu", "cuda", "xpu", "mtia"; those that the machine lacks are left out.
        record_shapes: record shapes of arguments.
        profile_memory: record allocations.
        with_stack: record where in the source operators were called.
        with_flops: estimate floating point operations.
        on_trace_ready: called with the profiler at the end, instead of writing a file.

    Raises:
        ValueError: there are fewer batches than those that are not recorded, or an activity is none of those.
    """

    workers: list[int] = field(default_factory=lambda: [0])
    num_rollouts: int = 3
    warmup_rollouts: int = 1
    save_path: str | Path | None = None
    activities: list[str] = field(default_factory=lambda: ["cpu", "cuda"])
    record_shapes: bool = True
    profile_memory: bool = False
    with_stack: bool = True
    with_flops: bool = False
    on_trace_ready: Callable[..., None] | None = None

    def __post_init__(self) -> None:
        if self.num_rollouts <= self.warmup_rollouts:
            raise ValueError(
                f"num_rollouts={self.num_rollouts} must be more than warmup_rollouts={self.warmup_rollouts}, or "
                "nothing is recorded."
            )
        unknown = [name for name in self.activities if name not in _ACTIVITIES]
        if unknown:
            raise ValueError(f"activities must be among {', '.join(_ACTIVITIES)}; got {unknown}.")

    def get_save_path(self, worker_idx: int) -> Path:
        """Where the trace of a worker goes.

        Args:
            worker_idx: its number.
        """
        path = "./collector_profile_{worker_idx}.json" if self.save_path is None else str(self.save_path)
        return Path(path.replace("{worker_idx}", str(worker_idx)))

    def get_activities(self) -> list[Any]:
        """Those activities that the machine has, as `torch.profiler` names them."""
        from torch.profiler import ProfilerActivity, supported_activities

        there = supported_activities()
        found = [getattr(ProfilerActivity, name.upper()) for name in self.activities]
        return [each for each in found if each in there]

    def should_profile_worker(self, worker_idx: int) -> bool:
        """Whether a worker is profiled.

        Args:
            worker_idx: its number.
        """
        return worker_idx in self.workers


class Profile:
    """The profile of one collector: it begins with its first batch, and ends with the last one that is asked for.

    Args:
        config: what is profiled.
        worker_idx: the collector's number.
    """

    def __init__(self, config: ProfileConfig, worker_idx: int) -> None:
        self.config, self.worker_idx = config, worker_idx
        self._profiler: Any = None
        self._batches = 0

    def step(self) -> None:
        """Begin a batch, and end the one before."""
        from torch.profiler import profile, schedule

        config = self.config
        if self._batches > config.num_rollouts:
            return
        if self._profiler is None:
            self._profiler = profile(
                activities=config.get_activities(),
                schedule=schedule(
                    wait=0, warmup=config.warmup_rollouts, active=config.num_rollouts - config.warmup_rollouts, repeat=1
                ),
                on_trace_ready=config.on_trace_ready or self._write,
                record_shapes=config.record_shapes,
                profile_memory=config.profile_memory,
                with_stack=config.with_stack,
                with_flops=config.with_flops,
            )
            self._profiler.start()
        else:
            self._profiler.step()
        self._batches += 1
        if self._batches > config.num_rollouts:
            self._profiler.stop()

    def stop(self) -> None:
        """End the profile, also where there were fewer batches."""
        if self._profiler is not None and self._batches <= self.config.num_rollouts:
            self._batches = self.config.num_rollouts + 1
            self._profiler.step()
            self._profiler.stop()

    def _write(self, profiler: Any) -> None:
        path = self.config.get_save_path(self.worker_idx)
        path.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(path))
