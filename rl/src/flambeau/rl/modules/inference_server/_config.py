"""How an inference server gathers requests, and on which devices it works."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import torch

from flambeau.rl._comm.request_reply import check_batching

__all__ = ["InferenceDeviceConfig", "InferenceServerConfig"]


@dataclass
class InferenceDeviceConfig:
    """On which devices the parts of a collector with an inference server work; None where it does not matter.

    Args:
        policy_device: the policy's, to which requests are moved.
        output_device: of answers.
        env_device: the environments'; that of answers, where that is not given.
        storing_device: of batches that a collector gives.
    """

    policy_device: torch.device | str | None = None
    output_device: torch.device | str | None = None
    env_device: torch.device | str | None = None
    storing_device: torch.device | str | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            setattr(self, each.name, None if value is None else torch.device(value))

    def server_output_device(self) -> torch.device | str | None:
        """Where answers go: `output_device`, else `env_device`."""
        return self.env_device if self.output_device is None else self.output_device


@dataclass
class InferenceServerConfig:
    """How an inference server gathers requests.

    Args:
        service_backend: where the policy is: "thread" of this process, "process" or "ray".
        max_batch_size: requests at a time, 1 or more.
        static_batch_size: the batch size of a CUDA graph, to which batches are filled up; None for none.
        min_batch_size: requests that are waited for after the first.
        timeout: seconds for which they are.
        collect_stats: count and measure.
        stats_window_size: of how many of the last ones percentiles are computed.
        max_inflight_per_env: requests of an environment that may be on their way; None for any number.

    Raises:
        ValueError: a number is too small, or there is no such backend.
    """

    service_backend: Literal["thread", "process", "ray"] = "thread"
    max_batch_size: int = 64
    static_batch_size: int | None = None
    min_batch_size: int = 1
    timeout: float = 0.01
    collect_stats: bool = True
    stats_window_size: int = 1024
    max_inflight_per_env: int | None = None

    def __post_init__(self) -> None:
        if self.service_backend not in ("thread", "process", "ray"):
            raise ValueError(f"service_backend is {self.service_backend!r}, expected 'thread', 'process' or 'ray'.")
        check_batching(self.max_batch_size, self.min_batch_size, self.timeout, self.stats_window_size)
        if self.static_batch_size is not None and self.static_batch_size < self.max_batch_size:
            raise ValueError(
                f"static_batch_size is {self.static_batch_size}, expected max_batch_size={self.max_batch_size} or more."
            )
        if self.max_inflight_per_env is not None and self.max_inflight_per_env < 1:
            raise ValueError(f"max_inflight_per_env is {self.max_inflight_per_env}, expected 1 or more.")


_BATCHING = (
    "max_batch_size",
    "static_batch_size",
    "min_batch_size",
    "timeout",
    "collect_stats",
    "stats_window_size",
)


def batching(config: InferenceServerConfig | None, given: dict[str, Any]) -> InferenceServerConfig:
    """One configuration of one that is given, or of single arguments.

    Args:
        config: the configuration.
        given: single arguments; None for those that are not.

    Raises:
        ValueError: both are given, or a number is too small.
    """
    named = {name: given[name] for name in _BATCHING if given[name] is not None}
    if config is None:
        return InferenceServerConfig(**named)
    if named:
        raise ValueError(f"server_config says it already; leave out {', '.join(named)}.")
    return config


def devices(
    config: InferenceDeviceConfig | None, device: Any, policy_device: Any, output_device: Any
) -> tuple[torch.device | None, torch.device | None]:
    """Devices of the policy and of answers.

    Raises:
        ValueError: they are given twice, or one that a server has no use for.
    """
    if config is not None:
        if any(each is not None for each in (device, policy_device, output_device)):
            raise ValueError("device_config says it already; leave out device, policy_device and output_device.")
        if config.storing_device is not None:
            raise ValueError(
                "device_config has a storing_device, which a server stores nothing on; give it to the collector."
            )
        policy_device, output_device = config.policy_device, config.server_output_device()
    elif policy_device is None:
        policy_device = device
    return tuple(None if each is None else torch.device(each) for each in (policy_device, output_device))  # type: ignore[return-value]
