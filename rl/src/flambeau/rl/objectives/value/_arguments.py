"""What functions of trajectories are given: checked, and in the dtype to compute in."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rl.ops._layout import transformed

SHAPE_ERR = "Values, rewards and flags of ends have to be of one shape."
_HALVES = (torch.float16, torch.bfloat16)


def ends_of(done: Tensor | None, terminated: Tensor | None) -> tuple[Tensor, Tensor]:
    """Both flags; each is the other where that alone is given."""
    done = terminated if done is None else done
    terminated = done if terminated is None else terminated
    if done is None or terminated is None:
        raise TypeError("Neither `done` nor `terminated` is given; pass at least one of them.")
    for name, flag in (("done", done), ("terminated", terminated)):
        if flag.dtype != torch.bool:
            raise TypeError(f"`{name}` has dtype {flag.dtype}, expected torch.bool; convert it by `{name}.bool()`.")
    return done, terminated


def check_shapes(**tensors: Tensor) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise RuntimeError(f"{SHAPE_ERR} Got {listed}; reshape or expand them.")


def time_of(tensor: Tensor, time_dim: int) -> int:
    """Which dimension is time, not negative."""
    if not -tensor.dim() <= time_dim < tensor.dim():
        raise RuntimeError(
            f"time_dim={time_dim} is no dimension of tensors of shape {tuple(tensor.shape)}; expected one from "
            f"{-tensor.dim()} to {tensor.dim() - 1}."
        )
    return time_dim % tensor.dim()


def changes(factor: float | Tensor) -> bool:
    """Whether a discount may differ from step to step."""
    return isinstance(factor, Tensor) and factor.numel() > 1


def number_of(factor: float | Tensor) -> float | None:
    """A discount as a plain number where that costs nothing: neither a wait for a device nor a gradient."""
    if not isinstance(factor, Tensor):
        return float(factor)
    free = factor.device.type == "cpu" and factor.numel() == 1 and not factor.requires_grad
    return None if not free or torch.compiler.is_compiling() or transformed() else factor.item()


def widened(*given: Any) -> tuple[list[Any], torch.dtype]:
    """Tensors in the dtype to compute in, and the dtype of the result."""
    floats = [one for one in given if isinstance(one, Tensor) and one.is_floating_point()]
    shaped = [one for one in floats if one.dim()] or floats
    dtype = shaped[0].dtype if shaped else torch.get_default_dtype()
    for one in shaped[1:]:
        dtype = torch.promote_types(dtype, one.dtype)
    if dtype not in _HALVES:
        return list(given), dtype
    return [one.float() if isinstance(one, Tensor) and one.dtype != torch.bool else one for one in given], dtype


def last_step(like: Tensor, time: int) -> Tensor:
    """Whether a step is the last one, broadcasting to `like`."""
    shape = [1] * like.dim()
    shape[time] = like.shape[time]
    steps = torch.arange(like.shape[time], device=like.device)
    return (steps == like.shape[time] - 1).view(shape)
