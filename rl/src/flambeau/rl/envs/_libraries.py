"""Which libraries with environments are installed."""

from __future__ import annotations

import importlib.util

_LIBRARIES = {
    "gym": "gym",
    "gymnasium": "gymnasium",
    "mo-gymnasium": "mo_gymnasium",
    "dm_control": "dm_control",
    "brax": "brax",
    "jumanji": "jumanji",
    "vmas": "vmas",
    "pettingzoo": "pettingzoo",
    "habitat": "habitat",
    "robohive": "robohive",
    "open_spiel": "pyspiel",
    "meltingpot": "meltingpot",
    "smacv2": "smacv2",
    "envpool": "envpool",
    "isaacgymenvs": "isaacgymenvs",
    "unity_mlagents": "mlagents_envs",
}


def get_available_libraries() -> list[str]:
    """Names of the libraries with environments that are installed; none is imported."""
    return [name for name, module in _LIBRARIES.items() if importlib.util.find_spec(module) is not None]
