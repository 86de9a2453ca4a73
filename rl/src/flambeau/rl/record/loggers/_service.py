"""What loggers in other processes share: clients that send what is to be logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.record.loggers.common import plain_numbers, plain_parameters

__all__ = ["LoggerClient"]

_LIFE = frozenset({"client", "close", "flush", "load_state_dict", "shutdown", "start", "state_dict"})


class LoggerClient:
    """Sends what is to be logged to a logger elsewhere; it has the logger's `log_` methods, and does not end it."""

    exp_name: str
    log_dir: str

    def _submit(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], wait: bool = False) -> Any:
        """Have the logger call a method; wait for what it returns where that is asked for."""
        raise NotImplementedError

    @property
    def is_alive(self) -> bool:
        """Whether the logger takes calls."""
        raise NotImplementedError

    @property
    def service_backend(self) -> str:
        """Where the logger is."""
        raise NotImplementedError

    def log_scalar(self, name: str, value: float, step: int | None = None, **kwargs: Any) -> None:
        """As `Logger.log_scalar`."""
        self._submit("log_scalar", (name, value), {"step": step} | kwargs)

    def log_video(self, name: str, video: Tensor, step: int | None = None, **kwargs: Any) -> None:
        """As `Logger.log_video`."""
        self._submit("log_video", (name, video.detach().cpu()), {"step": step} | kwargs)

    def log_hparams(self, cfg: Any) -> None:
        """As `Logger.log_hparams`."""
        self._submit("log_hparams", (plain_parameters(cfg) if not isinstance(cfg, Mapping) else dict(cfg),), {}, True)

    def log_histogram(self, name: str, data: Tensor | Sequence[Any], **kwargs: Any) -> None:
        """As `Logger.log_histogram`."""
        data = data.detach().cpu() if isinstance(data, Tensor) else data
        self._submit("log_histogram", (name, data), kwargs, True)

    def log_metrics(
        self, metrics: dict[str, Any] | TensorDictBase, step: int | None = None, *, keys_sep: str = "/", **kwargs: Any
    ) -> dict[str, Any]:
        """As `Logger.log_metrics`."""
        numbers = plain_numbers(metrics, keys_sep)
        self._submit("log_metrics", (numbers,), {"step": step} | kwargs)
        return numbers

    def log_str(self, name: str, value: str, step: int | None = None, **kwargs: Any) -> None:
        """Keep a text, with loggers that have a place for it."""
        self._submit("log_str", (name, value), {"step": step} | kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in _LIFE or name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}: a client logs, its logger's owner does the rest."
            )
        raise AttributeError(f"{type(self).__name__} has no {name!r}; it logs by {', '.join(_LOGS)}.")


_LOGS = ("log_scalar", "log_metrics", "log_video", "log_histogram", "log_hparams", "log_str")
