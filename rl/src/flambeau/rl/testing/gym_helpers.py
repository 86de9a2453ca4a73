"""Names of gym's environments in the versions that the installed library has."""

from __future__ import annotations

import re

from flambeau.rl.envs.libs.gym import gym_backend

__all__ = [
    "BREAKOUT_VERSIONED",
    "CARTPOLE_VERSIONED",
    "CLIFFWALKING_VERSIONED",
    "HALFCHEETAH_VERSIONED",
    "PENDULUM_VERSIONED",
    "PONG_VERSIONED",
]


def _newest(name: str) -> str:
    """The newest registered version of an environment."""
    registry = gym_backend("envs.registration").registry
    names = registry.env_specs if hasattr(registry, "env_specs") else registry
    versions = [int(found[1]) for each in names if (found := re.fullmatch(rf"{name}-v(\d+)", each))]
    if not versions:
        raise LookupError(
            f"{gym_backend().__name__} has no environment {name!r}; what provides it may not be installed."
        )
    return f"{name.replace(chr(92), '')}-v{max(versions)}"


def HALFCHEETAH_VERSIONED() -> str:
    """HalfCheetah."""
    return _newest("HalfCheetah")


def PENDULUM_VERSIONED() -> str:
    """Pendulum."""
    return _newest("Pendulum")


def CARTPOLE_VERSIONED() -> str:
    """CartPole."""
    return _newest("CartPole")


def PONG_VERSIONED() -> str:
    """Pong, of ale_py."""
    return _newest("ALE/Pong")


def BREAKOUT_VERSIONED() -> str:
    """Breakout, of ale_py."""
    return _newest("ALE/Breakout")


def CLIFFWALKING_VERSIONED() -> str:
    """CliffWalking."""
    return _newest("CliffWalking")
