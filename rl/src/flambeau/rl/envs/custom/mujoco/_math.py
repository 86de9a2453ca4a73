"""Quaternions, and control moment gyroscopes: what satellites are steered with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

__all__ = [
    "cmg_jacobian",
    "manipulability",
    "orthogonal_6cmg_geometry",
    "pyramid_4cmg_geometry",
    "quat_conj",
    "quat_log",
    "quat_mul",
    "quat_rotate_inverse",
    "random_unit_quat",
    "unit_quat",
]


def quat_mul(q1: Tensor, q2: Tensor) -> Tensor:
    """Hamilton's product of quaternions (w, x, y, z).

    Args:
        q1: (..., 4).
        q2: (..., 4).

    Returns:
        (..., 4).

    Example:
        >>> quat_mul(torch.tensor([0.0, 1, 0, 0]), torch.tensor([0.0, 0, 1, 0]))
        tensor([0., 0., 0., 1.])
    """
    w1, v1 = q1[..., :1], q1[..., 1:]
    w2, v2 = q2[..., :1], q2[..., 1:]
    scalar = w1 * w2 - (v1 * v2).sum(-1, keepdim=True)
    return torch.cat([scalar, w1 * v2 + w2 * v1 + torch.linalg.cross(*torch.broadcast_tensors(v1, v2))], -1)


def quat_conj(q: Tensor) -> Tensor:
    """The conjugate, which for unit quaternions is the inverse rotation.

    Args:
        q: (..., 4).
    """
    return torch.cat([q[..., :1], -q[..., 1:]], -1)


def quat_log(q: Tensor, eps: float = 1e-8) -> Tensor:
    """The rotation vector of a unit quaternion: its axis times its angle, the shorter way round.

    Args:
        q: (..., 4).
        eps: the least sine that is divided by.

    Returns:
        (..., 3), of lengths in [0, pi] radians.
    """
    q = torch.where(q[..., :1] < 0, -q, q)
    axis = q[..., 1:]
    sine = axis.norm(dim=-1, keepdim=True)
    return axis * (2 * torch.atan2(sine, q[..., :1]) / sine.clamp_min(eps))  # type: ignore[no-any-return]


def quat_rotate_inverse(q: Tensor, vector: Tensor) -> Tensor:
    """A vector of the world, as a body sees it.

    Args:
        q: orientation of the body, (..., 4), of length 1.
        vector: (..., 3).

    Returns:
        (..., 3).
    """
    axis = -q[..., 1:]
    twice = 2 * torch.linalg.cross(*torch.broadcast_tensors(axis, vector))
    return vector + q[..., :1] * twice + torch.linalg.cross(*torch.broadcast_tensors(axis, twice))  # type: ignore[no-any-return]


def unit_quat(q: Tensor) -> Tensor:
    """A quaternion of length 1, the identity in place of zeros.

    Args:
        q: (..., 4).
    """
    length = q.norm(dim=-1, keepdim=True)
    identity = torch.zeros_like(q)
    identity[..., 0] = 1
    return torch.where(length > 1e-8, q / length.clamp_min(1e-8), identity)


def random_unit_quat(
    shape: Sequence[int], *, generator: Generator | None = None, device: Any = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Rotations, all equally likely.

    Args:
        shape: how many.
        generator: of random numbers.
        device: of the result.
        dtype: of the result.

    Returns:
        (*shape, 4).

    References:
        G. Marsaglia, Choosing a Point from the Surface of a Sphere, Annals of Mathematical Statistics 43, 1972.
    """
    drawn = torch.randn(*shape, 4, generator=generator, device=device, dtype=dtype)
    return drawn / drawn.norm(dim=-1, keepdim=True).clamp_min(1e-12)  # type: ignore[no-any-return]


def cmg_jacobian(gimbal_angles: Tensor, gimbal_axes: Tensor, rotor_axes_ref: Tensor, h: float) -> Tensor:
    """How the angular momentum of N gyroscopes changes with the rates of their gimbals: h g x r(theta), each a column.

    The torque on the satellite is the opposite.

    Args:
        gimbal_angles: theta, (..., N), radians.
        gimbal_axes: g, (3, N), of length 1, in the frame of the satellite.
        rotor_axes_ref: r(0), (3, N), of length 1, each perpendicular to its gimbal's axis.
        h: angular momentum of a rotor.

    Returns:
        (..., 3, N).

    References:
        B. Wie, Space Vehicle Dynamics and Control, 2nd edition, 2008, chapter 7.
    """
    sideways = torch.linalg.cross(gimbal_axes, rotor_axes_ref, dim=0)
    angle = gimbal_angles.unsqueeze(-2)
    return h * (sideways * angle.cos() - rotor_axes_ref * angle.sin())  # type: ignore[no-any-return]


def manipulability(jac: Tensor, eps: float = 1e-8) -> Tensor:
    """sqrt(det(J J^T) + eps): how far the gyroscopes are from a posture that gives no torque in some direction.

    Args:
        jac: J, (..., 3, N).
        eps: keeps the gradient finite.

    Returns:
        (...).
    """
    return (torch.linalg.det(jac @ jac.mT) + eps).sqrt()  # type: ignore[no-any-return]


def pyramid_4cmg_geometry(
    skew_deg: float = 54.7356, *, device: Any = None, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Axes of four gyroscopes on the sides +x, +y, -x, -y of a pyramid.

    Args:
        skew_deg: from +z to the rotor's axis; arctan(sqrt(2)) gives about the same momentum in all directions.
        device: of the results.
        dtype: of the results.

    Returns:
        Axes of gimbals and of rotors, (3, 4) each.
    """
    sine, cosine = math.sin(math.radians(skew_deg)), math.cos(math.radians(skew_deg))
    gimbals = [(0, 1, 0), (-1, 0, 0), (0, -1, 0), (1, 0, 0)]
    rotors = [(sine, 0, cosine), (0, sine, cosine), (-sine, 0, cosine), (0, -sine, cosine)]
    return _columns(gimbals, device, dtype), _columns(rotors, device, dtype)


def orthogonal_6cmg_geometry(*, device: Any = None, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Axes of six gyroscopes, one on each side +x, -x, +y, -y, +z, -z of a box.

    Args:
        device: of the results.
        dtype: of the results.

    Returns:
        Axes of gimbals and of rotors, (3, 6) each.
    """
    x, y, z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
    return _columns([y, z, z, x, x, y], device, dtype), _columns([z, y, x, z, y, x], device, dtype)


def _columns(axes: Sequence[Sequence[float]], device: Any, dtype: torch.dtype) -> Tensor:
    return torch.tensor(axes, device=device, dtype=dtype).mT.contiguous()
