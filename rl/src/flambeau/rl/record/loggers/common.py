"""`Logger`: what all loggers are."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase

__all__ = ["Logger"]

BACKENDS = ("direct", "process", "ray")


class _ServiceMeta(ABCMeta):
    """Makes loggers in this process, or in one of their own where `service_backend` says so."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        backend = kwargs.pop("service_backend", None)
        options = kwargs.pop("service_backend_options", None) or {}
        if kwargs.pop("use_ray_service", False):
            backend = backend or "ray"
            options = options or {"actor_options": kwargs.pop("ray_actor_options", None)}
        kwargs.pop("ray_actor_options", None)
        if backend not in (None, *BACKENDS):
            raise ValueError(f"service_backend must be one of {', '.join(BACKENDS)}; got {backend!r}.")
        if backend in (None, "direct"):
            return super().__call__(*args, **kwargs)
        return _service(cls, backend, options, args, kwargs)


def _service(cls: type, backend: str, options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if backend == "ray":
        from flambeau.rl.record.loggers.ray import RayLogger

        names = {"actor_options": "ray_actor_options", "ray_init_config": "ray_init_config"}
        return RayLogger(cls, *args, **{names[key]: value for key, value in options.items()}, **kwargs)
    from flambeau.rl.record.loggers.process import ProcessLogger

    options = {"mp_context" if key == "context" else key: value for key, value in options.items()}
    return ProcessLogger(cls, *args, **options, **kwargs)


class Logger(metaclass=_ServiceMeta):
    """Keeps numbers, videos and texts of an experiment.

    Subclasses make the experiment, and say how each of these is kept.

    Args:
        exp_name: the experiment's name.
        log_dir: the folder of experiments.
        service_backend: "direct", in this process; "process" or "ray", in one of its own.
        service_backend_options: arguments of `ProcessLogger` or `RayLogger`.
    """

    def __init__(self, exp_name: str, log_dir: str) -> None:
        self.exp_name = exp_name
        self.log_dir = log_dir
        self.experiment = self._create_experiment()
        self._open = True

    @abstractmethod
    def _create_experiment(self) -> Any:
        """What keeps the values; it is `experiment`."""

    # What is kept

    @abstractmethod
    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Keep a number.

        Args:
            name: what it is; slashes make groups.
            value: the number.
            step: when it was so, such as the number of frames.
        """

    @abstractmethod
    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Keep a video.

        Args:
            name: what it shows.
            video: (N, T, C, H, W), uint8.
            step: when it was so.
            kwargs: what the logger takes besides, such as `fps`.
        """

    @abstractmethod
    def log_hparams(self, cfg: Any) -> None:
        """Keep the parameters of the experiment: a dictionary, or a configuration of omegaconf."""

    @abstractmethod
    def log_histogram(self, name: str, data: Sequence[Any], **kwargs: Any) -> None:
        """Keep how numbers are distributed.

        Args:
            name: what they are.
            data: the numbers.
            kwargs: `step` and `bins`.
        """

    def log_metrics(
        self, metrics: dict[str, Any] | TensorDictBase, step: int | None = None, *, keys_sep: str = "/"
    ) -> dict[str, Any]:
        """Keep several numbers; what is on an accelerator is fetched in one go.

        Args:
            metrics: names and numbers; those of a tensordict may be nested.
            step: when they were so.
            keys_sep: what joins the keys of a nested name.

        Returns:
            The numbers as Python's own.
        """
        numbers = plain_numbers(metrics, keys_sep)
        for name, value in numbers.items():
            self.log_scalar(name, value, step=step)
        return numbers

    # Life

    def start(self) -> Self:
        """The logger; one in this process has begun already."""
        return self

    def client(self) -> Self:
        """What logs from elsewhere; for one in this process the logger itself."""
        return self

    @property
    def is_alive(self) -> bool:
        """Whether it has not been shut down."""
        return self._open

    @property
    def service_backend(self) -> str:
        """Where it is: "direct"."""
        return "direct"

    def flush(self, timeout: float | None = None) -> None:
        """Have written what was logged.

        Args:
            timeout: seconds, of loggers that are elsewhere.
        """
        if callable(method := getattr(self.experiment, "flush", None)):
            method()

    def shutdown(self, timeout: float | None = None) -> None:
        """Write what was logged, and close it.

        Args:
            timeout: seconds, of loggers that are elsewhere.
        """
        if not self._open:
            return
        self.flush(timeout)
        self._open = False
        if callable(method := getattr(self.experiment, "close", None)):
            method()

    def close(self, timeout: float | None = None) -> None:
        """As `shutdown`."""
        self.shutdown(timeout)

    # State

    def state_dict(self) -> dict[str, Any]:
        """Its name, its folder, and what it counts."""
        return {"exp_name": self.exp_name, "log_dir": str(self.log_dir), "local": self._checkpoint_state()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on counting from a state; the experiment stays as it is."""
        self._load_checkpoint_state(state_dict.get("local", {}))

    def _checkpoint_state(self) -> dict[str, Any]:
        return {}

    def _load_checkpoint_state(self, state_dict: Mapping[str, Any]) -> None:
        """Take what `_checkpoint_state` gave."""


def plain_numbers(metrics: Any, keys_sep: str = "/") -> dict[str, Any]:
    """Numbers by name, as Python's own; tensors of one element are numbers, others lists."""
    if isinstance(metrics, TensorDictBase):
        metrics = {
            keys_sep.join(key) if isinstance(key, tuple) else key: metrics.get(key) for key in metrics.keys(True, True)
        }
    fetched = {name: value.detach() for name, value in metrics.items() if isinstance(value, Tensor)}
    away = {name: value for name, value in fetched.items() if value.device.type != "cpu"}
    if away:
        fetched |= {name: value.to("cpu", non_blocking=True) for name, value in away.items()}
        for device in {value.device for value in away.values()}:
            torch.get_device_module(device).synchronize(device)
    return {
        name: (fetched[name].item() if value.numel() == 1 else fetched[name].tolist())
        if isinstance(value, Tensor)
        else value
        for name, value in metrics.items()
    }


def plain_parameters(cfg: Any) -> dict[str, Any]:
    """A configuration as a dictionary.

    Raises:
        TypeError: it is none.
    """
    if hasattr(cfg, "_metadata") and type(cfg).__module__.startswith("omegaconf"):
        from omegaconf import OmegaConf

        return dict(OmegaConf.to_container(cfg, resolve=True))
    if not isinstance(cfg, Mapping):
        raise TypeError(f"log_hparams takes a dictionary of parameters; got {type(cfg).__name__}.")
    return dict(cfg)


def folder_of(log_dir: str | Path, exp_name: str) -> Path:
    """The folder of an experiment, made where it is not there."""
    folder = Path(log_dir) / exp_name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
