"""Loggers by name, and names of experiments."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

__all__ = ["generate_exp_name", "get_logger"]

_KINDS = ("tensorboard", "csv", "wandb", "mlflow", "trackio")
_RESTORED = ("tensorboard", "csv", "wandb")


def generate_exp_name(model_name: str, experiment_name: str) -> str:
    """A name that is unique: MODEL_EXPERIMENT_ID_TIME.

    Args:
        model_name: of the algorithm.
        experiment_name: of what it is about.
    """
    time = datetime.now().strftime("%y_%m_%d-%H_%M_%S")
    return f"{model_name}_{experiment_name}_{uuid.uuid4().hex[:8]}_{time}"


def get_logger(
    logger_type: Literal["tensorboard", "csv", "wandb", "mlflow", "trackio", ""] | None,
    logger_name: str,
    experiment_name: str,
    *,
    state_dict: Mapping[str, Any] | None = None,
    service_backend: Literal["direct", "process", "ray"] = "direct",
    service_backend_options: dict[str, Any] | None = None,
    use_ray_service: bool = False,
    ray_actor_options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """A logger by the name of its kind.

    Args:
        logger_type: "tensorboard", "csv", "wandb", "mlflow" or "trackio"; None or "" for no logger.
        logger_name: its folder.
        experiment_name: the experiment's name.
        state_dict: of a logger whose experiment is gone on with, of the first three kinds.
        service_backend: "direct", "process" or "ray".
        service_backend_options: arguments of `ProcessLogger` or `RayLogger`.
        use_ray_service: as service_backend="ray".
        ray_actor_options: of its actor.
        kwargs: `wandb_kwargs`, `mlflow_kwargs` or `trackio_kwargs`, arguments of those loggers.

    Returns:
        The logger, or None.

    Raises:
        NotImplementedError: the kind is another one.
        ValueError: a logger of this kind cannot go on from a state.
    """
    if not logger_type:
        return None
    if logger_type not in _KINDS:
        raise NotImplementedError(f"logger_type must be one of {', '.join(_KINDS)}; got {logger_type!r}.")
    if state_dict is not None and logger_type not in _RESTORED:
        raise ValueError(f"A {logger_type} logger cannot go on from a state; leave out state_dict.")
    if state_dict is not None:
        experiment_name = state_dict.get("exp_name", experiment_name)
        logger_name = state_dict.get("log_dir", logger_name)
    backend = "ray" if use_ray_service else service_backend
    options: dict[str, Any] = {}
    if backend != "direct":
        options = {"service_backend": backend, "service_backend_options": service_backend_options}
        if use_ray_service and ray_actor_options:
            options["service_backend_options"] = {"actor_options": ray_actor_options}
    logger = _made(
        logger_type, logger_name, experiment_name, dict(kwargs.get(f"{logger_type}_kwargs") or {}), options, state_dict
    )
    if state_dict is not None and backend == "direct":
        logger.load_state_dict(state_dict)
    return logger


def _made(
    kind: str,
    folder: str,
    name: str,
    arguments: dict[str, Any],
    options: dict[str, Any],
    state: Mapping[str, Any] | None,
) -> Any:
    if kind == "tensorboard":
        from flambeau.rl.record.loggers.tensorboard import TensorboardLogger

        return TensorboardLogger(log_dir=folder, exp_name=name, **options)
    if kind == "csv":
        from flambeau.rl.record.loggers.csv import CSVLogger

        return CSVLogger(log_dir=folder, exp_name=name, **options)
    if kind == "wandb":
        from flambeau.rl.record.loggers.wandb import WandbLogger

        if state is not None:
            arguments |= {"id": state.get("local", {}).get("id"), "resume": "must"}
        return WandbLogger(**{"log_dir": folder, "exp_name": name} | arguments, **options)
    if kind == "mlflow":
        from flambeau.rl.record.loggers.mlflow import MLFlowLogger

        uri = arguments.pop("tracking_uri", None) or Path(folder).absolute().as_uri()
        named: dict[str, Any] = {"tracking_uri": uri, "exp_name": name} | arguments
        return MLFlowLogger(**named, **options)
    from flambeau.rl.record.loggers.trackio import TrackioLogger

    return TrackioLogger(**{"project": folder, "exp_name": name} | arguments, **options)
